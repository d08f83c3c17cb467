"""The worker's ASGI app: the contract's endpoints around one `Host`, every error a body of the table.

Plain ASGI on starlette routes, so that it mounts anywhere; it runs on asyncio and trio, in virtual time too.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.policies.host import Host
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
from seqrt.worker.logline import line

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
M = TypeVar("M")

_SERVED: Final = "POST /act, /observe, /act/episode_end, /ping, /lease, /lease/end; GET /ping, /healthz, /policy"


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
    routes = [
        Route(path, _Endpoint(worker, respond, keyed=keyed), methods=[method])
        for method, path, respond, keyed in (
            ("POST", "/act", None, True),
            ("POST", "/observe", worker.observe, True),
            ("POST", "/act/episode_end", worker.episode_end, True),
            ("GET", "/ping", worker.ping, False),
            ("POST", "/ping", worker.weigh, True),
            ("GET", "/healthz", worker.healthz, False),
            ("GET", "/policy", worker.policy, True),
            ("POST", "/lease", worker.lease, True),
            ("POST", "/lease/end", worker.lease_end, True),
        )
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

    async def act(self, call: _Call, request: ActRequest) -> ActResponse:
        """POST /act, once its body is here."""
        return await self.host.act(
            request,
            request_id=call.id,
            owner=call.owner,
            deadline_s=parse_seconds(call.headers.get(DEADLINE_S)),
            source=call.client,
        )

    async def observe(self, call: _Call) -> Any:
        """POST /observe."""
        request = decode_body(await self.body(call), call.content_type, ObserveRequest)
        return await self.host.observe(request, owner=call.owner)

    async def episode_end(self, call: _Call) -> Any:
        """POST /act/episode_end."""
        ended = decode_body(await self.body(call), call.content_type, EpisodeEnd)
        await self.host.end(ended.episode_id, owner=call.owner)
        call.level, call.said = logging.INFO, {"episode": ended.episode_id}
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


class _Endpoint:
    """One route as an ASGI app: key, body, answer, error body, log line."""

    def __init__(self, worker: _Worker, respond: Callable[[_Call], Awaitable[Any]] | None, *, keyed: bool) -> None:
        self._worker = worker
        self._respond = respond
        self._keyed = keyed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = _Call(scope, receive)
        try:
            if self._keyed:
                self._worker.check_key(call)
            if self._respond is not None:
                answered = answer(await self._respond(call), call.media)
                if _log.isEnabledFor(call.level):  # a post's line is mostly read by nobody
                    _log.log(call.level, "%s", line(_event(call, "answered"), call.id, **call.said))
            else:
                request = read_act(await self._worker.body(call), call.content_type)
                await self._act(call, request, send)
                return
        except Disconnected:
            _log.debug("%s", line(_event(call, "left"), call.id))
            return
        except Exception as raised:
            answered = self._refused(call, raised)
            await call.body.drain()
        await send_answer(send, answered, call.id)

    async def _act(self, call: _Call, request: ActRequest, send: Send) -> None:
        """Answer when the act is served, or when its time is over; it runs on then and its answer is kept."""
        done = anyio.Event()
        answered: Answer | None = None

        async def serve() -> None:
            nonlocal answered
            try:
                response = await self._worker.act(call, request)
                answered = answer(response, call.media)
                _log_act(call, request, response)
            except Exception as raised:
                answered = self._refused(call, raised)
            finally:
                done.set()

        patience_s = self._worker.host.patience_s(parse_seconds(call.headers.get(DEADLINE_S)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            with anyio.move_on_after(patience_s):
                await done.wait()
            await send_answer(send, answered if answered is not None else self._overdue(call, patience_s), call.id)

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
        level = logging.DEBUG
        if error.code == "policy_error":
            level = logging.WARNING
        elif error.code == "internal":
            level = logging.ERROR
        _log.log(
            level,
            "%s",
            line(
                _event(call, "refused"), call.id, code=error.code, error=error.details.get("traceback") or error.detail
            ),
            exc_info=raised if error.code == "internal" else None,
        )
        return self._worker.refused(error, call)


def _as_remote(raised: Exception) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"the worker failed: {type(raised).__name__}")


def _log_act(call: _Call, request: ActRequest, response: ActResponse) -> None:
    plan = response.plan
    _log.debug(
        "%s",
        line(
            "act.answered",
            call.id,
            episode=request.episode_id,
            seq=request.seq,
            t=plan.t if plan is not None else None,
            queue_s=plan.queue_s if plan is not None else None,
            inference_ms=(response.perf or {}).get("inference_ms"),
        ),
    )


def _event(call: _Call, participle: str) -> str:
    return f"{call.path.strip('/').replace('/', '_') or 'request'}.{participle}"
