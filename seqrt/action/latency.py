"""How long answers take: two estimates from small windows, never one and never an all-time maximum.

Fed by the requester with every answer; read by `seqrt.action.asking`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_RECENT = 20
_COVERS = 100
_ENOUGH = 10
"""Samples of which the p90 is not the largest."""
_NEW_SHARE = 0.3
"""What the newest latency counts in the moving average."""


def quantile(samples: Sequence[float], q: float) -> float:
    """The smallest sample that at least a share ``q`` of all are not above (nearest rank); samples not empty."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


@dataclass(frozen=True)
class Cover:
    """What one splice needed of the plan before it, in ticks: losses, queueing and order on the connection are in it.

    Attributes:
        ticks: Beyond one spacing: splice tick - observation of the chunk before - s. What a lag has to make up for.
        spared: The same where the spare request is counted: an answer it made up for has been paid for by R, and
            is not paid for again by e. (Counted twice: 3.4 acts/s where 2.4 starve nobody.)
    """

    ticks: int
    spared: int

    @classmethod
    def of(cls, spliced: int, *, before: int, observed: int, spaced: int, spare: int) -> Cover:
        """What a splice needed.

        Args:
            spliced: Tick of the splice.
            before: Observation of the chunk before.
            observed: Observation of the chunk spliced.
            spaced: s as its request was sent.
            spare: R.
        """
        ticks = max(0, spliced - before - spaced)
        return cls(ticks, max(spliced - before - spare * spaced, min(ticks, spliced - observed)))


class Latencies:
    """Windows over the last answers of one link.

    A latency runs from the start of the observation to the moment its rows could be played, in seconds. A *cover* is
    how many ticks of the plan before a splice really needed: it holds losses, queueing and order on the connection,
    which latency alone does not.

    Attributes:
        changes: How often anything was taken in: while it stands, so do the estimates.
    """

    def __init__(self, infer_s: float | None = None) -> None:
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._serving: deque[float] = deque(maxlen=_RECENT)
        self._covers: deque[tuple[int, int]] = deque(maxlen=_COVERS)
        self._infer_s, self._infer_is_cold = infer_s, False
        self._cold_s: float | None = None
        self._stalled_at = -math.inf
        self._refill_s: float | None = None
        self.changes = 0

    def add(self, latency_s: float, *, sent_at: float, now: float, cold: bool = False) -> bool:
        """Take in one answer; False when it was left out of the window.

        Args:
            latency_s: Observation begun to rows playable.
            sent_at: When its request was sent.
            now: When its answer came.
            cold: The first answer, or the first after a reconnect or a warm-up: known, not typical. It counts only
                until a typical one is there.
        """
        self.changes += 1
        before_s = latency_s if self._refill_s is None else self._refill_s
        self._refill_s = (1 - _NEW_SHARE) * before_s + _NEW_SHARE * latency_s
        if cold:
            self._cold_s = latency_s
            return False
        if sent_at < self._stalled_at:
            return False  # sent before a stall was over: the same stall, already counted
        if self._recent and latency_s > 2 * quantile(self._recent, 0.9):
            self._stalled_at = now
        self._recent.append(latency_s)
        return True

    def add_serving(self, seconds: float, *, cold: bool = False) -> None:
        """Take in how long the act spent at the worker (queue and inference).

        Args:
            seconds: How long.
            cold: It was sent before there was an answer, and ``seconds`` is its inference alone: what its queue was
                says nothing. It counts, the shortest of them, until a typical one is there.
        """
        self.changes += 1
        if not cold:
            self._serving.append(seconds)
        elif self._infer_s is None or self._infer_is_cold:
            self._infer_s = min(seconds, math.inf if self._infer_s is None else self._infer_s)
            self._infer_is_cold = True

    def add_cover(self, ticks: int, spared: int | None = None) -> None:
        """Take in what one splice needed, and what of it the spare request did not make up for; None is all."""
        self.changes += 1
        self._covers.append((ticks, ticks if spared is None else spared))

    def high_s(self) -> float | None:
        """p90 of the last 20 latencies: when to ask goes by it, an over-estimate is cheap. None before any answer."""
        return quantile(self._recent, 0.9) if self._recent else self._cold_s

    def frozen_s(self) -> float | None:
        """The latency to commit rows by: p90, below ten answers the median. None before any answer.

        Of fewer than ten the p90 is the largest, so that one spike would freeze rows for nine answers more than a
        prefix should: each frozen row is one that the policy may not plan anew.
        """
        return self.high_s() if len(self._recent) >= _ENOUGH else self.median_s()

    def median_s(self) -> float | None:
        """Median of the last 20 latencies; None before any answer."""
        return quantile(self._recent, 0.5) if self._recent else self._cold_s

    def refill_s(self) -> float | None:
        """Moving average of all latencies, 0.7 of the old and 0.3 of the new; None before any answer.

        What plans that are played whole are refilled by, as `sequence-ai` 0.1.0 does: it promises its callers so.
        """
        return self._refill_s

    def serving_s(self) -> float | None:
        """g: median time at the worker; before any answer what `/policy` measured; None where neither is known."""
        return quantile(self._serving, 0.5) if self._serving else self._infer_s

    def network_s(self) -> float | None:
        """What of an answer's latency is not the worker's (p90); it has to be done so much before the plan is dry."""
        high_s, serving_s = self.high_s(), self.serving_s()
        return None if high_s is None or serving_s is None else max(0.0, high_s - serving_s)

    def covers(self) -> tuple[int, int] | None:
        """p98 of the last 100 covers, in all and beyond the spare; None below 20 samples, where they say too little."""
        if len(self._covers) < _RECENT:
            return None
        ticks, spared = zip(*self._covers, strict=True)
        return int(quantile(ticks, 0.98)), int(quantile(spared, 0.98))

    @property
    def count(self) -> int:
        """How many latencies are in the window."""
        return len(self._recent)

    @property
    def typical(self) -> bool:
        """True once an answer that was not the first of its kind has been taken in."""
        return bool(self._recent)
