"""Where a run's events go: the fold that makes the outcome, the log, and whoever records or watches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import anyio

from seqrt.policies.clock import loop_clock
from seqrt.policies.offload import Offload
from seqrt.runtime.saying import Saying
from seqrt.timeline.events import Event
from seqrt.timeline.outcome import Fold, RunOutcome
from seqrt.timeline.recorder import Recorder, append

Tell: TypeAlias = Callable[[Event], None]
Record: TypeAlias = "str | os.PathLike[str] | Tell | None"

_FLUSH_S = 0.5


class Telling:
    """Takes a run's events as they happen. Made inside the loop that runs it.

    Args:
        t0: When the run began, on the loop's clock.
        record: A path to write the events to, a callable that is handed each, or None.
        offload: Where the file is written.
        failed: Told what ``record`` raised, so that the run ends with it.

    Attributes:
        fault: What ``record`` raised first, None when nothing; from then on it is left alone.
    """

    def __init__(self, t0: float, record: Record, offload: Offload, *, failed: Callable[[BaseException], None]) -> None:
        self._t0, self._now = t0, loop_clock()
        self._fold, self._saying = Fold(), Saying()
        self._offload = offload
        self._watcher = record if callable(record) else None
        self._path = Path(record) if record is not None and not callable(record) else None
        self._recorder = Recorder() if self._path is not None else None
        self._fresh = True
        self._failed = failed
        self.fault: BaseException | None = None

    def at_s(self) -> float:
        """Seconds since the run began: every event's ``at_s``."""
        return self._now() - self._t0

    def since(self, moment: float) -> float:
        """The same for a time of the loop's clock."""
        return moment - self._t0

    def tell(self, event: Event) -> None:
        """Count one event, and hand it on. Never raises: events are told in the middle of a tick and of a stop."""
        self._fold.add(event)
        self._saying.hear(event)
        if self._recorder is not None:
            self._recorder.add(event)
        if self._watcher is not None:
            try:
                self._watcher(event)
            except BaseException as error:
                self._give_up(error)

    def outcome(self) -> RunOutcome:
        """The outcome so far."""
        return self._fold.outcome()

    async def write(self) -> None:
        """Write to the file every half second, until cancelled; `close` writes the rest."""
        while self._recorder is not None:
            await self._flush()
            await anyio.sleep(_FLUSH_S)

    async def close(self) -> None:
        """Write what is left. The robot holds by now: a disk may take its time."""
        await self._flush()

    async def _flush(self) -> None:
        if self._recorder is None or self._path is None:
            return
        path, block, fresh = self._path, self._recorder.take(), self._fresh
        self._fresh = False
        if block:
            try:
                await self._offload(lambda: append(path, block, fresh=fresh))
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self._watcher = self._recorder = None
        self.fault = self.fault or error
        self._failed(error)
