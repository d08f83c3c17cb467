"""From a record to numbers: success, time, starved ticks, reversals, speed, jerk, jumps, age, acts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.lag.core import OVER, PLAYED, STARVED, Record
from bench.lag.worlds import PERIOD_S, Body, Points, Reals

BACKWARD_M: Final = 0.001
"""How far the commanded tip has to go back at a seam to be called a reversal."""
MOVING_M: Final = 0.002
"""A tick, 0.1 m/s."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Measured:
    """One cell.

    Attributes:
        reached: `[E]`, for paired comparisons.
        touched: Share of episodes that ran into the obstacle.
        time_s: Mean time of the episodes that reached the goal, nan where none did.
        starved: Share of ticks after the first action at which no row was due.
        reversals: Share of seams at which the commanded tip went back.
        speed_m_s: Mean speed of the tip.
        jerk: Mean jerk of the commands where a seam or a starved tick is in it, over that where none is.
        jump_p95: Of the commands at seams, in the rows' units.
        age_p50_s: Of the observation behind a row, when played.
        age_p99_s: The same.
        acts_per_s: Requests a second.
        infer_s: Seconds of inference a second.
    """

    reached: Flags
    touched: float
    time_s: float
    starved: float
    reversals: float
    speed_m_s: float
    jerk: float
    jump_p95: float
    age_p50_s: float
    age_p99_s: float
    acts_per_s: float
    infer_s: float


def measured(record: Record, body: Body, infer_s: float) -> Measured:
    """The numbers of one cell."""
    alive = record.kind != OVER
    seconds = alive.sum() * PERIOD_S
    moving = alive & (record.kind != 0)
    age = record.age_s[np.isfinite(record.age_s)]
    steps = np.abs(np.diff(record.tip, axis=1))
    return Measured(
        reached=record.reached,
        touched=float(record.touched.mean()),
        time_s=float(record.ticks[record.reached].mean() * PERIOD_S) if record.reached.any() else math.nan,
        starved=float((record.kind == STARVED).sum() / max(1, moving.sum())),
        reversals=reversals(body.tip(record.commands), _seams(record)),
        speed_m_s=float(np.nansum(steps) / seconds),
        jerk=jerk_ratio(record.commands, _seams(record) | (record.kind == STARVED), alive),
        jump_p95=_jump(record.commands, _seams(record)),
        age_p50_s=float(np.quantile(age, 0.5)) if len(age) else math.nan,
        age_p99_s=float(np.quantile(age, 0.99)) if len(age) else math.nan,
        acts_per_s=float(record.asked.sum() / seconds),
        infer_s=float(record.asked.sum() * infer_s / seconds),
    )


def _seams(record: Record) -> Flags:
    """First rows of chunks, but for the very first of an episode: nothing was sent before it."""
    first = np.cumsum(record.kind == PLAYED, axis=1) <= 1
    return record.seam & ~first


def reversals(tip: Points, seams: Flags) -> float:
    """Share of seams at which the commanded tip goes back by more than `BACKWARD_M`, against its last step; `[E, T]`.

    Seams in motion alone, where that step was `MOVING_M` or more: near the goal to and fro is what is wanted. After
    starved ticks the last step is the last one that was not nought.
    """
    step = np.diff(tip, axis=1, prepend=tip[:, :1])
    way = _last_moving(step)
    before = np.concatenate((np.zeros_like(way[:, :1]), way[:, :-1]), axis=1)
    along = (step * np.conj(before)).real / np.maximum(np.abs(before), 1e-12)
    with np.errstate(invalid="ignore"):
        moving = seams & (np.abs(before) >= MOVING_M)
        back = moving & (along < -BACKWARD_M)
    return float(back.sum() / max(1, moving.sum()))


def _last_moving(step: Points) -> Points:
    way: Points = step.copy()
    for tick in range(1, way.shape[1]):
        still = ~(np.abs(way[:, tick]) > 1e-9)
        way[still, tick] = way[still, tick - 1]
    return way


def jerk_ratio(commands: Reals, rough: Flags, alive: Flags) -> float:
    """Mean length of the third difference of `[E, T, A]` where a rough tick is within it, over the others'."""
    jerk = np.sqrt((np.diff(commands, n=3, axis=1) ** 2).sum(axis=2))
    within = rough[:, 3:] | rough[:, 2:-1] | rough[:, 1:-2]
    known = np.isfinite(jerk) & alive[:, 3:]
    at, between = jerk[within & known], jerk[~within & known]
    if not len(at) or not len(between) or not between.mean() > 0:
        return math.nan
    return float(at.mean() / between.mean())


def _jump(commands: Reals, seams: Flags) -> float:
    jumps = np.abs(np.diff(commands, axis=1)).max(axis=2)[seams[:, 1:]]
    jumps = jumps[np.isfinite(jumps)]
    return float(np.quantile(jumps, 0.95)) if len(jumps) else math.nan
