"""Find the T in the picture: its pose from 96 x 96 pixels and the agent's position, nothing else.

The worker's first step: the picture comes in as it was streamed, a `Pose` goes to the planner. The green channel tells
the block (136-163) from the floor (255) and the goal (238); the agent's disc is left out by its known position; an
analytic outline is fitted to what remains by Levenberg-Marquardt over (x, y, angle), begun from the centroid at several
angles. A fit that explains the picture badly is refused rather than guessed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqrt.demo.shapes import AGENT_RADIUS, CENTRE, SCREEN, Floats, Pose, rotation, signed_distance

FLOOR_GREEN, BLOCK_GREEN = 236.0, 164.0
"""Green at and above the first is floor or goal, at and below the second block; between, in proportion."""

DRAWN_GROWTH = 2.0
"""The task draws the block's rim this far beyond its outline."""

BLUR = 5.0
"""Width of the model's soft edge, about one pixel of the small picture."""

DRAWN_OFFSET = (-0.26, 0.05)
"""Where the task's rasterization puts a picture, from where it should be: the mean over 300 fits."""

LARGEST_RESIDUAL = 0.22
"""Misfit beyond which a fit is refused: root of the summed squares over the T's visible area; good ones reach 0.18."""

START_ANGLES = 24
LONGEST_REACH = 95.0
"""No point of the drawn T is farther from its centre of gravity than this."""


class Fit(NamedTuple):
    """A pose, and how far the picture is from it (see `LARGEST_RESIDUAL`; 0 is perfect)."""

    pose: Pose
    residual: float


def find_block(pixels: npt.NDArray[np.uint8], agent_pos: npt.ArrayLike) -> Pose | None:
    """The T's pose.

    Args:
        pixels: `[h, w, 3]` uint8, the picture of the whole screen.
        agent_pos: The agent's position `[2]`, screen pixels.

    Returns:
        The pose (about half a pixel and 0.2 degrees), or None when no T explains the picture.
    """
    fit = fit_block(pixels, agent_pos)
    return fit.pose if fit is not None and fit.residual <= LARGEST_RESIDUAL else None


def fit_block(pixels: npt.NDArray[np.uint8], agent_pos: npt.ArrayLike) -> Fit | None:
    """The best fit, good or not; None only when the picture shows no block at all."""
    points, alpha = _visible(pixels, np.asarray(agent_pos, dtype=np.float64))
    mass = float(alpha.sum())
    if mass < 20.0:
        return None
    centroid = (alpha @ points) / mass
    near = np.hypot(*(points - centroid).T) < LONGEST_REACH + 25.0
    points, alpha = points[near], alpha[near]
    fits = [_refine(points, alpha, start) for start in _starts(points, alpha, centroid)]
    return min(fits, key=lambda fit: fit.residual)


def _visible(pixels: npt.NDArray[np.uint8], agent: Floats) -> tuple[Floats, Floats]:
    """Screen positions `[n, 2]` and block shares `[n]` of the pixels not under the agent and not on the walls."""
    height, width = pixels.shape[:2]
    # The small picture is a bilinear reduction of the screen: pixel i is the screen at (i + 0.5) * 512 / size - 0.5.
    xs = (np.arange(width) + 0.5) * SCREEN / width - 0.5
    ys = (np.arange(height) + 0.5) * SCREEN / height - 0.5
    inside_x, inside_y = (xs > 9.0) & (xs < SCREEN - 9.0), (ys > 9.0) & (ys < SCREEN - 9.0)
    x, y = np.meshgrid(xs[inside_x], ys[inside_y])
    green = pixels[..., 1][np.ix_(inside_y, inside_x)].astype(np.float64)
    alpha = np.clip((FLOOR_GREEN - green) / (FLOOR_GREEN - BLOCK_GREEN), 0.0, 1.0)
    seen = np.hypot(x - agent[0], y - agent[1]) > AGENT_RADIUS + 4.0
    return np.stack([x[seen], y[seen]], axis=-1), alpha[seen]


def _starts(points: Floats, alpha: Floats, centroid: Floats) -> list[Pose]:
    """The two most promising of the angles all round, the visible mass's centroid taken for the T's."""
    sparse_points, sparse_alpha = points[::4], alpha[::4]
    angles: Floats = np.linspace(0.0, 2 * np.pi, START_ANGLES, endpoint=False, dtype=np.float64)
    origins: Floats = centroid - rotation(angles) @ CENTRE
    local = (sparse_points - origins[:, None]) @ rotation(angles)
    distance, _ = signed_distance(local, DRAWN_GROWTH)
    cost = np.sum((np.clip(0.5 - distance / (3 * BLUR), 0.0, 1.0) - sparse_alpha) ** 2, axis=-1)
    best = np.argsort(cost)
    # The runner-up must be another hypothesis, not the winner's neighbour.
    apart = np.abs((angles[best] - angles[best[0]] + np.pi) % (2 * np.pi) - np.pi) > np.pi / 4
    chosen = [int(best[0]), int(best[apart][0])]
    return [Pose(float(origins[i, 0]), float(origins[i, 1]), float(angles[i])) for i in chosen]


def _refine(points: Floats, alpha: Floats, start: Pose) -> Fit:
    """Levenberg-Marquardt from one start, first with a wide soft edge, then with the drawn one."""
    state, damping = np.array(start), 1e-2
    for blur, rounds in ((3 * BLUR, 6), (BLUR, 10)):
        misfit, jacobian = _misfit(points, alpha, state, blur)
        for _ in range(rounds):
            normal = jacobian.T @ jacobian
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -jacobian.T @ misfit)
            trial = state + step
            trial_misfit, trial_jacobian = _misfit(points, alpha, trial, blur)
            if trial_misfit @ trial_misfit >= misfit @ misfit:
                damping *= 8.0
                continue
            state, misfit, jacobian, damping = trial, trial_misfit, trial_jacobian, damping / 4.0
            if abs(step[0]) + abs(step[1]) + 50.0 * abs(step[2]) < 0.01:
                break
    x, y = state[:2] - DRAWN_OFFSET
    pose = Pose(float(x), float(y), float(state[2] % (2 * np.pi)))
    return Fit(pose, float(np.sqrt(misfit @ misfit / max(float(alpha.sum()), 1.0))))


def _misfit(points: Floats, alpha: Floats, state: Floats, blur: float) -> tuple[Floats, Floats]:
    """Model minus picture `[n]`, and its derivative by x, y and angle `[n, 3]`."""
    turn = rotation(float(state[2]))
    local = (points - state[:2]) @ turn
    distance, gradient = signed_distance(local, DRAWN_GROWTH)
    share = 0.5 - distance / blur
    slope = np.where((share > 0.0) & (share < 1.0), -1.0 / blur, 0.0)
    by_position = -gradient @ turn.T
    by_angle = gradient[:, 0] * local[:, 1] - gradient[:, 1] * local[:, 0]
    jacobian = slope[:, None] * np.column_stack([by_position, by_angle])
    return np.clip(share, 0.0, 1.0) - alpha, jacobian
