"""Observations kept on the robot, by number, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seqrt.policies.holding import owned
from seqrt.wire.limits import size_of


class Kept:
    """Observations by number.

    Args:
        copies: They outlive the tick they were taken at: copied, since drivers reuse their buffers, and charged.
        stands_in: In the place of one that was missed the newest before it is read.
        most: How many there is room for.
        most_bytes: The same in bytes.

    Attributes:
        bytes: What they are charged with.
    """

    def __init__(self, *, copies: bool, stands_in: bool, most: int, most_bytes: int) -> None:
        self._copies, self._stands_in = copies, stands_in
        self._most, self._most_bytes = most, most_bytes
        self._by_number: dict[int, Mapping[str, Any]] = {}
        self._sizes: dict[int, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_number)

    def __contains__(self, number: int) -> bool:
        """Whether ``number`` is kept."""
        return number in self._by_number

    def __iter__(self) -> Iterator[int]:
        """The numbers kept, in the order they were added; they may be dropped meanwhile."""
        return iter(list(self._by_number))

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        """Observation ``number``. KeyError when it is not kept."""
        return self._by_number[number]

    def add(self, number: int, inputs: Mapping[str, Any]) -> None:
        """Keep one."""
        if self._copies:
            self._sizes[number] = size_of(inputs)
            self.bytes += self._sizes[number]
        self._by_number[number] = owned(inputs) if self._copies else inputs

    def copy_for_sending(self, number: int) -> None:
        """It outlives its tick after all: it is sent."""
        if not self._copies:
            self._by_number[number] = owned(self._by_number[number])

    def replace(self, number: int, inputs: Mapping[str, Any]) -> None:
        """Keep ``inputs`` in the place of what was kept as ``number``, if it still is; they are nobody else's."""
        if number not in self._by_number:
            return
        if self._copies:
            self.bytes -= self._sizes[number]
            self._sizes[number] = size_of(inputs)
            self.bytes += self._sizes[number]
        self._by_number[number] = inputs

    @property
    def newest(self) -> int:
        """The highest number kept; -1 when none is."""
        return max(self._by_number, default=-1)

    def has_room_beside(self, number: int) -> bool:
        """Whether one more of the size of ``number`` would fit."""
        return len(self._by_number) < self._most and self.bytes + self._sizes.get(number, 0) <= self._most_bytes

    def drop_below(self, floor: int, *, unless: Callable[[int], bool]) -> int | None:
        """Drop what lies below ``floor``, but for what is wanted, and for what stands in where ``floor`` was missed.

        Args:
            floor: The lowest number still read.
            unless: Whether a number is wanted nevertheless.

        Returns:
            The one that stands in.
        """
        spare = self.instead_of(floor)
        for number in [n for n in self._by_number if n < floor and n != spare and not unless(n)]:
            self.drop(number)
        return spare

    def drop(self, number: int) -> None:
        """Keep it no longer, if it was kept."""
        self._by_number.pop(number, None)
        self.bytes -= self._sizes.pop(number, 0)

    def make_room(self, floor: int, *, unless: Callable[[int], bool]) -> None:
        """While there are more than there is room for, drop the oldest below ``floor`` that is not wanted."""
        while len(self._by_number) > self._most or self.bytes > self._most_bytes:
            oldest = min((n for n in self._by_number if n < floor and not unless(n)), default=None)
            if oldest is None:
                return
            self.drop(oldest)

    def instead_of(self, number: int) -> int | None:
        """What is read in the place of ``number`` where that one was missed; None where it was not, or nothing is."""
        if not self._stands_in or number in self._by_number:
            return None
        return max((kept for kept in self._by_number if kept < number), default=None)
