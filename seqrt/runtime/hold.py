"""Calls the robot's ``hold``, within its bound, and remembers what went wrong with it. The actuator's alone."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from seqrt.errors import HoldFailed
from seqrt.runtime.options import HOLD_BOUND_S
from seqrt.runtime.robot import called
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev
from seqrt.watching.logline import line

logger = logging.getLogger(__name__)


class Hold:
    """One run's holding.

    Args:
        hold: The robot's; None where there is none, or nothing is sent to the robot.
        telling: Told of each call.

    Attributes:
        error: What went wrong with it, None when nothing did.
    """

    def __init__(self, hold: Callable[[], object] | None, telling: Telling) -> None:
        self._hold, self._telling = hold, telling
        self.error: HoldFailed | None = None

    async def __call__(self) -> None:
        """Have the robot stand still. Never raises, and takes `HOLD_BOUND_S` at the most."""
        if self._hold is None:
            return
        begun = anyio.current_time()
        failed = await self._called(self._hold, begun + HOLD_BOUND_S)
        if failed is not None:
            logger.error("%s", line("hold.failed", None).saying(str(failed)))
            self.error = failed
        now = anyio.current_time()
        error = None if failed is None else str(failed)
        self._telling.tell(ev.Held(at_s=self._telling.at_s(), took_s=now - begun, error=error))

    async def _called(self, hold: Callable[[], object], until: float) -> HoldFailed | None:
        for last_try in (False, True):
            try:
                with anyio.CancelScope(deadline=until) as bounded:
                    await called(hold)
            except BaseException as error:
                # asyncio.run left by a second Ctrl-C cancels every task it has, this one too, and waits for them: a
                # hold that was cut short by that is begun again.
                if isinstance(error, anyio.get_cancelled_exc_class()) and not last_try:
                    continue
                failed = HoldFailed(f"hold() raised {error!r}: look at the robot")
                failed.__cause__ = error
                return failed
            if bounded.cancelled_caught:
                return HoldFailed(f"hold() did not return within {HOLD_BOUND_S:g} s: look at the robot")
            return None
        raise AssertionError("the last try returns")
