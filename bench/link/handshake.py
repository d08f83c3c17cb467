"""What opening a connection costs, in round trips: ours opened ahead and kept, one opened for each call, a cold one.

Everything goes through `seqrt.testing.relay` with its window model, in which TCP's handshake takes its round trip.
Round trips are counted as time over the time of a ``/ping`` on a connection that is open.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import statistics
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.abc
import httpx
import numpy as np

import seqrt
from seqrt.link import network
from seqrt.link.http import HttpLink, clients
from seqrt.link.opening import OneConnection
from seqrt.link.pause import measure_pause
from seqrt.link.tcp import tcp_info
from seqrt.testing.offload import inline
from seqrt.testing.relay import Relay
from seqrt.worker import Certificate, self_signed, serving

_ASKED = 300
"""Bytes of a bare act."""


class Fifty:
    """Answers at once with fifty rows, at 50 Hz."""

    def infer(self, obs: Any) -> Any:
        return np.zeros((50, 14), np.float32)


@contextlib.asynccontextmanager
async def far(rtt_s: float, certificate: Certificate | None) -> AsyncIterator[str]:
    """The address of a worker that is so far away."""
    async with (
        serving(Fifty(), tls=certificate) as server,
        Relay(server.port, up_s=rtt_s / 2, down_s=rtt_s / 2, window_model=True) as relay,
    ):
        yield f"{'https' if certificate is not None else 'http'}://127.0.0.1:{relay.port}"


def median_ms(took: list[float]) -> float:
    return 1e3 * statistics.median(took)


async def ours(url: str, fingerprint: str | None, calls: int) -> tuple[float, float, float]:
    """Milliseconds of entering connect, of its first act, and of the acts after it."""
    began = time.perf_counter()
    async with seqrt.connect(base_url=url, fingerprint=fingerprint) as policy:
        entered, took = time.perf_counter(), []
        for _ in range(calls):
            at = time.perf_counter()
            await policy.predict({"x": 1.0})
            took.append(time.perf_counter() - at)
    return 1e3 * (entered - began), 1e3 * took[0], median_ms(took[1:])


async def each(url: str, context: ssl.SSLContext | bool, calls: int, *, kept: bool) -> float:
    """Milliseconds of a GET with httpx, HTTP/1.1, over a connection of its own or one that is kept."""
    took = []
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        await client.get(f"{url}/ping")
        for _ in range(calls):
            at = time.perf_counter()
            if kept:
                await client.get(f"{url}/ping")
            else:
                async with httpx.AsyncClient(verify=context, trust_env=False) as new:
                    await new.get(f"{url}/ping")
            took.append(time.perf_counter() - at)
    return median_ms(took)


async def table_of_connections(rtts_ms: list[float], calls: int) -> None:
    print(
        "| RTT, ms | TLS | open a connection a call | kept (HTTP/1.1) | ours, kept | connect | first act, connected |"
    )
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        certificate = self_signed(Path(folder))
        for rtt_ms in rtts_ms:
            for secure in (certificate, None):
                async with far(rtt_ms / 1e3, secure) as url:
                    fingerprint = secure.fingerprint if secure is not None else None
                    context = ssl.create_default_context(cafile=str(certificate.path))
                    trip = await each(url, context, calls, kept=True)
                    new = await each(url, context, calls, kept=False)
                    connect, first, later = await ours(url, fingerprint, calls + 1)
                cells = (f"{value:.0f} ms = {value / trip:.2f} RTT" for value in (new, trip, later, connect, first))
                print(f"| {rtt_ms:g} | {'1.3' if secure else 'no'} | {' | '.join(cells)} |", flush=True)


def naive(listener: socket.socket) -> None:
    """A server as they are written in an afternoon: Nagle's algorithm on, an answer's head and body written apart."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as asked, contextlib.suppress(OSError):
        while line := asked.readline():
            if line != b"\r\n":
                continue
            asked.read(_ASKED)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2800\r\n\r\n")
            connection.sendall(bytes(2800))


async def _asked(client: httpx.AsyncClient, url: str, calls: int) -> float:
    took = []
    for _ in range(calls):
        at = time.perf_counter()
        await client.post(url, content=bytes(_ASKED))
        took.append(time.perf_counter() - at)
    return median_ms(took[2:])


async def table_of_acknowledgements(calls: int) -> None:
    quick = network.acknowledge_at_once
    print("\n| client, against a server that writes head and body apart | a call |")
    print("|---|---|")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=naive, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for name in ("httpx", "ours without TCP_QUICKACK", "ours"):
            network.acknowledge_at_once = quick if name == "ours" else lambda _: None
            transport = OneConnection(network.Network(), http1=True) if name != "httpx" else None
            async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=None) as client:
                print(f"| {name} | {await _asked(client, url, calls):.2f} ms |", flush=True)
        network.acknowledge_at_once = quick


@contextlib.asynccontextmanager
async def linked(url: str) -> AsyncIterator[HttpLink]:
    link = HttpLink(clients(url, timeout_s=30.0, key=None), host="worker", timeout_s=30.0, offload=inline())
    try:
        await link.info()
        yield link
    finally:
        await link.aclose()


async def table_of_pauses(rtt_ms: float) -> None:
    async with far(rtt_ms / 1e3, None) as url, linked(url) as link:
        cost = await measure_pause(link)
    print(f"\n24 KB after a pause, {rtt_ms:g} ms away (the relay's window model):\n")
    print("| pause, s | took | round trips |")
    print("|---|---|---|")
    for pause in cost.pauses:
        print(f"| {pause.pause_s:g} | {1e3 * pause.took_s:.0f} ms | {pause.round_trips:.2f} |", flush=True)


async def table_of_windows(control: bytes = b"cubic") -> None:
    """What this machine's kernel keeps of a window, on loopback without a relay: silent, and with small pings."""
    print(f"\n| 3 s on loopback, this kernel, {control.decode()} | segments before | after |")
    print("|---|---|---|")
    ways = (("silent", 3.0), ("a ping each 0.4 s", 0.4), ("a ping each 0.1 s", 0.1), ("silent, in a run", 3.0))
    for name, every_s in ways:
        async with serving(Fifty()) as server, linked(server.url) as link, anyio.create_task_group() as tasks:
            link.line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
            for _ in range(20):
                await link.weigh(bytes(4_000_000))
            if name.endswith("in a run"):
                tasks.start_soon(link.tend, lambda _: None)
            before, until = tcp_info(link.line.socket), anyio.current_time() + 3
            while anyio.current_time() < until:
                await anyio.sleep(every_s)
                await link.weigh(b"")
            after = tcp_info(link.line.socket)
            tasks.cancel_scope.cancel()
        print(f"| {name} | {before.cwnd if before else '-'} | {after.cwnd if after else '-'} |", flush=True)


logging.getLogger("seqrt.link.network").setLevel(logging.ERROR)  # HTTP/1.1 is meant here


async def _run(rtts_ms: list[float], calls: int) -> None:
    async with far(0.0, None) as url:
        await ours(url, None, 2)  # what is imported at the first use is no cost of a connection
    await table_of_connections(rtts_ms, calls)
    await table_of_acknowledgements(calls)
    await table_of_pauses(rtts_ms[-1])
    await table_of_windows()


def run(*, rtts_ms: list[float], calls: int) -> None:
    """All tables."""
    anyio.run(_run, rtts_ms, calls)
