"""Quantiles of a stream in fixed memory: buckets by logarithm, exact extremes."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

_LOWEST: Final = 1e-6
_PER_OCTAVE: Final = 16
_OCTAVES: Final = 64
"""Up to 1.8e13: a seam jump is in the robot's units, which may be encoder counts."""


@dataclass(frozen=True)
class Quantiles:
    """What a stream of samples looked like. ``max`` is exact, the others are within 4.5 % (from 1e-6 up, below: 0).

    Attributes:
        count: Samples.
        p50: Median.
        p95: 95th percentile.
        p99: 99th percentile.
        max: Largest sample.
    """

    count: int
    p50: float
    p95: float
    p99: float
    max: float

    def __str__(self) -> str:
        """The four figures, to three digits."""
        return f"p50 {self.p50:.3g} · p95 {self.p95:.3g} · p99 {self.p99:.3g} · max {self.max:.3g}"


class Histogram:
    """Log-bucketed counts of samples ≥ 0; the same size after a minute and after a day."""

    def __init__(self) -> None:
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._max = 0.0

    def add(self, sample: float) -> None:
        """Count one sample; negative ones count as 0."""
        bucket = 1 + int(_PER_OCTAVE * min(_OCTAVES, math.log2(sample / _LOWEST))) if sample > _LOWEST else 0
        self._counts[bucket] += 1
        if sample > self._max:
            self._max = sample

    def quantiles(self) -> Quantiles | None:
        """The figures so far; None before the first sample."""
        count = sum(self._counts.values())
        if not count:
            return None
        p50, p95, p99 = (self._at(math.ceil(q * count)) for q in (0.5, 0.95, 0.99))
        return Quantiles(count, p50, p95, p99, self._max)

    def _at(self, wanted: int) -> float:
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                break
        middle = 0.0 if bucket == 0 else _LOWEST * 2 ** ((bucket - 0.5) / _PER_OCTAVE)
        return min(middle, self._max)
