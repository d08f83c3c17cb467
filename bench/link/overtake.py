"""What a bare act waits for while frames want more than the way up carries: handed over as they come, and paced.

Posts of 54 KB, four at a time, without an end, and beside them acts of 300 B, through `seqrt.testing.relay` with a
rate. The age of what an act is asked about is the latency of the frame posted last when it was asked.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import numpy as np

from seqrt.link.http import HttpLink, clients
from seqrt.link.sender import Post, Sender
from seqrt.testing.offload import inline
from seqrt.testing.relay import Relay
from seqrt.wire.headers import request_id
from seqrt.wire.messages import ActRequest, Frame, ObserveRequest
from seqrt.worker import serving

FRAME: Final = 54_000
AT_ONCE: Final = 4
_SETTLES_S: Final = 2.0
_NOISE: Final = np.random.default_rng(0).bytes(FRAME)


class Idle:
    """Answers at once; what it is shown is the point."""

    def infer(self, obs: Any) -> Any:
        return np.zeros((8, 7), np.float32)


class HandsOverAll(Sender):
    """Nothing waits for its turn, as before there was a sender."""

    async def turn(self, post: Post) -> int:
        size = post.left
        post.take(size)
        return size


@dataclass
class Seen:
    """One run: how long acts and posts took, in ms; Mbit/s that got through; CPU ms of this process a second."""

    acts: list[float] = field(default_factory=list)
    posts: list[float] = field(default_factory=list)
    mbit: float = 0.0
    cpu: float = 0.0
    estimate: float | None = None


@asynccontextmanager
async def far(mbit: float, rtt_s: float, *, paced: bool) -> AsyncIterator[tuple[HttpLink, Relay]]:
    """A link to a worker behind a rate and a distance."""
    async with (
        serving(Idle()) as server,
        Relay(server.port, up_s=rtt_s / 2, down_s=rtt_s / 2, up_bytes_per_s=mbit * 125e3) as relay,
    ):
        new_client = clients(f"http://127.0.0.1:{relay.port}", timeout_s=10, key=None)
        sender = Sender() if paced else HandsOverAll()
        link = HttpLink(new_client, host="", timeout_s=30, offload=inline(), sender=sender)
        await link.info()
        try:
            yield link, relay
        finally:
            await link.aclose()


async def stream(link: HttpLink, seen: Seen) -> None:
    """Post frames for ever, in episodes of a size that a worker holds."""
    number, episode = 0, f"{random.randrange(2**64):x}"
    while True:
        message = ObserveRequest(episode_id=episode, frames=[Frame(seq=number, inputs={"jpeg": _NOISE})])
        post, at = await link.prepare(message), time.perf_counter()
        await link.observe(post)
        seen.posts.append(1e3 * (time.perf_counter() - at))
        number += 1
        if number == 200:
            await link.end(episode)
            number, episode = 0, f"{random.randrange(2**64):x}"


async def ask(link: HttpLink, seconds: float) -> list[float]:
    """Bare acts at random moments; milliseconds each."""
    took, until, rng = [], time.perf_counter() + seconds, random.Random(1)
    episode = f"{rng.randrange(2**64):x}"
    while time.perf_counter() < until:
        act = ActRequest(inputs={"state": np.zeros(24)}, seq=len(took), episode_id=episode)
        ready, at = await link.prepare(act), time.perf_counter()
        await link.act(ready, request_id(rng.randbytes(8)), 30.0)
        took.append(1e3 * (time.perf_counter() - at))
        await anyio.sleep(rng.uniform(0.01, 0.05))
    return took


async def measured(mbit: float, rtt_s: float, seconds: float, *, streams: int, paced: bool) -> Seen:
    """One line of the table."""
    seen = Seen()
    async with far(mbit, rtt_s, paced=paced) as (link, relay), anyio.create_task_group() as tasks:
        for _ in range(streams):
            tasks.start_soon(stream, link, seen)
        await anyio.sleep(_SETTLES_S)
        seen.posts.clear()
        cpu, at, before = time.process_time(), time.perf_counter(), relay.statistics().bytes_up
        seen.acts = await ask(link, seconds)
        passed = time.perf_counter() - at
        seen.mbit = (relay.statistics().bytes_up - before) * 8e-6 / passed
        seen.cpu = 1e3 * (time.process_time() - cpu) / passed
        seen.estimate = link.statistics().bytes_per_s
        tasks.cancel_scope.cancel()
    return seen


def _quantiles(took: list[float]) -> str:
    ordered = sorted(took)
    if not ordered:
        return "- | - | -"
    return f"{statistics.median(ordered):.1f} | {ordered[int(0.99 * (len(ordered) - 1))]:.1f} | {ordered[-1]:.1f}"


async def _table(rates_mbit: list[float], rtts_ms: list[float], seconds: float) -> None:
    print("| Mbit/s | RTT ms | | act p50 | p99 | max ms | used | rate found | frame p50 | p99 | max ms | CPU ms/s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for mbit in rates_mbit:
        for rtt_ms in rtts_ms:
            for name, streams, paced in (("idle", 0, True), ("as they come", AT_ONCE, False), ("paced", AT_ONCE, True)):
                seen = await measured(mbit, rtt_ms / 1e3, seconds, streams=streams, paced=paced)
                found = "-" if seen.estimate is None else f"{seen.estimate * 8e-6:.1f}"
                print(
                    f"| {mbit:g} | {rtt_ms:g} | {name} | {_quantiles(seen.acts)} | {seen.mbit / mbit:.0%} | {found} "
                    f"| {_quantiles(seen.posts)} | {seen.cpu:.0f} |",
                    flush=True,
                )


def run(rates_mbit: list[float], rtts_ms: list[float], seconds: float) -> None:
    """Print the table."""
    anyio.run(_table, rates_mbit, rtts_ms, seconds)
