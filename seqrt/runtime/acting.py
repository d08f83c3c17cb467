"""Calls ``act``, within its bound, and keeps an eye on how long it takes and what it raises. The actuator's alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio

from seqrt.action.guard import Row
from seqrt.errors import CallbackTimedOut, CallbackTooSlow
from seqrt.policies.clock import loop_clock
from seqrt.runtime.control import Control
from seqrt.runtime.options import ACT_BOUND_S, ACT_ON_STOP_S, SYNC_SHARE, Limits
from seqrt.runtime.robot import called
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev

_WATCHED_CALLS = 10
_SLOW_IN_A_ROW = 3


class Acting:
    """One run's calls of the robot inside a tick.

    Args:
        act: The robot's; None in a dry run.
        limits: How many errors in a row are tolerated.
        period_s: Seconds between two of the robot's ticks.
        control: Told to stop, a call in progress gets a moment and no longer.
        telling: Told of the errors tolerated.
    """

    def __init__(
        self, act: Callable[[Row], Any] | None, *, limits: Limits, period_s: float, control: Control, telling: Telling
    ) -> None:
        self._act, self._limits, self._period_s = act, limits, period_s
        self._control, self._telling = control, telling
        self._scope: anyio.CancelScope | None = None
        self._errors_in_a_row = 0
        self._calls, self._slow_in_a_row = 0, 0
        self._now = loop_clock()

    async def send(self, row: Row) -> float | None:
        """Send one row; how long that took, None in a dry run."""
        if self._act is None:
            return None
        begun = self._now()
        try:
            pending = self._act(row)
            inline_s = self._now() - begun
            if pending is not None and inspect.isawaitable(pending):
                await self.bounded(lambda: pending, "act")
            else:
                self._watch(inline_s)
        except (CallbackTimedOut, CallbackTooSlow):
            raise
        except Exception as error:
            self._errors_in_a_row += 1
            # A run that is told to stop tolerates none: the row was not sent, and no other one will be.
            if self._errors_in_a_row > self._limits.act_errors or self._control.cause is not None:
                raise
            self._telling.tell(ev.CallbackRaised(at_s=self._telling.at_s(), callback="act", error=repr(error)))
        else:
            self._errors_in_a_row = 0
        return self._now() - begun

    def _watch(self, took_s: float) -> None:
        """Time a synchronous act's first calls: three slow ones in a row would go on for ever."""
        allowed_s = SYNC_SHARE * self._period_s
        self._calls += 1
        self._slow_in_a_row = self._slow_in_a_row + 1 if took_s > allowed_s else 0
        if self._calls <= _WATCHED_CALLS and self._slow_in_a_row >= _SLOW_IN_A_ROW:
            raise CallbackTooSlow(
                f"act() holds the event loop for {took_s * 1e3:.1f} ms of a {self._period_s * 1e3:.3g} ms "
                "period; make it async, or wrap a blocking driver: run(seqrt.robots.threaded(robot), …)",
                callback="act",
                took_s=took_s,
                allowed_s=allowed_s,
            )

    async def bounded(self, call: Callable[[], object], name: str) -> object:
        """Await a callback of the robot for at most its bound, less when the run is told to stop."""
        bound_s = ACT_BOUND_S if self._control.cause is None else ACT_ON_STOP_S
        with anyio.CancelScope(deadline=anyio.current_time() + bound_s) as scope:
            self._scope = scope
            try:
                return await called(call)
            finally:
                self._scope = None
        if self._control.cause is None:
            raise CallbackTimedOut(
                f"{name}() did not return within {ACT_BOUND_S:g} s", callback=name, bound_s=ACT_BOUND_S
            )
        return None

    async def hurry_on_stop(self) -> None:
        """When the run is told to stop, an act in progress gets a moment more and no longer."""
        await self._control.stopped()
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + ACT_ON_STOP_S)
