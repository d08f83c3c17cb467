"""The gateway's ASGI app: the JSON face of the contract before one or more workers, every error a body of the table.

What comes in is refused in the contract's order: the key (401, 402, then 429), the body's shape (400), the model
(404, then 403), and only then what is in the frames. What is added to the gateway is one more line in `ROUTES`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.gateway import arrivals
from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Models
from seqrt.wire.limits import BODY_BYTES, WORKER_BYTES
from seqrt.worker.answers import Answer, Send, answer, refusal, send_answer
from seqrt.worker.call import Call, unrouted
from seqrt.worker.hiding import hidden
from seqrt.worker.incoming import Disconnected, Inflow, Receive
from seqrt.worker.logline import line

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Respond = Callable[["Gateway", Call], Awaitable[Any]]
"""What answers one request: a message or a tree, which is encoded as the client reads it, or an `Answer`."""


class Gateway:
    """What the endpoints share.

    Args:
        models: The policies there are.
        gate: Who may ask for acts.
        environment: Values that no error may tell where keys are checked, usually ``os.environ.values()``.
        body_bytes: The longest body that is read.

    Attributes:
        models: The policies there are.
        gate: Who may ask for acts.
    """

    def __init__(
        self, models: Models, gate: Gate, *, environment: Collection[str] = (), body_bytes: int = BODY_BYTES
    ) -> None:
        self.models = models
        self.gate = gate
        self._hide = environment if gate.is_keyed else None
        self._body_bytes = body_bytes
        self._inflow = Inflow(WORKER_BYTES)

    async def body(self, call: Call) -> bytes:
        """The request's body, whole."""
        encoding = call.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise remote_error("invalid_request", f"a body encoded as {encoding!r:.40} is not read; send it plain")
        return await call.body.read(self._body_bytes, self._inflow, _nothing)

    def refused(self, raised: Exception, call: Call) -> Answer:
        """An exception as the body that may leave this machine."""
        error = _as_remote(raised)
        return refusal(hidden(error, self._hide) if self._hide is not None else error, call.id)


async def health(gateway: Gateway, call: Call) -> Any:
    """GET /v1/health: whether the gateway answers, and whether it checks keys."""
    return {"ok": True, "backend": "seqrt", "auth": "keystore" if gateway.gate.is_keyed else "none"}


ROUTES: Final[tuple[tuple[str, str, Respond], ...]] = (
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive)
        try:
            told = await self._respond(self._gateway, call)
            answered = told if isinstance(told, Answer) else answer(told, call.media)
            _log.log(call.level, "%s", line(_event(call, "answered"), call.id, **call.said))
        except Disconnected:
            _log.debug("%s", line(_event(call, "left"), call.id))
            return
        except Exception as raised:
            answered = self._gateway.refused(raised, call)
            await call.body.drain()
        await send_answer(send, answered, call.id)


def _as_remote(raised: Exception) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"the gateway failed: {type(raised).__name__}")


def _event(call: Call, participle: str) -> str:
    return f"{call.path.strip('/').replace('/', '_')}.{participle}"


def _nothing() -> None:
    """Nobody waits for a body's progress here."""
