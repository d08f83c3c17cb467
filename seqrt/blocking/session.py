"""The thread beside the caller's: an event loop with the one runtime in it, and the connection that lives there.

Started by the first call that needs it, ended by `Session.close`, by the end of its owner, or by the program's. It
holds nothing of its owner, so that an owner nobody has any more is found out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from seqrt.blocking.lane import Call, Lane
from seqrt.errors import AlreadyDriven, SeqrtError
from seqrt.robots.lanes import Poster, poster
from seqrt.runtime.options import ACT_ON_STOP_S
from seqrt.runtime.policy import Policy as AsyncPolicy

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job: TypeAlias = Callable[[], Awaitable[Any]]

_CLOSE_S: Final = 10.0
"""How long `Session.close` waits for the thread: a hold and an episode's end take seconds at the most."""
_CLOSED: Final = "this Policy was closed meanwhile"
_ANSWER_S: Final = 1.0
"""How long a question to the loop is waited for."""


class Session:
    """One connection in a loop of its own.

    Args:
        connect: What `seqrt.connect` gives; entered in the loop when the handle is first needed.

    Attributes:
        handle: The handle there, None before it was connected.
        closed: Whether it has been closed.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[AsyncPolicy]]) -> None:
        self._connect = connect
        self._process = os.getpid()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._post: Poster | None = None
        self._stopping = False
        self._asked: list[tuple[Job, Lane]] = []
        self._waiting: Lane | None = None
        self._told: anyio.Event | None = None
        self._slow: tuple[Lane, Call] | None = None
        self._slowed = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._stack = AsyncExitStack()
        self.handle: AsyncPolicy | None = None
        self.closed = False

    @property
    def post(self) -> Poster:
        """Has something called in the loop, from any thread. RuntimeError once it has ended."""
        if self._post is None:
            raise RuntimeError("the loop has not begun")
        return self._post

    @property
    def inside(self) -> bool:
        """Whether the caller is the loop's own thread."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Start the thread, unless it runs.

        Raises:
            SeqrtError: It was closed, or belongs to another process.
        """
        if self.closed:
            raise SeqrtError("this Policy is closed: connect() again")
        if self._process != os.getpid():
            if self._thread is not None:
                raise SeqrtError(
                    "this Policy was connected in another process, and a connection cannot be shared after a fork: "
                    "connect() in each process"
                )
            self._process = os.getpid()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seqrt", daemon=True)
            self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise SeqrtError("the runtime's loop could not be started") from self._failure

    def submit(self, job: Job, lane: Lane) -> None:
        """Have ``job`` run in the loop; ``lane`` is told how it ended, in any case.

        Raises:
            SeqrtError: It was closed meanwhile.
        """
        self._waiting = lane
        if not self._post_quietly(lambda: self._begin(job, lane)):
            self._waiting = None
            raise SeqrtError(_CLOSED)

    def give_up(self) -> None:
        """End what runs in the loop, a run with hold; from any thread or signal handler."""
        self._post_quietly(self._give_up)

    def hurry_soon(self, lane: Lane) -> None:
        """Give the function that runs in ``lane`` a moment to come to its end. From any thread or signal handler."""
        call = lane.running
        if call is not None:
            self._post_quietly(lambda: self._slow_in(lane, call))

    async def connected(self) -> AsyncPolicy:
        """The handle, connected now if it was not yet. In the loop."""
        if self.handle is None:
            self.handle = await self._stack.enter_async_context(self._connect())
        return self.handle

    def ask(self, question: Callable[[], T]) -> T:
        """What ``question`` answers when it is called in the loop; from any thread, also inside a callback."""
        if self.inside:
            return question()
        answer: queue.SimpleQueue[T] = queue.SimpleQueue()
        if self._post_quietly(lambda: answer.put(question())):
            with contextlib.suppress(queue.Empty):
                return answer.get(timeout=_ANSWER_S)
        return question()  # the loop has ended, and nothing changes any more

    def stop(self) -> None:
        """Tell the thread to end: what runs is ended with hold, the connection is let go. From any thread."""
        self.closed = True
        if self._process == os.getpid():
            self._post_quietly(self._stop)

    def close(self) -> None:
        """The same, and wait for it.

        Raises:
            AlreadyDriven: Called where it would wait for itself.
        """
        if self.inside:
            raise AlreadyDriven("close() was called in the runtime's own thread, which it would wait for")
        self.stop()
        thread = self._thread
        if thread is None or self._process != os.getpid():
            return
        thread.join(_CLOSE_S)
        if thread.is_alive():
            logger.warning("the connection's thread is left behind: something in it takes more than %g s", _CLOSE_S)

    def abandon(self) -> None:
        """Its owner is gone, or the program ends: then the thread's last words are waited for."""
        self.stop()
        if not threading.main_thread().is_alive() and not self.inside and self._process == os.getpid():
            thread = self._thread
            if thread is not None:
                thread.join(_CLOSE_S)

    # The loop's side.

    def _run(self) -> None:
        try:
            anyio.run(self._main)
        except BaseException as error:
            self._failure = error
            logger.exception("the runtime's loop ended")
        finally:
            self._ready.set()
            # What was asked for while the loop ended is not carried out any more, and nobody else says so.
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.end(error=SeqrtError(_CLOSED))

    async def _main(self) -> None:
        """One job after the other, until told to stop: a handle has one driver."""
        self._post, self._told, self._slowed = poster(), anyio.Event(), anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hurry)
                self._ready.set()
                while not self._stopping or self._asked:
                    await self._told.wait()
                    self._told = anyio.Event()
                    while self._asked:
                        await self._carry_out(*self._asked.pop())
                tasks.cancel_scope.cancel()
        finally:
            await self._stack.aclose()

    async def _carry_out(self, job: Job, lane: Lane) -> None:
        """Run one job to its end. Whatever it raises is the lane's, not the loop's."""
        value: Any = None
        error: BaseException | None = SeqrtError(_CLOSED) if self._stopping else None
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                if lane.cut_by is None and error is None:
                    value = await job()
        except BaseException as raised:
            error = raised
        if scope.cancelled_caught or isinstance(error, anyio.get_cancelled_exc_class()):
            error = SeqrtError("the call was given up: it was interrupted, or this Policy was closed")
        self._scope = self._waiting = None
        lane.end(value, error)

    def _begin(self, job: Job, lane: Lane) -> None:
        self._asked.append((job, lane))
        self._tell()

    def _slow_in(self, lane: Lane, call: Call) -> None:
        self._slow = lane, call
        self._slowed.set()

    async def _hurry(self) -> None:
        """Cut short what does not come to its end by itself."""
        while True:
            await self._slowed.wait()
            self._slowed = anyio.Event()
            await anyio.sleep(ACT_ON_STOP_S)
            if self._slow is not None:
                (lane, call), self._slow = self._slow, None
                lane.hurry(call)

    def _tell(self) -> None:
        if self._told is not None:
            self._told.set()

    def _give_up(self) -> None:
        if self.handle is not None and self.handle.control is not None:
            self.handle.interrupt()
        elif self._scope is not None:
            self._scope.cancel()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._give_up()
            self._tell()

    def _post_quietly(self, function: Callable[[], object]) -> bool:
        """Have ``function`` called in the loop; False where there is none, or none any more."""
        if self._post is None:
            return False
        try:
            self._post(function)
        except RuntimeError:  # it has ended: so has what was to be told
            return False
        return True
