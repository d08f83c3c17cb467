"""What the arm goes by may not be too old: the limit of age, cameras that hang, delays of sensors and motors."""

from __future__ import annotations

import logging
import math
from typing import Any

import anyio
import numpy as np
import pytest
from driven import Driven, drive, pause

import seqrt
from seqrt import Limits, Play
from seqrt.errors import ObservationError, StaleObservation
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm, Frozen
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703


def ended_by(driven: Driven) -> StaleObservation:
    assert isinstance(driven.error, StaleObservation), driven.error
    assert driven.outcome is not None
    assert driven.outcome.reason == "raised:StaleObservation"
    assert len(driven.arm.holds) == 1
    assert driven.arm.acts[-1].at_s < driven.arm.holds[0]
    return driven.error


# The limit of age


@pytest.mark.parametrize(("rows", "underruns"), [(50, 0), (10, 1)])
async def test_a_dead_link_ends_the_run_when_what_the_arm_goes_by_is_too_old(rows: int, underruns: int) -> None:
    """Rows are left, or the last one is repeated: either way nothing is sent that goes by what is a second old."""
    async with connected(Scripted(rows=rows, infer_s=INFER_S), outages=[(2.0017, math.inf, "silent")]) as there:
        driven = await drive(there.policy, max_seconds=20.0, limits=Limits(max_age_s=1.0))
    error = ended_by(driven)
    assert error.age_s == pytest.approx(1.0, abs=PERIOD_S)
    assert driven.outcome is not None
    assert driven.outcome.underruns == underruns
    assert driven.outcome.observation_age_s is not None
    assert driven.outcome.observation_age_s.max <= 1.0
    taken = {event.step: event.at_s for event in driven.of(ev.Observed)}
    assert error.step is not None
    assert driven.of(ev.Ticked)[-1].at_s <= taken[error.step] + 1.0
    assert driven.of(ev.RunEnded)[0].at_s == pytest.approx(taken[error.step] + 1.0, abs=1.5 * PERIOD_S)


async def test_a_limit_of_age_makes_the_run_ask_often_enough_to_keep_it() -> None:
    """Chunks cover 2.5 s: asked for as rarely as that allows, rows would be far older than the limit."""
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, max_actions=100, limits=Limits(max_age_s=0.8))
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns) == (100, 0)


async def test_answers_that_come_too_late_are_refused_and_three_in_a_row_end_a_run_that_has_not_moved() -> None:
    async with connected(Scripted(rows=50, infer_s=0.6003)) as there:
        driven = await drive(there.policy, max_seconds=20.0, limits=Limits(max_age_s=0.5), play=Play(in_flight=1))
    ended_by_late = driven.error
    assert isinstance(ended_by_late, StaleObservation)
    assert "Play(fresh_s" in str(ended_by_late)
    assert (driven.arm.acts, len(driven.of(ev.ChunkRefused))) == ([], 3)


@pytest.mark.parametrize("sensor_s", [0.0, 0.2])
async def test_an_age_that_is_wished_for_counts_from_the_capture(sensor_s: float) -> None:
    play = Play(fresh_s=0.6, sensor_delay_s=sensor_s, in_flight=1)
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, max_actions=100, play=play)
    ages = [tick.age_s for tick in driven.of(ev.Ticked) if tick.age_s is not None][40:]
    assert max(ages) == pytest.approx(0.6, abs=PERIOD_S)


async def test_a_slow_first_inference_is_not_the_end_nothing_has_moved() -> None:
    async with connected(Scripted(rows=50, infer_s=[3.0003, INFER_S])) as there:
        driven = await drive(there.policy, max_actions=30, limits=Limits(max_age_s=0.8), play=Play(in_flight=1))
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.refused_chunks) == (30, 1)


async def test_a_pause_makes_nothing_too_old() -> None:
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as there, anyio.create_task_group() as tasks:
        tasks.start_soon(pause, there.policy, 1.0123, 5.0)
        driven = await drive(there.policy, max_actions=60, limits=Limits(max_age_s=0.8))
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.actions == 60


async def test_without_a_limit_two_seconds_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with connected(Scripted(rows=80, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    told = driven.of(ev.ObservationOld)
    assert [event.age_s for event in told] == [pytest.approx(2.0, abs=1.5 * PERIOD_S)]
    assert sum("max_age_s" in record.message for record in caplog.records) == 1


# Cameras that hang


def seeing(after: int, until: int | None = None) -> Frozen:
    return Frozen(FakeArm(3, camera=(24, 32)), after=after, until=until)


async def test_a_camera_that_hangs_is_said_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, seeing(after=20, until=60), max_actions=100)
    assert driven.error is None
    assert [event.key for event in driven.of(ev.ObservationFrozen)] == ["camera"]
    assert driven.of(ev.ObservationFrozen)[0].for_s == pytest.approx(0.5)
    assert driven.outcome is not None
    assert driven.outcome.frozen_frames == 39, "20 to 59 are alike, the first of them was new"
    assert sum("does the camera hang" in record.message for record in caplog.records) == 1


async def test_with_a_limit_it_ends_the_run_with_hold() -> None:
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, seeing(after=40), max_seconds=20.0, limits=Limits(frozen_s=0.3))
    error = ended_by(driven)
    assert (error.key, error.limit_s, error.age_s) == ("camera", 0.3, pytest.approx(0.3))
    taken = {event.step: event.at_s for event in driven.of(ev.Observed)}
    assert driven.of(ev.RunEnded)[0].at_s == pytest.approx(taken[40] + 0.3, abs=1.1 * PERIOD_S)


@pytest.mark.parametrize("end", ["stands", "is paused"])
async def test_while_the_arm_stands_a_still_picture_is_no_fault(end: str) -> None:
    late = 3.0103 if end == "stands" else INFER_S
    async with (
        connected(Scripted(rows=12, infer_s=[INFER_S, INFER_S, late, INFER_S])) as there,
        anyio.create_task_group() as tasks,
    ):
        if end == "is paused":
            tasks.start_soon(pause, there.policy, 1.0123, 2.0)
        limits = Limits(frozen_s=0.8)
        driven = await drive(there.policy, seeing(after=24, until=50), max_actions=60, limits=limits)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.actions == 60


async def test_rows_that_tell_the_arm_to_stay_leave_the_scene_as_it_is() -> None:
    async with connected(Scripted(rows=20, infer_s=INFER_S, by="state", step_size=0.0)) as there:
        driven = await drive(there.policy, seeing(after=5), max_actions=80, limits=Limits(frozen_s=0.2))
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.frozen_frames == 0


async def test_in_a_dry_run_a_scene_that_stands_still_is_no_fault() -> None:
    robot = seeing(after=5)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there:
        outcome = await there.policy.run(
            observe=robot.observe, act=None, validate=lambda _: True, max_actions=40, limits=Limits(frozen_s=0.2)
        )
    assert (outcome.reason, outcome.actions, outcome.frozen_frames) == ("completed", 40, 0)


# Delays of sensors and motors


@pytest.mark.parametrize(
    ("sensor_s", "actuator_s", "behind"), [(0.0, 0.0, 0), (0.06, 0.0, 1), (0.0, 0.06, 1), (0.06, 0.06, 3)]
)
async def test_a_splice_drops_the_rows_whose_effect_was_not_to_be_seen(
    sensor_s: float, actuator_s: float, behind: int
) -> None:
    policy = Scripted(rows=20, infer_s=INFER_S, tagged=True)
    async with connected(policy) as there:
        play = Play(sensor_delay_s=sensor_s, actuator_delay_s=actuator_s, in_flight=1)
        driven = await drive(there.policy, max_actions=100, play=play)
    first, *later = driven.of(ev.Spliced)
    assert (first.row, first.dropped) == (0, 0), "the arm stood: nothing had been sent"
    assert {event.dropped for event in later} == {2 + behind}
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns) == (100, 0)
    ages = driven.outcome.observation_age_s
    assert ages is not None
    played = [tick for tick in driven.of(ev.Ticked) if tick.kind == "played"]
    taken = {event.step: event.at_s for event in driven.of(ev.Observed)}
    for tick in played[:40]:
        assert tick.row is not None
        assert tick.age_s == pytest.approx(tick.at_s - taken[int(tick.row[1])] + sensor_s, abs=1e-6)


async def test_an_arm_behind_its_commands_is_sent_each_motion_once_only_where_its_delay_is_told() -> None:
    """An arm that begins to move two periods late, and a policy that plans from where it is seen."""

    async def reversals(**play: float) -> int:
        policy = Scripted(rows=20, infer_s=INFER_S, by="state")
        async with connected(policy) as there:
            driven = await drive(there.policy, FakeArm(3, lag=2), max_actions=60, play=Play(**play))  # type: ignore[arg-type]
        assert driven.error is None
        return int((np.diff(driven.values) < 0.5).sum())

    assert await reversals() >= 3
    assert await reversals(actuator_delay_s=2 * PERIOD_S) == 0


async def test_an_observation_captured_before_a_resume_moves_nothing() -> None:
    policy = Scripted(rows=20, infer_s=INFER_S, tagged=True)
    async with connected(policy) as there, anyio.create_task_group() as tasks:
        t0 = anyio.current_time()
        tasks.start_soon(pause, there.policy, 1.0123, 1.0)
        driven = await drive(there.policy, max_actions=60, play=Play(sensor_delay_s=0.3))
    resumed = t0 + 2.0123
    taken = {event.step: event.at_s for event in driven.of(ev.Observed)}
    later = {int(acted.row[1]) for acted in driven.arm.acts if acted.at_s > resumed}
    assert min(taken[step] + t0 for step in later) - 0.3 >= resumed


async def test_a_prefix_is_longer_by_the_rows_whose_effect_was_not_to_be_seen() -> None:
    async def delays(**play: float) -> set[int | None]:
        policy = Scripted(rows=20, infer_s=INFER_S, takes_prefix=True)
        async with connected(policy) as there:
            driven = await drive(there.policy, max_actions=90, play=Play(**play))  # type: ignore[arg-type]
        assert driven.played == sorted(driven.played)
        assert all(len(call.prefix) >= (call.delay or 0) for call in policy.calls if call.prefix is not None)
        return {call.delay for call in policy.calls[2:]}

    (without,) = await delays()
    (with_it,) = await delays(sensor_delay_s=0.06, actuator_delay_s=0.06)
    assert without is not None
    assert with_it == without + 3


async def test_a_delay_of_a_key_that_is_not_there_is_refused_before_motion() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there:
        with pytest.raises(ObservationError, match=r"names 'wrist'.*it has: 'state'"):
            await there.policy.run(
                arm, validate=lambda _: True, max_actions=5, play=Play(sensor_delay_s={"wrist": 0.1, "state": 0.0})
            )
    assert (arm.acts, arm.holds) == ([], [])


# The first step


def near(distance: Any = 3.0) -> dict[str, Any]:
    return {"limits": Limits(first_step={"state": distance})}


async def test_a_first_row_too_far_from_where_the_arm_is_reaches_no_motor() -> None:
    arm = FakeArm(3, start=[0.0, 0.0, 90.0])
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there:
        driven = await drive(there.policy, arm, max_actions=20, **near())
    assert isinstance(driven.error, seqrt.FirstStepTooFar)
    assert (driven.error.column, driven.error.value, driven.error.observed, driven.error.limit) == (2, 1.0, 90.0, 3.0)
    assert arm.acts == []
    assert driven.outcome is not None
    assert driven.outcome.reason == "raised:FirstStepTooFar"


async def test_only_the_first_row_is_held_against_it() -> None:
    arm = FakeArm(3, start=[0.5, 0.5, 0.5])
    async with connected(Scripted(rows=20, infer_s=INFER_S, step_size=2.0)) as there:
        driven = await drive(there.policy, arm, max_actions=40, **near(1.5))
    assert driven.error is None
    assert len(arm.acts) == 40


async def test_after_a_resume_the_first_row_is_held_against_where_the_arm_is_then() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as there, anyio.create_task_group() as tasks:

        async def move_away() -> None:
            await anyio.sleep(1.0123)
            there.policy.pause()
            await anyio.sleep(0.5)
            arm.position = arm.position - 40.0
            there.policy.resume()

        tasks.start_soon(move_away)
        driven = await drive(there.policy, arm, max_actions=200, **near(15.0))
    assert isinstance(driven.error, seqrt.FirstStepTooFar)
    assert max(acted.at_s for acted in arm.acts) < arm.holds[0], "nothing after the pause"
    assert len(arm.holds) == 2


@pytest.mark.parametrize(
    ("served", "options", "words"),
    [
        ({"space": "velocity"}, {"limits": Limits(first_step={"state": 1.0})}, "space is velocity"),
        ({}, {"limits": Limits(first_step={"joints": 1.0})}, "no such key"),
        ({"space": None}, {"play": Play(underrun=seqrt.Decay(0.2))}, "declare no space"),
    ],
)
async def test_what_the_actions_cannot_have_is_refused_before_motion(served: Any, options: Any, words: str) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S, **served)) as there:
        with pytest.raises((seqrt.DeclarationError, ObservationError), match=words):
            await there.policy.run(arm, validate=lambda _: True, max_actions=5, **options)
    assert (arm.acts, arm.holds) == ([], [])


async def test_a_nameless_state_of_a_robot_with_another_order_of_columns_is_refused_before_motion() -> None:
    arm = FakeArm(3, names=("c", "b", "a"))
    actions = seqrt.Actions(key="actions", hz=20, space="absolute", names=("a", "b", "c"))
    async with connected(Scripted(rows=20, infer_s=INFER_S, actions=actions)) as there:
        with pytest.raises(ObservationError, match=r"'state'.*Stream\(names=\)"):
            await there.policy.run(arm, validate=lambda _: True, max_actions=5, **near())
        named = seqrt.Observations(streams={"state": seqrt.Stream(shape=[3], names=("c", "b", "a"))})
    arm.position[0] = 90.0  # its "c"
    async with connected(Scripted(rows=20, infer_s=INFER_S, actions=actions, observations=named)) as there:
        with pytest.raises(seqrt.FirstStepTooFar, match=r"column 2 \(c\)"):
            await there.policy.run(arm, validate=lambda _: True, max_actions=5, **near())
    assert arm.acts == []


# A stop ramp


async def test_decay_slows_the_arm_down_and_the_plan_goes_on_where_it_is() -> None:
    """The answer after the gap is to an observation made before it: 4 rows and 1.5 rows of slowing down have gone."""
    policy = Scripted(rows=8, infer_s=[INFER_S, 0.5303, INFER_S], step_size=1.0, tagged=True)
    play = Play(underrun=seqrt.Decay(0.2), in_flight=1)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=30, play=play)
    starved = [i for i, kind in enumerate(driven.kinds) if kind == "starved"]
    rows = [tick.row[0] for tick in driven.of(ev.Ticked) if tick.row is not None and tick.kind == "starved"]
    ticks = driven.of(ev.Ticked)
    last = ticks[starved[0] - 1].row
    assert last is not None
    assert np.array(rows[:5]) - last[0] == pytest.approx([0.75, 1.25, 1.5, 1.5, 1.5])
    seam = driven.of(ev.Spliced)[1]
    assert seam.position == 8 + 2, "1.5 rows are two, to the nearest"
    assert driven.outcome is not None
    assert driven.outcome.actions == 30
