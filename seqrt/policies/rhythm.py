"""When each robot's next act is to be expected, and how many there are a second. Numbers in, numbers out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Final, Protocol
from weakref import WeakKeyDictionary

_RECENT: Final = 4
_ENOUGH: Final = 2


class Lives(Protocol):
    """An episode, as far as this module cares."""

    @property
    def ended(self) -> bool:
        """No act of it will come any more."""
        ...


class _Rhythm:
    __slots__ = ("intervals", "last_at")

    def __init__(self, now: float) -> None:
        self.last_at = now
        self.intervals: deque[float] = deque(maxlen=_RECENT)

    def heard(self, now: float) -> None:
        self.intervals.append(now - self.last_at)
        self.last_at = now

    @property
    def next_by(self) -> float | None:
        """By when the next act has come, if it comes as the last ones did; None while too few are known."""
        return None if len(self.intervals) < _ENOUGH else self.last_at + max(self.intervals)

    def rate(self, now: float) -> float:
        """Acts a second; of a robot that fell silent ever fewer."""
        lately = sum(self.intervals)
        if not lately:
            return 0.0
        silent_s = now - self.last_at
        return min(len(self.intervals) / lately, 1 / silent_s if silent_s > 0 else len(self.intervals) / lately)


class Rhythms:
    """The times of acts, by episode; an episode that is forgotten elsewhere is forgotten here."""

    def __init__(self) -> None:
        self._all: WeakKeyDictionary[Lives, _Rhythm] = WeakKeyDictionary()

    def heard(self, episode: Lives, now: float) -> None:
        """An act of ``episode`` came."""
        rhythm = self._all.get(episode)
        if rhythm is None:
            self._all[episode] = _Rhythm(now)
        else:
            rhythm.heard(now)

    def expected(self, now: float, apart_from: Collection[Lives]) -> Iterator[float]:
        """By when the next acts will have come, soonest first; of overdue and ended episodes none is expected.

        Nothing is reckoned before the first is asked for.

        Args:
            now: The time.
            apart_from: Episodes whose acts are here already.
        """
        times = (
            rhythm.next_by for episode, rhythm in self._all.items() if not episode.ended and episode not in apart_from
        )
        yield from sorted(at for at in times if at is not None and at > now)

    def rates(self, now: float) -> list[float]:
        """Acts a second of each live episode that has asked more than once."""
        return [rhythm.rate(now) for episode, rhythm in self._all.items() if rhythm.intervals and not episode.ended]
