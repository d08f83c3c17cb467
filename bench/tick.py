"""How late ticks begin, by our waiter and by `anyio.sleep_until` in one run; and what a tick and a splice cost.

Idle, with two cameras' frames posted meanwhile (24 KB each at 30 Hz, over HTTP/2 to a worker in a process of its own),
and beside a thread that computes in pure Python; on asyncio, uvloop and trio. The two ways of waiting take turns, block
by block, so that a busy machine is busy for both.

    python bench/tick.py           # needs the extras serve, test and bench; four minutes
    python bench/tick.py --goal    # only 100 Hz with frames, asyncio and trio
    python bench/tick.py --cost    # only the cost of a tick and of a splice
    python bench/tick.py --fifo    # any of these in a real-time class, on a machine that others use (needs the right)
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import secrets
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import numpy as np
from cost import cost

import seqrt
from seqrt.link.http import HttpLink, clients
from seqrt.policies.offload import in_thread
from seqrt.runtime.waiting import waiter
from seqrt.wire.messages import Frame, ObserveRequest

FRAME_BYTES, CAMERAS, CAMERA_HZ = 24_000, 2, 30.0
POSTS_AN_EPISODE = 500  # a worker keeps 1024 frames that no act has asked for
BACKENDS = {"asyncio": ("asyncio", {}), "uvloop": ("asyncio", {"use_uvloop": True}), "trio": ("trio", {})}

Until = Callable[[float], Awaitable[object]]


@dataclass(frozen=True)
class Lateness:
    """One block of ticks: µs late, and the share of a core the process took."""

    late_us: list[float]
    cpu: float

    def at(self, q: float) -> float:
        ordered = sorted(self.late_us)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


# What happens meanwhile.


class Idle:
    """The worker's policy: never asked for anything, it is only sent frames."""

    def infer(self, obs: Any) -> None:
        return None


async def serve() -> None:
    from seqrt.worker.server import serving

    async with serving(Idle()) as server:
        print(server.port, flush=True)
        await anyio.sleep_forever()


@contextlib.contextmanager
def worker() -> Any:
    """A worker in a process of its own; its port."""
    process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


async def stream(link: HttpLink, camera: int) -> None:
    """One camera: a frame every 1/30 s, posted as the runtime posts it."""
    picture = np.random.default_rng(camera).bytes(FRAME_BYTES)
    begun, number, name = anyio.current_time(), 0, ""
    while True:
        if number % POSTS_AN_EPISODE == 0:
            name = secrets.token_hex(8)
        frame = Frame(seq=number % POSTS_AN_EPISODE, inputs={"camera": picture})
        await link.observe(await link.prepare(ObserveRequest(episode_id=name, frames=[frame])))
        number += 1
        await anyio.sleep_until(begun + number / CAMERA_HZ)


@asynccontextmanager
async def idle(_: int) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def frames(port: int) -> AsyncIterator[None]:
    new_client = clients(f"http://127.0.0.1:{port}", timeout_s=10, key=None)
    link = HttpLink(new_client, host="", timeout_s=30, offload=in_thread())
    try:
        async with anyio.create_task_group() as tasks:
            for camera in range(CAMERAS):
                tasks.start_soon(stream, link, camera)
            await anyio.sleep(0.5)
            yield
            tasks.cancel_scope.cancel()
    finally:
        await link.aclose()


@asynccontextmanager
async def busy(_: int) -> AsyncIterator[None]:
    over = threading.Event()

    def compute() -> None:
        x = 0
        while not over.is_set():
            x = (x * 31 + 7) % 1_000_003

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        await anyio.to_thread.run_sync(thread.join)


@asynccontextmanager
async def busy_in_realtime(_: int) -> AsyncIterator[None]:
    with seqrt.realtime(gc=None, switch_interval_s=0.0001):
        async with busy(0):
            yield


LOADS = {"idle": idle, "frames": frames, "busy thread": busy, "busy thread, realtime()": busy_in_realtime}


# Lateness.


async def block(until: Until, now: Callable[[], float], hz: float, ticks: int) -> Lateness:
    late, cpu, begun = [], time.process_time(), now()
    t0 = begun + 2 / hz
    for step in range(ticks):
        await until(t0 + step / hz)
        late.append((now() - t0 - step / hz) * 1e6)
    return Lateness(late, (time.process_time() - cpu) / (now() - begun))


async def compared(load: str, port: int, hz: float, ticks: int, rounds: int) -> dict[str, list[Lateness]]:
    """Blocks of each way in turn."""
    blocks: dict[str, list[Lateness]] = {"sleep_until": [], "ours": []}
    with waiter("auto") as ours:
        async with LOADS[load](port):
            for _ in range(rounds):
                for name, until in {"sleep_until": anyio.sleep_until, "ours": ours.until}.items():
                    blocks[name].append(await block(until, ours.now, hz, ticks))
    return blocks


def figures(blocks: list[Lateness]) -> tuple[float, float, float]:
    """Median over the blocks: p50 µs, p99 µs, CPU."""
    return tuple(statistics.median(v) for v in zip(*((b.at(0.5), b.at(0.99), b.cpu) for b in blocks), strict=True))  # type: ignore[return-value]


def line(backend: str, load: str, hz: float, blocks: dict[str, list[Lateness]]) -> str:
    theirs, ours = figures(blocks["sleep_until"]), figures(blocks["ours"])
    ratios = [
        [o.at(q) / t.at(q) for o, t in zip(blocks["ours"], blocks["sleep_until"], strict=True)] for q in (0.5, 0.99)
    ]
    p50, p99 = (statistics.median(each) for each in ratios)
    return (
        f"| {backend} | {load} | {hz:g} | {theirs[0]:.0f} / {theirs[1]:.0f} | {ours[0]:.0f} / {ours[1]:.0f} "
        f"| {p50:.2f} / {p99:.2f} | {theirs[2]:.0%} / {ours[2]:.0%} |"
    )


HEAD = (
    "| loop | meanwhile | Hz | sleep_until p50 / p99 µs | ours p50 / p99 µs | ratio p50 / p99 | CPU theirs / ours |\n"
    "|---|---|---|---|---|---|---|"
)
TICKS = {50.0: 60, 100.0: 90, 500.0: 200}
GOAL_TICKS, GOAL_ROUNDS, ROUNDS = 400, 5, 3


def lateness(port: int, *, goal_only: bool) -> None:
    print(HEAD)
    for name, (backend, options) in BACKENDS.items():
        if importlib.util.find_spec(name) is None or (goal_only and name == "uvloop"):
            continue
        for load in LOADS:
            for hz, ticks in TICKS.items():
                goal = hz == 100 and load == "frames" and name != "uvloop"
                if (goal_only and not goal) or ("realtime" in load and hz != 100):
                    continue
                wanted = (GOAL_TICKS, GOAL_ROUNDS) if goal else (ticks, ROUNDS)
                blocks = anyio.run(compared, load, port, hz, *wanted, backend=backend, backend_options=options)
                print(line(f"**{name}**" if goal else name, load, hz, blocks), flush=True)


def main(*, goal_only: bool, cost_only: bool, fifo: bool) -> None:
    with seqrt.realtime(gc=None, switch_interval_s=None, scheduling="fifo" if fifo else None) as granted:
        if granted.refused:
            raise SystemExit(f"no real-time class here: {granted.refused[0].refused}")
        if not cost_only:
            with worker() as port:
                lateness(port, goal_only=goal_only)
        if not goal_only:
            anyio.run(cost)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--goal", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--fifo", action="store_true")
    chosen = parser.parse_args()
    if chosen.serve:
        anyio.run(serve)
    else:
        main(goal_only=chosen.goal, cost_only=chosen.cost, fifo=chosen.fifo)
