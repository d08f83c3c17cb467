"""Boundary over interior jerk: whether a chunk's seams are rougher than its inside. Pure, three rows of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

_ORDERS: Final = {"delta": 2, "velocity": 2}
"""Differences to take of rows: jerk is the third of places, of which delta and velocity rows are the first."""
_THIRD: Final = 3
_ROUNDING: Final = 2.0**-44
"""Of the largest number of a window: below it a difference is what is left of the last bits of rows on a line."""


class JerkRatio:
    """Takes the rows played, a tick each, and compares windows that straddle a seam with those that do not.

    A window's jerk is the largest of any column. Windows are of rows played at ticks that follow one another: a tick
    at which no row was played, or a period that was skipped, begins anew (stops are told as underruns).

    Args:
        space: The space of the rows.
        without: Columns that do not count.
    """

    def __init__(self, space: str | None = None, without: Iterable[int] = ()) -> None:
        self._order = _ORDERS.get(space or "", _THIRD)
        self._without = frozenset(without)
        self._rows: list[Sequence[float]] = []
        self._largest: list[float] = []  # of each of them
        self._since_seam = self._order
        self._sums, self._counts = [0.0, 0.0], [0, 0]

    @property
    def ratio(self) -> float | None:
        """Mean jerk at seams over that elsewhere, inf where there is none elsewhere; None where nothing compares."""
        if not all(self._counts) or not any(self._sums):
            return None
        boundary, interior = (total / count for total, count in zip(self._sums, self._counts, strict=True))
        return boundary / interior if interior else math.inf

    def interrupt(self) -> None:
        """No row was played at this tick."""
        self._rows.clear()
        self._largest.clear()
        self._since_seam = self._order

    def add(self, row: Sequence[float], *, seam: bool) -> None:
        """A row was played; ``seam``: it is the first of its chunk."""
        if self._without:
            row = [number for column, number in enumerate(row) if column not in self._without]
        if self._rows and len(self._rows[-1]) != len(row):
            self.interrupt()
        self._since_seam = 0 if seam else self._since_seam + 1
        self._rows.append(row)
        self._largest.append(max(map(abs, row), default=0.0))
        if len(self._rows) <= self._order:
            return
        jerk = self._jerk()
        if math.isfinite(jerk):
            interior = self._since_seam >= self._order
            self._sums[interior] += jerk
            self._counts[interior] += 1
        del self._rows[0], self._largest[0]

    def _jerk(self) -> float:
        # Each tick passes here: rows of one length (see `add`), and no list on the way, are half the time.
        jerk = 0.0
        if self._order == _THIRD:
            for a, b, c, d in zip(*self._rows):  # noqa: B905
                difference = abs(d - 3.0 * c + 3.0 * b - a)
                if difference > jerk:
                    jerk = difference
        else:
            for a, b, c in zip(*self._rows):  # noqa: B905
                difference = abs(c - 2.0 * b + a)
                if difference > jerk:
                    jerk = difference
        return jerk if jerk > _ROUNDING * max(self._largest[0], self._largest[-1]) else 0.0
