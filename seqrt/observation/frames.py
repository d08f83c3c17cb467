"""Observations of one episode, by number: what arrived, what will never come, what may still be read.

Posts overtake one another and are sent again, so numbers arrive in any order and more than once. The worker's session
keeps what acts will read; the robot keeps what it may have to send again. Pure: no time, no waiting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from seqrt.observation.declaration import MAX_STREAMS
from seqrt.observation.ranges import Ranges, runs
from seqrt.observation.window import Entry


def _free(inputs: Any) -> int:
    return 0


class Frames:
    """Observations by number, merged key by key.

    A number is *settled* once nothing more has to arrive for it: it is held, was told skipped, or lies below what
    was forgotten. Memory is bounded by the caller, who asks `cost` first and refuses what is too much.

    Args:
        size_of: What one observation is charged with, in bytes.
    """

    def __init__(self, size_of: Callable[[Any], int] = _free) -> None:
        self._size_of = size_of
        self._held: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._settled = Ranges()
        self._floor = 0
        self._seen: set[str] = set()
        self._closed: set[int] = set()
        self._bytes = 0

    def __len__(self) -> int:
        """Observations held."""
        return len(self._held)

    def __contains__(self, number: int) -> bool:
        """Whether observation ``number`` is held (some keys of it are)."""
        return number in self._held

    def __iter__(self) -> Iterator[int]:
        """The numbers held, ascending."""
        return iter(sorted(self._held))

    @property
    def bytes(self) -> int:
        """What the observations held are charged with."""
        return self._bytes

    @property
    def ranges(self) -> int:
        """How many separate ranges of settled numbers are remembered."""
        return len(self._settled)

    @property
    def through(self) -> int:
        """The highest number up to which everything is settled; -1 before the first."""
        return self._settled.first_gap(self._floor) - 1

    @property
    def newest(self) -> int:
        """The highest number held; -1 when none is."""
        return max(self._held, default=-1)

    @property
    def oldest(self) -> int:
        """The lowest number held; -1 when none is."""
        return min(self._held, default=-1)

    @property
    def floor(self) -> int:
        """Numbers below this were forgotten and are not taken again."""
        return self._floor

    def get(self, number: int) -> Any:
        """Observation ``number`` as held. KeyError when it is not."""
        return self._held[number]

    def is_settled(self, number: int) -> bool:
        """Whether nothing more has to arrive for ``number``."""
        return number < self._floor or number in self._settled

    def cost(self, number: int, inputs: Any) -> tuple[int, int]:
        """What `add` would add: observations (0 or 1) and bytes."""
        if self._is_refused(number):
            return 0, 0
        if number not in self._held:
            return 1, self._size_of(inputs)
        new = self._new_keys(number, inputs)
        return 0, self._size_of(new) if new else 0

    def add(self, number: int, inputs: Any) -> bool:
        """Keep observation ``number``, or the keys of it that are not held yet.

        Returns:
            False when nothing was new: held already, told skipped, or forgotten.
        """
        if self._is_refused(number):
            return False
        if number not in self._held:
            size = self._size_of(inputs)
            self._held[number] = dict(inputs) if isinstance(inputs, Mapping) else inputs
            self._settled.add(number, number + 1)
        else:
            new = self._new_keys(number, inputs)
            if not new:
                return False
            size = self._size_of(new)
            self._held[number] = {**self._held[number], **new}
        self._sizes[number] = self._sizes.get(number, 0) + size
        self._bytes += size
        if isinstance(inputs, Mapping) and len(self._seen) < MAX_STREAMS:  # only declared keys are ever looked up
            self._seen.update(key for key in list(inputs)[:MAX_STREAMS] if isinstance(key, str))
        return True

    def skip(self, numbers: Iterable[int]) -> None:
        """These numbers will never come. One that is held stays held."""
        self.skip_runs(runs(numbers))

    def skip_runs(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As `skip`, for ranges (start, stop)."""
        held = sorted(self._held)
        for start, stop in ranges:
            self._settled.add(max(start, self._floor), stop)
            self._closed.update(held[bisect_left(held, start) : bisect_left(held, stop)])

    def is_skipped(self, number: int, keys: Collection[str] | None) -> bool:
        """Whether ``number`` was told skipped while some keys of it were held, and none of ``keys`` is among them."""
        return number in self._closed and not self._has(number, keys)

    def missing(self, needed: Iterable[int]) -> int | None:
        """The first of ``needed`` (ascending) that is not settled; None when all are.

        A range costs as many looks as there are ranges settled, however long it is: an hour-long episode is not
        walked from 0 at each act, nor what a hostile act names.
        """
        if not isinstance(needed, range) or needed.step < 1:
            return next((number for number in needed if not self.is_settled(number)), None)
        number = needed.start
        while number < needed.stop:
            gap = self._settled.first_gap(max(number, self._floor))
            if gap == number:
                return number
            number += -(-(gap - number) // needed.step) * needed.step
        return None

    def lacking(self, entries: Iterable[Entry], *, strict: bool = False) -> int | None:
        """The first step of a window that is not settled, or held without a key that is still to be expected.

        The rest of a step's keys may be in a later post, unless the step was told skipped. A key is expected when
        this episode has sent it before; a key never sent is one the robot does not have.

        Args:
            entries: The window.
            strict: Every key is expected: of a robot that sends steps in parts, which has all declared keys.
        """
        for entry in entries:
            if not self.is_settled(entry.step):
                return entry.step
            # In the place of a skipped step the one before it is read: what of that is to come is waited for too.
            read = entry.step if entry.step in self._held or not strict else self.newest_at_or_before(entry.step)
            held = self._held.get(read) if read is not None else None
            if not entry.keys or not isinstance(held, Mapping) or read in self._closed:
                continue
            if not (entry.keys if strict else entry.keys & self._seen) <= held.keys():
                return read
        return None

    def newest_at_or_before(self, number: int, keys: Collection[str] | None = None) -> int | None:
        """The newest number ≤ ``number`` that is held, with at least one of ``keys`` where keys are given."""
        return max((held for held in self._held if held <= number and self._has(held, keys)), default=None)

    def oldest_with(self, keys: Collection[str] | None = None) -> int | None:
        """The oldest number held, with at least one of ``keys`` where keys are given."""
        return min((held for held in self._held if self._has(held, keys)), default=None)

    def forget_below(self, number: int) -> None:
        """Nothing below ``number`` is read any more, save in the place of a skipped one.

        Where ``number`` itself is not held, the newest observation below it stays, with the newest of each key that
        one lacks: a step that turns out skipped reads it.
        """
        if number <= self._floor:
            return
        self._floor = number
        self._settled.forget_below(number)
        covered = self._keys(number) if number in self._held else set()
        for held in sorted((n for n in self._held if n < number), reverse=True):
            if self._keys(held) <= covered:
                self._bytes -= self._sizes.pop(held)
                self._closed.discard(held)
                del self._held[held]
            else:
                covered |= self._keys(held)

    def _is_refused(self, number: int) -> bool:
        return number not in self._held and (number < self._floor or number in self._settled)

    def _new_keys(self, number: int, inputs: Any) -> dict[Any, Any]:
        held = self._held[number]
        if not isinstance(held, Mapping) or not isinstance(inputs, Mapping):
            return {}
        return {key: value for key, value in inputs.items() if key not in held}

    def _keys(self, number: int) -> set[Any]:
        held = self._held[number]
        # A bare observation is one nameless key; so is an empty one, or it would never be forgotten.
        return set(held) if isinstance(held, Mapping) and held else {None}

    def _has(self, number: int, keys: Collection[str] | None) -> bool:
        held = self._held[number]
        return keys is None or not isinstance(held, Mapping) or any(key in held for key in keys)
