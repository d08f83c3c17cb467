"""The worker's ASGI app: the contract's endpoints around one `Host`, every error a body of the table.

Plain ASGI on starlette routes, so that it mounts anywhere; it runs on asyncio and trio, in virtual time too. What an
endpoint does is in `seqrt.worker.endpoints` and `seqrt.worker.acting`, what becomes of any request in
`seqrt.worker.lifetime`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError
from seqrt.policies.host import Host
from seqrt.policies.offload import Offload, in_thread
from seqrt.watching.page import warm
from seqrt.wire.limits import BODY_BYTES
from seqrt.worker.acting import Acting
from seqrt.worker.answers import Answer, refusal
from seqrt.worker.asgi import Receive, Scope, Send
from seqrt.worker.bodies import Bodies
from seqrt.worker.call import Call, unrouted
from seqrt.worker.endpoints import Endpoints
from seqrt.worker.entry import Entry
from seqrt.worker.granting import Granting, leases_for
from seqrt.worker.hiding import hidden
from seqrt.worker.lifetime import Lifetime
from seqrt.worker.requestlog import RequestLog

logger = logging.getLogger(__name__)

_SERVED: Final = (
    "POST /act, /observe, /act/episode_end, /ping, /drain, /lease, /lease/end; GET /ping, /healthz, /policy, /metrics"
)


def app(
    host: Host,
    *,
    secret: str | None = None,
    reveal: bool = False,
    environment: Collection[str] = (),
    body_bytes: int = BODY_BYTES,
    granting: Granting | None = None,
    aside: Offload | None = None,
) -> Starlette:
    """The worker's app.

    Args:
        host: What serves; its `Host.start` is the caller's to call, the app answers meanwhile.
        secret: The key requests have to bring; None: none is asked for.
        reveal: Send a policy's tracebacks as they are. Else, with a secret, file paths and ``environment`` are taken
            out of them.
        environment: Values that no error may tell, usually ``os.environ.values()``.
        body_bytes: The longest body that is read.
        granting: Its leases, where somebody else needs them too.
        aside: Where the page of metrics is made; a thread of its own when None. The policy's would keep it waiting
            for as long as the policy hangs, which is when it is looked at.

    Raises:
        ValueError: The secret is empty.
    """
    if secret is not None and not secret.strip():
        raise ValueError("secret is empty; give it at least one character, or None for a worker without a key")
    granting = granting or Granting(host, leases_for(host))
    entry = Entry(secret.encode() if secret is not None else None, granting)
    endpoints = Endpoints(host, entry=entry, granting=granting, bodies=Bodies(body_bytes), aside=aside or in_thread())
    made = Starlette(
        routes=list(_routes(host, entry, endpoints, hide=environment if secret is not None and not reveal else None)),
        exception_handlers={HTTPException: unrouted(_SERVED)},
    )
    made.router.redirect_slashes = False
    warm()
    return made


def _routes(host: Host, entry: Entry, endpoints: Endpoints, *, hide: Collection[str] | None) -> Iterator[Route]:
    log = RequestLog(logger, lambda error: error.details.get("traceback") or error.detail)

    def lifetime(path: str) -> Lifetime:
        requests = host.watch.counts.requests
        return Lifetime(path, who="the worker", log=log, requests=requests, refusal=refused)

    def refused(error: RemoteError, call: Call) -> Answer:
        return refusal(hidden(error, hide), call.id)

    acting = Acting(host, entry=entry, body=endpoints.body, lifetime=lifetime("/act"))
    yield Route("/act", acting, methods=["POST"])
    for method, path, respond, keyed in (
        ("POST", "/observe", endpoints.observe, True),
        ("POST", "/act/episode_end", endpoints.episode_end, True),
        ("GET", "/ping", endpoints.ping, False),  # one that asks about an act is keyed
        ("POST", "/ping", endpoints.weigh, True),
        ("GET", "/healthz", endpoints.healthz, False),
        ("GET", "/policy", endpoints.policy, True),
        ("POST", "/drain", endpoints.drain, True),
        ("POST", "/lease", endpoints.lease, True),
        ("POST", "/lease/end", endpoints.lease_end, True),
        ("GET", "/metrics", endpoints.metrics, True),
    ):
        yield Route(path, _Endpoint(respond, entry if keyed else None, lifetime(path)), methods=[method])


class _Endpoint:
    """One route as an ASGI app."""

    def __init__(self, respond: Callable[[Call], Awaitable[Any]], entry: Entry | None, lifetime: Lifetime) -> None:
        self._respond, self._entry, self._lifetime = respond, entry, lifetime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive)
        answered = await self._lifetime.tried(call, self._responded)
        self._lifetime.over(call, await self._lifetime.send(call, answered, send))

    async def _responded(self, call: Call) -> Answer:
        if self._entry is not None:
            self._entry.check(call)
        return self._lifetime.answered(call, await self._respond(call))
