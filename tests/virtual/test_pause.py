"""Paused, the robot is the caller's: hold once, plan dropped, nothing sent; what was seen before it moves nothing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import seqrt
from seqrt.errors import HoldFailed, Stalled
from seqrt.runtime.policy import Policy
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703


class Scene:
    """An arm, what happened in the run, and the times of it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.arm = FakeArm(3)
        self.events: list[Any] = []
        self.asked_twice = anyio.Event()
        self.t0 = anyio.current_time()

    async def run(self, **wanted: Any) -> Any:
        return await self.policy.run(
            self.arm, **{"validate": lambda _: True, "record": self.record, "max_actions": 40, **wanted}
        )

    def record(self, event: Any) -> None:
        self.events.append(event)
        if len(self.of(ev.Asked)) == 2:
            self.asked_twice.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def acts_in(self, after_s: float, before_s: float) -> int:
        return sum(after_s < acted.at_s < before_s for acted in self.arm.acts)


@asynccontextmanager
async def scene(
    policy: Scripted, script: Callable[[Scene], Coroutine[Any, Any, None]], **link: Any
) -> AsyncIterator[Scene]:
    """A robot and its policy, with ``script`` running beside what the test does."""
    async with connected(policy, **link) as served, anyio.create_task_group() as tasks:
        made = Scene(served.policy)
        tasks.start_soon(script, made)
        yield made


def in_a_thread(call: Callable[[], None]) -> None:
    """Call it in another thread and wait for that one: the virtual clock would not."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


async def test_a_pause_holds_once_drops_the_plan_and_sends_nothing_until_resume() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(0.0001)
        assert s.arm.holds == [pytest.approx(s.t0 + 1.0123)], "at once, not at the next tick"
        assert s.policy.statistics().state == "paused"
        assert s.policy.statistics().rows_left == 0
        await anyio.sleep(2.0)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert (outcome.reason, outcome.actions) == ("completed", 40)
    assert s.acts_in(s.t0 + 1.0123, s.t0 + 3.0124) == 0
    assert len(s.arm.holds) == 1
    assert outcome.starved_ticks == outcome.underruns == 0
    assert sum(tick.kind == "paused" for tick in s.of(ev.Ticked)) == 40
    assert [event.rows_forgotten > 0 for event in s.of(ev.PauseBegan)] == [True]


async def test_a_pause_from_a_thread_is_the_same() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        in_a_thread(s.policy.pause)
        await anyio.sleep(2.0)
        in_a_thread(s.policy.resume)

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert outcome.actions == 40
    assert len(s.arm.holds) == 1
    assert s.acts_in(s.arm.holds[0], s.arm.holds[0] + 2.0) == 0


async def test_observing_goes_on_during_a_pause_and_nothing_is_asked() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(2.0)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        await s.run()
    began, ended = s.of(ev.PauseBegan)[0].at_s, s.of(ev.PauseEnded)[0].at_s
    assert sum(began < event.at_s < ended for event in s.of(ev.Observed)) == 40
    assert [event for event in s.of(ev.Asked) if began < event.at_s < ended] == []
    steps = [event.step for event in s.of(ev.Observed)]
    assert steps == list(range(len(steps))), "numbers run on with the grid"


async def test_on_underrun_is_not_called_during_a_pause() -> None:
    called: list[float] = []

    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(2.0)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        await s.run(on_underrun=lambda: called.append(anyio.current_time()))
    assert called == []


async def test_max_stall_s_stands_still_and_max_seconds_runs_on() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run(limits=seqrt.Limits(max_stall_s=0.2), max_actions=None, max_seconds=4.0)
    assert outcome.reason == "completed"
    assert outcome.elapsed_s == pytest.approx(4.0, abs=PERIOD_S)
    assert outcome.starved_ticks == 0


async def test_the_time_the_arm_stood_before_a_pause_is_not_counted_after_it() -> None:
    async def script(s: Scene) -> None:
        await s.asked_twice.wait()
        await anyio.sleep(1.2)  # of which the arm stands for a second
        s.policy.pause()
        await anyio.sleep(2.0)
        s.policy.resume()

    policy = Scripted(rows=12, infer_s=[INFER_S, 3.0103, 0.5103, INFER_S])
    async with scene(policy, script) as s:
        outcome = await s.run(limits=seqrt.Limits(max_stall_s=1.2), play=seqrt.Play(in_flight=1))
    assert outcome.starved_ticks >= 20
    assert (outcome.reason, outcome.actions) == ("completed", 40)


async def test_after_a_resume_a_worker_that_stays_silent_is_a_stall_again() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(2.0)
        s.policy.resume()

    policy = Scripted(rows=12, infer_s=lambda: INFER_S if anyio.current_time() < 2.9 else 60.0)
    async with scene(policy, script) as s:
        with pytest.raises(Stalled):
            await s.run(limits=seqrt.Limits(max_stall_s=0.5))
        resumed = s.of(ev.PauseEnded)[0].at_s
        assert s.of(ev.RunEnded)[0].at_s == pytest.approx(resumed + 0.5, abs=2 * PERIOD_S)
        assert s.acts_in(s.t0 + 1.0123, 100) == 0, "the arm was told to hold: nothing is sent before a row is due"
        assert len(s.arm.holds) == 2


async def test_an_undeclared_space_is_given_ten_seconds_after_a_resume_for_the_arm_holds() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(0.5)
        s.policy.resume()

    policy = Scripted(
        rows=12, by="state", declared=False, infer_s=lambda: 0.0703 if anyio.current_time() < 1.3 else 3.01
    )
    async with scene(policy, script, control_hz=20.0) as s:
        outcome = await s.run(max_actions=25)
    assert outcome.reason == "completed"


async def test_resume_raises_the_epoch_and_pause_does_too() -> None:
    epochs: list[int] = []

    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        epochs.append(s.policy.statistics().epoch)
        s.policy.pause()
        await anyio.sleep(0.5)
        epochs.append(s.policy.statistics().epoch)
        s.policy.resume()
        await anyio.sleep(0.5)
        epochs.append(s.policy.statistics().epoch)

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        await s.run()
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    assert [event.epoch for event in s.of(ev.PauseEnded)] == [epochs[2]]


@pytest.mark.parametrize("paused_s", [0.0303, 0.1503, 0.8003])
async def test_no_answer_to_an_observation_begun_before_the_resume_is_played(paused_s: float) -> None:
    """A request is in flight at the pause; its answer comes during it, or after the resume."""
    policy = Scripted(rows=12, infer_s=0.2203, tagged=True)
    begun: list[float] = []

    async def script(s: Scene) -> None:
        await s.asked_twice.wait()
        await anyio.sleep(0.0603)
        s.policy.pause()
        await anyio.sleep(paused_s)
        begun.append(anyio.current_time() - s.t0)
        s.policy.resume()

    async with scene(policy, script) as s:
        outcome = await s.run(play=seqrt.Play(in_flight=1))
    assert outcome.actions == 40
    assert outcome.answers_dropped == 1
    observed = {event.step: event.at_s for event in s.of(ev.Observed)}
    later = [acted.row[1] for acted in s.arm.acts if acted.at_s > s.arm.holds[0]]
    assert later, "something was played after the resume"
    assert min(observed[int(step)] for step in later) >= begun[0]


async def test_an_observation_that_takes_long_and_began_before_the_resume_moves_nothing() -> None:
    policy = Scripted(rows=12, infer_s=INFER_S, tagged=True)
    took = iter([*[0.0] * 20, 0.3703])

    async def script(s: Scene) -> None:
        await anyio.sleep_until(s.t0 + 21 * PERIOD_S + 0.0323)
        s.policy.pause()
        await anyio.sleep(0.1)
        s.policy.resume()

    async with scene(policy, script) as s:

        async def observe() -> Any:
            await anyio.sleep(next(took, 0.0))
            return s.arm.observe()

        await s.policy.run(
            observe=observe, act=s.arm.act, hold=s.arm.hold, validate=lambda _: True,
            record=s.record, max_actions=40,
        )  # fmt: skip
    resumed = s.of(ev.PauseEnded)[0].at_s
    slow = [event for event in s.of(ev.Observed) if event.took_s > 0.3]
    assert [event.at_s < resumed < event.at_s + event.took_s for event in slow] == [True], "it spans the resume"
    assert slow[0].step not in [int(acted.row[1]) for acted in s.arm.acts]
    assert all(event.step > slow[0].step for event in s.of(ev.Asked) if event.at_s > resumed)


async def test_a_stop_while_paused_holds_again() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(0.5)
        s.policy.interrupt()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert outcome.reason == "interrupted"
    assert s.arm.holds == [pytest.approx(s.t0 + 1.0123), pytest.approx(s.t0 + 1.5123)]
    assert s.arm.acts[-1].at_s < s.arm.holds[0]


async def test_a_stop_while_the_hold_of_a_pause_is_under_way_waits_for_it_and_holds_again() -> None:
    log: list[str] = []

    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(0.2)
        s.policy.interrupt()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:

        async def hold() -> None:
            log.append("hold")
            await anyio.sleep(0.4303)
            log.append("held")

        outcome = await s.policy.run(
            observe=s.arm.observe, act=s.arm.act, hold=hold, validate=lambda _: True, max_actions=40
        )
    assert outcome.reason == "interrupted"
    assert log == ["hold", "held"] * 2


async def test_a_pause_while_an_act_is_under_way_lets_it_end_and_then_holds() -> None:
    log: list[str] = []

    async def script(s: Scene) -> None:
        await anyio.sleep(20 * PERIOD_S + 0.0103)  # in the middle of an act
        log.append("pause")
        s.policy.pause()
        await anyio.sleep(0.5)
        s.policy.interrupt()

    async with scene(Scripted(rows=50, infer_s=INFER_S), script) as s:

        async def act(row: Any) -> None:
            log.append("act")
            await anyio.sleep(0.0303)
            log.append("acted")

        def hold() -> None:
            log.append("hold")

        await s.policy.run(observe=s.arm.observe, act=act, hold=hold, validate=lambda _: True, max_actions=40)
    assert log[log.index("pause") - 1 :] == ["act", "pause", "acted", "hold", "hold"]


async def test_until_and_max_seconds_end_a_paused_run_and_the_arm_goes_on_holding() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()

    for name in ("until", "max_seconds"):
        async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
            end_at = s.t0 + 2.0
            end = {"until": lambda _, end_at=end_at: anyio.current_time() > end_at, "max_seconds": 2.0}[name]
            outcome = await s.run(**{"max_actions": None, name: end})
        assert outcome.reason == "completed"
        assert outcome.elapsed_s == pytest.approx(2.0, abs=2 * PERIOD_S)
        assert s.acts_in(s.arm.holds[0], 100) == 0


async def test_pausing_twice_holds_once_and_one_resume_is_enough() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        s.policy.pause()
        await anyio.sleep(0.5)
        s.policy.pause()
        await anyio.sleep(0.5)
        s.policy.resume()
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert outcome.actions == 40
    assert len(s.arm.holds) == len(s.of(ev.PauseBegan)) == len(s.of(ev.PauseEnded)) == 1


async def test_a_pause_that_is_over_before_the_tick_still_holds_and_drops_the_plan() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert outcome.actions == 40
    assert len(s.arm.holds) == 1
    assert [event.rows_forgotten > 0 for event in s.of(ev.PauseBegan)] == [True]
    assert len(s.of(ev.PauseEnded)) == 1


async def test_a_resume_without_a_pause_is_nothing() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        outcome = await s.run()
    assert outcome.underruns == 0
    assert s.arm.holds == []
    assert s.of(ev.PauseEnded) == []


async def test_pause_resume_and_interrupt_outside_a_run_are_nothing() -> None:
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        served.policy.pause()
        served.policy.resume()
        served.policy.interrupt()
        outcome = await Scene(served.policy).run(max_actions=3)
    assert outcome.reason == "completed"


async def test_a_pause_before_the_first_row_waits_for_the_resume() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(0.0723)
        s.policy.pause()
        await anyio.sleep(1.0)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=0.2203, tagged=True), script) as s:
        outcome = await s.run()
    assert outcome.actions == 40
    assert s.arm.acts[0].at_s > s.t0 + 1.0723
    assert s.arm.acts[0].row[2] == 0, "row 0: nothing was played since its observation"


async def test_a_slow_hold_on_pause_is_no_overrun_and_moves_no_tick() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(1.0)
        s.policy.resume()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:

        async def hold() -> None:
            await anyio.sleep(0.7303)
            s.arm.hold()

        outcome = await s.policy.run(
            observe=s.arm.observe, act=s.arm.act, hold=hold, validate=lambda _: True, max_actions=40
        )
    assert outcome.overruns == 0
    first = s.arm.acts[0].at_s
    ticks = [(acted.at_s - first) / PERIOD_S for acted in s.arm.acts]
    assert ticks == pytest.approx([round(tick) for tick in ticks], abs=1e-6)
    assert len(s.arm.holds) == 1


async def test_a_hold_that_fails_on_pause_ends_the_run() -> None:
    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()

    async with scene(Scripted(rows=12, infer_s=INFER_S), script) as s:
        holds = []

        def hold() -> None:
            holds.append(anyio.current_time())
            if len(holds) == 1:
                raise OSError("no answer")

        with pytest.raises(HoldFailed, match="no answer") as caught:
            await s.policy.run(observe=s.arm.observe, act=s.arm.act, hold=hold, validate=lambda _: True, max_actions=40)
    assert len(holds) == 2, "the stop holds again"
    assert caught.value.outcome is not None
    assert not hasattr(caught.value, "hold_error"), "an error is not attached to itself"
    assert s.acts_in(holds[0], 100) == 0


async def test_the_row_before_the_pause_is_forgotten() -> None:
    """Whoever moved the arm meanwhile is not compared with, nor repeated."""

    async def script(s: Scene) -> None:
        await anyio.sleep(1.0123)
        s.policy.pause()
        await anyio.sleep(0.5)
        s.arm.position += 100
        s.policy.resume()

    actions = seqrt.Actions(key="actions", hz=20, space="absolute", max_delta=2.0)
    async with scene(Scripted(rows=12, infer_s=INFER_S, by="state", actions=actions), script) as s:
        outcome = await s.run()
    assert (outcome.reason, outcome.refused_chunks) == ("completed", 0)
    assert s.arm.acts[-1].row[0] > 100
    assert outcome.max_seam_jump is not None
    assert outcome.max_seam_jump < 100
