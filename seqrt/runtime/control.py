"""What tells a run to stop, pause and resume, from any thread or signal handler.

Flags that each tick reads, and a wake-up for the wait between ticks. The first cause of a stop wins.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import current_token

from seqrt.runtime.waiting import Waiter

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup  # type: ignore[import-not-found]  # comes with anyio there


@dataclass(frozen=True)
class Cause:
    """Why a run ends.

    Attributes:
        reason: The outcome's word: "completed", "validate", "interrupted", "stalled", "raised:<Class>".
        error: What `run` raises; None for an end that returns.
    """

    reason: str
    error: BaseException | None = None

    @classmethod
    def raised(cls, error: BaseException) -> Cause:
        """An error ends the run. A cancellation has one name, asyncio's and trio's alike."""
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        return cls("raised:Cancelled" if cancelled else f"raised:{type(error).__name__}", error)


def leaf(error: BaseException) -> BaseException:
    """The first exception inside a group, or the exception itself: users are shown one error, never a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextlib.contextmanager
def ungrouped() -> Iterator[None]:
    """Let no group out: what leaves a task group leaves as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise leaf(group) from None


class Control:
    """One run's switch. Made inside the loop that runs it.

    Attributes:
        cause: Why the run ends; None while it goes on.
        paused: What was last asked for: True by `pause`, False by `resume`.
        pauses: How often a pause was asked for: one that was over before anybody looked is a pause still.
    """

    def __init__(self) -> None:
        token = current_token()
        self._native: Any = getattr(token, "native_token", token)  # anyio < 4.11 gives the native token itself
        self._changed = anyio.Event()
        self._waiting: Waiter | None = None
        self.cause: Cause | None = None
        self.paused = False
        self.pauses = 0

    def stop(self, cause: Cause) -> None:
        """End the run for ``cause``; called in the run's own loop. Later causes are ignored."""
        if self.cause is None:
            self.cause = cause
        self._wake()

    def stop_soon(self, cause: Cause) -> None:
        """The same from any thread or signal handler."""
        if self.cause is None:
            self.cause = cause
        self._wake_soon()

    def pause_soon(self, paused: bool) -> None:
        """Ask for a pause (True) or its end (False), from any thread or signal handler."""
        self.pauses += paused and not self.paused
        self.paused = paused
        self._wake_soon()

    async def wait_until(self, deadline: float, waiter: Waiter) -> bool:
        """Wait for ``deadline``; True at once when something was asked for before it. One task waits at a time."""
        asked = (self.cause, self.pauses, self.paused)
        self._waiting = waiter
        try:
            woken = await waiter.until(deadline)
        finally:
            self._waiting = None
        # The flags too: the wake-up of one that was set at the deadline itself is still on its way.
        return woken or asked != (self.cause, self.pauses, self.paused)

    async def stopped(self) -> Cause:
        """Wait until the run is told to stop."""
        while self.cause is None:
            await self._changed.wait()
        return self.cause

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        if self._waiting is not None:
            self._waiting.wake()

    def _wake_soon(self) -> None:
        # asyncio: loop.call_soon_threadsafe; trio: TrioToken.run_sync_soon. Both may be called from a signal handler.
        schedule = getattr(self._native, "call_soon_threadsafe", None) or self._native.run_sync_soon
        with contextlib.suppress(RuntimeError):  # the loop is closed or trio has ended: so has the run
            schedule(self._wake)
