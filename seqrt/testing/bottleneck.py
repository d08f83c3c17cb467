"""`Bottleneck`: the narrowest place of one direction, as a queue of bytes that flows off at a rate. Pure: no waiting.

`seqrt.testing.line` (virtual time) and `seqrt.testing.relay` (real sockets) hand bytes over to one each way, ask when
they will be through, and do the waiting. Times are seconds of any one clock, and never run backwards.
"""

from __future__ import annotations

import math


class Bottleneck:
    """A fluid first-in first-out queue.

    Bytes have positions, counted from 0 as they are handed over. A byte is through once all bytes before it are, and
    the rate may change while bytes wait.

    Args:
        bytes_per_s: How fast it lets bytes through; None: at once.

    Raises:
        ValueError: A rate that is not finite or not above zero.
    """

    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = checked_rate(bytes_per_s)
        self._held = False
        self._handed_over = 0
        self._at_s, self._through = -math.inf, 0.0  # how many bytes were through at that time

    @property
    def bytes_per_s(self) -> float | None:
        """The rate; None: no limit."""
        return self._bytes_per_s

    def hand_over(self, now_s: float, size_bytes: int) -> int:
        """Queue ``size_bytes`` more; the position at which they end."""
        self._advance(now_s)
        self._handed_over += size_bytes
        return self._handed_over

    def set_rate(self, now_s: float, bytes_per_s: float | None) -> None:
        """Go on at another rate, for what waits too."""
        checked_rate(bytes_per_s)
        self._advance(now_s)
        self._bytes_per_s = bytes_per_s

    def hold(self, now_s: float) -> None:
        """Let nothing through until `release`, with or without a rate."""
        self._advance(now_s)
        self._held = True

    def release(self, now_s: float) -> None:
        """Let what waits flow off again."""
        self._advance(now_s)
        self._held = False

    def clear(self) -> None:
        """Lose what waits."""
        self._through = self._handed_over

    def through_at_s(self, position: int) -> float:
        """When the bytes up to ``position`` are or were through, if nothing changes; ``math.inf`` while held."""
        left = position - self._through
        if left <= 0:
            return self._at_s
        rate = self._now_rate()
        return self._at_s + left / rate if rate else math.inf

    def room_at_s(self, most_bytes: int) -> float:
        """When no more than ``most_bytes`` wait, if nothing is handed over meanwhile and nothing changes."""
        return self.through_at_s(self._handed_over - most_bytes)

    def waiting_bytes(self, now_s: float) -> float:
        """How many bytes wait."""
        self._advance(now_s)
        return self._handed_over - self._through

    def _now_rate(self) -> float:
        if self._held:
            return 0.0
        return math.inf if self._bytes_per_s is None else self._bytes_per_s

    def _advance(self, now_s: float) -> None:
        if self.through_at_s(self._handed_over) <= now_s:
            self._through = self._handed_over
        elif self._now_rate():
            self._through += self._now_rate() * (now_s - self._at_s)
        self._at_s = max(self._at_s, now_s)


def checked_rate(bytes_per_s: float | None) -> float | None:
    """``bytes_per_s``, where it is a rate or None.

    Raises:
        ValueError: It is not finite or not above zero.
    """
    if bytes_per_s is not None and not (math.isfinite(bytes_per_s) and bytes_per_s > 0):
        raise ValueError(f"a rate of {bytes_per_s!r} bytes/s: it has to be finite and above zero, or None for no limit")
    return bytes_per_s
