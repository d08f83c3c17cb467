"""The endpoints of a robot that wants a worker of its own: it is told which, keeps its seat, and gives it back.

Its acts are not counted here, since they do not come by: a key whose acts are limited has none of this.
"""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from seqrt.errors import remote_error
from seqrt.gateway import connecting
from seqrt.gateway.asked import Asked, Gateway
from seqrt.gateway.keys import Key
from seqrt.gateway.models import Model
from seqrt.gateway.placing import Place
from seqrt.wire.codec import decode_body
from seqrt.wire.leases import ConnectRequest, SeatRequest


async def policy(gateway: Gateway, call: Asked) -> Any:
    """GET /policy: what a robot checks before any motion, and how it finds out that a gateway answers."""
    key = gateway.gate.key_of(call.headers)
    model = _opened(gateway, key, _the_one(gateway) if "model" not in call.query else call.query["model"][0])
    return await connecting.described(_place(model), model.id)


async def connect(gateway: Gateway, call: Asked) -> Any:
    """POST /v1/act/connect."""
    key = gateway.gate.key_of(call.headers)
    request = decode_body(await gateway.body(call), call.content_type, ConnectRequest)
    model = _opened(gateway, key, request.model)
    _must_not_be_counted(key)
    call.said = {"key": key.name, "model": model.id}
    answer = await connecting.connect(_place(model), _who(key), request)
    if not answer.worker_url:  # the worker is on this very port
        answer = replace(answer, worker_url=call.origin)
    call.level = logging.INFO
    call.said |= {"worker": answer.worker_url, "epoch": answer.lease.epoch}
    return answer


async def keepalive(gateway: Gateway, call: Asked) -> Any:
    """POST /v1/act/keepalive."""
    key = gateway.gate.key_of(call.headers)
    _must_not_be_counted(key)  # it may have become so since
    request = decode_body(await gateway.body(call), call.content_type, SeatRequest)
    return await connecting.keep(_place(_opened(gateway, key, request.model)), _who(key), request)


async def release(gateway: Gateway, call: Asked) -> Any:
    """POST /v1/act/release."""
    key = gateway.gate.key_of(call.headers)
    request = decode_body(await gateway.body(call), call.content_type, SeatRequest)
    call.level, call.said = logging.INFO, {"key": key.name, "model": request.model}
    return await connecting.release(_place(_opened(gateway, key, request.model)), _who(key), request)


async def ready(gateway: Gateway, call: Asked) -> Any:
    """GET /v1/act/ready?model=…&session=…: takes no seat."""
    key = gateway.gate.key_of(call.headers)
    model = _opened(gateway, key, _the_one(gateway) if "model" not in call.query else call.query["model"][0])
    return await connecting.ready(_place(model), _who(key), call.query.get("session", [None])[0])


def _who(key: Key) -> str:
    """Whose robots these are: sessions of one key are no other key's."""
    return key.sha256


def _the_one(gateway: Gateway) -> str:
    """The model that is meant where none is named."""
    ids = [model.id for model in gateway.models.all()]
    if len(ids) != 1:
        raise remote_error(
            "not_found",
            f"there are {len(ids)} models here: name one",
            hint="connect(model=…); GET /v1/models lists them",
        )
    return ids[0]


def _opened(gateway: Gateway, key: Key, name: str) -> Model:
    """The model of that name, where the key opens it."""
    model = gateway.models.find(name)
    if not key.opens(model.id):
        raise remote_error(
            "forbidden",
            f"this key opens {key.model} alone, not {model.id}",
            details={"model": model.id, "opens": key.model},
        )
    return model


def _must_not_be_counted(key: Key) -> None:
    if key.is_limited:
        raise remote_error(
            "forbidden",
            "this key's acts are counted, and acts that go straight to a worker are not",
            hint="send them to /v1/act, or have a key without --acts, --per-minute and --at-once",
        )


def _place(model: Model) -> Place:
    if model.place is None:
        raise remote_error("not_found", f"{model.id} has no workers that robots may go to")
    return model.place
