"""How the time of a tick is waited for: by a timer of the kernel where there is one, else by the loop's own sleep.

In: deadlines of the loop's clock, from the actuator. Out: the moment they have come, or the word that the wait was cut
short. A `Timed` waiter is woken a little before the deadline, by as much as it was woken late of late, gives the loop
away round by round until very little is left, and spends that on the clock. A loop in virtual time has no clock to spin
on: it is slept through, whatever was asked for, and all above this module is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from seqrt.policies.clock import machine_clock
from seqrt.runtime.timerfd import TimerFd, available
from seqrt.timeline.histogram import Histogram, Quantiles

logger = logging.getLogger(__name__)

Tick: TypeAlias = Literal["auto", "timerfd", "sleep"]
"""What waits for a tick: "timerfd" (Linux), "sleep" (the loop's own), "auto" the first where there is one."""

_LEAD_S: Final = (0.2e-3, 1.5e-3)
"""How long before a deadline to be woken, least and most: what is later than that is another process's turn, which no
spin wins back."""
_LEAD_SHARE: Final = 0.15
"""Share of a wait that may be spun: 1.5 ms of 10 at 100 Hz, 0.3 of 2 at 500 Hz."""
_LEAD_MARGIN: Final = 1.25
_ALONE_S: Final = 1e-3
"""What is left to the deadline when no other task is let in, at the most: longer nothing may hold a loop."""
_FADES: Final = 0.995
"""A wait: a loop that came back late is forgotten by half after 140."""


@dataclass(frozen=True)
class WaitStatistics:
    """What waiting for ticks has been like.

    Attributes:
        means: What waits: "timerfd" or "sleep".
        waits: Deadlines waited for to the end.
        late_s: How late those waits ended; None before the first.
        woken: Waits that were cut short, by a stop, a pause or a resume.
        passed: Deadlines that had passed already when they were to be waited for.
        rounds: Times the loop was given away while spinning.
        spun_s: Seconds spent spinning, in all; the loop's other tasks ran in some of it.
    """

    means: Literal["timerfd", "sleep"]
    waits: int
    late_s: Quantiles | None
    woken: int
    passed: int
    rounds: int = 0
    spun_s: float = 0.0


class Waiter(Protocol):
    """Waits for one deadline at a time, in the loop it was opened in."""

    def now(self) -> float:
        """The loop's clock, as finely as it can be read."""
        ...

    async def until(self, deadline: float) -> bool:
        """Wait for ``deadline`` of the loop's clock; True when `wake` cut that short. Other tasks get a turn."""
        ...

    def wake(self) -> None:
        """End the wait going on, at once. Called in the loop."""
        ...

    def statistics(self) -> WaitStatistics:
        """A snapshot."""
        ...

    def close(self) -> None:
        """Give back what the system lent."""
        ...


@contextmanager
def waiter(tick: Tick) -> Iterator[Waiter]:
    """A waiter of the running loop, closed at the end.

    Args:
        tick: What it waits with.

    Raises:
        OSError: "timerfd" was asked for and the system refuses one.
    """
    opened = _open(tick)
    try:
        yield opened
    finally:
        opened.close()


def _open(tick: Tick) -> Waiter:
    clock = machine_clock()
    if tick == "sleep" or clock is None or (tick == "auto" and not available()):
        return Sleeping()
    try:
        return Timed(clock)
    except OSError as refused:
        if tick == "timerfd":
            raise
        logger.warning("ticks are waited for by the loop's own sleep, which is coarser: no timerfd (%s)", refused)
        return Sleeping()


class Sleeping:
    """Waits by the loop's own timers: to the millisecond on asyncio, exactly in virtual time."""

    def __init__(self) -> None:
        self._woken = anyio.Event()
        self._tally = _Tally()

    def now(self) -> float:
        """The loop's clock."""
        return anyio.current_time()

    async def until(self, deadline: float) -> bool:
        """Wait for ``deadline``; True when woken before it."""
        woken = self._woken = anyio.Event()
        ahead = anyio.current_time() < deadline
        with anyio.CancelScope(deadline=deadline):
            await woken.wait()
        self._tally.add(ahead, woken.is_set(), anyio.current_time() - deadline)
        return woken.is_set()

    def wake(self) -> None:
        """End the wait going on."""
        self._woken.set()

    def statistics(self) -> WaitStatistics:
        """A snapshot."""
        return self._tally.statistics("sleep")

    def close(self) -> None:
        """Nothing was lent."""


class Timed:
    """Waits by a timer of the kernel, woken a little early, and spins the rest.

    Args:
        clock: The loop's, see `seqrt.policies.clock`.

    Raises:
        OSError: The system refuses a timer.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self._timer = TimerFd()
        self._turns = Turns()
        self._woken = False
        self._tally = _Tally()

    async def until(self, deadline: float) -> bool:
        """Wait for ``deadline``; True when woken before it."""
        self._woken = False
        left_s = deadline - self.now()
        ahead, lead_s = left_s > 0, self._turns.lead_s(left_s)
        if not ahead:
            await checkpoint()
        while not self._woken and left_s > lead_s:
            # A duration and no time of day: trio's clock begins anywhere.
            self._timer.fire_after(left_s - lead_s)
            await anyio.wait_readable(self._timer.fd)
            left_s = deadline - self.now()
            if not self._woken:
                self._turns.took(lead_s - left_s)
        await self._spin(deadline)
        self._tally.add(ahead, self._woken, self.now() - deadline)
        return self._woken

    async def _spin(self, deadline: float) -> None:
        now, turns, begun = self.now, self._turns, self.now()
        last = begun
        while not self._woken and deadline - last > turns.alone_s():
            await checkpoint()
            self._tally.rounds += 1
            last, before = now(), last
            turns.took(last - before)
        while not self._woken and now() < deadline:
            pass
        turns.fade()
        self._tally.spun_s += now() - begun

    def wake(self) -> None:
        """End the wait going on: the timer fires now, the spin ends by itself."""
        self._woken = True
        self._timer.fire_after(0)

    def statistics(self) -> WaitStatistics:
        """A snapshot."""
        return self._tally.statistics("timerfd")

    def close(self) -> None:
        """Give the timer back."""
        self._timer.close()


class Turns:
    """How long the loop takes to come back when it is given away: the longest of late, fading. Pure.

    Attributes:
        longest_s: That long, in seconds.
    """

    def __init__(self) -> None:
        self.longest_s = _ALONE_S

    def lead_s(self, wait_s: float) -> float:
        """How long before its deadline a wait of ``wait_s`` should be woken."""
        least, most = _LEAD_S
        return min(max(_LEAD_MARGIN * self.longest_s, least), most, _LEAD_SHARE * wait_s)

    def alone_s(self) -> float:
        """What is left to a deadline when a turn of the loop may be too long for it."""
        return min(self.longest_s, _ALONE_S)

    def took(self, turn_s: float) -> None:
        """A turn took so long. A long one counts at once, a suspended laptop no more than a long one."""
        self.longest_s = max(self.longest_s, min(turn_s, _LEAD_S[1]))

    def fade(self) -> None:
        """A wait is over: what it was like counts a little less."""
        self.longest_s *= _FADES


class _Tally:
    """The counts behind `WaitStatistics`."""

    def __init__(self) -> None:
        self._late = Histogram()
        self._woken = self._passed = 0
        self.rounds, self.spun_s = 0, 0.0

    def add(self, ahead: bool, woken: bool, late_s: float) -> None:
        """One wait is over; ``ahead``: its deadline was, when it began."""
        if woken:
            self._woken += 1
        elif ahead:
            self._late.add(late_s)
        else:
            self._passed += 1

    def statistics(self, means: Literal["timerfd", "sleep"]) -> WaitStatistics:
        """A snapshot."""
        late = self._late.quantiles()
        waits = late.count if late is not None else 0
        return WaitStatistics(means, waits, late, self._woken, self._passed, self.rounds, self.spun_s)
