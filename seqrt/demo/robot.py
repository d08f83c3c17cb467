"""The demo's robot: the PushT task of `gym-pusht` as a robot that a run can drive.

A simulated world: it moves when an action is played and stands still otherwise. It also keeps what happened, for the
pictures; the policy sees none of that.
"""

from __future__ import annotations

import contextlib
import io
import sys
import types
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.demo.shapes import SOLVED_COVERAGE, Floats, Pose

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Moment:
    """The world after one action.

    Attributes:
        agent: The agent's position.
        block: The T's pose, the simulation's own.
        target: The action; None before the first.
        coverage: Share of the goal that the T covers.
    """

    agent: tuple[float, float]
    block: Pose
    target: tuple[float, float] | None
    coverage: float


class PushTRobot:
    """One episode of PushT. ``observe``, ``act`` and ``hold`` are sync and take a few milliseconds.

    Args:
        seed: Where the agent and the T begin.

    Attributes:
        names: The columns of a row.
        moments: The world after each action so far, the start first.
    """

    names = ("x", "y")

    def __init__(self, seed: int = 0) -> None:
        self._world = _environment()
        observation, _ = self._world.reset(seed=seed)
        self._observation = _streamed(observation)
        self.moments = [self._moment(None, float(self._world._get_coverage()))]

    @property
    def coverage(self) -> float:
        """Share of the goal that the T covers now."""
        return self.moments[-1].coverage

    @property
    def success(self) -> bool:
        """Whether the task is done: coverage > 0.95, as the task itself counts it."""
        return self.coverage > SOLVED_COVERAGE

    def observe(self) -> dict[str, npt.NDArray[Any]]:
        """What the robot sees: "pixels" `[96, 96, 3]` uint8 and "agent_pos" float32 `[2]`."""
        return dict(self._observation)

    def act(self, row: Floats) -> None:
        """Play one period towards a target `[2]`. Once the task is done the episode is over and nothing moves."""
        if self.success:
            return
        observation, _, _, _, info = self._world.step(np.asarray(row, dtype=np.float64))
        self._observation = _streamed(observation)
        self.moments.append(self._moment((float(row[0]), float(row[1])), float(info["coverage"])))

    def hold(self) -> None:
        """Stand still: this world does whenever nothing is played."""

    def _moment(self, target: tuple[float, float] | None, coverage: float) -> Moment:
        agent, block = self._world.agent.position, self._world.block
        pose = Pose(float(block.position[0]), float(block.position[1]), float(block.angle))
        return Moment((float(agent[0]), float(agent[1])), pose, target, coverage)


def _streamed(observation: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {"pixels": observation["pixels"], "agent_pos": observation["agent_pos"].astype(np.float32)}


def _environment() -> Any:
    """The task. Its import prints a greeting, and wants OpenCV for one function."""
    # pygame greets on stdout; gym-pusht's own imports warn.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), _opencv():
        warnings.simplefilter("ignore")
        from gym_pusht.envs.pusht import PushTEnv
    return PushTEnv(obs_type="pixels_agent_pos", render_mode="rgb_array")


@contextlib.contextmanager
def _opencv() -> Any:
    """A stand-in for OpenCV while gym-pusht is imported, where the real one cannot be loaded.

    gym-pusht requires `opencv-python`, whose wheels need the system's libGL; a bare machine has none, and pip cannot
    give one. All that is used of it here is ``resize`` with its default, bilinear interpolation.
    """
    try:
        import cv2  # noqa: F401
    except ImportError:
        stand_in: Any = types.ModuleType("cv2")
        stand_in.resize = resize
        sys.modules["cv2"] = stand_in
        try:
            yield
        finally:
            del sys.modules["cv2"]
    else:
        yield


def resize(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """A picture `[h, w, 3]` brought to (width, height) as OpenCV does by default; within one grey level of it."""
    rows, row_share = _sampled(picture.shape[0], size[1])
    columns, column_share = _sampled(picture.shape[1], size[0])
    # Rows first: a row of the picture lies in one piece of memory.
    row_share, column_share = row_share[:, None, None], column_share[:, None]
    tall = picture[rows] * (1.0 - row_share) + picture[rows + 1] * row_share
    small = tall[:, columns] * (1.0 - column_share) + tall[:, columns + 1] * column_share
    return np.asarray(np.rint(small), dtype=np.uint8)


def _sampled(length: int, wanted: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """For each wanted place: the pixel before it, and the share of the pixel after."""
    places = np.clip((np.arange(wanted) + 0.5) * length / wanted - 0.5, 0.0, length - 1.0)
    low = np.minimum(places.astype(np.intp), length - 2)
    return low, places - low
