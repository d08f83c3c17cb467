"""The gateway's ASGI app: the JSON face of the contract before one or more workers, every error a body of the table.

What comes in is refused in the contract's order: the key (401, 402, then 429), the body's shape (400), the model
(404, then 403), and only then what is in the frames. What is added to the gateway is one more line in `ROUTES`.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
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
from seqrt.worker.answers import Answer, Send, answer, refusal, send_answer
from seqrt.worker.call import unrouted
from seqrt.worker.hiding import hidden
from seqrt.worker.incoming import Disconnected, Receive
from seqrt.worker.logline import line

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
        routes=[Route(path, _Endpoint(gateway, respond), methods=[method]) for method, path, respond in ROUTES],
        exception_handlers={HTTPException: unrouted(served)},
    )
    made.router.redirect_slashes = False
    return made


class _Endpoint:
    """One route as an ASGI app: answer, error body, log line."""

    def __init__(self, gateway: Gateway, respond: Respond) -> None:
        self._gateway = gateway
        self._respond = respond

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as aside:
            call = Asked(scope, receive, aside)
            answered = await self._answer(call)
            if answered is not None:
                await send_answer(send, answered, call.id)

    async def _answer(self, call: Asked) -> Answer | None:
        """What is sent back; None where nobody is there to read it."""
        try:
            told = await self._respond(self._gateway, call)
            answered = told if isinstance(told, Answer) else answer(told, call.media)
        except Disconnected:
            _log.debug("%s", line(_event(call, "left"), call.id))
            return None
        except Exception as raised:
            answered = self._refused(call, raised)
            await call.body.drain()
        else:
            _log.log(call.level, "%s", line(_event(call, "answered"), call.id, **call.said))
        return answered

    def _refused(self, call: Asked, raised: Exception) -> Answer:
        error = _as_remote(raised)
        _log.log(
            _LEVELS.get(error.code, logging.DEBUG),
            "%s",
            line(_event(call, "refused"), call.id, **call.said, code=error.code, error=error.detail),
            exc_info=raised if error.code == "internal" else None,
        )
        if self._gateway.hide is not None:
            error = hidden(error, self._gateway.hide)
        if error.code == "warming":
            error.request_id = call.id
            return warming(error, str(call.said.get("model", "")))
        return refusal(error, call.id)


def _as_remote(raised: Exception) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"the gateway failed: {type(raised).__name__}")


def _event(call: Asked, participle: str) -> str:
    return f"{call.path.strip('/').replace('/', '_')}.{participle}"
