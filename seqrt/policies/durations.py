"""How long a call of ``infer`` takes, by how many acts are in it. Numbers in, numbers out.

Fed with every call; read by those who decide when one begins and who is let in. What has not been learnt is None,
and nobody is kept waiting or sent away on the strength of it.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import Final

_RECENT: Final = 7
_ENOUGH: Final = 2
"""Calls of a size before its duration is known: the first one may compile."""


class CallDurations:
    """Recent durations of calls, by size."""

    def __init__(self) -> None:
        self._recent: dict[int, deque[float]] = {}
        self._known: dict[int, float] = {}
        self._line: tuple[float, float] | None = None

    def measured(self, infer_s: float) -> None:
        """So long one act alone took when it was tried at the start; it counts until calls have said more."""
        self._known.setdefault(1, infer_s)

    def add(self, size: int, seconds: float) -> None:
        """A call of ``size`` acts took so long."""
        recent = self._recent.setdefault(size, deque(maxlen=_RECENT))
        recent.append(seconds)
        if len(recent) >= _ENOUGH:
            self._known[size] = median_low(recent)
            self._line = None

    def of(self, size: int) -> float | None:
        """What a call of ``size`` acts will take; None where it is not known.

        Of a size not seen it is read off the line through those that were. With one size alone nothing is known of
        others: whether more acts in a call cost more is the question.
        """
        if size in self._known:
            return self._known[size]
        if len(self._known) < 2:
            return None
        self._line = self._line if self._line is not None else _fitted(self._known)
        least, an_act = self._line
        return max(0.0, least + an_act * size)

    def left(self, size: int, began_at: float, now: float) -> float:
        """Seconds a call that runs has still to go; 0 where that is not known, or it is late already."""
        lasts = self.of(size)
        return 0.0 if lasts is None else max(0.0, began_at + lasts - now)


def _fitted(known: dict[int, float]) -> tuple[float, float]:
    """The line of least squares through durations by size, never falling: ``(at size 0, an act)``."""
    size = sum(known) / len(known)
    seconds = sum(known.values()) / len(known)
    spread = sum((one - size) ** 2 for one in known)
    an_act = max(0.0, sum((one - size) * (known[one] - seconds) for one in known) / spread)
    return seconds - an_act * size, an_act
