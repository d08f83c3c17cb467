"""Robots that are not there: an arm that remembers everything it was told, and wrappers that make it slow or faulty.

They compose: ``Slow(Faulty(FakeArm(6), act_on={3}), observe_s=0.0301)`` is an arm whose camera takes 30 ms and whose
third ``act`` raises. Each has ``observe``, ``act``, ``hold`` and ``names``, so each can be handed to ``policy.run``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import anyio
import numpy as np
import numpy.typing as npt

from seqrt.testing.durations import Durations, drawn

Observation = dict[str, Any]
Row = npt.NDArray[np.float64]


class Acted(NamedTuple):
    """One row that reached the motors: when, on the arm's clock, and a copy of it, float64 `[A]`."""

    at_s: float
    row: Row


@runtime_checkable
class FakeRobot(Protocol):
    """What the wrappers wrap: ``observe``, ``act``, ``hold``, each sync or async, and ``names``."""

    @property
    def names(self) -> Sequence[str]:
        """One name a joint."""

    def observe(self) -> Any:
        """The observation, or an awaitable of it."""

    def act(self, row: Row) -> Any:
        """Send one row, float64 `[A]`; may return an awaitable."""

    def hold(self) -> Any:
        """Stay where it is; may return an awaitable."""


class FakeArm:
    """An arm of ``joints`` joints whose methods return at once.

    Args:
        joints: A, the joints of a row.
        space: What a row does: "absolute" goes there, "delta" adds to the position, "velocity" adds row × ``dt_s``.
        dt_s: Period of a velocity row, in seconds.
        start: Position at first, `[A]`; zeros if not given.
        camera: Shape ``(height, width)`` of a picture to put under "camera"; None for no camera.
        lag: The arm follows this many acts behind what it is told.
        names: One name a joint; "joint_0" … if not given.
        clock: Where times come from; the loop's own time unless given. Give ``time.monotonic`` for an arm that is
            called from a thread.

    Attributes:
        position: Where it is, float64 `[A]`.
        acts: Every row it was sent, with its time.
        holds: The times at which it was told to hold.
        observed: The times at which it was looked at.
    """

    def __init__(
        self,
        joints: int = 6,
        *,
        space: Literal["absolute", "delta", "velocity"] = "absolute",
        dt_s: float = 0.05,
        start: Sequence[float] | None = None,
        camera: tuple[int, int] | None = None,
        lag: int = 0,
        names: Sequence[str] | None = None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.names: tuple[str, ...] = tuple(names or (f"joint_{joint}" for joint in range(joints)))
        self.position: Row = np.array(np.zeros(joints) if start is None else start, dtype=np.float64)
        self.acts: list[Acted] = []
        self.holds: list[float] = []
        self.observed: list[float] = []
        self._space = space
        self._dt_s = dt_s
        self._camera = camera
        self._commands: deque[Row] = deque(maxlen=lag + 1)
        self._lag = lag
        self._clock = clock

    def observe(self) -> Observation:
        """``{"state": float32 [A]}``, and under "camera" a picture, uint8 ``[height, width, 3]``.

        No two pictures in a row are alike: one pixel counts, from 0, how often the arm was looked at.
        """
        observation: Observation = {"state": self.position.astype(np.float32)}
        if self._camera is not None:
            observation["camera"] = self._picture(len(self.observed))
        self.observed.append(self._clock())
        return observation

    def act(self, row: Row) -> None:
        """Move by one row, float64 `[A]`, and remember it.

        Raises:
            ValueError: A row of another shape, or with a number that is not finite: no arm survives that.
        """
        row = np.array(row, dtype=np.float64)
        if row.shape != self.position.shape or not np.isfinite(row).all():
            raise ValueError(f"this arm takes {self.position.size} finite numbers, not {row.tolist()}")
        self.acts.append(Acted(self._clock(), row))
        self._commands.append(row)
        if len(self._commands) > self._lag:
            self._move(self._commands[0])

    def hold(self) -> None:
        """Stay there, and remember when."""
        self.holds.append(self._clock())
        self._commands.clear()

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        """Every row it was sent, float64 `[N, A]`; `[0, A]` before the first."""
        return np.array([acted.row for acted in self.acts]).reshape(-1, self.position.size)

    def _move(self, command: Row) -> None:
        if self._space == "absolute":
            self.position = command.copy()
        else:
            self.position = self.position + command * (self._dt_s if self._space == "velocity" else 1.0)

    def _picture(self, number: int) -> npt.NDArray[np.uint8]:
        assert self._camera is not None
        height, width = self._camera
        picture = np.zeros((height, width, 3), dtype=np.uint8)
        picture[..., 0] = 255  # red: whoever swaps the channels shows it
        picture[0, 0] = [number >> 16 & 255, number >> 8 & 255, number & 255]
        return picture


class Slow:
    """A robot whose calls take scripted durations of the loop's time, and are async.

    The wrapped call happens when the duration is over: an observation is as old as nothing, and a cancelled ``act``
    never reached the motors.

    Args:
        robot: The robot.
        observe_s: How long each ``observe`` takes: a number, a sequence (the last again and again) or a function.
        act_s: How long each ``act`` takes.
        hold_s: How long each ``hold`` takes.
    """

    def __init__(
        self, robot: FakeRobot, *, observe_s: Durations = 0.0, act_s: Durations = 0.0, hold_s: Durations = 0.0
    ) -> None:
        self.robot = robot
        self._observe_s, self._act_s, self._hold_s = drawn(observe_s), drawn(act_s), drawn(hold_s)

    @property
    def names(self) -> Sequence[str]:
        """The robot's."""
        return self.robot.names

    async def observe(self) -> Any:
        """Take its time, then observe."""
        await anyio.sleep(self._observe_s())
        return await _result(self.robot.observe())

    async def act(self, row: Row) -> None:
        """Take its time, then act."""
        await anyio.sleep(self._act_s())
        await _result(self.robot.act(row))

    async def hold(self) -> None:
        """Take its time, then hold."""
        await anyio.sleep(self._hold_s())
        await _result(self.robot.hold())


class Faulty:
    """A robot some of whose calls raise. Sync where the robot is, async where it is.

    Args:
        robot: The robot.
        observe_on: Which calls of ``observe`` raise, counted from 0 (``range(10, 13)``, ``{3}``).
        act_on: Which calls of ``act`` raise; such a row does not reach the motors.
        hold_on: Which calls of ``hold`` raise.
        error: What they raise.
    """

    def __init__(
        self,
        robot: FakeRobot,
        *,
        observe_on: Collection[int] = (),
        act_on: Collection[int] = (),
        hold_on: Collection[int] = (),
        error: Exception | None = None,
    ) -> None:
        self.robot = robot
        self.error = error if error is not None else OSError("[TxRxResult] There is no status packet!")
        self._on = {"observe": observe_on, "act": act_on, "hold": hold_on}
        self._calls = {"observe": 0, "act": 0, "hold": 0}

    @property
    def names(self) -> Sequence[str]:
        """The robot's."""
        return self.robot.names

    def observe(self) -> Any:
        """Observe, or raise."""
        self._count("observe")
        return self.robot.observe()

    def act(self, row: Row) -> Any:
        """Act, or raise."""
        self._count("act")
        return self.robot.act(row)

    def hold(self) -> Any:
        """Hold, or raise."""
        self._count("hold")
        return self.robot.hold()

    def _count(self, call: str) -> None:
        number = self._calls[call]
        self._calls[call] += 1
        if number in self._on[call]:
            raise self.error


class Frozen:
    """A robot whose camera stops: from observation ``after`` on, ``key`` shows the same picture for ever.

    Args:
        robot: The robot; its ``observe`` has to be sync.
        after: The last observation (from 0) whose picture is new.
        until: The first observation whose picture is new again; None for never.
        key: Key of the picture.
    """

    def __init__(self, robot: FakeRobot, *, after: int, until: int | None = None, key: str = "camera") -> None:
        self.robot = robot
        self._after, self._until, self._key = after, until, key
        self._number = 0
        self._picture: Any = None

    @property
    def names(self) -> Sequence[str]:
        """The robot's."""
        return self.robot.names

    def observe(self) -> Any:
        """Observe; once frozen, with the old picture."""
        observation = dict(self.robot.observe())
        if self._number > self._after and (self._until is None or self._number < self._until):
            observation[self._key] = self._picture
        else:
            self._picture = observation[self._key]
        self._number += 1
        return observation

    def act(self, row: Row) -> Any:
        """The robot's."""
        return self.robot.act(row)

    def hold(self) -> Any:
        """The robot's."""
        return self.robot.hold()


async def _result(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value
