"""Lanes: threads that blocking drivers run in. One for the bus, which works off its calls in order; one a camera.

`seqrt.robots.threaded` puts them together. The threads are daemons: one that hangs in a driver never keeps the program
from ending. Results are posted into the loop that waits, asyncio's or trio's; a lane belongs to no loop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

logger = logging.getLogger(__name__)

Poster: TypeAlias = Callable[[Callable[[], object]], object]
"""Has something called in a loop, from any thread; see `poster`."""

_SHORTEST_READ_S: Final = 0.001
"""A camera that answers faster did not wait for a frame; reading on at once would cost a whole core."""


class Job:
    """One call that waits in a lane, runs, and ends. Made in the loop; `run` is the lane's."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._call, self._args = call, args
        self._lock = threading.Lock()
        self._state = "queued"  # then "begun" or "dropped"
        self._done = anyio.Event()
        self._post = poster()
        self._result: Any = None
        self._error: BaseException | None = None

    async def result(self) -> Any:
        """Wait for the call's end; returns what it returned, raises what it raised."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def drop(self) -> None:
        """Do not call it, if it has not begun yet."""
        with self._lock:
            if self._state == "queued":
                self._state = "dropped"

    def run(self) -> None:
        """In the lane's thread: make the call, unless it was dropped, and post its end."""
        with self._lock:
            if self._state == "dropped":
                return
            self._state = "begun"
        try:
            self._result = self._call(*self._args)
            if inspect.isawaitable(self._result):
                raise TypeError(f"{self._call!r} is async: hand such a robot to run() itself, not to threaded()")
        except BaseException as error:  # the caller's to judge: it comes out of result()
            self._error = error
        try:
            self._post(self._done.set)
        except RuntimeError:
            logger.debug("a call's end came after its loop's", exc_info=self._error)


class Bus:
    """A thread that works off its calls one after the other. It starts with the first.

    Attributes:
        name: What it is called in logs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Job | None = None

    @property
    def alive(self) -> bool:
        """Whether its thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, call: Callable[..., Any], *args: Any) -> Job:
        """Queue a call behind those that are there."""
        job = Job(call, args)
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()
        return job

    def stop(self) -> None:
        """End the thread, behind the calls that are queued."""
        if self._thread is not None and self._last is None:
            self._last = self.submit(lambda: None)
            self._jobs.put(None)

    async def ended(self) -> None:
        """Wait until the calls queued before `stop` are over, for as long as they take."""
        if self._last is not None:
            await self._last.result()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # or the last call's row or observation would live until the next


class Shot(NamedTuple):
    """One frame of a camera.

    Attributes:
        number: From 0, in order of reading.
        at_s: ``time.monotonic()`` when the read returned.
        frame: What it returned.
    """

    number: int
    at_s: float
    frame: Any


class Camera:
    """A thread that reads one camera continuously and keeps the newest frame.

    Attributes:
        name: The observation's key.

    Args:
        name: The observation's key.
        read: Blocks until the next frame and returns it, a new object each time; None is no frame.
    """

    def __init__(self, name: str, read: Callable[[], Any]) -> None:
        self.name = name
        self._read = read
        self._lock = threading.Lock()
        self._newest: Shot | None = None
        self._error: Exception | None = None
        self._error_taken = threading.Event()
        self._stopping = threading.Event()
        self._over = False
        self._waiting: list[tuple[Poster, anyio.Event]] = []
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether its thread is there."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def newest(self) -> Shot | None:
        """The newest frame, None before the first; errors stay where they are."""
        with self._lock:
            return self._newest

    def start(self) -> None:
        """Start reading, unless it reads already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"camera {self.name}", daemon=True)
            self._thread.start()

    def newest_nowait(self) -> Shot | None:
        """The newest frame, None before the first. Raises what the read raised since the last call; it reads on."""
        with self._lock:
            error, self._error = self._error, None
            newest = self._newest
        if error is not None:
            self._error_taken.set()
            raise error
        return newest

    async def first(self) -> Shot:
        """The newest frame; waits for the first, for as long as the camera takes to give one or to raise."""
        while (newest := self.newest_nowait()) is None:
            await self._change(lambda: self._newest is not None or self._error is not None)
        return newest

    def stop(self) -> None:
        """Stop after the read in progress."""
        self._stopping.set()
        self._error_taken.set()

    async def ended(self) -> None:
        """Wait until the read that was in progress at `stop` is over, for as long as it takes."""
        while self.alive and not self._over:
            await self._change(lambda: self._over)

    async def _change(self, there: Callable[[], bool]) -> None:
        """Wait until something happened in the thread, unless it is ``there`` already."""
        waiter = (poster(), anyio.Event())
        with self._lock:
            if there():
                return
            self._waiting.append(waiter)
        await waiter[1].wait()

    def _work(self) -> None:
        number = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                frame = self._read()
            except Exception as error:
                self._failed(error)
                continue
            now_s = time.monotonic()
            if frame is not None:
                self._taken(Shot(number, now_s, frame))
                number += 1
            if now_s - began_s < _SHORTEST_READ_S:
                self._stopping.wait(_SHORTEST_READ_S)
        with self._lock:
            self._over = True
        self._wake()

    def _taken(self, shot: Shot) -> None:
        with self._lock:
            self._newest = shot
        self._wake()

    def _failed(self, error: Exception) -> None:
        """Keep the error and wait until somebody took it: a camera that is gone raises once a look, not in a loop."""
        self._error_taken.clear()
        with self._lock:
            self._error = error
        self._wake()
        if not self._stopping.is_set():
            self._error_taken.wait()

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for post, event in waiting:
            try:
                post(event.set)
            except RuntimeError:
                logger.debug("camera %s: a frame came after its reader's loop had ended", self.name)


def poster() -> Poster:
    """A function that has something called in the running loop, from any thread and without waiting for it.

    It raises RuntimeError once the loop has ended.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        post: Poster = trio.lowlevel.current_trio_token().run_sync_soon
        return post
    return asyncio.get_running_loop().call_soon_threadsafe
