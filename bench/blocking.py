"""How late ``act`` begins, by `seqrt.blocking` and by the async face with the same synchronous functions, in one run.

The blocking face hands each row over to the caller's thread, so its ``act`` begins one crossing later. Both take turns,
block by block. Idle, and with a thread that encodes a picture 30 times a second, as cameras do.

    python bench/blocking.py            # a minute and a half
    python bench/blocking.py --quick    # ten seconds
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np

import seqrt
import seqrt.blocking
from seqrt.testing import FakeArm, Scripted
from seqrt.timeline import events as ev


@dataclass
class Watched:
    """An arm that notes when each row reached it, and what the run said of its ticks meanwhile."""

    hz: float
    arm: FakeArm = field(default_factory=lambda: FakeArm(7, clock=time.monotonic))
    acted_at: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    began_at: float = float("inf")

    def act(self, row: Any) -> None:
        self.acted_at.append(time.monotonic())
        self.arm.act(row)

    def told(self, event: ev.Event) -> None:
        self.began_at = min(self.began_at, time.monotonic() - event.at_s)
        if isinstance(event, ev.Ticked) and event.kind == "played":
            self.steps.append(event.step)

    def late_us(self) -> list[float]:
        first, *_ = self.steps
        pairs = zip(self.acted_at, self.steps, strict=True)
        return [(at - self.began_at - step / self.hz) * 1e6 for at, step in pairs if step > first + 2]

    @property
    def functions(self) -> dict[str, Any]:
        return {"observe": self.arm.observe, "act": self.act, "hold": self.arm.hold, "validate": safe}


def safe(row: Any) -> bool:
    return bool(np.isfinite(row).all())


def policy(hz: float) -> Scripted:
    return Scripted(rows=50, dims=7, hz=hz)


def by_async(hz: float, actions: int) -> list[float]:
    watched = Watched(hz)

    async def main() -> None:
        async with seqrt.connect(policy=policy(hz)) as handle:
            await handle.run(**watched.functions, max_actions=actions, record=watched.told)

    anyio.run(main)
    return watched.late_us()


def by_blocking(hz: float, actions: int) -> list[float]:
    watched = Watched(hz)
    with seqrt.blocking.connect(policy=policy(hz)) as handle:
        handle.run(**watched.functions, max_actions=actions, record=watched.told)
    return watched.late_us()


@contextlib.contextmanager
def idle() -> Iterator[None]:
    yield


@contextlib.contextmanager
def cameras() -> Iterator[None]:
    """A thread that packs a picture 30 times a second: some milliseconds each, most of them outside the lock."""
    over, picture = threading.Event(), np.random.default_rng(0).integers(0, 32, 400_000, dtype=np.uint8).tobytes()

    def encode() -> None:
        while not over.wait(1 / 30):
            zlib.compress(picture, 1)

    thread = threading.Thread(target=encode, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def at(late_us: list[float], q: float) -> float:
    ordered = sorted(late_us)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def line(load: str, hz: float, blocks: dict[str, list[list[float]]]) -> str:
    """Medians over the blocks, and of the ratios of blocks that followed one another."""
    cells = []
    for face in ("async", "blocking"):
        p50, p99 = (statistics.median(at(block, q) for block in blocks[face]) for q in (0.5, 0.99))
        cells.append(f"{p50:.0f} / {p99:.0f}")
    pairs = list(zip(blocks["async"], blocks["blocking"], strict=True))
    more = [statistics.median(at(b, q) - at(a, q) for a, b in pairs) for q in (0.5, 0.99)]
    ratios = [statistics.median(at(b, q) / at(a, q) for a, b in pairs) for q in (0.5, 0.99)]
    return (
        f"| {load} | {hz:g} | {cells[0]} | {cells[1]} | +{more[0]:.0f} / {more[1]:+.0f} "
        f"| {ratios[0]:.2f} / {ratios[1]:.2f} | {more[0] * hz * 1e-4:.2f} % |"
    )


def main(*, quick: bool) -> None:
    print("| meanwhile | Hz | async p50 / p99 µs | blocking p50 / p99 µs | more by µs | ratio | more, of a period |")
    print("|---|---|---|---|---|---|---|")
    rounds, seconds = (1, 1.0) if quick else (5, 2.0)
    for name, load in {"idle": idle, "cameras": cameras}.items():
        for hz in (50.0, 100.0):
            blocks: dict[str, list[list[float]]] = {"async": [], "blocking": []}
            with load():
                for _ in range(rounds):
                    blocks["async"].append(by_async(hz, int(hz * seconds)))
                    blocks["blocking"].append(by_blocking(hz, int(hz * seconds)))
            print(line(name, hz, blocks), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(quick=parser.parse_args().quick)
