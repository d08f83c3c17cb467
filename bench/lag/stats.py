"""Intervals: of a share, of the difference of two shares of the same episodes, of their ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Z95 = 1.959963984540054
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """As ``0.82 [0.79, 0.84]``."""
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def wilson(successes: int, n: int) -> Interval:
    """Wilson's score interval (1927) of a share; of nothing at all, [0, 1] around nan."""
    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    p, z2 = successes / n, Z95**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return Interval(p, max(0.0, middle - half), min(1.0, middle + half))


def paired_difference(ours: Flags, theirs: Flags) -> Interval:
    """Share of ``ours`` less share of ``theirs``, episode by episode `[E]` the same ones.

    Wald's interval with half an episode more in each cell of the 2 × 2 table (Agresti and Min 2005), which keeps its
    promise for few discordant pairs too.
    """
    n = len(ours)
    only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    b, c, m = only_ours + 0.5, only_theirs + 0.5, n + 2.0
    middle = (b - c) / m
    half = Z95 * math.sqrt(max(0.0, b + c - (b - c) ** 2 / m)) / m
    return Interval((only_ours - only_theirs) / n, middle - half, middle + half)


def paired_ratio(ours: Flags, theirs: Flags, *, seed: int = 0, resamples: int = 4000) -> Interval:
    """Share of ``ours`` over share of ``theirs``, by bootstrap over episodes (Efron's percentiles)."""
    n = len(ours)
    both, a, b = int((ours & theirs).sum()), int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    cells = np.array([both, a, b, n - both - a - b]) / n
    drawn = np.random.default_rng(seed).multinomial(n, cells, resamples)
    below = np.maximum(drawn[:, 0] + drawn[:, 2], 1)
    low, high = np.quantile((drawn[:, 0] + drawn[:, 1]) / below, [0.025, 0.975])
    return Interval((both + a) / max(1, both + b), float(low), float(high))
