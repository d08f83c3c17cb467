"""When a run whose plan is dry has come to its end, and what it waited for in vain."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from seqrt.errors import Stalled
from seqrt.runtime.asked import Trouble
from seqrt.runtime.control import Cause
from seqrt.runtime.episode import as_gone
from seqrt.runtime.moments import Moments
from seqrt.runtime.options import Limits


class Stalling:
    """Looks at a dry run, tick by tick.

    Args:
        limits: How long it may stand.
        space: What the actions' space is declared as; None where it is not.
        period_s: Of the grid, in seconds.
        trouble: What has gone wrong.
        moments: The observations taken.
        host: The worker's host:port now, "" for a policy in this process.
    """

    def __init__(
        self,
        limits: Limits,
        space: str | None,
        period_s: float,
        *,
        trouble: Trouble,
        moments: Moments,
        host: Callable[[], str],
    ) -> None:
        self._limits, self._space, self._period_s = limits, space, period_s
        self._trouble, self._moments, self._host = trouble, moments, host

    def cause(self, starved_s: float, *, held: bool) -> Cause | None:
        """What ends a run that is dry and has failed twice, or has stood for too long; None: it goes on.

        One refused answer is not the end of a dry plan: the next one is asked for at once, and may be good.

        Args:
            starved_s: How long it has been dry.
            held: The arm was told to hold, since a resume, and nothing is sent to it.
        """
        if self._trouble.refused is not None and self._trouble.refused_in_a_row > 1 and not held:
            return Cause.raised(self._trouble.refused)
        if starved_s >= self._limits.stall_s(self._space, held=held):
            return Cause("stalled", self._why(starved_s))
        return None

    def _why(self, starved_s: float) -> BaseException:
        stood = f"no row was due for {starved_s:.1f} s (Limits.max_stall_s)"
        link = self._trouble.link
        if link is not None:
            return as_gone(self._trouble.tried(link, anyio.current_time(), stood))
        if self._trouble.refused is not None:
            return self._trouble.refused
        newest = self._moments.newest
        waiting = newest is None or anyio.current_time() - newest.begun_at > 2 * self._period_s
        phase = "observe" if waiting and starved_s > 2 * self._period_s else "act"
        whom = "an observation: observe() has not returned one" if phase == "observe" else "the worker's answer"
        return Stalled(
            f"{stood}; waiting for {whom}" + (f" [{self._host()}]" if self._host() else ""),
            starved_s=starved_s,
            host=self._host(),
            phase=phase,
        )
