"""The demo's policy: pictures in, pushes out. Served by a worker: ``seqrt serve seqrt.demo.policy:PushTPolicy``.

It sees what the robot streamed and nothing else. From the newest picture it finds the T, from the last agent positions
the agent's velocity, and from there it plans (`seqrt.demo.planner`). It keeps nothing between two calls: where an
earlier plan goes on comes with the request, as the committed rows do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.demo.perception import find_block
from seqrt.demo.planner import HORIZON, Planner
from seqrt.demo.shapes import SCREEN, Floats, Pose, agent_response
from seqrt.observation.declaration import Observations, Stream
from seqrt.policies.declaration import policy

PICTURE = 96
PAST = 5
"""Agent positions read before the newest one."""

PLAN_S = 0.2
"""Wall-clock time of one answer, perception included."""

MOST_ROWS = 2 * HORIZON


@policy(
    observations=Observations(
        streams={
            "pixels": Stream(shape=(PICTURE, PICTURE, 3), dtype="uint8"),
            "agent_pos": Stream(at=tuple(range(-PAST, 1)), shape=(2,), dtype="float32", names=("x", "y")),
        }
    ),
    actions=Actions(
        key="actions",
        hz=10,
        open_loop_horizon=MOST_ROWS,
        space="absolute",
        names=("x", "y"),
        bounds=((0.0, SCREEN), (0.0, SCREEN)),
    ),
    name="pusht",
)
class PushTPolicy:
    """Pushes the T onto its goal.

    Args:
        plan_s: Wall-clock time of one answer.
        rounds: Rounds of the planner instead, however long they take (answers then repeat, but where a T
            is pinned against a wall: there the engine's order of contacts decides).
    """

    def __init__(self, plan_s: float = PLAN_S, rounds: int | None = None) -> None:
        self._plan_s = plan_s
        self._rounds = rounds
        self._planner: Planner | None = None

    def load(self) -> None:
        """Build the planner's worlds, and plan once so that the first answer takes no longer than the others."""
        self._planner = Planner()
        self._planner.plan(np.zeros((2, 2)), Pose(200.0, 200.0, 0.0), rng=np.random.default_rng(0), rounds=1)

    def infer(
        self,
        obs: Mapping[str, Any],
        *,
        prefix: npt.ArrayLike | None = None,
        delay: int | None = 0,
        seed: int | None = None,
    ) -> dict[str, Floats]:
        """Plan the rows after the newest observation.

        Args:
            obs: The window: up to six steps with the agent's position, the newest with the picture.
            prefix: Rows that play meanwhile, `[n, 2]`: the first ``delay`` are committed, those after them are where
                the search starts.
            delay: d, how many rows will have been played when the answer arrives.
            seed: Of the search.

        Returns:
            ``{"actions": float64 [d + 16, 2]}``, the first d rows the committed ones; standing still where no T is
            to be seen.
        """
        began = time.perf_counter()
        entries, step = obs["observations"], int(obs["steps"][-1])
        agent = agent_state([entry["agent_pos"] for entry in entries])
        rows = np.empty((0, 2)) if prefix is None else np.asarray(prefix, dtype=np.float64)
        committed, leftover = rows[: delay or 0], rows[delay or 0 :]
        block = find_block(entries[-1]["pixels"], agent[0])
        if block is None:
            still = np.broadcast_to(np.clip(agent[0], 0.0, SCREEN), (HORIZON, 2))
            return {"actions": np.concatenate([committed, still])}
        if self._planner is None:
            self.load()
        assert self._planner is not None
        plan = self._planner.plan(
            agent,
            block,
            rng=np.random.default_rng([seed or 0, step]),
            committed=committed,
            leftover=leftover,
            budget_s=self._plan_s - (time.perf_counter() - began),
            rounds=self._rounds,
        )
        return {"actions": plan.rows}


def agent_state(positions: Sequence[npt.ArrayLike]) -> Floats:
    """The agent's position and velocity `[2, 2]` now, from its positions at the last steps, oldest first.

    A period's targets are unknown, but one target moves position and velocity alike: with it eliminated, each velocity
    follows from the one before and the way between. What was wrong at the oldest step is down by a factor of 0.38 a
    step, and of one step alone nothing is known: it stands.
    """
    where = np.asarray(positions, dtype=np.float64)
    position_map, velocity_map = agent_response(1)
    # p' - p = a v + b (target - p) and v' = c v + e (target - p)
    (_, a, b), (_, c, e) = position_map[-1], velocity_map[-1]
    velocity = np.zeros(2)
    for way in np.diff(where, axis=0):
        velocity = c * velocity + e / b * (way - a * velocity)
    return np.stack([where[-1], velocity])
