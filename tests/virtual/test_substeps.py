"""The robot driven several times a period of the policy's grid: what it is sent, and what is counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest
from driven import Driven, drive

from seqrt import Play
from seqrt.errors import DeclarationError
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703


def taking(arm: FakeArm, robot_periods: dict[int, float], k: int) -> Callable[[Any], Awaitable[None]]:
    """An ``act`` whose calls, by number, take so many of the robot's periods."""

    async def act(row: Any) -> None:
        arm.act(row)
        await anyio.sleep(robot_periods.get(len(arm.acts) - 1, 0.0) * PERIOD_S / k)

    return act


async def test_the_rows_of_a_run_without_substeps_are_reached_one_a_period_and_the_arm_moves_evenly_between() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        whole = await drive(served.policy, max_actions=40)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        t0 = anyio.current_time()
        driven = await drive(served.policy, arm, max_actions=40, play=Play(substeps=4))
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.overruns, driven.outcome.starved_ticks) == (40, 0, 0)
    assert driven.outcome.chunks > 2
    times = (np.array([acted.at_s for acted in arm.acts]) - t0) / PERIOD_S * 4
    assert times == pytest.approx(times[0] + np.arange(160), abs=1e-6)
    assert times[0] / 4 == pytest.approx(round(times[0] / 4), abs=1e-6), "a row begins with a period of the grid"
    assert driven.values[3::4] == whole.values, "the last one too: it is the end of the run"
    steps = np.diff(driven.values[3:]).reshape(39, 4)
    assert steps == pytest.approx(np.repeat(np.diff(whole.values)[:, np.newaxis] / 4, 4, axis=1))
    assert driven.kinds[driven.kinds.index("played") :] == ["played", *["between"] * 3] * 40
    assert [tick.row[0] for tick in driven.of(ev.Ticked) if tick.row is not None] == driven.values
    assert driven.of(ev.RunStarted)[0].substeps == 4


async def test_a_robot_period_that_is_missed_makes_the_plan_later_and_no_step_larger() -> None:
    arm = FakeArm(3)
    act = taking(arm, {6: 2.5, 21: 3.2, 22: 1.1, 41: 9.5}, 4)
    async with connected(Scripted(rows=20, infer_s=INFER_S, by="state")) as served:
        driven = Driven(arm)
        outcome = await served.policy.run(
            observe=arm.observe, act=act, hold=arm.hold, validate=lambda _: True, max_actions=40,
            play=Play(substeps=4), record=driven.events.append,
        )  # fmt: skip
    assert (outcome.overruns, outcome.actions, outcome.starved_ticks) == (3, 40, 0)
    assert len(arm.acts) == 160, "none is left out, none comes twice"
    steps = np.diff(driven.values[3:])
    assert (steps >= -1e-9).all()
    assert steps.max() <= 0.25 + 1e-9


async def test_the_parts_of_deltas_add_up_over_missed_periods() -> None:
    arm = FakeArm(3, space="delta")
    policy = Scripted(rows=16, infer_s=[INFER_S, 0.2803, 0.1203, 0.3303], space="delta", tagged=True)
    act = taking(arm, {6: 2.5, 13: 2.5, 40: 3.3}, 3)
    async with connected(policy) as served:
        outcome = await served.policy.run(
            observe=arm.observe, act=act, hold=arm.hold, validate=lambda _: True, max_actions=40, play=Play(substeps=3)
        )
    assert outcome.overruns == 3
    parts = arm.rows[arm.rows.any(axis=1)]
    assert len(parts) == 3 * 40
    rows = parts.reshape(40, 3, 3)
    assert (rows == rows[:, :1]).all(), "a row's parts are equal, and follow one another"
    answers = {call.t: call.rows for call in policy.calls if call.rows is not None}
    whole = rows.sum(axis=1)
    tags = [(round(row[1]), round(row[2])) for row in whole]
    assert len(set(tags)) == 40, "no delta is played twice"
    assert whole == pytest.approx(np.array([answers[t][i] for t, i in tags]))


@pytest.mark.parametrize("space", ["absolute", "delta"])
async def test_a_starved_robot_is_sent_its_command_at_its_own_rate_and_counted_at_the_grids(space: Any) -> None:
    arm = FakeArm(3, space=space)
    async with connected(Scripted(rows=6, infer_s=[INFER_S, 0.5203, INFER_S], space=space)) as served:
        driven = await drive(served.policy, arm, max_actions=12, play=Play(substeps=2, prefetch=False))
    assert driven.outcome is not None
    kinds = driven.kinds
    first = kinds.index("starved")
    last = len(kinds) - 1 - kinds[::-1].index("starved")
    starved = driven.of(ev.Ticked)[first : last + 2]
    assert [tick.kind for tick in starved] == ["starved", "between"] * driven.outcome.starved_ticks
    assert driven.outcome.starved_ticks == pytest.approx(0.54 / PERIOD_S, abs=1)
    assert driven.outcome.underruns == 1
    held = driven.of(ev.Ticked)[first - 1].row if space == "absolute" else [0.0] * 3
    assert all(tick.row == held for tick in starved)
    assert len(arm.acts) == 2 * (12 + driven.outcome.starved_ticks)


async def test_an_interrupt_and_a_pause_are_heard_within_a_period_of_the_robots() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=50, infer_s=INFER_S, by="state")) as served:

        async def meddle() -> None:
            await anyio.sleep(20.3 * PERIOD_S)
            served.policy.pause()
            await anyio.sleep(5.2 * PERIOD_S)
            served.policy.resume()
            await anyio.sleep(20.3 * PERIOD_S)
            served.policy.interrupt()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(meddle)
            driven = await drive(served.policy, arm, max_actions=500, play=Play(substeps=5))
    assert driven.outcome is not None
    assert driven.outcome.reason == "interrupted"
    assert len(arm.holds) == 2
    for held_at in arm.holds:
        before = max(acted.at_s for acted in arm.acts if acted.at_s <= held_at)
        assert held_at - before <= PERIOD_S / 5 + 1e-9
    resumed = next(i for i, acted in enumerate(arm.acts) if acted.at_s > arm.holds[0])
    seen = driven.values[resumed - 1]
    assert driven.values[resumed : resumed + 5] == pytest.approx([seen + 1] * 5), "a first row again: sent as it is"
    assert np.diff(driven.values[resumed + 4 :]).max() <= 0.2 + 1e-5  # states travel as float32


async def test_substeps_of_rows_nobody_declared_are_refused_before_anything_is_asked_of_the_robot() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, space=None)) as served:
        with pytest.raises(DeclarationError, match=r"Play\(substeps=2\) sends commands between two rows, and the pol"):
            await served.policy.run(arm, validate=lambda _: True, max_actions=4, play=Play(substeps=2))
    assert (arm.acts, arm.observed, arm.holds) == ([], [], [])
