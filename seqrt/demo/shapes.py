"""The PushT world in numbers: the T's outline, the agent and its motion, the goal. Pure geometry, no physics engine.

What `perception`, `planner` and `pictures` share. Lengths are pixels of the task's 512 x 512 screen, angles radians,
y downward as on the screen. The T's own frame has its origin in the middle of the bar's outer edge; the bar lies along
x, the stem along +y. Figures are those of `gym_pusht/PushT-v0`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SCREEN = 512.0
PERIOD_S = 0.1
SUBSTEPS = 10
SUBSTEP_S = PERIOD_S / SUBSTEPS
AGENT_RADIUS = 15.0
AGENT_KP, AGENT_KV = 100.0, 20.0
WALL_NEAR, WALL_FAR, WALL_RADIUS = 5.0, 506.0, 2.0
SOLVED_COVERAGE = 0.95

RECTANGLES: tuple[tuple[float, float, float, float], ...] = ((-60.0, 60.0, 0.0, 30.0), (-15.0, 15.0, 30.0, 120.0))
"""The T as two rectangles (x low, x high, y low, y high) in its own frame."""

OUTLINE: Floats = np.array(
    [(-60, 0), (60, 0), (60, 30), (15, 30), (15, 120), (-15, 120), (-15, 30), (-60, 30)], dtype=np.float64
)
"""The T's corners in order, `[8, 2]`, in its own frame; these are the keypoints of the planner's cost."""

CENTRE: Floats = np.array((0.0, 45.0))
"""The T's centre of gravity in its own frame."""


class Pose(NamedTuple):
    """Where a T lies: the origin of its frame on the screen, and its angle."""

    x: float
    y: float
    angle: float


GOAL = Pose(256.0, 256.0, np.pi / 4)


def rotation(angle: float | Floats) -> Floats:
    """The matrices that turn by `angle`: `[2, 2]` for one, `[..., 2, 2]` for an array of angles."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s], axis=-1), np.stack([s, c], axis=-1)], axis=-2)


def place(points: Floats, pose: Pose) -> Floats:
    """Points `[n, 2]` of the T's frame, on the screen."""
    placed: Floats = points @ rotation(pose.angle).T + (pose.x, pose.y)
    return placed


def signed_distance(points: Floats, grow: float = 0.0) -> tuple[Floats, Floats]:
    """Distance of points to the T's outline, negative inside, and the direction in which it grows.

    Args:
        points: `[..., 2]`, in the T's frame.
        grow: How far the outline is moved outward.

    Returns:
        Distances `[...]` and unit gradients `[..., 2]`. Inside, near the joint of bar and stem, the distance is a
        bound (the nearer rectangle's); outside it is exact.
    """
    distance, gradient = _rectangle_distance(points, RECTANGLES[0])
    # The stem is measured from the bar's outer edge, so that no seam runs through the T.
    low_x, high_x, _, high_y = RECTANGLES[1]
    stem_distance, stem_gradient = _rectangle_distance(points, (low_x, high_x, 0.0, high_y))
    nearer = stem_distance < distance
    return np.where(nearer, stem_distance, distance) - grow, np.where(nearer[..., None], stem_gradient, gradient)


def _rectangle_distance(points: Floats, rectangle: tuple[float, float, float, float]) -> tuple[Floats, Floats]:
    low_x, high_x, low_y, high_y = rectangle
    offset = points - ((low_x + high_x) / 2, (low_y + high_y) / 2)
    beyond = np.abs(offset) - ((high_x - low_x) / 2, (high_y - low_y) / 2)
    outside = np.maximum(beyond, 0.0)
    length = np.hypot(outside[..., 0], outside[..., 1])
    is_outside = length > 0.0
    x_wins = beyond[..., 0] > beyond[..., 1]
    distance = np.where(is_outside, length, np.where(x_wins, beyond[..., 0], beyond[..., 1]))
    inner = np.stack([x_wins, ~x_wins], axis=-1).astype(np.float64)
    outer = outside / np.where(is_outside, length, 1.0)[..., None]
    return distance, np.where(is_outside[..., None], outer, inner) * np.sign(offset)


def agent_response(rows: int) -> tuple[Floats, Floats]:
    """The agent's motion as a linear map: it follows its target by a PD law, whatever it pushes.

    Args:
        rows: Targets played, one a period.

    Returns:
        Positions and velocities, each `[rows * SUBSTEPS, 2 + rows]`: multiplied by (position, velocity, target 0,
        target 1, …) they give the agent's position after, and its velocity during, each substep.
    """
    size = 2 + rows
    position, velocity = np.eye(size)[0], np.eye(size)[1]
    positions, velocities = np.empty((rows * SUBSTEPS, size)), np.empty((rows * SUBSTEPS, size))
    for substep in range(rows * SUBSTEPS):
        target = np.eye(size)[2 + substep // SUBSTEPS]
        velocity = velocity + SUBSTEP_S * (AGENT_KP * (target - position) - AGENT_KV * velocity)
        position = position + SUBSTEP_S * velocity
        positions[substep], velocities[substep] = position, velocity
    return positions, velocities
