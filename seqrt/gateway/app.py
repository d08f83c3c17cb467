"""The gateway's ASGI app: the JSON face of the contract before one or more workers, every error a body of the table.

What comes in is refused in the contract's order: the key (401, 402, then 429), the body's shape (400), the model
(404, then 403), and only then what is in the frames. What is added to the gateway is one more line in `ROUTES`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError
from seqrt.gateway import arrivals
from seqrt.gateway.acting import act
from seqrt.gateway.asked import Asked, Gateway, Respond
from seqrt.gateway.listing import health, models
from seqrt.gateway.warming import warming
from seqrt.worker.answers import Answer, refusal
from seqrt.worker.asgi import Receive, Scope, Send
from seqrt.worker.call import Call, unrouted
from seqrt.worker.hiding import hidden
from seqrt.worker.lifetime import Lifetime
from seqrt.worker.requestlog import RequestLog

logger = logging.getLogger(__name__)

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
    made = Starlette(routes=list(_routes(gateway)), exception_handlers={HTTPException: unrouted(served)})
    made.router.redirect_slashes = False
    return made


def _routes(gateway: Gateway) -> Iterator[Route]:
    log, requests = RequestLog(logger), gateway.watch.counts.requests

    def refused(error: RemoteError, call: Call) -> Answer:
        error = hidden(error, gateway.hide)
        return warming(error, call) if error.code == "warming" else refusal(error, call.id)

    for method, path, respond in ROUTES:
        lifetime = Lifetime(path, who="the gateway", log=log, requests=requests, refusal=refused)
        yield Route(path, _Endpoint(gateway, respond, lifetime), methods=[method])


class _Endpoint:
    """One route as an ASGI app."""

    def __init__(self, gateway: Gateway, respond: Respond, lifetime: Lifetime) -> None:
        self._gateway, self._respond, self._lifetime = gateway, respond, lifetime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as aside:
            call = Asked(scope, receive, aside)
            answered = await self._watched(call)
            self._lifetime.over(call, await self._lifetime.send(call, answered, send))

    async def _watched(self, call: Asked) -> Answer:
        if self._respond is not act:
            return await self._lifetime.tried(call, self._responded)
        with self._gateway.watch.act(call.id, call.headers) as passage:
            answered = await self._lifetime.tried(call, self._responded)
            passage.code = call.code
        return answered

    async def _responded(self, call: Asked) -> Answer:
        return self._lifetime.answered(call, await self._respond(self._gateway, call))
