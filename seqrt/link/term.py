"""How long a lease holds, and when to renew it. Pure: the time is an argument."""

from __future__ import annotations

from typing import Final

_AGAIN_S: Final = 1.0
"""The wait after a renewal that failed; doubled with each."""
_AGAIN_MOST_S: Final = 30.0
_AGAIN_LEAST_S: Final = 0.1


class Term:
    """One lease's.

    Args:
        asked_at: When it was asked for: what it lasts is counted from there, however long the answer took.
        ttl_s: How long it lasts.
        every_s: When it is to be renewed, counted likewise.
    """

    def __init__(self, asked_at: float, ttl_s: float, every_s: float) -> None:
        self.until = asked_at + ttl_s
        self.renew_at = asked_at + min(every_s, ttl_s / 2)
        self._failures = 0

    def failed(self, now: float) -> None:
        """It could not be renewed: try again, the later the more often that was, and a few times while it holds."""
        in_time_s = max(_AGAIN_LEAST_S, (self.until - now) / 4)
        self.renew_at = now + min(_AGAIN_MOST_S, _AGAIN_S * 2**self._failures, in_time_s)
        self._failures += 1

    def is_due(self, now: float) -> bool:
        """Whether to renew it."""
        return now >= self.renew_at

    def is_over(self, now: float) -> bool:
        """Whether it is too late for that."""
        return now >= self.until
