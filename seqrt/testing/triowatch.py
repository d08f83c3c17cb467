"""The trio half of `seqrt.testing.virtual`: its mock clock, and the end of a run in which nothing can happen any more.

Trio's mock clock jumps when all tasks are blocked; when no timer is left either, trio spins for ever. `DeadlockWatch`
notices, says where the tasks wait, and cancels the run.
"""

from __future__ import annotations

import logging
import math
import time

import trio
from trio.abc import Instrument
from trio.testing import MockClock

from seqrt.testing import deadlock
from seqrt.testing.deadlock import Deadlock, deadlock_text, innermost, other_threads

logger = logging.getLogger(__name__)

_IDLE_ROUNDS = 200  # rounds of trio's loop without a task's step; a jump of the clock takes two


def virtual_clock() -> MockClock:
    """A clock that starts at 0.0 and jumps to the next deadline whenever every task is blocked."""
    return MockClock(autojump_threshold=0)


class DeadlockWatch(Instrument):
    """Cancels a run in which every task waits and no deadline is left.

    Attributes:
        found: The error to raise in the place of the cancellation; None while nothing was found. Under anyio's
            pytest plugin the test ends with ``trio.Cancelled`` and the text stands in the log.
    """

    def __init__(self) -> None:
        self.found: Deadlock | None = None
        self._rounds = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task goes on, so all is well."""
        self._rounds = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count the rounds in which nothing happened; look closely once there were many."""
        self._rounds += 1
        if self._rounds < _IDLE_ROUNDS or self.found is not None:
            return
        statistics = trio.lowlevel.current_statistics()
        if statistics.seconds_to_next_deadline != math.inf:
            return
        sockets = statistics.io_statistics
        waiting = getattr(sockets, "tasks_waiting_read", 0) + getattr(sockets, "tasks_waiting_write", 0)
        # Trio's own wake-up socket is one of those waiting to read.
        outside = waiting > 1 or other_threads()
        if outside and self._rounds < _IDLE_ROUNDS + deadlock.GRACE_LOOKS:
            time.sleep(deadlock.LOOK_S)  # the loop has nothing to do: leave the processor to the thread it waits for
            return
        self._end_run()

    def _end_run(self) -> None:
        root = trio.lowlevel.current_root_task()
        assert root is not None
        places = [f"{task.name}: {innermost(task.coro)}" for task in _program_tasks(root)]
        self.found = Deadlock(deadlock_text(trio.current_time(), places))
        logger.error("%s", self.found)
        scope = root.child_nurseries[-1].cancel_scope
        try:
            scope.cancel(reason=str(self.found))
        except TypeError:  # trio before 0.31 takes no reason
            scope.cancel()


def _program_tasks(root: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    """Every task below the nursery that the program's main task runs in."""
    found: list[trio.lowlevel.Task] = []
    nurseries = list(root.child_nurseries[-1:])
    while nurseries:
        for task in nurseries.pop().child_tasks:
            found.append(task)
            nurseries.extend(task.child_nurseries)
    return found
