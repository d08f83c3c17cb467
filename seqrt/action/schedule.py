"""When a tick is due: t0 + k · period, whatever happened before."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROUNDING = 1e-6
"""Periods. A clock read at a deadline may come back a rounding error short of it: of a clock that has run for months
(1e7 s), the last bit is 2 ns, at 333 Hz 6e-7 of a period."""


@dataclass(frozen=True)
class TickSchedule:
    """The grid of one run. Steps are numbers of the grid; the clock is whatever the caller's is.

    Attributes:
        t0: Time of step ``first``, seconds.
        period_s: Seconds between two ticks.
        first: Number of the step at ``t0`` (runs of one episode go on counting).
    """

    t0: float
    period_s: float
    first: int = 0

    def divided(self, substeps: int) -> TickSchedule:
        """The grid of a robot driven ``substeps`` times a period; its step n·k + j is substep j of step n."""
        return TickSchedule(self.t0, self.period_s / substeps, self.first * substeps)

    def deadline(self, step: int) -> float:
        """When ``step`` is due. No tick, however late, moves it."""
        return self.t0 + (step - self.first) * self.period_s

    def step_at(self, now: float) -> int:
        """The newest step whose deadline has come by ``now``."""
        return self.first + math.floor((now - self.t0) / self.period_s + _ROUNDING)

    def after(self, step: int, now: float) -> tuple[int, int]:
        """The step to play after ``step``, and how many whole periods are skipped.

        A late loop plays the newest step that is due and skips those before it: no burst, no new base.
        """
        coming = max(step + 1, self.step_at(now))
        return coming, coming - step - 1
