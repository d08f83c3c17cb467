"""However a run ends: hold once, nothing after it, and the first cause raised as itself."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import seqrt
from seqrt.errors import (
    CallbackTimedOut,
    DeclarationError,
    HoldFailed,
    ObservationError,
    PolicyError,
    RemoteError,
    SeqrtError,
    Stalled,
)
from seqrt.runtime.policy import Policy
from seqrt.testing.connected import connected
from seqrt.testing.durations import Durations, drawn
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703
OFTEN = seqrt.Play(fresh_s=0.4)
"""Asks well before the plan runs dry, so that it outlives an answer that cannot be played."""


class Arm(FakeArm):
    """An arm that also remembers the order of its calls; ``hold`` is async and takes ``hold_s``."""

    def __init__(self, *, hold_s: Durations = 0.0, act_s: Durations = 0.0) -> None:
        super().__init__(3)
        self.log: list[str] = []
        self.seventh = anyio.Event()
        self._hold_s, self._act_s = drawn(hold_s), drawn(act_s)

    async def act(self, row: Any) -> None:  # type: ignore[override]
        self.log.append("act")
        super().act(row)
        if self.played == 7:
            self.seventh.set()
        await anyio.sleep(self._act_s())
        self.log.append("acted")

    async def hold(self) -> None:  # type: ignore[override]
        self.log.append("hold")
        await anyio.sleep(self._hold_s())
        super().hold()

    @property
    def played(self) -> int:
        return len(self.acts)


async def assert_held_once(arm: Arm) -> None:
    """Hold was called once, ran to its end, and nothing was called after it, then or later."""
    assert arm.log.count("hold") == 1
    assert arm.log[-1] == "hold"
    assert len(arm.holds) == 1
    log = list(arm.log)
    await anyio.sleep(3.0)
    assert arm.log == log


def raises_at(count: int, error: BaseException, *, returns: object = None) -> Callable[..., Any]:
    """A callback that raises at its ``count``-th call (from 0) and returns ``returns`` before."""
    calls = 0

    def callback(*_: object) -> object:
        nonlocal calls
        calls += 1
        if calls > count:
            raise error
        return returns

    return callback


class Fault(Exception):
    """What a callback raises here."""


def only(kind: type[Any], into: list[Any]) -> Callable[[Any], None]:
    """A ``record=`` that keeps one kind of event."""
    return lambda event: into.append(event) if isinstance(event, kind) else None


async def run(policy: Policy, arm: Arm, **wanted: Any) -> Any:
    wanted = {"observe": arm.observe, "act": arm.act, "hold": arm.hold, "validate": bool_true, **wanted}
    return await policy.run(**{"max_actions": 60, **wanted})


def bool_true(*_: object) -> bool:
    return True


def _observe_raises(arm: Arm) -> dict[str, Any]:
    fails = raises_at(6, Fault("camera"))

    def observe() -> Any:
        fails()
        return arm.observe()

    return {"observe": observe}


def _act_raises(arm: Arm) -> dict[str, Any]:
    fails = raises_at(4, Fault("servo"))

    def act(row: Any) -> Any:
        fails()
        return arm.act(row)

    return {"act": act}


def _async_on_chunk_raises(_: Arm) -> dict[str, Any]:
    fails = raises_at(1, Fault("chunk"))

    async def on_chunk(chunk: object) -> None:
        await anyio.sleep(0.0101)
        fails(chunk)

    return {"on_chunk": on_chunk}


CALLBACKS: dict[str, Callable[[Arm], dict[str, Any]]] = {
    "act": _act_raises,
    "observe": _observe_raises,
    "validate": lambda _: {"validate": raises_at(4, Fault("limits"), returns=True)},
    "until": lambda _: {"until": raises_at(6, Fault("goal"))},
    "until at the first observation": lambda _: {"until": raises_at(0, Fault("goal"))},
    "on_chunk": lambda _: {"on_chunk": raises_at(1, Fault("chunk"))},
    "async on_chunk": _async_on_chunk_raises,
    "record": lambda _: {"record": raises_at(30, Fault("disk"))},
    "record at the first event": lambda _: {"record": raises_at(0, Fault("disk"))},
}


@pytest.mark.parametrize("callback", CALLBACKS)
async def test_whatever_callback_raises_the_arm_holds_and_its_error_comes_out_as_itself(callback: str) -> None:
    arm = Arm(hold_s=0.0303)
    with pytest.raises(Fault) as caught:  # noqa: PT012  # out of the context too it comes as itself
        async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
            try:
                await run(served.policy, arm, **CALLBACKS[callback](arm))
            finally:
                await assert_held_once(arm)
    outcome = caught.value.outcome  # type: ignore[attr-defined]
    assert outcome.reason == "raised:Fault"
    assert outcome.stopped_early
    assert outcome.actions == arm.played
    assert outcome == served.policy.last_outcome


async def test_on_underrun_that_raises_ends_the_run_with_hold() -> None:
    arm = Arm()
    policy = Scripted(rows=5, infer_s=[INFER_S, 5.0])
    async with connected(policy) as served:
        with pytest.raises(Fault) as caught:
            await run(served.policy, arm, on_underrun=raises_at(2, Fault("beep")))
        await assert_held_once(arm)
        outcome = caught.value.outcome  # type: ignore[attr-defined]
        assert (outcome.actions, outcome.starved_ticks) == (5, 2)


async def test_a_row_that_validate_refuses_is_not_played_and_the_run_returns() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S, by="state")) as served:
        outcome = await run(served.policy, arm, validate=lambda row: row[0] < 5)
        assert outcome.reason == "validate"
        assert outcome.actions == arm.played == 4
        assert [acted.row[0] for acted in arm.acts] == [1, 2, 3, 4]
        await assert_held_once(arm)


@pytest.mark.parametrize("falsy", [False, None, 0, np.bool_(False)])
async def test_any_falsy_answer_of_validate_stops(falsy: object) -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        outcome = await run(served.policy, arm, validate=lambda _: falsy)
        assert (outcome.reason, arm.played) == ("validate", 0)
        await assert_held_once(arm)


async def test_interrupt_returns_with_hold_within_a_period() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def interrupt() -> None:
            await anyio.sleep(1.2345)
            served.policy.interrupt()

        tasks.start_soon(interrupt)
        began = anyio.current_time()
        outcome = await run(served.policy, arm)
        assert outcome.reason == "interrupted"
        assert arm.holds[0] - began == pytest.approx(1.2345, abs=1e-6)
        await assert_held_once(arm)


async def test_whenever_interrupt_comes_hold_follows_within_a_period_of_the_callback_in_progress() -> None:
    """Instants all over a period of which act takes three fifths and observe another part, both in progress or not."""
    async with connected(Scripted(rows=30, infer_s=INFER_S)) as served:
        for share in (0.03, 0.21, 0.41, 0.57, 0.83, 0.97):
            arm, told = Arm(act_s=0.6 * PERIOD_S), list[float]()

            async def interrupt(share: float = share, told: list[float] = told) -> None:
                await anyio.sleep((8 + share) * PERIOD_S)
                told.append(anyio.current_time())
                served.policy.interrupt()

            async def observe(arm: Arm = arm) -> Any:
                await anyio.sleep(0.7 * PERIOD_S)
                return arm.observe()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(interrupt)
                outcome = await run(served.policy, arm, observe=observe)
            assert outcome.reason == "interrupted"
            assert told[0] <= arm.holds[0] <= told[0] + 0.6 * PERIOD_S + 1e-6
            assert arm.log[-2:] != ["act", "hold"], "an act that has begun ends before hold"


async def test_interrupt_during_the_first_observation_is_not_lost() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def interrupt() -> None:
            await anyio.sleep(0.2)
            served.policy.interrupt()

        async def observe() -> Any:
            await anyio.sleep(0.5)
            return arm.observe()

        tasks.start_soon(interrupt)
        outcome = await run(served.policy, arm, observe=observe)
        assert (outcome.reason, arm.played) == ("interrupted", 0)


async def test_interrupt_ends_a_run_whose_first_observation_never_comes_at_once_and_without_hold() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def interrupt() -> None:
            await anyio.sleep(0.2)
            assert served.policy.statistics().state == "observing"
            served.policy.interrupt()

        tasks.start_soon(interrupt)
        begun = anyio.current_time()
        outcome = await run(served.policy, arm, observe=anyio.sleep_forever)
        assert anyio.current_time() - begun == pytest.approx(0.2)
        assert (outcome.reason, outcome.elapsed_s) == ("interrupted", pytest.approx(0.2))
        assert (arm.played, len(arm.holds)) == (0, 0), "nothing had moved"
        assert served.policy.last_outcome is outcome
        assert served.policy.statistics().state == "idle"


async def test_a_pause_during_the_first_observation_is_not_lost() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def pause() -> None:
            await anyio.sleep(0.1)
            served.policy.pause()
            await anyio.sleep(1.0)
            assert served.policy.statistics().state == "paused"
            assert (arm.played, len(arm.holds)) == (0, 1)
            served.policy.resume()

        async def observe() -> Any:
            await anyio.sleep(0.2 if not arm.observed else 0.0)
            return arm.observe()

        tasks.start_soon(pause)
        outcome = await run(served.policy, arm, observe=observe, max_actions=10)
        assert (outcome.reason, arm.played) == ("completed", 10)


async def test_a_keyboard_interrupt_out_of_on_chunk_ends_the_run_with_hold_and_comes_out_as_itself() -> None:
    arm, chunks = Arm(), 0

    def on_chunk(_: object) -> None:
        nonlocal chunks
        chunks += 1
        if chunks == 2:
            raise KeyboardInterrupt

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(KeyboardInterrupt):
            await run(served.policy, arm, on_chunk=on_chunk)
        await assert_held_once(arm)


async def test_interrupt_from_a_callback_lets_no_further_row_out() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:

        async def act(row: Any) -> None:
            await arm.act(row)
            if arm.played == 7:
                served.policy.interrupt()

        outcome = await run(served.policy, arm, act=act)
        assert (outcome.reason, arm.played) == ("interrupted", 7)
        await assert_held_once(arm)


async def test_interrupt_at_the_very_instant_of_a_tick_lets_no_row_out_after_it() -> None:
    arm = Arm()
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:
        ticks: list[ev.Ticked] = []

        async def interrupt() -> None:
            await anyio.sleep_until(t0 + 20 * PERIOD_S)
            arm.log.append("interrupt")
            served.policy.interrupt()

        t0 = anyio.current_time()
        tasks.start_soon(interrupt)
        await run(served.policy, arm, record=only(ev.Ticked, ticks))
        assert len(ticks) in (19, 20)  # at one instant either goes first
        assert "act" not in arm.log[arm.log.index("interrupt") :]
        await assert_held_once(arm)


async def test_three_policy_errors_in_a_row_end_the_run_with_the_policys_own_message() -> None:
    arm = Arm()
    policy = Scripted(rows=50, infer_s=INFER_S, raise_on=range(1, 10), error=RuntimeError("CUDA out of memory"))
    async with connected(policy) as served:
        with pytest.raises(PolicyError, match="CUDA out of memory") as caught:
            await run(served.policy, arm, max_actions=500, play=OFTEN)
        assert len(policy.calls) == 4
        assert caught.value.outcome is not None
        assert caught.value.outcome.reason == "raised:PolicyError"
        assert 0 < arm.played < 50, "it does not wait for the plan to run dry"
        await assert_held_once(arm)


async def test_one_policy_error_is_counted_and_the_run_goes_on() -> None:
    arm = Arm()
    failed: list[ev.ActFailed] = []
    async with connected(Scripted(rows=20, infer_s=INFER_S, raise_on=[2])) as served:
        outcome = await run(
            served.policy, arm, play=OFTEN,
            record=only(ev.ActFailed, failed),
        )  # fmt: skip
        assert (outcome.reason, outcome.actions, outcome.underruns) == ("completed", 60, 0)
        assert [event.code for event in failed] == ["policy_error"]
        assert arm.log.count("hold") == 0


async def test_one_policy_error_that_lets_the_plan_run_dry_is_starved_through_and_the_run_goes_on() -> None:
    arm = Arm()
    async with connected(Scripted(rows=5, infer_s=[INFER_S, 0.2203, INFER_S], raise_on=[1])) as served:
        outcome = await run(served.policy, arm, max_actions=20)
        assert (outcome.reason, outcome.actions) == ("completed", 20)
        assert outcome.starved_ticks > 0


async def test_two_policy_errors_and_a_dry_plan_end_the_run_with_the_error() -> None:
    arm = Arm()
    async with connected(Scripted(rows=5, infer_s=[INFER_S, 0.2203], raise_on=[1, 2])) as served:
        with pytest.raises(PolicyError) as caught:
            await run(served.policy, arm)
        assert caught.value.outcome is not None
        assert caught.value.outcome.actions == 5
        await assert_held_once(arm)


async def test_an_arm_that_stands_longer_than_max_stall_s_is_held_and_told_what_was_waited_for() -> None:
    arm = Arm()
    async with connected(Scripted(rows=5, infer_s=[INFER_S, 60.0])) as served:
        with pytest.raises(Stalled, match=r"worker's answer \[worker\.test:80\]") as caught:
            await run(served.policy, arm, limits=seqrt.Limits(max_stall_s=0.5))
        assert arm.rows[5:].tolist() == [arm.rows[4].tolist()] * 10, "absolute: the last row again at each tick"
        first_starved = arm.acts[4].at_s + PERIOD_S
        assert arm.holds[0] == pytest.approx(first_starved + 0.5)
        assert (caught.value.phase, caught.value.host) == ("act", "worker.test:80")
        outcome = caught.value.outcome
        assert outcome is not None
        assert (outcome.reason, outcome.actions, outcome.underruns, outcome.starved_ticks) == ("stalled", 5, 1, 11)
        await assert_held_once(arm)


async def test_a_stall_for_want_of_an_observation_names_observe() -> None:
    arm = Arm()
    seen = 0

    async def observe() -> Any:
        nonlocal seen
        seen += 1
        if seen > 6:
            await anyio.sleep(100)
        return arm.observe()

    async with connected(Scripted(rows=10, infer_s=INFER_S)) as served:
        with pytest.raises(Stalled, match="observe\\(\\) has not returned") as caught:
            await run(served.policy, arm, observe=observe, limits=seqrt.Limits(max_stall_s=0.5))
        assert caught.value.phase == "observe"
        await assert_held_once(arm)


async def test_an_undeclared_space_stands_for_one_second_at_most_and_is_sent_nothing_meanwhile() -> None:
    arm = Arm()
    policy = Scripted(rows=5, infer_s=[INFER_S, 60.0], by="state", declared=False)
    async with connected(policy, control_hz=20) as served:
        with pytest.raises(Stalled):
            await run(served.policy, arm)
        assert arm.played == 5
        assert arm.holds[0] == pytest.approx(arm.acts[4].at_s + PERIOD_S + 1.0)
        await assert_held_once(arm)


# Cancellation


async def test_a_cancelled_scope_holds_to_the_end_and_leaves_the_outcome_on_the_handle() -> None:
    arm = Arm(hold_s=0.4)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with anyio.move_on_after(1.2345) as scope:
            await run(served.policy, arm)
        assert scope.cancelled_caught
        assert served.host.statistics()["episodes"] == 0, "the worker was told"
        await assert_held_once(arm)
        outcome = served.policy.last_outcome
        assert outcome is not None
        assert outcome.reason == "raised:Cancelled"
        assert outcome.actions == arm.played > 10


async def test_a_scope_cancelled_at_once_lets_nothing_out_and_holds() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with anyio.CancelScope() as scope:
            await run(served.policy, arm, until=lambda _: scope.cancel())
        assert scope.cancelled_caught
        assert arm.played == 0
        await assert_held_once(arm)


async def test_a_scope_cancelled_beforehand_moves_nothing() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run(served.policy, arm)
        assert scope.cancelled_caught
        assert arm.played == 0
        assert served.policy.statistics().state == "idle"


async def test_a_dead_worker_holds_up_the_end_for_a_second_at_most_and_the_hold_not_at_all() -> None:
    arm = Arm()
    async with connected(Scripted(rows=50, infer_s=INFER_S), outages=[(1.0, 1e9, "silent")]) as served:
        outcome = await run(served.policy, arm, max_actions=None, max_seconds=1.5)
        assert outcome.reason == "completed"
        assert outcome.elapsed_s == pytest.approx(1.5, abs=PERIOD_S), "of the run, not of saying good-bye"
        assert anyio.current_time() == pytest.approx(2.5, abs=0.1)


async def test_a_task_group_that_fails_around_the_run_waits_for_hold() -> None:
    arm = Arm(hold_s=0.4)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:

        async def fail() -> None:
            await anyio.sleep(1.2345)
            raise Fault("elsewhere")

        with pytest.raises(BaseException) as caught:  # noqa: PT011, PT012  # the group is the caller's own
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
                await run(served.policy, arm)
        assert [type(error) for error in caught.value.exceptions] == [Fault]  # type: ignore[attr-defined]
        await assert_held_once(arm)


@pytest.fixture
def asyncio_only(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("asyncio's own cancellation")


@pytest.fixture
def trio_only(anyio_backend_name: str) -> None:
    if anyio_backend_name != "trio":
        pytest.skip("trio's own cancellation")


@pytest.mark.usefixtures("asyncio_only")
async def test_a_task_cancelled_four_times_over_still_holds_to_the_end() -> None:
    arm = Arm(hold_s=0.4)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        task = asyncio.ensure_future(run(served.policy, arm))
        await asyncio.sleep(1.2345)
        for _ in range(4):
            assert not task.done()
            task.cancel()
            await asyncio.sleep(0.0501)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        await assert_held_once(arm)
        assert served.policy.last_outcome is not None
        assert served.policy.last_outcome.reason == "raised:Cancelled"


@pytest.mark.usefixtures("asyncio_only")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout")
async def test_an_expiring_asyncio_timeout_holds_to_the_end() -> None:
    arm = Arm(hold_s=0.4)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2345):  # type: ignore[attr-defined,unused-ignore]
                await run(served.policy, arm)
        await assert_held_once(arm)
        await asyncio.sleep(0)  # the task is not left cancelled


@pytest.mark.usefixtures("asyncio_only")
async def test_a_loop_that_cancels_every_task_it_has_still_gets_the_hold() -> None:
    """What asyncio.run does when an exception such as a second Ctrl-C leaves its main task."""
    arm = Arm(hold_s=0.4)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        others = asyncio.all_tasks()
        task = asyncio.ensure_future(run(served.policy, arm))
        await asyncio.sleep(1.2345)
        for each in asyncio.all_tasks() - others:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await assert_held_once(arm)


@pytest.mark.usefixtures("trio_only")
async def test_trios_own_scope_and_nursery_wait_for_hold() -> None:
    import trio

    for nursery_cancel in (False, True):
        arm = Arm(hold_s=0.4)
        async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
            if nursery_cancel:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(run, served.policy, arm)
                    await trio.sleep(1.2345)
                    nursery.cancel_scope.cancel()
            else:
                with trio.move_on_after(1.2345) as scope:
                    await run(served.policy, arm)
                assert scope.cancelled_caught
            await assert_held_once(arm)


@pytest.mark.usefixtures("asyncio_only")
@pytest.mark.parametrize("callback", ["act", "observe"])
async def test_a_callback_whose_own_await_was_cancelled_ends_the_run_with_hold(callback: str) -> None:
    """A driver's task that somebody cancelled raises CancelledError in whoever awaits it."""
    arm = Arm(hold_s=0.2)
    driver = asyncio.ensure_future(asyncio.sleep(100))
    driver.cancel()
    await asyncio.sleep(0.01)

    async def act(row: Any) -> None:
        await (driver if arm.played == 3 else arm.act(row))

    async def observe() -> Any:
        if arm.played == 3:
            await driver
        return arm.observe()

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        broken = {"act": act} if callback == "act" else {"observe": observe}
        with pytest.raises(asyncio.CancelledError):
            await run(served.policy, arm, **broken)
        assert arm.played == 3
        await assert_held_once(arm)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("callback", ["act", "observe", "validate", "until"])
async def test_a_keyboard_interrupt_out_of_a_callback_holds_and_comes_out_as_itself(
    callback: str, error: type[BaseException]
) -> None:
    arm = Arm(hold_s=0.2)

    def fail(*_: object) -> Any:
        if arm.played == 3:
            raise error
        return arm.act(*_) if callback == "act" else arm.observe() if callback == "observe" else callback == "validate"

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(error) as caught:
            await run(served.policy, arm, **{callback: fail})
        assert caught.value.outcome.reason == f"raised:{error.__name__}"  # type: ignore[attr-defined]
        await assert_held_once(arm)


async def test_a_validate_that_interrupts_has_the_row_it_looks_at_left_out() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:

        def validate(_: object) -> bool:
            if arm.played == 3:
                served.policy.interrupt()
            return True

        outcome = await run(served.policy, arm, validate=validate)
        assert (outcome.reason, outcome.actions, arm.played) == ("interrupted", 3, 3)
        await assert_held_once(arm)


# Hold itself


async def test_a_hold_that_raises_never_hides_the_first_error() -> None:
    arm = Arm()
    held: list[ev.Held] = []

    async def hold() -> None:
        raise OSError("bus is gone")

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(Fault) as caught:
            await run(
                served.policy, arm, hold=hold, **_act_raises(arm),
                record=only(ev.Held, held),
            )  # fmt: skip
        hold_error = caught.value.hold_error  # type: ignore[attr-defined]
        assert isinstance(hold_error, HoldFailed)
        assert isinstance(hold_error.__cause__, OSError)
        assert "bus is gone" in str(hold_error)
        if sys.version_info >= (3, 11):
            assert any("bus is gone" in note for note in caught.value.__notes__)
        assert [event.error is not None and "bus is gone" in event.error for event in held] == [True]


@pytest.mark.parametrize("end", ["validate", "interrupted", "completed"])
async def test_a_hold_that_raises_is_raised_where_the_end_was_clean_otherwise(end: str) -> None:
    arm = Arm()
    space = "velocity" if end == "completed" else "absolute"

    def hold() -> None:
        raise TimeoutError("no status packet")

    async with connected(Scripted(rows=12, infer_s=INFER_S, space=space)) as served:  # type: ignore[arg-type]

        def validate(_: object) -> bool:
            if end == "interrupted" and arm.played == 3:
                served.policy.interrupt()
            return end != "validate" or arm.played < 3

        with pytest.raises(HoldFailed, match="no status packet") as caught:
            await run(served.policy, arm, hold=hold, validate=validate, max_actions=5)
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert "did not return" not in str(caught.value), "raised is not the same as hanging"
        assert caught.value.outcome is not None
        assert caught.value.outcome.reason == end
        assert not hasattr(caught.value, "hold_error")


async def test_a_hold_that_hangs_is_given_up_after_a_second() -> None:
    arm = Arm(hold_s=100.0)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        stopped: list[float] = []

        def validate(_: object) -> bool:
            stopped.append(anyio.current_time())
            return arm.played < 3

        with pytest.raises(HoldFailed, match="did not return within 1 s"):
            await run(served.policy, arm, validate=validate)
        assert anyio.current_time() - stopped[-1] == pytest.approx(1.0, abs=0.1)
        assert arm.log[-1] == "hold"


async def test_a_hold_that_fails_leaves_a_cancellation_what_it_is() -> None:
    arm = Arm()

    def hold() -> None:
        raise OSError("bus is gone")

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with anyio.move_on_after(1.2345) as scope:
            await run(served.policy, arm, hold=hold)
        assert scope.cancelled_caught


# An act in progress


async def test_an_act_in_progress_gets_a_tenth_of_a_second_and_is_then_cancelled() -> None:
    arm = Arm(act_s=[0.0] * 6 + [0.9])
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:
        told: list[float] = []

        async def interrupt() -> None:
            await arm.seventh.wait()
            told.append(anyio.current_time())
            served.policy.interrupt()

        tasks.start_soon(interrupt)
        outcome = await run(served.policy, arm)
        assert outcome.reason == "interrupted"
        assert arm.holds[0] - told[0] == pytest.approx(0.1)
        assert arm.log[-2:] == ["act", "hold"], "it was cut, not finished"
        await assert_held_once(arm)


async def test_an_act_that_ends_within_that_time_is_not_cut() -> None:
    arm = Arm(act_s=[0.0] * 6 + [0.0803])
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def interrupt() -> None:
            await arm.seventh.wait()
            served.policy.interrupt()

        tasks.start_soon(interrupt)
        await run(served.policy, arm)
        assert arm.log[-3:] == ["act", "acted", "hold"]
        await assert_held_once(arm)


async def test_an_act_that_hangs_for_a_second_ends_the_run() -> None:
    arm = Arm(act_s=[0.0] * 3 + [100.0])
    async with connected(Scripted(rows=50, infer_s=INFER_S)) as served:
        with pytest.raises(CallbackTimedOut, match=r"act\(\)") as caught:
            await run(served.policy, arm)
        assert (caught.value.callback, caught.value.bound_s) == ("act", 1.0)
        assert arm.holds[0] - arm.acts[3].at_s == pytest.approx(1.0)
        await assert_held_once(arm)


async def test_an_on_underrun_that_hangs_for_a_second_ends_the_run() -> None:
    arm = Arm()

    async def on_underrun() -> None:
        await anyio.sleep(100)

    async with connected(Scripted(rows=5, infer_s=[INFER_S, 60.0])) as served:
        with pytest.raises(CallbackTimedOut) as caught:
            await run(served.policy, arm, on_underrun=on_underrun)
        assert caught.value.callback == "on_underrun"
        await assert_held_once(arm)


# Clean ends


@pytest.mark.parametrize(("space", "holds"), [("absolute", 0), ("delta", 0), ("velocity", 1), (None, 1)])
async def test_a_clean_end_holds_only_where_the_arm_would_go_on_moving(space: Any, holds: int) -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S, space=space)) as served:
        outcome = await run(served.policy, arm, max_actions=8)
        assert outcome.reason == "completed"
        assert not outcome.stopped_early
        assert arm.played == 8
        assert arm.log.count("hold") == holds


async def test_without_hold_a_velocity_space_is_refused_before_anything_is_looked_at() -> None:
    arm = Arm()
    async with connected(Scripted(space="velocity")) as served:
        with pytest.raises(DeclarationError, match="hold=") as caught:
            await run(served.policy, arm, hold=None)
        assert caught.value.field == "hold"
        assert arm.observed == []


async def test_without_hold_other_spaces_are_warned_about_where_run_was_called() -> None:
    arm = Arm()
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.warns(RuntimeWarning, match="without hold=") as warned:
            outcome = await served.policy.run(observe=arm.observe, act=arm.act, validate=bool_true, max_actions=3)
        assert warned[0].filename == __file__
        assert outcome.actions == 3


async def test_a_dry_run_sends_nothing_and_holds_nothing() -> None:
    arm = Arm()
    rows: list[Any] = []
    async with connected(Scripted(rows=12, infer_s=INFER_S, space="velocity")) as served:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = await run(
                served.policy, arm, act=None, max_actions=5,
                record=lambda event: rows.append(event.row) if isinstance(event, ev.Ticked) and event.row else None,
            )  # fmt: skip
        assert (outcome.reason, outcome.actions, len(rows)) == ("completed", 5, 5)
        assert arm.log == []


async def test_a_dry_run_is_all_but_the_motors() -> None:
    """What is recorded and counted is what a run with motors has: of underruns too."""

    async def driven(**act: Any) -> tuple[Any, list[Any]]:
        ticks: list[ev.Ticked] = []
        policy = Scripted(rows=10, infer_s=[INFER_S, 0.8103, INFER_S], by="clock")
        async with connected(policy) as served:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = await run(served.policy, Arm(), max_actions=25, record=only(ev.Ticked, ticks), **act)
        return outcome, [(tick.kind, tick.row) for tick in ticks]

    (wet, sent), (dry, would_be) = await driven(), await driven(act=None)
    assert would_be == sent
    assert (dry.actions, dry.underruns, dry.starved_ticks) == (wet.actions, wet.underruns, wet.starved_ticks)
    assert dry.underruns > 0


# What reaches the motors


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
async def test_a_number_that_is_not_finite_is_refused_whole_and_the_plan_plays_on(bad: float) -> None:
    arm = Arm()
    policy = Scripted(rows=20, infer_s=INFER_S, bad_values={1: (3, 2, bad), 2: (19, 0, -bad)})
    async with connected(policy) as served:
        outcome = await run(served.policy, arm, play=OFTEN)
        assert (outcome.reason, outcome.actions, outcome.refused_chunks) == ("completed", 60, 2)
        assert np.isfinite(arm.rows).all()
        refused = {call.t + 1 + i for call in policy.calls[1:3] for i in range(20)}
        assert refused, "those chunks existed"
        assert outcome.underruns == 0


async def test_three_such_chunks_in_a_row_hold_and_name_row_and_column() -> None:
    arm = Arm()
    bad = {number: (3, 2, float("nan")) for number in range(1, 9)}
    async with connected(Scripted(rows=50, infer_s=INFER_S, bad_values=bad)) as served:
        with pytest.raises(seqrt.ActionError, match="row 3, column 2 is nan") as caught:
            await run(served.policy, arm, max_actions=200, play=OFTEN)
        assert (caught.value.row, caught.value.column) == (3, 2)
        assert caught.value.outcome is not None
        assert caught.value.outcome.refused_chunks == 3
        assert np.isfinite(arm.rows).all()
        await assert_held_once(arm)


async def test_an_observation_that_changes_its_shape_ends_the_run_with_both_shapes() -> None:
    arm = Arm()
    declared = seqrt.Observations(streams={"state": seqrt.Stream(shape=[3], dtype="float32")})

    def observe() -> Any:
        return {"state": np.zeros(3 if len(arm.acts) < 4 else 2, dtype=np.float32)}

    async with connected(Scripted(rows=12, infer_s=INFER_S, observations=declared)) as served:
        with pytest.raises(ObservationError, match=r"\[2\].*\[3\]") as caught:
            await run(served.policy, arm, observe=observe)
        assert caught.value.key == "state"
        await assert_held_once(arm)


# The handle afterwards


async def test_the_handle_drives_again_after_any_of_these() -> None:
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        for callback in CALLBACKS:
            arm = Arm()
            with pytest.raises(Fault):
                await run(served.policy, arm, **CALLBACKS[callback](arm))
        with anyio.move_on_after(0.7654):
            await run(served.policy, Arm())
        assert served.policy.statistics().state == "idle"
        arm = Arm()
        outcome = await run(served.policy, arm, max_actions=5)
        assert (outcome.reason, arm.played) == ("completed", 5)


async def test_errors_of_ours_carry_the_outcome_too() -> None:
    arm = Arm()
    policy = Scripted(rows=5, infer_s=[INFER_S, 60.0])
    async with connected(policy) as served:
        with pytest.raises(SeqrtError) as caught:
            await run(served.policy, arm, limits=seqrt.Limits(max_stall_s=0.2))
        assert not isinstance(caught.value, RemoteError)
        assert caught.value.outcome == served.policy.last_outcome
