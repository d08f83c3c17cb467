"""Whether one more episode could be served without those that are live running dry. Numbers in, yes or no out."""

from __future__ import annotations

from collections import deque
from typing import Final

from seqrt.policies.durations import CallDurations
from seqrt.policies.rhythm import Rhythms
from seqrt.policies.turns import Place

FULL: Final = 0.9
"""Share of its time a worker may be wanted before it is looked at how close to dry its robots get."""
_RECENT: Final = 64
_LATELY_S: Final = 5.0
_ENOUGH: Final = 5
_THIN: Final = 0.1
"""Share of the answers of late that came with less than a call's time to spare: then the next robot is one too many."""


class Room:
    """What live episodes leave of a policy's time.

    How much robots ask for is not what they need: one that wants its plans fresh takes all there is, and gives way
    when there is less. So a worker is full where more is asked for than there is *and* answers come close to too late.

    Args:
        most: Acts in one call.
        durations: What calls take.
        rhythms: When acts come.
    """

    def __init__(self, *, most: int, durations: CallDurations, rhythms: Rhythms) -> None:
        self._most = most
        self._durations = durations
        self._rhythms = rhythms
        self._spare: deque[tuple[float, float]] = deque(maxlen=_RECENT)

    def answered(self, place: Place, now: float) -> None:
        """An act was inferred. Of a robot that stood when it asked, how late it is says nothing of those that move."""
        if place.dry_at > place.arrived_at:
            self._spare.append((now, place.dry_at - now))

    def is_full(self, episodes: int, now: float) -> bool:
        """Whether one more would be one too many; False while nothing is known: then it is found out by having it.

        Args:
            episodes: Live ones.
            now: The time.
        """
        call_s, rates = self._durations.of(self._most), self._rhythms.rates(now)
        if call_s is None or not rates:
            return False
        usual = sum(rates) / len(rates)
        wanted = sum(rates) + usual * (max(0, episodes - len(rates)) + 1)
        return wanted * call_s / self._most > FULL and self._is_thin(call_s, now)

    def _is_thin(self, call_s: float, now: float) -> bool:
        spare = [spare_s for at, spare_s in self._spare if now - at <= _LATELY_S]
        return len(spare) >= _ENOUGH and sum(one < call_s for one in spare) > _THIN * len(spare)
