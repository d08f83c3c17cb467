"""Samples counted between fixed bounds, as Prometheus' histograms have them; the same size after a minute and a day."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""From what a phase takes that waits for nothing to the longest an act is waited for."""

LATENESS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Seconds by which something began late: a tick, a turn of the loop."""

ACTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Acts in one call, up to the most a policy may declare."""


class Buckets:
    """Counts of samples by the bound they do not exceed.

    Args:
        bounds: Ascending; what is above the last is counted apart.

    Attributes:
        total: The sum of all samples.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, sample: float) -> None:
        """Count one sample."""
        self._counts[bisect_left(self._bounds, sample)] += 1
        self.total += sample

    @property
    def count(self) -> int:
        """Samples so far."""
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """For each bound, as Prometheus writes it, the samples up to it; ``+Inf`` last."""
        return list(zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts), strict=True))
