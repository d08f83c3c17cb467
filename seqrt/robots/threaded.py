"""`threaded`: a robot with blocking drivers as one with async methods, so that no driver ever holds up the loop.

In: a robot object whose ``observe``, ``act`` and ``hold`` block, and cameras as functions that block. Out: what
``policy.run(robot)`` takes. Every call to the bus goes through one thread, in order (never two threads on one bus);
every camera has a thread that reads all the time, and its newest frame is there without waiting.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import numpy.typing as npt

from seqrt.robots.lanes import Bus, Camera, Job

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CameraStatistics:
    """One camera so far.

    Attributes:
        frames_read: Frames the camera gave.
        frames_observed: Those that went into an observation; the others were overtaken by newer ones.
        age_s: How long ago the newest was read; None before the first.
    """

    frames_read: int
    frames_observed: int
    age_s: float | None


def threaded(
    robot: Any,
    *,
    cameras: Mapping[str, Callable[[], Any]] | None = None,
    estop: Callable[[], object] | None = None,
    estop_after_s: float = 0.5,
    close_s: float = 1.0,
) -> ThreadedRobot:
    """Put a blocking driver, and its cameras, into threads of their own.

    Args:
        robot: An object with blocking ``act(row)`` and ``hold()``, ``observe()`` for what is read over the same bus
            (a dict; it may be missing where cameras are all there is), and perhaps ``names``.
        cameras: For each key of the observation a function that blocks until the next frame and returns it, a new
            array each time. None for no frame; what it raises comes out of the next ``observe``, and it is called
            again after that.
        estop: Your word that this function is safe to call while another thread is stuck in the robot's driver (a
            relay, a second connection). ``hold`` calls it when the bus does not get to it.
        estop_after_s: How long ``hold`` waits for the bus before that; half of the second a run gives ``hold``.
        close_s: How long `ThreadedRobot.aclose` waits for threads to come out of their drivers.

    Returns:
        A robot whose methods are async. Its threads start with ``async with``, or else with the first call.

    Raises:
        ValueError: An object without ``act`` or ``hold``, with nothing to observe, or with async methods.
    """
    return ThreadedRobot(robot, cameras or {}, estop, estop_after_s, close_s)


class ThreadedRobot:
    """A blocking robot behind lanes of its own; made by `threaded`.

    ``async with threaded(robot, cameras={"wrist": camera.read}) as arm: await policy.run(arm, …)`` starts the threads
    and stops them, in bounded time. A thread that hangs in its driver is left behind and said so; it does
    not keep the program from ending. For asyncio and trio; threads are invisible to virtual time.
    """

    def __init__(
        self,
        robot: Any,
        cameras: Mapping[str, Callable[[], Any]],
        estop: Callable[[], object] | None,
        estop_after_s: float,
        close_s: float,
    ) -> None:
        missing = [name for name in ("act", "hold") if not callable(getattr(robot, name, None))]
        if missing:
            raise ValueError(
                f"{type(robot).__name__} has no {' and no '.join(missing)}: a robot has observe, act, hold"
            )
        self._read_bus: Callable[[], Any] | None = getattr(robot, "observe", None)
        if self._read_bus is None and not cameras:
            raise ValueError(f"{type(robot).__name__} has no observe, and there are no cameras: nothing to look at")
        for name in ("act", "hold", "observe"):
            if inspect.iscoroutinefunction(getattr(robot, name, None)):
                raise ValueError(
                    f"{type(robot).__name__}.{name} is async: such a robot needs no threads, hand it to run()"
                )
        self._robot = robot
        self._estop, self._estop_after_s, self._close_s = estop, estop_after_s, close_s
        self._bus = Bus("robot bus")
        self._estop_lane = Bus("robot estop")
        self._cameras = {key: Camera(key, read) for key, read in cameras.items()}
        self._given: dict[str, int] = {}
        self._observed: Counter[str] = Counter()
        self._closed = False

    @property
    def names(self) -> Sequence[str] | None:
        """The robot's names of its columns, None where it has none."""
        names: Sequence[str] | None = getattr(self._robot, "names", None)
        return names

    async def observe(self) -> Mapping[str, Any] | None:
        """The robot's own observation, read in the bus lane, with the newest frame of every camera.

        A frame is given once: while a camera has no newer one than last time, there is no observation (None, the
        run's word for "nothing new"), and the bus is left alone. A camera that stands still is thus seen as an
        observation that grows old, never as a new one. The first call waits for every camera's first frame.

        Raises:
            RuntimeError: It was closed.
            Exception: What the robot's ``observe`` or a camera's function raised.
        """
        self._open()
        for camera in self._cameras.values():
            camera.start()
        for key, camera in self._cameras.items():
            shot = camera.newest_nowait() if key in self._given else await camera.first()
            if shot is None or shot.number == self._given.get(key):
                await anyio.lowlevel.checkpoint()
                return None
        joints = await self._joints()
        return None if joints is None else self._with_frames(joints)

    async def act(self, row: npt.NDArray[np.float64]) -> None:
        """Send one row in the bus lane, behind the calls that are there.

        Cancelled, it is taken back if the lane has not begun it; one that has begun is left to its thread, and what
        comes later waits behind it.

        Raises:
            RuntimeError: It was closed.
            Exception: What the robot's ``act`` raised.
        """
        self._open()
        await _finished(self._bus.submit(self._robot.act, row))

    async def hold(self) -> None:
        """Have the robot stand still, in the bus lane: never beside a call that is in the driver.

        Once queued it is not taken back: cancelled, it still holds as soon as the bus is free. With ``estop``, a bus
        that does not get through with it in ``estop_after_s`` is passed by: ``estop`` is called in a thread
        of its own, and when it returned the robot counts as held.

        Raises:
            RuntimeError: It was closed.
            Exception: What the robot's ``hold``, or ``estop``, raised.
        """
        self._open()
        job = self._bus.submit(self._robot.hold)
        if self._estop is None:
            await job.result()
            return
        with anyio.move_on_after(self._estop_after_s):
            await job.result()
            return
        logger.warning("the robot's bus did not get to hold in %.1f s: estop", self._estop_after_s)
        await self.estop()

    async def estop(self) -> None:
        """Call ``estop`` at once, in a thread of its own beside the bus.

        Raises:
            RuntimeError: `threaded` was given none.
            Exception: What it raised.
        """
        if self._estop is None:
            raise RuntimeError("threaded(robot, estop=...) was given no estop")
        await self._estop_lane.submit(self._estop).result()

    def statistics(self) -> Mapping[str, CameraStatistics]:
        """For each camera what it gave so far, as a snapshot."""
        return {key: self._statistics_of(key, camera) for key, camera in self._cameras.items()}

    async def __aenter__(self) -> ThreadedRobot:
        """Start the cameras."""
        self._open()
        for camera in self._cameras.values():
            camera.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; see `aclose`."""
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the threads: the bus after the calls it has, a camera after the read it is in; within ``close_s``."""
        self._closed = True
        lanes: list[Bus | Camera] = [self._bus, self._estop_lane, *self._cameras.values()]
        for lane in lanes:
            lane.stop()
        with anyio.move_on_after(self._close_s, shield=True):
            for lane in lanes:
                await lane.ended()
            return
        stuck = ", ".join(lane.name for lane in lanes if lane.alive)
        logger.warning("still in their drivers after %.1f s, and left behind: %s", self._close_s, stuck)

    def _open(self) -> None:
        if self._closed:
            raise RuntimeError("this threaded robot was closed; make another")

    async def _joints(self) -> Mapping[str, Any] | None:
        if self._read_bus is None:
            return {}
        joints: Mapping[str, Any] | None = await _finished(self._bus.submit(self._read_bus))
        return joints

    def _with_frames(self, joints: Mapping[str, Any]) -> Mapping[str, Any]:
        """The observation; the frames are those that are newest now, after the bus was read."""
        observation = dict(joints)
        for key, camera in self._cameras.items():
            shot = camera.newest_nowait()
            assert shot is not None
            observation[key] = shot.frame
            self._given[key] = shot.number
            self._observed[key] += 1
        return observation

    def _statistics_of(self, key: str, camera: Camera) -> CameraStatistics:
        shot = camera.newest
        if shot is None:
            return CameraStatistics(0, 0, None)
        return CameraStatistics(shot.number + 1, self._observed[key], time.monotonic() - shot.at_s)


async def _finished(job: Job) -> Any:
    """What the job's call returned; left early, the call is taken back if it has not begun."""
    try:
        return await job.result()
    finally:
        job.drop()
