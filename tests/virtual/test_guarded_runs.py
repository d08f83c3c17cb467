"""What is out of bounds, too long a step or not a number reaches no motor, wherever it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from driven import Driven, drive

from seqrt import ActionError, Actions, Aligned, Play
from seqrt.action.splice import Placing
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

INFER_S = 0.0703
OFTEN = Play(fresh_s=0.4)
"""Asks well before the plan runs dry, so that it outlives an answer that cannot be played."""


def actions(**limits: Any) -> Actions:
    return Actions(key="actions", hz=20, space="absolute", **limits)


def refusals(driven: Driven) -> list[tuple[int | None, int | None]]:
    return [(event.row, event.column) for event in driven.of(ev.ChunkRefused)]


async def test_a_chunk_with_one_value_out_of_bounds_is_refused_whole_and_the_plan_plays_on() -> None:
    """A joint of another robot, a gripper in millimetres: one number of sixty is enough."""
    policy = Scripted(
        rows=20, infer_s=INFER_S, by="state", actions=actions(bounds=[[0.0, 500.0]] * 3), bad_values={4: (17, 1, 500.5)}
    )
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=60, play=OFTEN)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.refused_chunks, driven.outcome.underruns) == (1, 0)
    assert refusals(driven) == [(17, 1)]
    assert driven.played == [driven.played[0] + n for n in range(60)]


async def test_a_chunk_too_far_from_the_row_before_it_is_refused_at_the_seam_and_the_old_plan_plays_on() -> None:
    """Its own steps are small enough; only the first one, from where the arm is told to be, is not."""

    class Leaps(Scripted):
        def infer(self, obs: Any, **more: Any) -> Any:
            answer = super().infer(obs, **more)
            leap = 40.0 if len(self.calls) == 5 else 0.0
            return {"actions": np.asarray(answer["actions"]) + leap}

    policy = Leaps(rows=20, infer_s=INFER_S, by="state", actions=actions(max_delta=1.5))
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=60, play=OFTEN)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.refused_chunks, driven.outcome.underruns) == (1, 0)
    [(row, column)] = refusals(driven)
    assert row is not None
    assert row > 0, "the first row that would have been played, not row 0"
    assert column == 0
    assert driven.played == [driven.played[0] + n for n in range(60)]


@dataclass(frozen=True)
class Spoils:
    """A splice strategy with a fault: it lays chunks right, and writes into what it was only to look at."""

    row: int
    value: float

    def start(self, placing: Placing) -> int:
        if placing.position:
            placing.rows.setflags(write=True)
            placing.rows[self.row, 2] = self.value
        return Aligned().start(placing)


@pytest.mark.parametrize(
    ("value", "substeps", "says"),
    [
        (math.nan, 1, "is nan"),
        (math.nan, 3, "is nan"),
        (900.0, 1, "above its bound 500"),
        (490.0, 1, "max_delta is 1.5"),
        (490.0, 3, "max_delta is 1.5"),
    ],
)
async def test_what_was_spoilt_after_it_was_checked_is_caught_by_the_tick_itself(
    value: float, substeps: int, says: str
) -> None:
    declared = actions(bounds=[[0.0, 500.0]] * 3, max_delta=1.5)
    policy = Scripted(rows=20, infer_s=INFER_S, by="state", actions=declared)
    async with connected(policy) as there:
        play = Play(splice=Spoils(row=6, value=value), substeps=substeps)
        driven = await drive(there.policy, max_actions=60, play=play)
    assert isinstance(driven.error, ActionError)
    assert says in str(driven.error)
    assert (driven.error.row, driven.error.column) == (6, 2)
    assert driven.outcome is not None
    assert driven.outcome.actions == 6
    assert np.isfinite(driven.arm.rows).all()
    assert np.abs(np.diff(driven.arm.rows, axis=0)).max() <= 1.5
    assert len(driven.arm.holds) == 1
    assert driven.arm.holds[0] >= driven.arm.acts[-1].at_s
