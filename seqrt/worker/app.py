"""The worker's ASGI app: the contract's endpoints around one `Host`, every error a body of the table.

Plain ASGI on starlette routes, so that it mounts anywhere; it runs on asyncio and trio, in virtual time too.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.policies.host import Host
from seqrt.watching.counts import LEFT
from seqrt.watching.logline import line
from seqrt.watching.page import warm
from seqrt.watching.passage import Passage
from seqrt.watching.seldom import Seldom
from seqrt.wire.codec import decode_body
from seqrt.wire.headers import DEADLINE_S, parse_seconds
from seqrt.wire.leases import LeaseEnd, LeaseRequest
from seqrt.wire.legacy import read_act
from seqrt.wire.limits import BODY_BYTES, WORKER_BYTES
from seqrt.wire.messages import ActRequest, ActResponse, ActTold, EpisodeEnd, Health, ObserveRequest, Running
from seqrt.worker.answers import Answer, Send, answer, refusal, send_answer
from seqrt.worker.call import Call as _Call
from seqrt.worker.call import unrouted
from seqrt.worker.granting import Granting, leases_for
from seqrt.worker.hiding import hidden
from seqrt.worker.incoming import Disconnected, Inflow, Receive
from seqrt.worker.leases import is_lease_secret
from seqrt.worker.metrics import metrics

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
_LEVELS: Final = {"policy_error": logging.WARNING, "internal": logging.ERROR}
M = TypeVar("M")
T = TypeVar("T")

_UNREAD: Final = Answer(499, b"", "")
"""The answer to a client that is gone; it is not sent."""


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

    Raises:
        ValueError: The secret is empty.
    """
    if secret is not None and not secret.strip():
        raise ValueError("secret is empty; give it at least one character, or None for a worker without a key")
    worker = _Worker(
        host,
        secret=secret.encode() if secret is not None else None,
        hide=environment if secret is not None and not reveal else None,
        body_bytes=body_bytes,
        granting=granting or Granting(host, leases_for(host)),
    )
    warm()
    return _routed(
        worker,
        (
            ("POST", "/act", None, True),
            ("POST", "/observe", worker.observe, True),
            ("POST", "/act/episode_end", worker.episode_end, True),
            ("GET", "/ping", worker.ping, False),
            ("POST", "/ping", worker.weigh, True),
            ("GET", "/healthz", worker.healthz, False),
            ("GET", "/policy", worker.policy, True),
            ("POST", "/drain", worker.drain, True),
            ("POST", "/lease", worker.lease, True),
            ("POST", "/lease/end", worker.lease_end, True),
            ("GET", "/metrics", worker.metrics, True),
        ),
    )


def _routed(
    worker: _Worker, endpoints: Iterable[tuple[str, str, Callable[[_Call], Awaitable[Any]] | None, bool]]
) -> Starlette:
    routes = [
        Route(path, _Endpoint(worker, path, respond, keyed=keyed), methods=[method])
        for method, path, respond, keyed in endpoints
    ]
    made = Starlette(routes=routes, exception_handlers={HTTPException: unrouted(_SERVED)})
    made.router.redirect_slashes = False
    return made


class _Worker:
    """What the endpoints share: the host, the key and the leases, the room for bodies."""

    def __init__(
        self,
        host: Host,
        *,
        secret: bytes | None,
        hide: Collection[str] | None,
        body_bytes: int,
        granting: Granting,
    ) -> None:
        self.host = host
        self._granting = granting
        self._secret = secret
        self._hide = hide
        self._body_bytes = body_bytes
        self._inflow = Inflow(WORKER_BYTES)
        self.seldom = Seldom()

    def check_key(self, call: _Call) -> None:
        """Find out whose request it is: the worker's own key's (``owner`` is then ""), or a lease's.

        Raises:
            AuthError: It brings neither, where a key is asked for; or a lease's secret that is over.
        """
        given = call.headers.getlist("authorization")
        scheme, _, key = (given[0] if len(given) == 1 else "").partition(" ")
        # Compared as bytes: text outside ASCII would make compare_digest raise.
        brought = key.strip().encode("latin-1") if scheme.lower() == "bearer" else b""
        lease = self._granting.owner(brought)
        if lease is not None:
            call.owner = lease
        elif is_lease_secret(brought):
            raise remote_error(
                "unauthenticated",
                "this lease is over, or is of another worker or of one that was started anew",
                hint="connect again at the gateway",
                details={"reason": "lease"},
            )
        elif self._secret is not None and not hmac.compare_digest(brought, self._secret):
            raise remote_error(
                "unauthenticated",
                "this worker asks for a key" if not given else "this is not the worker's key",
                hint="send it as `Authorization: Bearer <key>`: connect(api_key=...) or SEQRT_API_KEY",
            )

    async def body(self, call: _Call) -> bytes:
        """The request's body, whole."""
        encoding = call.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise remote_error("invalid_request", f"a body encoded as {encoding!r:.40} is not read; send it plain")
        return await call.body.read(self._body_bytes, self._inflow, partial(self.host.moving, call.client))

    def refused(self, error: RemoteError, call: _Call) -> Answer:
        """An error as it may leave this machine."""
        return refusal(hidden(error, self._hide) if self._hide is not None else error, call.id)

    async def act(self, call: _Call, request: ActRequest, passage: Passage) -> ActResponse:
        """POST /act, once its body is here."""
        return await self.host.act(
            request,
            request_id=call.id,
            owner=call.owner,
            deadline_s=parse_seconds(call.headers.get(DEADLINE_S)),
            source=call.client,
            passage=passage,
        )

    async def observe(self, call: _Call) -> Any:
        """POST /observe."""
        request = decode_body(await self.body(call), call.content_type, ObserveRequest)
        return await self.host.observe(request, owner=call.owner)

    async def episode_end(self, call: _Call) -> Any:
        """POST /act/episode_end."""
        ended = decode_body(await self.body(call), call.content_type, EpisodeEnd)
        await self.host.end(ended.episode_id, owner=call.owner)
        return {}

    async def ping(self, call: _Call) -> Any:
        """GET /ping: answers while inference runs; with ?act= it says where that act is."""
        asked = call.query.get("act")
        if not asked:
            return {}
        self.check_key(call)
        told = self.host.running(asked[0], call.owner)
        state, for_s = told["state"], told["for_s"]
        here = ActTold(running=state in ("waiting", "running"), for_s=for_s, answered=state == "answered")
        return Running(state=state, for_s=for_s, act=here)

    async def weigh(self, call: _Call) -> Any:
        """POST /ping: takes a body, whatever it is, for whoever measures the way here."""
        await self.body(call)
        return {}

    async def healthz(self, call: _Call) -> Any:
        """GET /healthz: 200 when ready, 503 with the stage."""
        stage = self.host.stage
        if stage == "ready":
            return Health(stage=stage)
        waiting = stage not in ("error", "draining")
        raise remote_error(
            "warming" if waiting else "unavailable",
            {"error": "the policy failed to load", "draining": "the worker is draining"}.get(
                stage, "the policy is being loaded"
            ),
            retry_after_s=1.0,
            details={"stage": stage},
        )

    async def policy(self, call: _Call) -> Any:
        """GET /policy: what a robot checks before any motion."""
        return self.host.info()

    async def metrics(self, call: _Call) -> Any:
        """GET /metrics: what Prometheus reads."""
        if call.owner:
            raise remote_error("forbidden", "metrics are for whoever runs the worker; they take its own key")
        page = metrics(self.host, call.headers.get("accept", ""), leases=self._granting.count)
        return Answer(200, page.body, page.media)

    async def lease(self, call: _Call) -> Any:
        """POST /lease: for whoever places robots at this worker."""
        request = await self._by_the_root(call, LeaseRequest)
        granted = await self._granting.grant(request)
        call.level, call.said = logging.DEBUG if request.renew else logging.INFO, {"lease": granted.lease}
        return granted

    async def lease_end(self, call: _Call) -> Any:
        """POST /lease/end."""
        ended = await self._by_the_root(call, LeaseEnd)
        await self._granting.end(ended.lease)
        call.level, call.said = logging.INFO, {"lease": ended.lease}
        return {}

    async def _by_the_root(self, call: _Call, type: type[M]) -> M:
        """The message of a request that only the worker's own key may make."""
        if call.owner:
            raise remote_error("forbidden", "a lease grants no leases; this takes the worker's own key")
        return decode_body(await self.body(call), call.content_type, type)

    async def drain(self, call: _Call) -> Any:
        """POST /drain: what a signal does, for whoever is on another machine; with the worker's own key alone."""
        if self._secret is None:
            raise remote_error("forbidden", "a worker without a key is drained by a signal: SIGTERM or Ctrl-C")
        if call.owner:
            raise remote_error("forbidden", "a worker is drained by whoever runs it; this takes its own key")
        self.host.drain()
        call.level = logging.INFO
        return asdict(self.host.load())


class _Endpoint:
    """One route as an ASGI app: key, body, answer, error body, log line, counts."""

    def __init__(
        self, worker: _Worker, path: str, respond: Callable[[_Call], Awaitable[Any]] | None, *, keyed: bool
    ) -> None:
        self._worker = worker
        self._name = path.strip("/").replace("/", "_")
        self._respond = respond
        self._keyed = keyed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = _Call(scope, receive)
        found = await self._tried(call, self._let_in)
        if found is None and self._respond is None:
            sent = await self._act(call, send)
        else:
            found = found or await self._tried(call, self._responded)
            sent = await self._sent(call, found, send)
        self._worker.host.watch.counts.requests.add(self._name, call.code, call.body.received, sent)

    async def _tried(self, call: _Call, work: Callable[[_Call], Awaitable[T]]) -> T | Answer:
        """What ``work`` returns; its refusal where it raises."""
        try:
            return await work(call)
        except Disconnected:
            call.code = LEFT
            self._say(logging.DEBUG, call, "left")
            return _UNREAD
        except Exception as raised:
            refused = self._refused(call, raised)
            await call.body.drain()
            return refused

    async def _sent(self, call: _Call, found: Answer | None, send: Send) -> int:
        return await send_answer(send, found, call.id) if found is not None and found is not _UNREAD else 0

    async def _let_in(self, call: _Call) -> None:
        if self._keyed:
            self._worker.check_key(call)

    async def _responded(self, call: _Call) -> Answer:
        assert self._respond is not None
        message = await self._respond(call)
        answered = message if isinstance(message, Answer) else answer(message, call.media)
        self._say(call.level, call, "answered", call.said)
        return answered

    async def _act(self, call: _Call, send: Send) -> int:
        """Answer when the act is served, or when its time is over; it runs on then and its answer is kept."""
        with self._worker.host.watch.act(call.id, call.headers) as passage:
            passage.enter("read")
            found = await self._tried(call, self._read)
            passage.code = call.code
            if isinstance(found, Answer):
                return await self._sent(call, found, send)
            try:
                return await self._served(call, found, passage, send)
            finally:
                passage.code = call.code

    async def _read(self, call: _Call) -> ActRequest:
        return read_act(await self._worker.body(call), call.content_type)

    async def _served(self, call: _Call, request: ActRequest, passage: Passage, send: Send) -> int:
        done = anyio.Event()
        answered: Answer | None = None

        async def serve() -> None:
            nonlocal answered
            try:
                response = await self._worker.act(call, request, passage)
                passage.enter("answer")
                answered = answer(response, call.media)
                self._say_act(call, request, response, passage)
            except Exception as raised:
                answered = self._refused(call, raised)
            finally:
                done.set()

        patience_s = self._worker.host.patience_s(parse_seconds(call.headers.get(DEADLINE_S)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            with anyio.move_on_after(patience_s):
                await done.wait()
            sent = await send_answer(send, answered or self._overdue(call, patience_s), call.id)
        return sent

    def _overdue(self, call: _Call, patience_s: float) -> Answer:
        error = remote_error(
            "timeout",
            f"the act was not answered within {patience_s:g} s",
            hint="ask again under the same request id: its answer is kept",
            details={"reason": self._worker.host.running(call.id, call.owner)["state"]},
        )
        return self._refused(call, error)

    def _refused(self, call: _Call, raised: Exception) -> Answer:
        error = _as_remote(raised)
        call.code, level, more = error.code, _LEVELS.get(error.code, logging.DEBUG), None
        if level > logging.DEBUG:  # a policy that fails at every act must not fill a disk
            more = self._worker.seldom.due((self._name, error.code), anyio.current_time())
            level = logging.DEBUG if more is None else level
        told = error.details.get("traceback") or error.detail
        thrown = raised if error.code == "internal" and more is not None else None
        self._say(level, call, "refused", {"code": error.code, "more": more or None, "error": told}, thrown)
        return self._worker.refused(error, call)

    def _say_act(self, call: _Call, request: ActRequest, response: ActResponse, passage: Passage) -> None:
        t = response.plan.t if response.plan is not None else None
        told = {"episode": request.episode_id, "seq": request.seq, "t": t, **passage.told()}
        self._say(logging.DEBUG, call, "answered", told)

    def _say(
        self,
        level: int,
        call: _Call,
        participle: str,
        told: Mapping[str, object] = MappingProxyType({}),
        thrown: Exception | None = None,
    ) -> None:
        if _log.isEnabledFor(level):
            _log.log(level, "%s", line(f"{self._name}.{participle}", call.id, **told), exc_info=thrown)


def _as_remote(raised: Exception) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"the worker failed: {type(raised).__name__}")
