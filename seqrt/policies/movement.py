"""When bytes last moved, by where they come from: an act waits for frames as long as they are on their way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Movement:
    """Times of the last bytes from each source somebody waits for; nothing is kept of the others."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._watching: dict[str, int] = {}

    def moved(self, source: str, now: float) -> None:
        """Bytes arrived from ``source``."""
        if source in self._watching:
            self._last[source] = now

    def last(self, source: str) -> float:
        """When bytes last arrived from a watched ``source``, or the watching began."""
        return self._last[source]

    @contextmanager
    def watched(self, source: str, now: float) -> Iterator[None]:
        """Note the times of ``source`` within."""
        self._watching[source] = self._watching.get(source, 0) + 1
        self._last.setdefault(source, now)
        try:
            yield
        finally:
            self._watching[source] -= 1
            if not self._watching[source]:
                del self._watching[source], self._last[source]
