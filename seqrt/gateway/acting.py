"""``POST /v1/act``: an act of a robot that knows no episodes, from its key to its chunk."""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from seqrt.errors import RemoteError, remote_error
from seqrt.gateway.asked import Asked, Gateway
from seqrt.gateway.face import ActBody, answer_of, check_pictures, read_body, request_of
from seqrt.gateway.gate import Turn
from seqrt.gateway.keys import act_id
from seqrt.gateway.listing import views_of
from seqrt.gateway.models import Model
from seqrt.wire import codec
from seqrt.wire.headers import DEADLINE_S, parse_seconds
from seqrt.wire.messages import ActRequest, ActResponse
from seqrt.worker.answers import Answer, answer
from seqrt.worker.patience import in_time


async def act(gateway: Gateway, call: Asked) -> Answer:
    """Answer one act, refusing in the contract's order.

    Raises:
        WireError: The body is none.
        RemoteError: 401, 402, 429 of the key; 404, 403 of the model; 400 of what is in it; what the worker said.
    """
    began = anyio.current_time()
    with gateway.gate.turn(call.headers, call.id) as turn:
        raw = await gateway.body(call)
        body = await gateway.read(len(raw), lambda: _read(raw, call.content_type, turn))
        model = gateway.models.find(body.model)
        call.said = {"key": turn.key.name, "model": model.id}
        turn.must_open(model.id)
        _must_be_for_this_face(model)
        views = views_of(model.declared(), body.robot)
        await gateway.read(len(raw), lambda: check_pictures(body, views))
        turn.reserve()
        response = await _answered(call, model, request_of(body), act_id(turn.key, call.id))
        told = answer_of(
            replace(response, request_id=call.id),
            body,
            model=model.id,
            created=int(gateway.wall()),
            elapsed_s=anyio.current_time() - began,
            acts_left=turn.left,
        )
        encoded = answer(told, call.media)
        turn.served()  # not before: an answer that cannot travel costs nothing
    return encoded


def _read(raw: bytes, content_type: str | None, turn: Turn) -> ActBody:
    turn.read(raw)
    return read_body(codec.read_body(raw, content_type))


def _must_be_for_this_face(model: Model) -> None:
    """Refuse policies whose answers have no place in this face, and those it would serve wrongly."""
    info = model.declared()
    by_hand = "drive it with seqrt.connect(model=..., base_url=...), which has episodes"
    if not info.embodiments:
        raise remote_error(
            "invalid_request", f"{model.id} declares no robot-arm contract, which /v1/act is for", hint=by_hand
        )
    if info.stateful:
        # Each act here is one of its own: the policy would forget everything from one to the next, and say nothing.
        raise remote_error(
            "invalid_request", f"{model.id} keeps state from act to act, and /v1/act knows no episodes", hint=by_hand
        )


async def _answered(call: Asked, model: Model, request: ActRequest, act: str) -> ActResponse:
    """The worker's answer, or 504 when its time is over: what runs in a thread of this process runs on then.

    Raises:
        RemoteError: As the robot is to be told.
    """
    patience_s = model.patience_s(parse_seconds(call.headers.get(DEADLINE_S)))
    answered = await in_time(call.aside, lambda: model.act(request, act, patience_s), patience_s)
    if answered is None:
        raise _overdue(patience_s)
    return answered


def _overdue(patience_s: float) -> RemoteError:
    return remote_error(
        "timeout",
        f"the act was not answered within {patience_s:g} s",
        hint="ask again under the same X-Seq-Request-Id: its answer is kept",
    )
