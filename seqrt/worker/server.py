"""Serving a policy over HTTP/2 and HTTP/1.1: inside a program's own loop, or as a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from seqrt.policies.constructor import Weights
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.policies.loading import load
from seqrt.policies.offload import in_thread
from seqrt.worker.app import app as worker_app
from seqrt.worker.asgi import App
from seqrt.worker.bound import Bound
from seqrt.worker.granting import Granting, leases_for
from seqrt.worker.leaving import stop_when_told
from seqrt.worker.listening import GRACE_S, listening, listening_here
from seqrt.worker.loopload import LoopLoad
from seqrt.worker.memory import give_back_at_rest
from seqrt.worker.metrics import measure_lag, metrics, metrics_app
from seqrt.worker.saying import introduction, to_stdout
from seqrt.worker.tls import Certificate

DRAIN_S = 30.0
"""How long live episodes may go on after the first signal."""

SWITCH_S = 0.0005
"""How long the policy's thread keeps the interpreter while the loop waits for it, in a process of our own: with
Python's 5 ms, pictures being decoded hold up each post by that at each of its turns."""


@dataclass(frozen=True, kw_only=True)
class Server(Bound):
    """A worker that runs.

    Attributes:
        policy: What serves.
        leases: What grants its leases, for a gateway in the same process.
    """

    policy: Host
    leases: Granting | None = None


class Beside(Protocol):
    """What is served on a worker's port beside the worker: see `seqrt.gateway.together`."""

    def around(self, worker: App, host: Host, leases: Granting) -> App:
        """The app of both, made before the port is open."""
        ...

    def introduce(self, server: Server, say: Callable[[str], Any]) -> None:
        """Say what a robot's program says to it, once the policy is ready."""
        ...


@asynccontextmanager
async def serving(
    policy: object,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    secret: str | None = None,
    reveal: bool = False,
    limits: HostLimits = HostLimits(),  # noqa: B008  # frozen
    weights: Weights = None,
    start: bool = True,
    grace_s: float = GRACE_S,
    wrap: Callable[[App], App] | None = None,
    beside: Beside | None = None,
    tls: Certificate | None = None,
    metrics_port: int | None = None,
    alone: bool = False,
) -> AsyncIterator[Server]:
    """Serve a policy in the caller's own loop, asyncio or trio, while the context is open.

    Args:
        policy: A policy object, or a `Host` made by the caller.
        host: The address to bind; this machine alone unless told otherwise.
        port: 0 lets the system choose.
        secret: The key requests have to bring; None: none is asked for.
        reveal: Send tracebacks with their file paths even where there is a secret.
        limits: What is held, for a policy object.
        weights: What ``{weights}`` stands for where further copies of it are made.
        start: Load the policy before the context is entered; False: the caller calls ``server.policy.start()`` and
            the server answers with the stages meanwhile.
        grace_s: How long requests under way may take to end when the context is left; then they are cancelled.
        wrap: Puts another ASGI app around the worker's, to count or delay what passes.
        beside: What is served on the same port beside it.
        tls: The certificate to show over TLS; None: plain HTTP. `seqrt.worker.self_signed` makes and keeps one.
        metrics_port: Where ``/metrics`` is answered to this machine alone, without a key and over plain HTTP; 0 lets
            the system choose. None: nowhere but on ``port``, for the key.
        alone: The loop does nothing else: new episodes are refused while it is nearly always at work, and memory that
            was freed is given back to the system when no robot is served.

    Yields:
        The running server.

    Raises:
        OSError: The address cannot be bound.
        CertificateUnusable: The certificate or its key.
        DeclarationError: The object cannot be called as a policy is.
        Exception: What the policy's ``load`` or ``warmup`` raise; what the body raises, never in a group.
    """
    serves = policy if isinstance(policy, Host) else Host(policy, offload=in_thread(), limits=limits, weights=weights)
    granting, aside = Granting(serves, leases_for(serves)), in_thread()
    asgi: App = worker_app(
        serves, secret=secret, reveal=reveal, environment=tuple(os.environ.values()), granting=granting, aside=aside
    )
    asgi = beside.around(asgi, serves, granting) if beside is not None else asgi
    asgi = wrap(asgi) if wrap is not None else asgi
    counted = metrics_app(lambda: metrics(serves, leases=granting.count), aside)
    context = tls.context() if tls is not None else None
    failure: Exception | None = None
    try:
        async with (
            listening(asgi, host=host, port=port, grace_s=grace_s, tls=context) as bound,
            listening_here(counted, metrics_port) as metrics_bound,
            anyio.create_task_group() as tending,
        ):
            try:
                if start and serves.stage != "ready":
                    await serves.start()
                tending.start_soon(serves.tend)
                tending.start_soon(granting.tend)
                tending.start_soon(measure_lag, serves.watch.counts.lag_s)
                if alone:
                    load = LoopLoad()
                    serves.refuse_new_while(lambda: load.crowded)
                    tending.start_soon(load.watch)
                    tending.start_soon(give_back_at_rest, serves.statistics)
                yield Server(host=host, port=bound, policy=serves, tls=tls, leases=granting, metrics_port=metrics_bound)
            except Exception as raised:
                failure = raised
            tending.cancel_scope.cancel()
    finally:
        if serves is not policy:
            with anyio.CancelScope(shield=True):  # the policy's shutdown has its own time, as its load had
                await serves.stop()
    if failure is not None:
        raise failure


async def serve(
    target: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    secret: str | None = None,
    reveal: bool = False,
    drain_s: float = DRAIN_S,
    weights: Weights = None,
    beside: Beside | None = None,
    tls: Certificate | None = None,
    metrics_port: int | None = None,
    say: Callable[[str], Any] = to_stdout,
) -> None:
    """What ``seqrt serve`` runs: load the policy, serve it, until SIGINT or SIGTERM or cancelled.

    The server answers ``/healthz`` with the stages while the policy loads. The first signal drains, as ``POST /drain``
    does: no new episode is begun, live ones go on for up to ``drain_s``, then it ends; a second one stops at once.

    Args:
        target: ``module:Policy``.
        host: The address to bind.
        port: 0 lets the system choose.
        secret: The key requests have to bring.
        reveal: Send tracebacks with their file paths even where there is a secret.
        drain_s: How long live episodes may go on.
        weights: What ``{weights}`` stands for in the policy's declared constructor: a path, or one a part.
        beside: What is served on the same port beside it.
        tls: The certificate to show over TLS; None: plain HTTP.
        metrics_port: Where ``/metrics`` is answered to this machine alone, without a key.
        say: Takes the lines meant for whoever started it.

    Raises:
        DeclarationError: ``target`` names no policy.
        CertificateUnusable: The certificate or its key.
        OSError: The address cannot be bound.
        Exception: What loading the policy raises.
    """
    policy = load(target, weights=weights)
    failure: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            serving(
                policy,
                host=host,
                port=port,
                secret=secret,
                reveal=reveal,
                weights=weights,
                start=False,
                beside=beside,
                tls=tls,
                metrics_port=metrics_port,
                alone=True,
            ) as server,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(stop_when_told, signals, server.policy, drain_s, say, tasks.cancel_scope)
            try:
                await server.policy.start()
                await anyio.lowlevel.checkpoint()  # a signal while it loaded: nothing is ready
            except Exception as raised:
                failure = raised
            else:
                for text in introduction(server, server.policy.info().model, is_keyed=secret is not None):
                    say(text)
                if beside is not None:
                    beside.introduce(server, say)
                await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
