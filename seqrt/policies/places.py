"""Places for episodes where there are so many and no more, and the line of new ones that wait for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from seqrt.errors import RemoteError, remote_error
from seqrt.wire.limits import RETRY_S

Key = tuple[str, str]
"""Owner and id of an episode."""


class Places:
    """The new episodes that wait, in order of arrival.

    Args:
        most: How many episodes may be live.
        wait_s: How long one waits for a place at most; 0 where it is refused at once.

    Attributes:
        most: As given.
        wait_s: As given.
    """

    def __init__(self, most: int, *, wait_s: float) -> None:
        self.most = most
        self.wait_s = wait_s
        self._waiting: dict[Key, int] = {}  # how many acts of each wait
        self._news = anyio.Event()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def ahead_of(self, key: Key) -> int:
        """How many are before an episode, which may wait or not."""
        return next((place for place, one in enumerate(self._waiting) if one == key), len(self._waiting))

    @contextmanager
    def waiting(self, key: Key) -> Iterator[None]:
        """An act of ``key`` waits within."""
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                self.tell()

    async def news(self) -> None:
        """Wait until something changes. The caller bounds it."""
        await self._news.wait()

    def tell(self) -> None:
        """A place may be free, or none will be: wake those that wait."""
        self._news.set()
        self._news = anyio.Event()


def no_place(why: str, ahead: int) -> RemoteError:
    """The 429 of a new episode that has so many before it."""
    detail, position = f"the worker begins no further episode: {why}", {"position": ahead + 1}
    return remote_error("busy", detail, retry_after_s=RETRY_S, details=position)


def draining() -> RemoteError:
    """The 503 of what would be new where nothing new is begun."""
    detail, reason = "the worker is draining and begins no new episodes", {"reason": "draining"}
    return remote_error("unavailable", detail, retry_after_s=RETRY_S, details=reason)
