"""How much of its time a worker's loop is at work: reading bodies, decoding, answering; the policy runs in a thread.

With many robots that stream frames a loop may have too much to do long before the policy has. By how late it comes back
it says so when all robots suffer already: so it is looked at how busy it is.
"""

from __future__ import annotations

import time
from collections import deque
from statistics import median_low
from typing import Final

import anyio

EVERY_S: Final = 0.05
_WINDOW: Final = 20
"""Looks that count: a second."""
_BUSY: Final = 0.8
"""Share of its time: what is left absorbs what comes at once."""
_LATE_S: Final = 0.05
_OWN: Final = 0.4
"""Share above which it is late by its own work, and not by that of other processes."""


class LoopLoad:
    """The last second of a loop."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=_WINDOW)

    def add(self, took_s: float, cpu_s: float) -> None:
        """A wait of `EVERY_S` took so long, and the loop's thread so much processor time meanwhile."""
        self._looks.append((took_s, cpu_s))

    @property
    def share(self) -> float:
        """Share of the time in which the loop's thread was at work."""
        took_s = sum(took for took, _ in self._looks)
        return sum(cpu for _, cpu in self._looks) / took_s if took_s > 0 else 0.0

    @property
    def late_s(self) -> float:
        """How late it came back, the median; 0 before the first look."""
        return max(0.0, median_low(took for took, _ in self._looks) - EVERY_S) if self._looks else 0.0

    @property
    def crowded(self) -> bool:
        """Whether another robot would be one too many; False in the first second."""
        if len(self._looks) < _WINDOW:
            return False
        return self.share > _BUSY or (self.late_s > _LATE_S and self.share > _OWN)

    async def watch(self) -> None:
        """Look at the loop this runs in, until cancelled."""
        while True:
            began, at_work = time.perf_counter(), time.thread_time()
            await anyio.sleep(EVERY_S)
            self.add(time.perf_counter() - began, time.thread_time() - at_work)
