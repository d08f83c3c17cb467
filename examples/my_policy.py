"""A policy with declarations: a pan-tilt head follows a light, aiming at where it will be.

Serve it with ``seqrt serve examples.my_policy:MyPolicy`` from the repository's root, or with ``seqrt serve
my_policy:MyPolicy`` from this folder. Or run this file: the same policy drives a simulated head in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt

import seqrt

HZ, ROWS = 15, 8
JOINTS = ("pan", "tilt")
BOUNDS = ((-1.5, 1.5), (-0.8, 0.8))
HEIGHT, WIDTH = 48, 64
RAD_PER_PIXEL = 0.02
STEP_RAD = 0.12
"""The farthest a joint goes in one row."""

Floats = npt.NDArray[np.float64]


@seqrt.policy(
    observations=seqrt.Observations(
        streams={
            # Two frames and the joints that belong to them: fifteen steps (a second) ago, and now.
            "camera": seqrt.Stream(at=(-15, 0), shape=(HEIGHT, WIDTH, 3), dtype="uint8"),
            "state": seqrt.Stream(at=(-15, 0), shape=(2,), dtype="float32", names=JOINTS),
        }
    ),
    actions=seqrt.Actions(key="actions", hz=HZ, open_loop_horizon=ROWS, space="absolute", names=JOINTS, bounds=BOUNDS),
    name="light-follower",
)
class MyPolicy:
    """Turns towards the light; where none is to be seen it sweeps slowly until there is one."""

    def infer(self, obs: Mapping[str, Any]) -> dict[str, Floats]:
        """Plan the next rows, ``{"actions": [8, 2]}`` in rad.

        Args:
            obs: ``observations``, oldest first, and the ``steps`` they are of. In the first second both entries are
                the first observation.
        """
        (then, now), (began, step) = obs["observations"], obs["steps"]
        ahead = np.arange(1, ROWS + 1)
        light, before = direction_of_light(now), direction_of_light(then)
        if light is None:
            goals = np.column_stack([0.6 * np.sin(0.1 * (step + ahead)), np.zeros(ROWS)])
        else:
            moved = light - before if before is not None and step > began else np.zeros(2)
            goals = light + np.outer(ahead / max(1, step - began), moved)
        return {"actions": towards(now["state"], np.clip(goals, *np.transpose(BOUNDS)))}


def direction_of_light(seen: Mapping[str, Any]) -> Floats | None:
    """Pan and tilt `[2]` that point at what shines, None where nothing does."""
    rows, columns = np.nonzero(seen["camera"][..., 1] > 128)
    if not rows.size:
        return None
    off_centre = np.array([columns.mean() - WIDTH / 2, HEIGHT / 2 - rows.mean()])
    return np.asarray(seen["state"] + RAD_PER_PIXEL * off_centre)


def towards(start: Floats, goals: Floats) -> Floats:
    """Rows `[H, 2]` from ``start`` after ``goals`` `[H, 2]`, none farther than `STEP_RAD` from the one before."""
    rows, at = np.empty_like(goals), start
    for index, goal in enumerate(goals):
        rows[index] = at = at + np.clip(goal - at, -STEP_RAD, STEP_RAD)
    return rows


class SimulatedHead:
    """A head that is where it was told to be, in front of a light that goes around once in 20 s."""

    names = JOINTS

    def __init__(self) -> None:
        self.position, self.light, self.ticks = np.zeros(2), np.array([0.9, 0.0]), 0
        self._noise = np.random.default_rng(0)

    def observe(self) -> dict[str, npt.NDArray[Any]]:
        """The joints, and the picture: dark and a little noisy, with a white spot where the light is."""
        pan, tilt = (self.light - self.position) / RAD_PER_PIXEL
        row, column = round(HEIGHT / 2 - tilt), round(WIDTH / 2 + pan)
        # As a sensor's are, no two pictures are the same: a camera that gives the very same one is said to hang.
        picture = self._noise.integers(0, 8, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        picture[max(0, row - 2) : max(0, row + 3), max(0, column - 2) : max(0, column + 3)] = 255
        return {"camera": picture, "state": self.position.copy()}

    def act(self, row: Floats) -> None:
        """Go there; a period goes by."""
        self.position, self.ticks = row, self.ticks + 1
        angle = 2 * np.pi * self.ticks / (20 * HZ)
        self.light = np.array([0.9 * np.cos(angle), 0.4 * np.sin(angle)])

    def hold(self) -> None:
        """It stands still by itself."""


async def main(actions: int = 10 * HZ) -> None:
    """Drive the simulated head with the policy, both in this process."""
    head = SimulatedHead()
    async with seqrt.connect(policy=MyPolicy()) as policy:
        print(await policy.run(head, validate=lambda row: bool(np.abs(row).max() <= 1.5), max_actions=actions))
    print(f"The light is {np.linalg.norm(head.light - head.position):.3f} rad from where the head looks.")


if __name__ == "__main__":
    anyio.run(main)
