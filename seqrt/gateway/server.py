"""A gateway that listens: in a program's own loop, as a process of its own, or on one port with its worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from seqrt.gateway.app import app
from seqrt.gateway.asked import Gateway
from seqrt.gateway.fixedworkers import FixedWorkers
from seqrt.gateway.gate import Gate
from seqrt.gateway.keyfile import KeyFile
from seqrt.gateway.keys import OneKey
from seqrt.gateway.metrics import metrics
from seqrt.gateway.models import Model, Models, full_id
from seqrt.gateway.saying import introduction
from seqrt.gateway.sites import RemoteSite
from seqrt.gateway.spending import Spending, beside, flush, kept
from seqrt.gateway.workers import link_to
from seqrt.policies.offload import in_thread
from seqrt.worker.asgi import App
from seqrt.worker.bound import Bound
from seqrt.worker.listening import GRACE_S, listening, listening_here
from seqrt.worker.metrics import measure_lag, metrics_app
from seqrt.worker.saying import to_stdout
from seqrt.worker.tls import Certificate

LOOK_S: Final = 2.0
"""How long a start waits for workers to say what they serve; those that do not are asked on."""


@dataclass(frozen=True, kw_only=True)
class GatewayServer(Bound):
    """A gateway that runs.

    Attributes:
        gateway: What serves.
    """

    gateway: Gateway


@asynccontextmanager
async def gateway(
    workers: Mapping[str, str | Sequence[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    keys: Path | None = None,
    spent: Path | None = None,
    secret: str | None = None,
    fingerprints: Mapping[str, str] | None = None,
    insecure: bool = False,
    grace_s: float = GRACE_S,
    wrap: Callable[[App], App] | None = None,
    tls: Certificate | None = None,
    metrics_port: int | None = None,
) -> AsyncIterator[GatewayServer]:
    """A gateway in the caller's own loop, asyncio or trio, while the context is open.

    Args:
        workers: For each model's id, short or full, the URL of its worker; or of several that serve the same.
        host: The address to bind; this machine alone unless told otherwise.
        port: 0 lets the system choose.
        keys: The file of keys, as ``seqrt keys`` writes it; None: none is asked for.
        spent: Where acts of keys with a budget are counted; ``<keys>.spent``, beside it, when None.
        secret: The key the workers ask for; None: ``SEQRT_API_KEY``, then the credentials file's entry for each.
        fingerprints: For URLs of workers, the sha256 of the only certificate to take there.
        insecure: Allow the secret over plain http to another machine.
        grace_s: How long requests under way may take to end when the context is left; then they are cancelled.
        wrap: Puts another ASGI app around the gateway's, to count or delay what passes.
        tls: The certificate to show over TLS; None: plain HTTP.
        metrics_port: Where ``/metrics`` is answered to this machine alone, over plain HTTP; 0 lets the system choose.
            None: nowhere.

    Yields:
        The running gateway. Workers that do not answer within two seconds are asked on in the background.

    Raises:
        OSError: The address cannot be bound.
        KeysUnusable: The file of keys, or what is counted beside it.
        CertificateUnusable: The certificate or its key.
        ValueError: A worker's URL, key or fingerprint.
        Exception: What the body raises; never in a group.
    """
    pinned = fingerprints or {}
    models = Models([_model(name, _each(urls), secret, pinned, insecure) for name, urls in workers.items()])
    context = tls.context() if tls is not None else None
    failure: Exception | None = None
    with keyed(models, keys, spent=spent) as served:
        asgi: App = app(served.gateway)
        asgi = wrap(asgi) if wrap is not None else asgi
        async with (
            listening(asgi, host=host, port=port, grace_s=grace_s, tls=context) as bound,
            listening_here(metrics_app(partial(metrics, served.gateway), in_thread()), metrics_port) as metrics_bound,
            anyio.create_task_group() as tending,
        ):
            try:
                with anyio.move_on_after(LOOK_S):
                    await models.look()
                tending.start_soon(served.tend)
                tending.start_soon(measure_lag, served.gateway.watch.counts.lag_s)
                yield GatewayServer(host=host, port=bound, gateway=served.gateway, tls=tls, metrics_port=metrics_bound)
            except Exception as raised:
                failure = raised
            tending.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await models.aclose()
    if failure is not None:
        raise failure


@dataclass(frozen=True)
class Keyed:
    """A gateway with its keys and what they have spent, which somebody has to look after.

    Attributes:
        gateway: What serves.
        spending: How many acts each key has made.
        spent: Where that is kept; None: nowhere.
    """

    gateway: Gateway
    spending: Spending
    spent: Path | None

    async def tend(self) -> None:
        """Look after the workers, and write down what is spent. Runs until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.gateway.models.tend)
            if self.spent is not None:
                tasks.start_soon(flush, self.spending, self.spent, in_thread())


@contextmanager
def keyed(
    models: Models, keys: Path | None, *, spent: Path | None = None, secret: str | None = None
) -> Iterator[Keyed]:
    """A gateway before ``models``, with the keys of a file, with one secret, or with none.

    Raises:
        KeysUnusable: The file of keys, or what is counted beside it.
    """
    if keys is None:
        ring = OneKey(secret.encode()) if secret is not None else None
        uncounted = Spending()
        yield Keyed(_gateway(models, Gate(ring, uncounted)), uncounted, None)
        return
    ring_of_file, spent = KeyFile(keys), spent or beside(keys)
    with kept(spent) as spending:
        yield Keyed(_gateway(models, Gate(ring_of_file, spending)), spending, spent)


def _gateway(models: Models, gate: Gate) -> Gateway:
    return Gateway(models, gate, offload=in_thread(2), wall=time.time, environment=tuple(os.environ.values()))


def _model(name: str, urls: Sequence[str], secret: str | None, pinned: Mapping[str, str], insecure: bool) -> Model:
    links = [link_to(url, secret, pinned.get(url), insecure) for url in urls]
    sites = [RemoteSite(link, url=url, fingerprint=pinned.get(url)) for link, url in zip(links, urls, strict=True)]
    return Model(full_id(name), links, place=FixedWorkers(sites))


def _each(urls: str | Sequence[str]) -> Sequence[str]:
    return [urls] if isinstance(urls, str) else urls


async def serve_gateway(
    workers: Mapping[str, str | Sequence[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8081,
    keys: Path | None = None,
    spent: Path | None = None,
    secret: str | None = None,
    fingerprints: Mapping[str, str] | None = None,
    insecure: bool = False,
    tls: Certificate | None = None,
    metrics_port: int | None = None,
    say: Callable[[str], Any] = to_stdout,
) -> None:
    """What ``seqrt gateway`` runs, until SIGINT or SIGTERM or cancelled.

    The first signal lets acts under way end for a few seconds, the second one stops at once.

    Args:
        workers: As of `gateway`, as are the others.
        host: The address to bind.
        port: 0 lets the system choose.
        keys: The file of keys.
        spent: Where acts are counted.
        secret: The key the workers ask for.
        fingerprints: Of the workers' certificates, by URL.
        insecure: Allow the secret over plain http.
        tls: The certificate to show.
        metrics_port: Where ``/metrics`` is answered.
        say: Takes the lines meant for whoever started it.

    Raises:
        OSError: The address cannot be bound.
        KeysUnusable: The file of keys, or what is counted beside it.
        CertificateUnusable: The certificate or its key.
        ValueError: A worker's URL, key or fingerprint.
    """
    failure: Exception | None = None
    stopped = anyio.Event()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, signals, stopped, tasks.cancel_scope)
            try:
                async with gateway(
                    workers,
                    host=host,
                    port=port,
                    keys=keys,
                    spent=spent,
                    secret=secret,
                    fingerprints=fingerprints,
                    insecure=insecure,
                    tls=tls,
                    metrics_port=metrics_port,
                ) as server:
                    for text in introduction(server, server.gateway.models.all(), server.gateway.gate):
                        say(text)
                    await stopped.wait()
            except Exception as raised:
                failure = raised
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _stop_on_signal(
    signals: AsyncIterator[signal.Signals], stopped: anyio.Event, scope: anyio.CancelScope
) -> None:
    await signals.__anext__()
    stopped.set()
    await signals.__anext__()
    scope.cancel()
