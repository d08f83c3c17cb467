"""A set of whole numbers kept as ranges, so that a million neighbours cost what one does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """Disjoint half-open ranges of integers, sorted; ranges that touch are one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __len__(self) -> int:
        """How many ranges there are: what it costs, not how many numbers it holds."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The ranges as (start, stop), ascending."""
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, number: int) -> bool:
        """Whether ``number`` is in one of them."""
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._stops[at]

    def add(self, start: int, stop: int) -> None:
        """Add ``start`` … ``stop - 1``; an empty range adds nothing."""
        if start >= stop:
            return
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._stops[first] < start:
            first += 1
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def first_gap(self, number: int) -> int:
        """The least number ≥ ``number`` that is in none of them."""
        at = bisect_right(self._starts, number) - 1
        return max(number, self._stops[at]) if at >= 0 else number

    def forget_below(self, number: int) -> None:
        """Remove everything below ``number``."""
        gone = bisect_right(self._stops, number)
        del self._starts[:gone], self._stops[:gone]
        if self._starts and self._starts[0] < number:
            self._starts[0] = number


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Any numbers, in any order and repeated, as disjoint ranges (start, stop), ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found
