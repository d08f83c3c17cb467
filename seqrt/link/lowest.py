"""The lowest of the values of the last while. PURE."""

from __future__ import annotations

from collections import deque


class Lowest:
    """A running minimum that forgets.

    Args:
        for_s: How long a value counts.
        least: And until so many have followed it.
    """

    def __init__(self, for_s: float, least: int = 1) -> None:
        self._for_s, self._least = for_s, least
        self._count = 0
        # When, its place among all, and its value, all three ascending; what goes with it.
        self._values: deque[tuple[float, int, float, float]] = deque()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._values)

    @property
    def value(self) -> float:
        """The lowest; 0 before the first. The newest one counts for as long as none follows."""
        return self._values[0][2] if self._values else 0.0

    @property
    def beside(self) -> float:
        """What was said with it."""
        return self._values[0][3] if self._values else 0.0

    def add(self, at_s: float, value: float, beside: float = 0.0) -> None:
        """One more, and what goes with it."""
        self._count += 1
        while self._values and self._values[-1][2] >= value:
            self._values.pop()
        self._values.append((at_s, self._count, value, beside))
        while self._values[0][0] < at_s - self._for_s and self._values[0][1] <= self._count - self._least:
            self._values.popleft()
