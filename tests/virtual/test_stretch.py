"""Play(late=Stretch()): rows played slower, so that a chunk lasts until the next one is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from driven import Driven, drive, reversals

from seqrt import Play, Stretch
from seqrt.errors import DeclarationError
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

SLOW_S = 0.4003


async def stretched(**options: Any) -> Driven:
    """A run of chunks of 10 rows, 0.5 s, that take 0.42 s and are asked for one at a time."""
    async with connected(Scripted(rows=10, infer_s=SLOW_S, by="state")) as served:
        return await drive(served.policy, max_actions=40, play=Play(in_flight=1, **options))


@pytest.mark.parametrize("substeps", [1, 3])
async def test_an_arm_that_would_stop_and_go_moves_on_slower_and_never_backward(substeps: int) -> None:
    driven = await stretched(late=Stretch(), substeps=substeps)
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == 0
    assert driven.outcome.chunks > 5
    assert reversals(driven.values) == 0
    settled = driven.of(ev.Spliced)[2]
    commands = [tick.row[0] for tick in driven.of(ev.Ticked) if tick.row is not None and tick.at_s > settled.at_s]
    steps = np.diff(commands)
    rate = driven.of(ev.Asked)[-1]
    assert rate.d is not None
    assert rate.s is not None
    assert steps.max() <= 10 / (rate.d + rate.s) / substeps + 1e-5, "no faster than the rate, at seams neither"
    if substeps == 1:
        assert steps[:-1] == pytest.approx(10 / (rate.d + rate.s), abs=1e-5), "and no slower"
    assert driven.outcome.actions == 40


async def test_the_same_arm_stops_and_goes_without_it() -> None:
    driven = await stretched()
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks > 15


async def test_a_chunk_long_enough_is_played_at_its_own_rate() -> None:
    async with connected(Scripted(rows=40, infer_s=SLOW_S, by="state")) as served:
        plain = await drive(served.policy, max_actions=60)
    async with connected(Scripted(rows=40, infer_s=SLOW_S, by="state")) as served:
        driven = await drive(served.policy, max_actions=60, play=Play(late=Stretch()))
    assert driven.values == plain.values
    assert "between" not in driven.kinds


async def test_velocities_are_not_stretched_and_that_is_said_before_anything_moves() -> None:
    arm = FakeArm(3, space="velocity")
    async with connected(Scripted(rows=10, space="velocity")) as served:
        with pytest.raises(DeclarationError, match="rows of a velocity space cannot be played slower"):
            await served.policy.run(arm, validate=lambda _: True, max_actions=4, play=Play(late=Stretch()))
    assert (arm.acts, arm.observed) == ([], [])
