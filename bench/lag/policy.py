"""The policy: a receding horizon from the observed state, left or right of the obstacle, chosen anew until committed.

It is a stand-in for a learned one: it sees one observation (state, goal and its velocity, obstacle), answers with
``H`` commands for the servo, and knows neither the kick nor the servo's true stiffness nor its delay. Sent the rows
that are committed, it goes on from where they lead. No answer is made twice: each has a whim of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.lag.worlds import PERIOD_S, RADIUS, SUBSTEPS, Body, Points, Reals, pulled, served

SPEED: Final = 0.55
STRONGEST: Final = 5.0
"""Largest acceleration of the tip, m/s²."""
SETTLE_S: Final = 0.08
MARGIN: Final = 0.02
SEES: Final = 0.22
"""How near the obstacle has to be to be minded."""
UNDECIDED: Final = 0.03
COMMITTED: Final = 0.06
"""Metres off the line to the goal: how far is half a decision, how far is one."""
LOOKS_AHEAD_S: Final = 0.1
EASED_TICKS: Final = 2.0
WHIM: Final = 0.06
"""Radians."""


@dataclass(frozen=True, eq=False)
class Views:
    """What ``m`` requests say.

    Attributes:
        q: Observed positions `[m, A]`.
        v: Observed velocities `[m, A]`.
        goal: `[m]`.
        goal_v: `[m]`.
        obstacle: `[m]`.
        side: `[m]`, uniform.
        whim: `[m]`, normal.
        prefix: Committed rows `[m, D, A]`; those from ``delay`` on mean nothing.
        delay: How many of them are committed `[m]`.
        known: How many of them are planned at all `[m]`.
        spacing: s `[m]`.
        number: Of the draw `[m]`; the same number, the same noise.
    """

    q: Reals
    v: Reals
    goal: Points
    goal_v: Points
    obstacle: Points
    side: Reals
    whim: Reals
    prefix: Reals
    delay: npt.NDArray[np.int64]
    known: npt.NDArray[np.int64]
    spacing: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


def planned(body: Body, views: Views, rows: int) -> Reals:
    """Answers `[m, rows, A]`: commands for the ticks after the observation."""
    q, v = _arrived(body, views)
    ahead_s = (views.delay + 1 - 1 / SUBSTEPS) * PERIOD_S
    fresh = _path(body, q, v, views.goal + views.goal_v * ahead_s, views, rows)
    if not views.delay.any():
        return fresh
    index = np.arange(rows)[np.newaxis, :] - views.delay[:, np.newaxis]
    answers = np.take_along_axis(fresh, np.maximum(index, 0)[..., np.newaxis], axis=1)
    given = index < 0
    filled = np.zeros_like(answers)
    width = min(rows, views.prefix.shape[1])
    filled[:, :width] = views.prefix[:, :width]
    answers[given] = filled[given]
    return _eased(answers, views)


def _eased(answers: Reals, views: Views) -> Reals:
    """Rows behind a prefix lead out of it: at its pace first, by themselves after a few rows.

    A model that was trained on whole motions and is told the rows before answers with a motion; what the observation
    says otherwise than those rows (a kick) it takes up along the way, not at once.
    """
    eased: Reals = answers.copy()
    for m in np.flatnonzero(views.delay > 1):
        d = int(views.delay[m])
        apart = 2 * answers[m, d - 1] - answers[m, d - 2] - answers[m, d]
        i = np.arange(answers.shape[1] - d)[:, np.newaxis] / EASED_TICKS
        eased[m, d:] += apart * (1 + i) * np.exp(-i)
    return eased


def _arrived(body: Body, views: Views) -> tuple[Reals, Reals]:
    """Where the arm will be when the first row of its own is due: the committed rows played, by the model."""
    q, v = views.q + (1 - 1 / SUBSTEPS) * PERIOD_S * views.v, views.v
    for i in range(int(views.delay.max(initial=0))):
        on = (i < views.delay)[:, np.newaxis]
        moved_q, moved_v = q, v
        for _ in range(SUBSTEPS):
            moved_q, moved_v = served(moved_q, moved_v, views.prefix[:, i], body.omega)
        q, v = np.where(on, moved_q, q), np.where(on, moved_v, v)
    return q, v


def _path(body: Body, q: Reals, v: Reals, goal: Points, views: Views, rows: int) -> Reals:
    columns = body.columns(q)
    x, xv = body.tip(q), (columns * v).sum(axis=-1)
    side = _sides(x, xv, goal, views)
    turned = np.exp(1j * WHIM * views.whim)
    answers = np.empty((len(q), rows, body.dims))
    for i in range(rows):
        wanted = _wanted(x, goal, views.goal_v, views.obstacle, side, turned)
        pull = (wanted - xv) / SETTLE_S
        pull *= np.minimum(1.0, STRONGEST / np.maximum(np.abs(pull), 1e-9))
        if body.dims > 2:
            columns = body.columns(q)
        rates = pulled(columns, xv)
        answers[:, i] = q + 2 / body.omega * rates + pulled(columns, pull) / body.omega**2
        q = q + PERIOD_S * rates
        x, xv, goal = body.tip(q), xv + PERIOD_S * pull, goal + PERIOD_S * views.goal_v
    return answers


def _sides(x: Points, xv: Points, goal: Points, views: Views) -> Reals:
    """+1 where the obstacle is passed on the left hand, -1 on the right."""
    return np.where(views.side < lefts(x, xv, goal, views.obstacle), 1.0, -1.0)


def lefts(x: Points, xv: Points, goal: Points, obstacle: Points) -> Reals:
    """How likely it is passed on the left: 0 or 1 once it is committed."""
    way = _unit(goal - x)
    off = ((x + LOOKS_AHEAD_S * xv - obstacle) * np.conj(way)).imag
    left: Reals = 1 / (1 + np.exp(-np.clip(off / UNDECIDED, -30, 30)))
    sure: Reals = np.where(np.abs(off) > COMMITTED, off > 0, left)
    return sure


def _wanted(x: Points, goal: Points, goal_v: Points, obstacle: Points, side: Reals, turned: Points) -> Points:
    """The velocity wanted at ``x``: to the goal, along the tangent of the obstacle where that is in between."""
    to_goal, to_disc = goal - x, obstacle - x
    far, near = np.abs(to_goal), np.abs(to_disc)
    heading, disc = to_goal / np.maximum(far, 1e-9), to_disc / np.maximum(near, 1e-9)
    reach = RADIUS + MARGIN
    sine = np.minimum(1.0, reach / np.maximum(near, 1e-9))
    angle = heading * np.conj(disc)
    blocked = (angle.real > 0) & (np.abs(angle.imag) < sine) & (near < SEES) & (near < far + reach)
    tangent = disc * (np.sqrt(1 - sine * sine) + 1j * side * sine)
    heading = np.where(blocked, tangent, heading) * turned
    inside = np.maximum(0.0, reach - near)
    speed = np.minimum(SPEED, 4.0 * far)
    wanted: Points = speed * heading + goal_v * (far < 0.1) - disc * 8.0 * inside
    return wanted


def _unit(z: Points) -> Points:
    return z / np.maximum(np.abs(z), 1e-9)
