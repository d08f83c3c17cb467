"""What is done when latency exceeds what a chunk covers: stop and go, play slower, or play every row later.

Numbers in, numbers out. `StopAndGo`, `Stretch` and `Lag` are what users write in ``Play(late=…)``; `LagInForce` is one
run's lag, fed by the requester with what is measured and asked by the receiver for each new chunk's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from seqrt.action.argument import above_zero
from seqrt.action.asking import Spacing

FALLS_AFTER_S: Final = 30.0
"""How long the lag must have been too high before it falls."""
SLACK_TICKS: Final = 2
"""By how much at least it must have been too high all that while."""


@dataclass(frozen=True)
class StopAndGo:
    """Play what is due, then the underrun policy, then play on: the default, right for every policy."""


@dataclass(frozen=True)
class Stretch:
    """Play rows slower, so that a chunk lasts until the next one is there; for absolute spaces.

    Rows are played at the rate H / (d + s), interpolated in between, and never backward. No row is late by the clock
    of the rows; the motion is slower than the policy meant it.
    """

    def rate(self, spaced: Spacing | None) -> float:
        """Rows to play a tick, in (0, 1]; 1 before anything is known. See `stretch_rate`."""
        return stretch_rate(spaced)


@dataclass(frozen=True)
class Lag:
    """Play every row later, by as many ticks as a chunk is too short.

    Seamless only for plans that depend on the clock alone (a policy that declares ``Actions(open_loop=True)``). One
    that starts from the arm's state is thrown back by up to the lag at each seam; a run with such a policy logs a
    warning.

    Attributes:
        max_s: The most a row may be late, in seconds.
    """

    max_s: float

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        above_zero("Lag(max_s)", self.max_s)


Late: TypeAlias = StopAndGo | Stretch | Lag
"""What ``Play(late=…)`` takes."""


def stretch_rate(spaced: Spacing | None) -> float:
    """The rate H / (d + s) at which a chunk lasts until the next one, in rows a tick, never above 1."""
    if spaced is None or spaced.fits:
        return 1.0
    return spaced.horizon / (spaced.d + spaced.s)


class LagInForce:
    """How late a run's rows play: it rises with what is needed, and falls only when it was too high for long.

    Attributes:
        ticks: L, the lag aimed at.
        own: The lag of the newest chunk in the plan; 0 before the first. At each seam it moves at most one row
            towards L, so that no seam repeats or leaves out more than one.

    Args:
        most_ticks: The most it may be.
    """

    def __init__(self, most_ticks: int) -> None:
        self._most = most_ticks
        self._least_spare = math.inf  # least by which it was too high, since when
        self._since: float | None = None
        self.ticks = 0
        self.own = 0

    def measure(self, needed: int, now: float) -> int:
        """Take in what is needed at ``now``, in seconds on the caller's clock, rising. Returns L."""
        needed = min(needed, self._most)
        spare = self.ticks - needed
        if spare < SLACK_TICKS:
            self._since, self._least_spare = None, math.inf
            self.ticks = max(self.ticks, needed)
            return self.ticks
        self._least_spare = min(self._least_spare, spare)
        if self._since is None:
            self._since = now
        elif now - self._since >= FALLS_AFTER_S:
            self.ticks -= int(self._least_spare)
            self._since, self._least_spare = None, math.inf
        return self.ticks

    def of_next(self) -> int:
        """The lag of a chunk that is spliced now: one row nearer to L than the chunk's before it."""
        return self.own + (self.ticks > self.own) - (self.ticks < self.own)

    def placed(self, lag: int) -> None:
        """A chunk was spliced ``lag`` rows late: less than it was to have, where the arm stood and nothing was passed.

        What a splice strategy of its own accord laid later than the most that is allowed is not this lag's.
        """
        self.own = min(lag, self._most)

    def restart(self) -> None:
        """The plan was dropped: the next chunk is a first one."""
        self.own = 0


def lag_in_force(late: Late, hz: float) -> LagInForce:
    """A run's lag, 0 for ever unless `Lag` was asked for.

    Args:
        late: ``Play(late=…)``.
        hz: The grid's rate.
    """
    return LagInForce(math.floor(late.max_s * hz + 1e-9) if isinstance(late, Lag) else 0)
