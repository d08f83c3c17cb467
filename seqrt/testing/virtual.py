"""Virtual time on asyncio and trio: ten minutes of control loop run in seconds, and the same way every time.

When every task is waiting, the clock jumps to the next timer; nothing sleeps. A test is an ordinary anyio test whose
backend comes from `backend` (with pytest: import the fixture of `seqrt.testing.fixtures`), or a function handed to
`run`. Both clocks start at 0.0.

What virtual time cannot see: worker threads, other processes and sockets. The clock does not wait for them: while a
thread works it jumps on, so a timeout around a thread's call ends at once. Use `seqrt.testing.offload.inline` in the
place of a thread. ``loop.call_soon_threadsafe``, sockets and threads do work, they only take no virtual time.

On trio two tasks due at the same instant run in either order. Let scripted durations lie off the tick grid (0.1203,
not 0.12 at 50 Hz), or a test is right only half of the time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from seqrt.testing import deadlock
from seqrt.testing.deadlock import Deadlock, deadlock_text, innermost, other_threads

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose ``time()`` starts at 0.0 and jumps to the next timer when nothing is ready.

    Use it as a loop factory: ``asyncio.Runner(loop_factory=VirtualClockLoop)``, or by `backend`.

    Raises:
        Deadlock: Out of ``run_forever`` and ``run_until_complete``, when every task waits, no timer is left, and no
            thread or socket woke the loop within a real second (at once where there are none).
    """

    def __init__(self) -> None:
        self._virtual_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_number = itertools.count()
        self._sockets = selectors.DefaultSelector()
        super().__init__(_IdleSelector(self._sockets, self._when_idle))

    def time(self) -> float:
        """The virtual time, in seconds since the loop was made."""
        return self._virtual_s

    def block(self, seconds: float) -> None:
        """Let time pass at once, as code that does not await does."""
        self._virtual_s += seconds

    def call_at(  # type: ignore[override]  # typeshed's needs TypeVarTuple, which 3.10 lacks
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; every timer comes by here, ``call_later``'s too."""
        handle = super().call_at(when, callback, *args, context=context)
        heapq.heappush(self._timers, (when, next(self._timer_number), handle))
        return handle

    def _when_idle(self, timeout: float | None) -> None:
        """Called by the selector when nothing is ready: jump, or wait for a thread, or say that all is over."""
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self._virtual_s):
            heapq.heappop(self._timers)
        if self._timers:
            # The timer's own time and not now + timeout: the sum may round to just before it.
            self._virtual_s = self._timers[0][0]
        elif timeout is None:
            self._wait_for_outside()

    def _wait_for_outside(self) -> None:
        """Block for real, for as long as a thread or a socket may wake this loop."""
        sockets = len(self._sockets.get_map()) > 1  # one is the loop's own pipe, which call_soon_threadsafe writes to
        looks = deadlock.GRACE_LOOKS if sockets or other_threads() else 0
        if any(self._sockets.select(deadlock.LOOK_S) for _ in range(looks)):
            return
        # Read the tasks first: raising here unwinds the loop, not the tasks.
        raise Deadlock(deadlock_text(self._virtual_s, map(_place, asyncio.all_tasks(self))))


class _IdleSelector(selectors.BaseSelector):
    """A selector that never blocks: where it would, it calls ``when_idle`` with the timeout and reports nothing."""

    def __init__(self, sockets: selectors.BaseSelector, when_idle: Callable[[float | None], None]) -> None:
        self._sockets = sockets
        self._when_idle = when_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._sockets.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        self._when_idle(timeout)
        return self._sockets.select(0)

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._sockets.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._sockets.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._sockets.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._sockets.get_map()

    def close(self) -> None:
        self._sockets.close()


def backends() -> list[str]:
    """The backends that are installed: "asyncio", and "trio" where trio is there."""
    return list(anyio.get_available_backends())


def backend(name: str) -> tuple[str, dict[str, Any]]:
    """A fresh virtual clock for one test: what an ``anyio_backend`` fixture returns.

    Args:
        name: "asyncio" or "trio".

    Returns:
        The backend's name and the options that give it a clock of its own, for anyio's pytest plugin and, as
        ``backend`` and ``backend_options``, for ``anyio.run``. Use it for one run only: a trio clock goes on where
        the run before it stopped.

    Raises:
        ValueError: Another name.
    """
    if name == "asyncio":
        return name, {"loop_factory": VirtualClockLoop}
    if name == "trio":
        from seqrt.testing.triowatch import DeadlockWatch, virtual_clock

        return name, {"clock": virtual_clock(), "instruments": [DeadlockWatch()]}
    raise ValueError(f"backend is {name!r}: 'asyncio' or 'trio'")


def run(function: Callable[..., Awaitable[T]], *args: Any, backend: str = "asyncio") -> T:
    """Run ``await function(*args)`` in virtual time and return what it returns.

    Args:
        function: The async function.
        *args: Its arguments.
        backend: "asyncio" or "trio".

    Raises:
        Deadlock: Every task waits and no timer is left.
    """
    name, options = _backend(backend)
    try:
        return anyio.run(function, *args, backend=name, backend_options=options)
    except BaseException as error:
        for watch in options.get("instruments", ()):
            if watch.found is not None:
                raise watch.found from error
        raise


def block(seconds: float) -> None:
    """Let virtual time pass inside a callback, as a blocking driver does: whatever falls due meanwhile comes late.

    Args:
        seconds: How long it blocks.

    Raises:
        RuntimeError: Not in virtual time.
        ValueError: Less than nothing.
    """
    if seconds < 0:
        raise ValueError(f"block({seconds}): time does not run backwards")
    loop = asyncio._get_running_loop()
    if isinstance(loop, VirtualClockLoop):
        loop.block(seconds)
        return
    jump = _trio_jump()
    if jump is None:
        raise RuntimeError("block() is for virtual time: use virtual.run, or the anyio_backend of testing.fixtures")
    jump(seconds)


def _trio_jump() -> Callable[[float], None] | None:
    """How the running trio clock is moved on; None where none runs, or not a virtual one."""
    trio: Any = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        return None
    jump: Callable[[float], None] | None = getattr(trio.lowlevel.current_clock(), "jump", None)
    return jump


_backend = backend  # `run` has an argument of that name


def _place(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()}: {innermost(task.get_coro())}"
