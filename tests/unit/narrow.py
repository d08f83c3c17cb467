"""A narrow way up as discrete events, with `Rate` in front of it: posts and acts in, what each had to wait for out."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqrt.link.rate import Rate

ACT_BYTES = 420


@dataclass
class Way:
    """One direction of one connection, narrow at one place.

    Attributes:
        mbit: What it carries.
        rtt_s: There and back, empty.
        jitter_s: Up to this much more a piece and an answer, in order.
        changes: When it carries how many times as much.
        worker_s: How long a post that arrives then is not answered.
    """

    mbit: float
    rtt_s: float = 0.0403
    jitter_s: float = 0.0
    changes: Sequence[tuple[float, float]] = ()
    worker_s: Callable[[float], float] = lambda at_s: 0.0005
    free_s: float = field(default=0.0, init=False)
    arrived_s: float = field(default=0.0, init=False)
    answered_s: float = field(default=0.0, init=False)

    def bytes_per_s(self, at_s: float) -> float:
        return self.mbit * 125e3 * next((f for since, f in reversed(self.changes) if at_s >= since), 1.0)

    def carry(self, size: int, at_s: float, rng: random.Random) -> float:
        """Hand ``size`` bytes over; how long they wait for those before them."""
        begins = max(at_s, self.free_s)
        self.free_s = begins + size / self.bytes_per_s(begins)
        self.arrived_s = max(self.arrived_s, self.free_s + self.rtt_s / 2 + rng.uniform(0, self.jitter_s))
        return begins - at_s

    def answer(self, rng: random.Random) -> float:
        """When what was carried last is answered."""
        done = self.arrived_s + self.worker_s(self.arrived_s) + self.rtt_s / 2 + rng.uniform(0, self.jitter_s)
        self.answered_s = max(self.answered_s, done)
        return self.answered_s


@dataclass
class Seen:
    """What happened: when acts went and what each waited for, rates in force, bytes through; the sender at the end."""

    acts: list[tuple[float, float]] = field(default_factory=list)
    rates: list[tuple[float, float | None]] = field(default_factory=list)
    through: list[tuple[float, int]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)

    def waits_ms(self, since_s: float, until_s: float = math.inf) -> list[float]:
        """Sorted."""
        return sorted(wait * 1e3 for at, wait in self.acts if since_s <= at < until_s)

    def used(self, way: Way, since_s: float, until_s: float) -> float:
        """Share of what the way could carry."""
        steps = [since_s + (i + 0.5) * (until_s - since_s) / 1000 for i in range(1000)]
        could = sum(way.bytes_per_s(at) for at in steps) * (until_s - since_s) / 1000
        return sum(size for at, size in self.through if since_s <= at < until_s) / could

    def rate_at(self, at_s: float) -> float | None:
        return next((rate for at, rate in reversed(self.rates) if at <= at_s), None)


def send(
    way: Way, *, demand: float = 1.5, frame: int = 54_000, seconds: float, act_every_s: float = 0.0503, seed: int = 1
) -> Seen:
    """Frames for ``demand`` times what the way carries at first, sixteen of them kept, and acts all the while."""
    rng, rate, seen = random.Random(seed), Rate(), Seen()
    due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
    count, numbers, left = itertools.count(), itertools.count(), {}
    wakes_s = math.inf

    def later(at_s: float, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(due, (at_s, next(count), call, args))

    def take_frame(now: float) -> None:
        left[next(numbers)] = frame
        if len(left) > 16 and left[oldest := min(left)] == frame:
            del left[oldest]
        later(now + frame / (demand * way.mbit * 125e3), take_frame)

    def act(now: float) -> None:
        rate.handed(ACT_BYTES, now)
        seen.acts.append((now, way.carry(ACT_BYTES, now, rng)))
        later(now + act_every_s * rng.uniform(0.5, 1.5), act)

    def answered(now: float, number: int) -> None:
        rate.answered(number, now)
        seen.rates.append((now, rate.bytes_per_s))

    def hand_over(now: float) -> None:
        nonlocal wakes_s
        while left:
            number = min(left)
            at_s = rate.due(left[number], now, needed=False)
            if at_s > now:
                # A loop wakes late: in whole milliseconds, and then some.
                if math.isfinite(at_s) and not now < wakes_s <= at_s + 0.0015:
                    wakes_s = math.ceil(at_s * 1e3) / 1e3 + rng.uniform(0, 0.0005)
                    later(wakes_s, lambda now: None)
                return
            size = rate.take(left[number], now)
            seen.pieces.append(size)
            rate.handed(size, now)
            way.carry(size, now, rng)
            seen.through.append((way.free_s, size))
            left[number] -= size
            if left[number] == 0:
                del left[number]
                rate.ended(number, now)
                later(way.answer(rng), answered, number)

    later(0.0, take_frame)
    later(0.0, act)
    while due[0][0] < seconds:
        now, _, call, args = heapq.heappop(due)
        call(now, *args)
        hand_over(now)
    return seen
