"""The grid: one row a tick at t0 + k · dt, however slow the robot's own calls are."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import numpy as np
import pytest

import seqrt
from seqrt.errors import DeclarationError
from seqrt.link.local import LocalLink
from seqrt.testing.connected import connected
from seqrt.testing.connected import served as served_here
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm, Faulty, Slow
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703


def yes(_: object) -> bool:
    return True


def collected(into: list[Any], kind: type[Any]) -> Callable[[Any], None]:
    return lambda event: into.append(event) if isinstance(event, kind) else None


def taking(arm: FakeArm, periods: dict[int, float]) -> Callable[[Any], Awaitable[None]]:
    """An ``act`` whose calls, by number, take so many periods."""

    async def act(row: Any) -> None:
        arm.act(row)
        await anyio.sleep(periods.get(len(arm.acts) - 1, 0.0) * PERIOD_S)

    return act


def ticks_of(arm: FakeArm, t0: float) -> list[float]:
    """When rows were played, in periods since t0."""
    return [(acted.at_s - t0) / PERIOD_S for acted in arm.acts]


async def test_rows_are_played_at_multiples_of_the_period_and_nothing_drifts() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(Slow(arm, act_s=0.0123), validate=yes, max_actions=200)
    ticks = [tick - 0.0123 / PERIOD_S for tick in ticks_of(arm, t0)]
    assert ticks == pytest.approx([ticks[0] + k for k in range(200)], abs=1e-6)
    assert ticks[0] == pytest.approx(round(ticks[0]), abs=1e-6)
    assert outcome.overruns == 0
    assert outcome.tick_lateness_s is not None
    assert outcome.tick_lateness_s.max < 1e-6


async def test_an_act_of_two_and_a_half_periods_skips_whole_periods_without_a_burst() -> None:
    arm = FakeArm(3)
    told: list[ev.Ticked] = []
    async with connected(Scripted(rows=30, infer_s=INFER_S, by="state")) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(
            observe=arm.observe, act=taking(arm, {6: 2.5}), hold=arm.hold, validate=yes, max_actions=25,
            record=collected(told, ev.Ticked),
        )  # fmt: skip
    played = [tick for tick in told if tick.kind == "played"]
    first = played[0].step
    assert [tick.step - first for tick in played] == [*range(7), *range(8, 26)], "the tick in between is skipped"
    assert played[7].skipped == 1
    assert played[7].late_s == pytest.approx(0.5 * PERIOD_S)
    assert (outcome.overruns, outcome.actions) == (1, 25)
    assert ticks_of(arm, t0 + first * PERIOD_S) == pytest.approx([*range(7), 8.5, *range(9, 26)], abs=1e-6)


async def test_an_overrun_loses_doubles_and_adds_no_row() -> None:
    arm = FakeArm(3)
    act = taking(arm, {6: 2.5, 10: 1.3, 17: 4.2, 18: 2.1, 30: 3.7})
    async with connected(Scripted(rows=40, infer_s=INFER_S, by="state")) as served:
        outcome = await served.policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=38)
    assert arm.rows[:, 0].tolist() == list(range(1, 39))
    assert outcome.overruns == 4, "1.3 periods skip no whole one"


async def test_delta_rows_are_executed_once_each_over_overruns_and_late_splices() -> None:
    """No delta is lost, doubled or added to the next, whatever comes late (strands 779)."""
    arm = FakeArm(3, space="delta")
    policy = Scripted(rows=16, infer_s=[INFER_S, 0.2803, 0.1203, 0.3303], space="delta", tagged=True)
    observed: list[ev.Observed] = []
    async with connected(policy) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(
            observe=arm.observe, act=taking(arm, {6: 2.5, 13: 2.5, 30: 3.3}), hold=arm.hold, validate=yes,
            max_actions=60, record=collected(observed, ev.Observed),
        )  # fmt: skip
    played = [acted for acted in arm.acts if acted.row.any()]
    assert (len(played), outcome.overruns) == (60, 3)
    answers = {call.t: call.rows for call in policy.calls if call.rows is not None}
    assert all(row.tolist() == answers[int(row[1])][int(row[2])].tolist() for _, row in played), "each as it was given"
    seen_at = {event.step: t0 + event.at_s for event in observed}
    for t in {int(acted.row[1]) for acted in played}:
        rows = [int(acted.row[2]) for acted in played if int(acted.row[1]) == t]
        assert rows == list(range(rows[0], rows[0] + len(rows))), "in order, none left out, none twice"
        seam_at = next(acted.at_s for acted in played if int(acted.row[1]) == t)
        assert rows[0] == sum(seen_at[t] < acted.at_s < seam_at for acted in played), "what was played since is passed"


async def test_a_starved_delta_arm_is_sent_zeros_and_the_plan_goes_on_where_it_was() -> None:
    arm = FakeArm(2, space="delta")
    actions = seqrt.Actions(key="actions", hz=20, space="delta")
    policy = Scripted(rows=6, dims=2, infer_s=[INFER_S, 0.6303, INFER_S], actions=actions)
    async with connected(policy) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=9)
    zeros = [row for row in arm.rows if not row.any()]
    assert len(zeros) == outcome.starved_ticks > 0
    assert outcome.actions == 9
    assert arm.position[0] == sum(row[0] for row in arm.rows if row.any())


# The tick and the wall clock


async def test_stepping_the_wall_clock_moves_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = FakeArm(3)
    wall = time.time

    def act(row: Any) -> None:
        arm.act(row)
        stepped = 30.0 if len(arm.acts) % 2 else -30.0
        monkeypatch.setattr(time, "time", lambda: wall() + stepped)

    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=40)
    ticks = ticks_of(arm, t0)
    assert ticks == pytest.approx([ticks[0] + k for k in range(40)], abs=1e-6)
    assert outcome.overruns == 0
    assert outcome.elapsed_s == pytest.approx(ticks[-1] * PERIOD_S, abs=1e-6)


# Observing


async def test_an_observation_is_a_quarter_of_a_period_behind_its_tick() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        t0 = anyio.current_time()
        await served.policy.run(arm, validate=yes, max_actions=20)
    looked = [(at - t0) / PERIOD_S for at in arm.observed]
    assert looked == pytest.approx([0.0, *(k + 0.25 for k in range(1, len(looked)))], abs=1e-6)


async def test_an_observe_slower_than_the_period_misses_steps_which_are_counted_and_never_made_up() -> None:
    arm = FakeArm(3)
    taken: list[ev.Observed] = []
    missed: list[ev.ObservationMissed] = []

    def record(event: Any) -> None:
        collected(taken, ev.Observed)(event)
        collected(missed, ev.ObservationMissed)(event)

    async with connected(Scripted(rows=30, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(
            Slow(arm, observe_s=[0.0, 0.1203]), validate=yes, max_actions=60, record=record
        )
    steps = [event.step for event in taken]
    assert steps[:7] == [0, 1, 3, 6, 8, 11, 13], "2.4 periods each"
    begun = [event.at_s / PERIOD_S for event in taken]
    assert begun[:7] == pytest.approx([0.0, 1.25, 3.656, 6.25, 8.656, 11.25, 13.656], abs=1e-6)
    assert [int(at) for at in begun] == steps, "a number is the tick at which the call began"
    told = {step for event in missed for step in range(event.step - event.steps + 1, event.step + 1)}
    assert not told & set(steps)
    assert told | set(steps) >= set(range(steps[-1]))
    assert outcome.frames_skipped == len(told) == sum(event.steps for event in missed)
    assert outcome.overruns == 0


async def test_an_observe_that_takes_very_long_once_holds_up_no_tick_and_its_age_is_told() -> None:
    """A camera read takes 150 ms, once 2.7 s; the plan plays on and the age says so (lerobot 652)."""
    arm = FakeArm(3)
    observe_s = [0.0, *[0.1503] * 8, 2.7003, *[0.1503] * 100]
    async with connected(Scripted(rows=80, infer_s=INFER_S)) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(
            Slow(arm, observe_s=observe_s), validate=yes, max_actions=120, play=seqrt.Play(fresh_s=0.5)
        )
    ticks = ticks_of(arm, t0)
    assert ticks == pytest.approx([ticks[0] + k for k in range(120)], abs=1e-6)
    assert outcome.overruns == outcome.underruns == 0
    assert outcome.observation_age_s is not None
    assert outcome.observation_age_s.max > 2.7


async def test_an_observe_that_gives_none_is_a_step_without_an_observation() -> None:
    arm = FakeArm(3)
    looked = 0

    def observe() -> Any:
        nonlocal looked
        looked += 1
        return arm.observe() if looked % 3 == 1 else None

    taken: list[ev.Observed] = []
    policy = Scripted(rows=30, infer_s=INFER_S)
    async with connected(policy) as served:
        outcome = await served.policy.run(
            observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=60,
            record=collected(taken, ev.Observed), play=seqrt.Play(fresh_s=0.8),
        )  # fmt: skip
    steps = [event.step for event in taken]
    assert steps == list(range(0, 3 * len(steps), 3))
    assert outcome.frames_skipped == looked - len(steps)
    assert {call.t for call in policy.calls} <= set(steps)
    assert outcome.underruns == 0


# Ends


@pytest.mark.parametrize("rows", [1, 4, 50])
async def test_max_actions_is_exact(rows: int) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=rows, infer_s=0.0103)) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=7)
    assert (outcome.actions, outcome.reason) == (7, "completed")
    assert len(arm.acts) - outcome.starved_ticks == 7


async def test_max_seconds_counts_from_the_first_observation_waiting_included() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=50, infer_s=[0.7203, INFER_S])) as served:
        t0 = anyio.current_time()
        outcome = await served.policy.run(arm, validate=yes, max_seconds=2.01)
    assert outcome.elapsed_s == pytest.approx(2.01, abs=PERIOD_S)
    assert outcome.reason == "completed"
    assert arm.acts[-1].at_s <= t0 + 2.01
    assert arm.acts[-1].at_s > t0 + 2.01 - 2 * PERIOD_S


async def test_max_seconds_ends_a_run_that_never_had_a_row() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=50, infer_s=100.0)) as served:
        outcome = await served.policy.run(arm, validate=yes, max_seconds=2.01)
    assert (outcome.reason, outcome.actions) == ("completed", 0)
    assert outcome.elapsed_s == pytest.approx(2.01, abs=2 * PERIOD_S)


async def test_until_ends_the_run_cleanly_at_the_observation_that_says_so() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S, by="state")) as served:
        outcome = await served.policy.run(arm, validate=yes, until=lambda o: o["state"][0] >= 9, max_actions=100)
    assert outcome.reason == "completed"
    assert arm.position[0] == 9
    assert arm.holds == []


async def test_the_bound_that_comes_first_ends_the_run() -> None:
    ends: list[dict[str, Any]] = [{"max_actions": 5, "max_seconds": 60.0}, {"max_actions": 500, "max_seconds": 0.5}]
    for wanted in ends:
        arm = FakeArm(3)
        async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
            outcome = await served.policy.run(arm, validate=yes, **wanted)
        assert outcome.reason == "completed"
        assert len(arm.acts) < 12


# Faults that are tolerated


async def test_one_bad_servo_packet_is_tolerated_and_counted() -> None:
    """As in lerobot 4282."""
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(
            Faulty(arm, act_on={30, 77}), validate=yes, max_actions=100, limits=seqrt.Limits(act_errors=1)
        )
    assert (outcome.reason, outcome.callback_errors, outcome.actions) == ("completed", 2, 100)
    assert len(arm.acts) == 98


async def test_bad_servo_packets_in_a_row_end_the_run_with_the_drivers_own_error() -> None:
    arm = FakeArm(3)
    robot = Faulty(arm, act_on={10, *range(30, 40)})
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        with pytest.raises(OSError, match="status packet") as caught:
            await served.policy.run(robot, validate=yes, max_actions=100, limits=seqrt.Limits(act_errors=3))
    assert caught.value is robot.error
    assert len(arm.acts) == 29, "three in a row were tolerated, the fourth was not"
    assert len(arm.holds) == 1
    assert caught.value.outcome.callback_errors == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("tolerated", [0, 2])
async def test_an_observe_that_raises_is_tolerated_as_often_in_a_row_as_was_said(tolerated: int) -> None:
    arm = FakeArm(3)
    robot = Faulty(arm, observe_on={5, 6, 9, 10, 20, 21, 22})
    async with connected(Scripted(rows=20, infer_s=INFER_S)) as served:
        with pytest.raises(OSError, match="status packet") as caught:
            await served.policy.run(robot, validate=yes, max_actions=100, limits=seqrt.Limits(observe_errors=tolerated))
    assert len(arm.observed) == (5 if tolerated == 0 else 16)
    assert caught.value.outcome.callback_errors == (0 if tolerated == 0 else 6)  # type: ignore[attr-defined]
    assert len(arm.holds) == 1


# Rows and frames belong to whoever has them


async def test_columns_are_mapped_by_name() -> None:
    """Joints in another order (lerobot 4122)."""
    arm = FakeArm(3, names=["wrist", "base", "elbow"])
    seen: list[Any] = []

    def looked(row: Any) -> bool:
        seen.append(row)
        return True

    actions = seqrt.Actions(key="actions", hz=20, space="absolute", names=("base", "elbow", "wrist"))
    told: list[ev.Ticked] = []
    async with connected(Scripted(rows=4, infer_s=[INFER_S, 1.0], actions=actions, tagged=True)) as served:
        await served.policy.run(arm, validate=looked, max_actions=8, record=collected(told, ev.Ticked))
    assert arm.rows[0].tolist() == [0.0, 1.0, 0.0], "wrist = i, base = the clock, elbow = t"
    assert arm.rows[3].tolist() == [3.0, 4.0, 0.0]
    assert arm.rows[4].tolist() == [3.0, 4.0, 0.0], "the repeated row too"
    assert seen[3].tolist() == [3.0, 4.0, 0.0], "validate sees what the robot is sent"
    assert [tick.row for tick in told if tick.row][3] == [3.0, 4.0, 0.0]


async def test_names_that_do_not_match_are_refused_before_motion_with_both_lists() -> None:
    arm = FakeArm(3, names=["wrist", "base", "elbow"])
    actions = seqrt.Actions(key="actions", hz=20, space="absolute", names=("base", "elbow", "hand"))
    async with connected(Scripted(actions=actions)) as served:
        with pytest.raises(DeclarationError, match=r"\['wrist'\].*\['hand'\]"):
            await served.policy.run(arm, validate=yes, max_actions=8)
    assert arm.observed == []


async def test_a_row_is_the_callbacks_own_to_change() -> None:
    """`row *= 0.5` changes neither the plan nor the repeated row nor the record (strands 1152)."""
    arm = FakeArm(3)
    told: list[ev.Ticked] = []

    def validate(row: Any) -> bool:
        row *= 0
        return True

    def act(row: Any) -> None:
        arm.act(row)
        row *= 0.5

    def on_chunk(chunk: Any) -> None:
        rows = chunk.rows
        rows *= 0

    async with connected(Scripted(rows=6, infer_s=[INFER_S, 0.5])) as served:
        outcome = await served.policy.run(
            observe=arm.observe, act=act, hold=arm.hold, validate=validate, on_chunk=on_chunk, max_actions=8,
            record=collected(told, ev.Ticked),
        )  # fmt: skip
    assert arm.rows[:6, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert arm.rows[6].tolist() == [6.0, 6.0, 6.0], "repeated as it was"
    assert outcome.starved_ticks > 0
    assert [tick.row for tick in told if tick.kind == "played"][:2] == [[1.0] * 3, [2.0] * 3]


@asynccontextmanager
async def in_process(policy: Scripted) -> AsyncIterator[seqrt.Policy]:
    """As `seqrt.connect(policy=...)`, without its threads: what is handed in is what the policy gets, by reference."""
    host = served_here(policy)
    await host.start()
    handle = seqrt.Policy(LocalLink(host), host.info(), control_hz=None, timeout_s=30.0, offload=inline())
    try:
        yield handle
    finally:
        await handle.aclose()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("lookback", [0, -3])
async def test_a_frame_the_driver_overwrites_reaches_the_policy_as_it_was(lookback: int, nested: bool) -> None:
    frame = np.zeros((4, 4, 3), dtype=np.uint8)
    arm = FakeArm(3)
    number = 0

    def observe() -> Any:
        nonlocal number
        frame[:] = number
        number += 1
        return {"state": arm.position.astype(np.float32), "camera": {"left": [frame]} if nested else frame}

    def act(row: Any) -> None:
        arm.act(row)
        frame[:] = 255

    at = sorted({lookback, 0})
    declared = seqrt.Observations(streams={"state": seqrt.Stream(), "camera": seqrt.Stream(at=at)})
    connections: list[Any] = [connected, in_process]
    for connection in connections:
        number = 0
        policy = Scripted(rows=8, infer_s=INFER_S, observations=declared)
        async with connection(policy) as there:
            handle = getattr(there, "policy", there)
            await handle.run(observe=observe, act=act, hold=arm.hold, validate=yes, max_actions=40)
        assert len(policy.calls) > 4
        for call in policy.calls:
            camera = call.observation["camera"]
            assert np.unique(camera["left"][0] if nested else camera).tolist() == [call.t]


# Nothing process-wide


def test_importing_leaves_the_root_logger_as_it_was() -> None:
    """As in axol 191."""
    code = (
        "import logging; root = logging.getLogger(); before = (root.level, list(root.handlers), root.disabled)\n"
        "import seqrt, seqrt.robots, seqrt.testing.robots\n"
        "assert before == (root.level, list(root.handlers), root.disabled), root.handlers\n"
        "assert not logging.getLogger('seqrt').handlers\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


async def test_a_run_leaves_the_root_logger_as_it_was() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    async with connected(Scripted(rows=8, infer_s=INFER_S)) as served:
        await served.policy.run(FakeArm(3), validate=yes, max_actions=8)
    assert (root.level, list(root.handlers)) == before


async def test_a_request_due_at_a_step_without_an_observation_is_made_about_the_one_before() -> None:
    async def drive(missing: set[int]) -> tuple[list[int], seqrt.RunOutcome]:
        arm, policy = FakeArm(3), Scripted(rows=20, infer_s=0.0703)
        calls = iter(range(1000))

        def observe() -> Any:
            return None if next(calls) in missing else arm.observe()

        async with connected(policy) as there:
            outcome = await there.policy.run(
                observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=60, play=seqrt.Play(in_flight=1)
            )
        return [call.t for call in policy.calls], outcome

    whole, _ = await drive(set())
    asked, outcome = await drive({whole[1]})
    assert asked[:2] == [whole[0], whole[1] - 1]
    assert outcome.underruns == 0
