"""The caller's own thread as the robot's lane: it serves what the runtime's loop hands over while a call lasts.

In: the caller's functions with their arguments, from the loop. Out: what they returned or raised, posted back into it.
A Ctrl-C in the caller's thread is a word to the run, which holds; it never cuts a hold.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

import anyio

from seqrt.robots.lanes import Poster

logger = logging.getLogger(__name__)

_ASIDE_S: Final = 1e-6
"""How long the loop lets go of the interpreter when a row is handed over; with the kernel's own slack some 60 µs.

Going on instead it would keep the lane's thread, just woken, waiting for the interpreter's lock: 45 µs to a call's
begin in place of 25, and milliseconds where cores are short.
"""


class Cut(Exception):
    """Stands in the loop for what no coroutine may raise: a KeyboardInterrupt, a SystemExit, a StopIteration.

    Whatever it stands for has told the run to stop before this is raised, and comes out of the call as itself.
    """


class Call:
    """One function to be called in the lane.

    Args:
        function: The caller's.
        args: For it.
        post: Has something called in the loop that waits.
        certain: It is called whatever happens, a second time where it was cut short: the robot's ``hold``.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], post: Poster, *, certain: bool) -> None:
        self._function, self._args, self._post = function, args, post
        self._lock = threading.Lock()
        self._state = "queued"  # then "begun" and "over", or "dropped"
        self._done = anyio.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self.certain = certain
        self.abandoned = False

    async def result(self) -> Any:
        """Wait for its end; returns what it returned, raises what it raised. In the loop."""
        try:
            await self._done.wait()
        finally:
            if not self._done.is_set():
                self._abandon()
        if self._error is not None:
            raise self._error
        return self._result

    def run(self, lane: Lane) -> None:
        """Make the call, unless it was dropped, and post its end. In the lane's thread; may be called again."""
        with self._lock:
            if self._state in ("dropped", "over"):
                return
            cut_short = self._state == "begun" and not self.certain
            self._state = "begun"
        if cut_short:
            self._error = Cut()
        else:
            self._attempt(lane)
        self._state = "over"
        try:
            self._post(self._done.set)
        except RuntimeError:
            logger.debug("a call's end came after its loop's", exc_info=self._error)

    def _attempt(self, lane: Lane) -> None:
        while True:
            try:
                self._result = self._function(*self._args)
            except BaseException as error:  # the run's to judge: it comes out of result()
                if self.certain and isinstance(error, KeyboardInterrupt) and not self.abandoned:
                    lane.cut(error)
                    continue
                self._error = lane.raised(error)
            return

    def _abandon(self) -> None:
        """Nobody waits for it any more: it is not called, if it has not begun, unless it has to be."""
        with self._lock:
            self.abandoned = True
            if self._state == "queued" and not self.certain:
                self._state = "dropped"


class Lane:
    """One call of the handle, seen from the thread that made it.

    Args:
        on_cut: Told, once, of what ends the call from outside the loop: a Ctrl-C, or what else a signal handler raised.
            Called in the lane's thread, in a signal handler perhaps.

    Attributes:
        cut_by: What that was; None while there was none.
    """

    def __init__(self, on_cut: Callable[[Lane, BaseException], None]) -> None:
        self._on_cut = on_cut
        self._first: deque[Call] = deque()
        self._then: deque[Call] = deque()
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._running: Call | None = None
        self._over = self._takes_sigint = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._raised: list[tuple[BaseException, TracebackType | None]] = []
        self.cut_by: BaseException | None = None
        self.thread = threading.current_thread()

    # The loop's side.

    def call(
        self,
        post: Poster,
        function: Callable[..., Any],
        *args: Any,
        first: bool = False,
        certain: bool = False,
        aside: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        """Have ``function`` called in the lane's thread. It is handed over at once; what is returned waits for its end.

        Args:
            post: Of the loop that waits, see `seqrt.robots.lanes.poster`.
            function: What to call.
            args: With what.
            first: Before what is queued otherwise. An observation too: it belongs between two rows.
            certain: See `Call`.
            aside: Now: the loop steps aside for the lane's thread to wake up.

        Raises:
            Cut: Out of what is returned: it raised what no coroutine may raise; the lane was told.
        """
        call = Call(function, args, post, certain=certain)
        (self._first if first else self._then).append(call)
        self._woken.put(None)
        if aside:
            time.sleep(_ASIDE_S)
        return call.result()

    def end(self, value: Any = None, error: BaseException | None = None) -> None:
        """The call of the handle is over: `serve` returns."""
        self._value, self._error, self._over = value, error, True
        self._woken.put(None)

    @property
    def running(self) -> Call | None:
        """The function that runs now and may be cut short; None for none."""
        call = self._running
        return None if call is None or (call.certain and not call.abandoned) else call

    def hurry(self, call: Call) -> None:
        """Cut ``call`` short if it still runs: a blocking read is ended by nothing but a signal to its thread."""
        ident = self.thread.ident
        if self._takes_sigint and self.running is call and ident is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(ident, signal.SIGINT)

    # The caller's side.

    def serve(self) -> None:
        """Serve calls until the loop says that the call of the handle is over."""
        while True:
            try:
                return self._work()
            except BaseException as error:  # raised by a signal handler between two calls
                self.cut(error)

    def _work(self) -> None:
        while True:
            while waiting := (self._first or self._then):
                # Taken out only once it is over: nothing that a signal handler raises in between can lose it.
                self._running = waiting[0]
                waiting[0].run(self)
                self._running = None
                waiting.popleft()
            if self._over:
                return
            self._woken.get()

    def outcome(self) -> Any:
        """What the call of the handle came to: returns it, or raises. After `serve`."""
        error = self.cut_by or self._error
        if error is None:
            return self._value
        raised = next((traceback for known, traceback in self._raised if known is error), error.__traceback__)
        try:
            raise error.with_traceback(raised)
        finally:
            del error, raised
            self._raised.clear()

    def cut(self, error: BaseException) -> None:
        """End the call of the handle because of ``error``, unless it ends already."""
        if self.cut_by is None:
            self.cut_by = error
            self._on_cut(self, error)

    def raised(self, error: BaseException) -> BaseException:
        """Take in what a function raised; what is to be raised in the loop for it."""
        self._raised.append((error, error.__traceback__))
        if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
            return error
        self.cut(error)
        return Cut(repr(error))

    @contextmanager
    def sigint_taken(self) -> Iterator[None]:
        """For the time of a ``with`` block a Ctrl-C is a word to the run and not an exception anywhere in its code.

        Only in the main thread, and only in the place of Python's own handler.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._on_sigint)
        self._takes_sigint = True
        try:
            yield
        finally:
            self._takes_sigint = False
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        """The first lets a function that runs come to its end, a further one cuts it short, unless it is the hold."""
        if self.cut_by is None:
            self.cut(KeyboardInterrupt())
        elif self.running is not None:
            raise KeyboardInterrupt
