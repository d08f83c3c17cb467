"""The gateway's ASGI app: the JSON face of the contract before one or more workers, every error a body of the table.

What comes in is refused in the contract's order: the key (401, 402, then 429), the body's shape (400), the model
(404, then 403), and only then what is in the frames. What is added to the gateway is one more line in `ROUTES`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.gateway import arrivals
from seqrt.gateway.acting import act
from seqrt.gateway.asked import Asked, Gateway, Respond
from seqrt.gateway.listing import health, models
from seqrt.gateway.warming import warming
from seqrt.watching.counts import LEFT
from seqrt.watching.logline import line
from seqrt.worker.answers import Answer, Send, answer, refusal, send_answer
from seqrt.worker.call import unrouted
from seqrt.worker.hiding import hidden
from seqrt.worker.incoming import Disconnected, Receive

_log = logging.getLogger(__name__)

_LEVELS: Final = {"policy_error": logging.WARNING, "internal": logging.ERROR}

ROUTES: Final[tuple[tuple[str, str, Respond], ...]] = (
    ("POST", "/v1/act", act),
    ("GET", "/v1/models", models),
    ("GET", "/v1/health", health),
    ("POST", "/v1/act/connect", arrivals.connect),
    ("POST", "/v1/act/keepalive", arrivals.keepalive),
    ("POST", "/v1/act/release", arrivals.release),
    ("GET", "/v1/act/ready", arrivals.ready),
    ("GET", "/policy", arrivals.policy),
)


def app(gateway: Gateway) -> Starlette:
    """The gateway's app."""
    served = ", ".join(f"{method} {path}" for method, path, _ in ROUTES)
    made = Starlette(
        routes=[Route(path, _Endpoint(gateway, path, respond), methods=[method]) for method, path, respond in ROUTES],
        exception_handlers={HTTPException: unrouted(served)},
    )
    made.router.redirect_slashes = False
    return made


class _Endpoint:
    """One route as an ASGI app: answer, error body, log line."""

    def __init__(self, gateway: Gateway, path: str, respond: Respond) -> None:
        self._gateway = gateway
        self._name = path.strip("/").replace("/", "_")
        self._respond = respond

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as aside:
            call = Asked(scope, receive, aside)
            answered = await self._watched(call)
            sent = await send_answer(send, answered, call.id) if answered is not None else 0
            self._gateway.watch.counts.requests.add(self._name, call.code, call.body.received, sent)

    async def _watched(self, call: Asked) -> Answer | None:
        if self._respond is not act:
            return await self._answer(call)
        with self._gateway.watch.act(call.id, call.headers) as passage:
            answered = await self._answer(call)
            passage.code = call.code
        return answered

    async def _answer(self, call: Asked) -> Answer | None:
        """What is sent back; None where nobody is there to read it."""
        try:
            told = await self._respond(self._gateway, call)
            answered = told if isinstance(told, Answer) else answer(told, call.media)
        except Disconnected:
            call.code = LEFT
            self._say(logging.DEBUG, call, "left", {})
            return None
        except Exception as raised:
            answered = self._refused(call, raised)
            await call.body.drain()
        else:
            self._say(call.level, call, "answered", call.said)
        return answered

    def _refused(self, call: Asked, raised: Exception) -> Answer:
        error = _as_remote(raised)
        call.code, level, more = error.code, _LEVELS.get(error.code, logging.DEBUG), None
        if level > logging.DEBUG:
            more = self._gateway.seldom.due((self._name, error.code), anyio.current_time())
            level = logging.DEBUG if more is None else level
        told = {**call.said, "code": error.code, "more": more or None, "error": error.detail}
        self._say(level, call, "refused", told, raised if error.code == "internal" and more is not None else None)
        if self._gateway.hide is not None:
            error = hidden(error, self._gateway.hide)
        if error.code == "warming":
            error.request_id = call.id
            return warming(error, str(call.said.get("model", "")))
        return refusal(error, call.id)

    def _say(
        self, level: int, call: Asked, participle: str, told: Mapping[str, object], thrown: Exception | None = None
    ) -> None:
        if _log.isEnabledFor(level):
            _log.log(level, "%s", line(f"{self._name}.{participle}", call.id, **told), exc_info=thrown)


def _as_remote(raised: Exception) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"the gateway failed: {type(raised).__name__}")
