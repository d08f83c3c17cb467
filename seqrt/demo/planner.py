"""Plan pushes by trying them: sampled rollouts of the PushT world, from the rows already committed.

The worker's second step: a seen state and the committed rows come in, rows `[d + H, 2]` go out. The committed rows are
played first, in one world, and given back unchanged; the plan begins where they end. In each round all copies of the
world play one candidate each; the best are kept and varied. A round takes 20-40 ms, so the budget decides how many.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from seqrt.demo.proposals import pushes, variations
from seqrt.demo.shapes import CENTRE, GOAL, OUTLINE, Floats, Pose, place, rotation
from seqrt.demo.worlds import Rollouts, Worlds, WorldState

HORIZON = 16
"""Rows planned after the committed ones."""

COPIES = 128
ELITES = 16
FRESH_SHARE = 0.25
"""Share of the candidates of later rounds that are new pushes, not variations of the best."""

SOLVED_DISTANCE = 1.2
"""Mean corner distance at which the task counts as done: nothing that comes later matters."""


@dataclass(frozen=True)
class Plan:
    """One answer of the planner.

    Attributes:
        rows: Targets, `[d + H, 2]` float64, row 0 the first after the observation; the first d are the committed ones.
        cost: Of the best rollout, about the mean corner distance to the goal in pixels.
        rounds: Rounds played.
        took_s: Wall-clock time.
    """

    rows: Floats
    cost: float
    rounds: int
    took_s: float


class Planner:
    """Plans one at a time; keeps nothing from one plan to the next but its worlds' memory."""

    def __init__(self, copies: int = COPIES, horizon: int = HORIZON) -> None:
        self.horizon = horizon
        self._one = Worlds(1)
        self._many = Worlds(copies)

    def plan(
        self,
        agent: Floats,
        block: Pose,
        *,
        rng: np.random.Generator,
        committed: Floats | None = None,
        leftover: Floats | None = None,
        budget_s: float = 0.2,
        rounds: int | None = None,
    ) -> Plan:
        """Plan from what was seen and what will be played meanwhile.

        Args:
            agent: Position and velocity when the observation was taken, `[2, 2]`.
            block: The T's pose then.
            rng: The only source of chance.
            committed: Targets played before the first planned one, `[d, 2]`.
            leftover: Targets an earlier plan had for the rows after those, `[n, 2]`: where the search starts.
            budget_s: Wall-clock time; no round is begun that would not end within it, but one always is.
            rounds: This many rounds instead, however long they take (tests).
        """
        began = time.perf_counter()
        state, prefix = self._after(agent, block, committed)
        plans = np.empty((0, self.horizon, 2))
        if leftover is not None and len(leftover):
            plans = _stretched(leftover, self.horizon)[None]
        costs = np.empty(0)
        played, longest = 0, 0.0
        while played != rounds:
            round_began = time.perf_counter()
            if rounds is None and played and round_began - began + longest > budget_s:
                break
            tried = self._candidates(plans, state, rng, first=played == 0)
            tried_costs = cost(self._many.play(state, tried))
            plans = np.concatenate([plans[: len(costs)], tried])
            costs = np.concatenate([costs, tried_costs])
            best = np.argsort(costs, kind="stable")[:ELITES]
            plans, costs = plans[best], costs[best]
            played += 1
            longest = max(longest, time.perf_counter() - round_began)
        rows = np.concatenate([prefix, plans[0]])
        return Plan(rows, float(costs[0]), played, time.perf_counter() - began)

    def _after(self, agent: Floats, block: Pose, committed: Floats | None) -> tuple[WorldState, Floats]:
        """The state the committed rows lead to, and those rows `[d, 2]`."""
        state = WorldState(np.asarray(agent, dtype=np.float64), block)
        if committed is None or not len(committed):
            return state, np.empty((0, 2))
        prefix = np.asarray(committed, dtype=np.float64)
        played = self._one.play(state, prefix[None])
        ended = np.stack([played.agents[-1, 0], played.agent_velocities[-1, 0]])
        return WorldState(ended, Pose(*(float(v) for v in played.blocks[-1, 0]))), prefix

    def _candidates(self, plans: Floats, state: WorldState, rng: np.random.Generator, *, first: bool) -> Floats:
        """One candidate a copy: the plan at hand and its variations, and new pushes."""
        copies = self._many.copies
        # Near the goal a long push can only spoil: the depth goes with what is left to do.
        reach = float(np.clip(3.0 * corner_distance(np.array(state.block)), 6.0, 120.0))
        if not len(plans):
            return pushes(copies, self.horizon, state.agent[0], state.block, rng, reach)
        fresh = copies // 2 if first else int(copies * FRESH_SHARE)
        varied = variations(copies - fresh, plans, rng)
        if first:
            varied[0] = plans[0]
        return np.concatenate([varied, pushes(fresh, self.horizon, state.agent[0], state.block, rng, reach)])


def cost(rollouts: Rollouts) -> Floats:
    """How good each rollout is, `[K]`, least is best: the T near its goal, and soon; the agent near the T."""
    distance = corner_distance(rollouts.blocks)
    nearest = np.minimum.accumulate(distance, axis=0)
    distance = np.where(nearest < SOLVED_DISTANCE, nearest, distance)
    half = len(distance) // 2
    centre = rollouts.blocks[-1, :, :2] + rotation(rollouts.blocks[-1, :, 2]) @ CENTRE
    away = np.hypot(*(rollouts.agents[-1] - centre).T)
    worth: Floats = distance[-1] + 0.5 * distance[half:].mean(axis=0) + 0.25 * distance[half]
    worth += 0.02 * np.maximum(away - 90.0, 0.0)
    return worth


def corner_distance(blocks: Floats) -> Floats:
    """Mean distance of the T's corners from where they belong, `[...]` px, of poses `[..., 3]`."""
    turns = rotation(blocks[..., 2])
    corners = np.einsum("...ij,pj->...pi", turns, OUTLINE) + blocks[..., None, :2]
    offset = corners - place(OUTLINE, GOAL)
    distance: Floats = np.hypot(offset[..., 0], offset[..., 1]).mean(axis=-1)
    return distance


def _stretched(rows: Floats, horizon: int) -> Floats:
    """The first `horizon` rows, the last repeated where there are fewer."""
    rows = np.asarray(rows, dtype=np.float64)[:horizon]
    return np.concatenate([rows, np.repeat(rows[-1:], horizon - len(rows), axis=0)])
