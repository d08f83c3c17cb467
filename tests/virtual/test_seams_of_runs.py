"""Seams in whole runs: eased where the user says so, measured as answered, refused where they mean nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from driven import drive, reversals

from seqrt import Actions, Crossfade, Nearest, Parts, Play, Ramp
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import fold

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seam", [None, Crossfade()])
async def test_an_arm_behind_its_command_goes_back_at_each_seam_and_with_a_crossfade_never(seam: Any) -> None:
    async with connected(Scripted(rows=30, hz=30, infer_s=0.1507, by="state")) as there:
        driven = await drive(
            there.policy, FakeArm(3, lag=3), max_actions=150, play=Play(seam=seam, fresh_s=0.5, in_flight=1)
        )
    outcome = driven.outcome
    assert outcome is not None
    assert fold(driven.events) == outcome
    at_seams = {i: tick.seam_innovation for i, tick in enumerate(driven.of(ev.Ticked)) if tick.seam_innovation}
    assert len(at_seams) > 5
    sent = [tick.row[0] if tick.row else 0.0 for tick in driven.of(ev.Ticked)]
    for i, told in at_seams.items():
        executed = abs(sent[i] - 2 * sent[i - 1] + sent[i - 2])
        assert told == pytest.approx(executed, abs=1e-3) if seam is None else told > executed, "told is what was asked"
    spliced = driven.of(ev.Spliced)[1:]
    if seam is None:
        assert reversals(driven.values) >= len(spliced) - 1
        assert outcome.blended_chunks == 0
    else:
        assert reversals(driven.values) == 0
        assert outcome.blended_chunks == len(spliced)
        assert spliced[0].disagreement == pytest.approx(3.0), "each plan begins where the arm is, three rows back"


async def test_the_jerk_at_seams_is_told_and_grippers_are_left_out_of_it_in_the_robots_own_order() -> None:
    actions = Actions(
        key="actions", hz=30, space="absolute", names=("grip", "joint_0", "joint_1"), parts=Parts(gripper=(0,))
    )
    arm = FakeArm(3, lag=3, names=("joint_0", "joint_1", "grip"))
    async with connected(Scripted(rows=30, hz=30, infer_s=0.1507, by="state", actions=actions)) as there:
        driven = await drive(there.policy, arm, max_actions=60)
    assert driven.of(ev.RunStarted)[0].parts == (2,)
    assert driven.outcome is not None
    assert driven.outcome.jerk_ratio is not None
    assert driven.outcome.jerk_ratio > 10.0


@pytest.mark.parametrize("space", ["delta", "velocity", None])
async def test_the_nearest_row_is_refused_before_motion_where_distance_means_nothing(space: Any) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, space=space)) as there:
        with pytest.raises(ValueError, match=r"Nearest\(\) is for a space declared absolute, this one is"):
            await there.policy.run(arm, max_actions=10, play=Play(splice=Nearest()))
    assert arm.acts == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"space": "delta"}, "rows of a space that is delta"),
        ({"space": "absolute", "mixable": False}, "rows declared mixable=False"),
    ],
)
async def test_a_seam_strategy_that_can_have_no_effect_is_said_once(
    fields: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    actions = Actions(key="actions", hz=30, **fields)
    with caplog.at_level(logging.WARNING, "seqrt"):
        async with connected(Scripted(rows=12, hz=30, infer_s=0.0703, actions=actions)) as there:
            arm = FakeArm(3, space=fields["space"])
            driven = await drive(there.policy, arm, max_actions=40, play=Play(seam=Ramp(4)))
    assert [record.message for record in caplog.records if "seam=" in record.message] == [
        f"seam=Ramp(n=4) has no effect: {told} are not mixed"
    ]
    assert driven.outcome is not None
    assert driven.outcome.blended_chunks == 0
