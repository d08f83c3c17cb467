"""Stopping a run from outside the event loop: threads, signals, Ctrl-C; and `connect` where programs put it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import pytest_asyncio

import seqrt
from seqrt.errors import CallbackTooSlow
from seqrt.runtime.waiting import Tick
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

BACKENDS = ("asyncio", "trio")
HZ = 50.0

backends = pytest.mark.parametrize("anyio_backend", BACKENDS)


def yes(_: object) -> bool:
    return True


class Arm(FakeArm):
    """An arm that says when it has moved a few times, and remembers the order of its calls."""

    def __init__(self, *, at_third: Callable[[], object] = lambda: None, hold_s: float = 0.0) -> None:
        super().__init__(3)
        self.log: list[str] = []
        self.third = threading.Event()
        self._at_third, self._hold_s = at_third, hold_s

    def act(self, row: Any) -> None:
        super().act(row)
        self.log.append("act")
        if len(self.acts) == 3:
            self.third.set()
            self._at_third()

    async def hold(self) -> None:  # type: ignore[override]
        self.log.append("hold")
        await anyio.sleep(self._hold_s)
        self.log.append("held")

    @property
    def held_once(self) -> bool:
        return self.log[-2:] == ["hold", "held"] and self.log.count("hold") == 1


def a_policy(hz: float = HZ) -> Scripted:
    return Scripted(rows=30, hz=hz)


@contextmanager
def on_alarm(after_s: float, function: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Have ``function`` called by a real signal handler, so long after what is yielded is called."""
    before = signal.signal(signal.SIGALRM, lambda *_: function())
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, after_s) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@backends
@pytest.mark.anyio
async def test_interrupt_from_another_thread_ends_the_run_with_hold() -> None:
    arm = Arm()
    async with seqrt.connect(policy=a_policy()) as policy:

        def press() -> None:
            arm.third.wait(10)
            policy.interrupt()

        button = threading.Thread(target=press)
        button.start()
        outcome = await policy.run(arm, validate=yes, max_seconds=10)
        button.join()
    assert outcome.reason == "interrupted"
    assert outcome.actions == len(arm.acts) < 200
    assert arm.held_once


@backends
@pytest.mark.anyio
@pytest.mark.parametrize("tick", ["auto", "sleep"])
async def test_interrupt_from_another_thread_ends_the_run_before_the_next_tick(tick: Tick) -> None:
    """Whatever waits for that tick is woken; the timer it waits by is given back."""
    arm, told = FakeArm(3), list[ev.Event]()
    acted, waiting, files = anyio.Event(), threading.Event(), open_files()

    def press() -> None:
        waiting.wait(10)
        policy.interrupt()

    def act(row: Any) -> None:
        arm.act(row)
        acted.set()

    async def see_it_wait() -> None:
        """Say so once the loop has gone round often enough for the actuator to have come to its wait."""
        await acted.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        waiting.set()

    async with (
        seqrt.connect(policy=Scripted(rows=20, hz=5.0)) as policy,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(see_it_wait)
        button = threading.Thread(target=press)
        button.start()
        outcome = await policy.run(
            observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_seconds=10, record=told.append,
            play=seqrt.Play(tick=tick),
        )  # fmt: skip
        button.join()
        waited = policy.statistics().tick
    assert (outcome.reason, outcome.actions, len(arm.holds)) == ("interrupted", 1, 1)
    played = next(event for event in told if isinstance(event, ev.Ticked) and event.kind == "played")
    assert told[-1].at_s < (played.step + 1) / 5.0
    assert waited is not None
    assert waited.woken == 1
    assert open_files() == files


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


@backends
@pytest.mark.anyio
async def test_interrupt_from_a_signal_handler_wakes_an_idle_loop() -> None:
    """The signal comes while everything sleeps; the loop must not sleep on until the tick."""
    arm = Arm()
    async with seqrt.connect(policy=Scripted(rows=3, hz=1.0)) as policy:
        with on_alarm(0.05, policy.interrupt) as start:

            def observe() -> Any:
                start()
                return arm.observe()

            began = time.monotonic()
            outcome = await policy.run(observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_seconds=10)
    assert outcome.reason == "interrupted"
    assert time.monotonic() - began < 0.9, "the first tick would have been at 1 s"
    assert arm.held_once


@backends
@pytest.mark.anyio
async def test_interrupt_from_a_handler_that_runs_inside_act_lets_no_further_row_out() -> None:
    async with seqrt.connect(policy=a_policy()) as policy:
        with on_alarm(0.0, policy.interrupt):
            arm = Arm(at_third=lambda: signal.raise_signal(signal.SIGALRM))
            outcome = await policy.run(arm, validate=yes, max_seconds=10)
    assert (outcome.reason, len(arm.acts)) == ("interrupted", 3)
    assert arm.held_once


@backends
@pytest.mark.anyio
async def test_pause_and_resume_from_a_thread() -> None:
    arm = Arm()
    async with seqrt.connect(policy=a_policy()) as policy:
        paused = threading.Event()

        def press() -> None:
            arm.third.wait(10)
            policy.pause()
            paused.wait(10)
            policy.resume()

        button = threading.Thread(target=press)
        button.start()

        async def hold() -> None:
            await arm.hold()
            paused.set()

        outcome = await policy.run(observe=arm.observe, act=arm.act, hold=hold, validate=yes, max_actions=12)
        button.join()
    assert (outcome.reason, outcome.actions) == ("completed", 12)
    assert arm.log.count("hold") == 1


# Ctrl-C: programs of their own, in this process


async def drive(arm: Arm) -> None:
    async with seqrt.connect(policy=a_policy()) as policy:
        await policy.run(arm, validate=yes, max_seconds=10)


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_while_a_callback_runs_holds_to_the_end(backend: str) -> None:
    arm = Arm(at_third=ctrl_c, hold_s=0.05)
    with pytest.raises(KeyboardInterrupt):
        anyio.run(drive, arm, backend=backend)
    assert arm.held_once
    assert len(arm.acts) == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_while_everything_waits_holds_to_the_end_and_is_no_group(backend: str) -> None:
    with on_alarm(0.005, ctrl_c) as start:
        arm = Arm(at_third=start, hold_s=0.05)
        with pytest.raises(KeyboardInterrupt):
            anyio.run(drive, arm, backend=backend)
    assert arm.held_once


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_ctrl_c_does_not_skip_the_hold(backend: str) -> None:
    """Arms drop on stop (axol 247): whatever is pressed, hold runs to its end before anything is let go."""
    with on_alarm(0.02, ctrl_c) as start:

        class Impatient(Arm):
            async def hold(self) -> None:  # type: ignore[override]
                if "hold" not in self.log:
                    start()
                await super().hold()

        arm = Impatient(at_third=ctrl_c, hold_s=0.1)
        with pytest.raises(KeyboardInterrupt):
            anyio.run(drive, arm, backend=backend)
    assert arm.log[-1] == "held"
    assert "act" not in arm.log[arm.log.index("hold") :]


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_hands_the_outcome_over(backend: str) -> None:
    outcomes: list[Any] = []

    async def main(arm: Arm) -> None:
        async with seqrt.connect(policy=a_policy()) as policy:
            try:
                await policy.run(arm, validate=yes, max_seconds=10)
            finally:
                outcomes.append(policy.last_outcome)

    with on_alarm(0.005, ctrl_c) as start, pytest.raises(KeyboardInterrupt):
        anyio.run(main, Arm(at_third=start), backend=backend)
    # asyncio turns the first Ctrl-C into a cancellation of the main task, trio raises it there.
    reason = "raised:Cancelled" if backend == "asyncio" else "raised:KeyboardInterrupt"
    assert [outcome.reason for outcome in outcomes] == [reason]
    assert outcomes[0].actions >= 3


# Where programs put it


@pytest_asyncio.fixture
async def policy() -> AsyncIterator[seqrt.Policy]:
    """As a user's own test suite has it: entered in one task, left in another perhaps."""
    async with seqrt.connect(policy=a_policy()) as handle:
        yield handle


@pytest.mark.asyncio
async def test_connect_lives_in_a_pytest_asyncio_fixture(policy: seqrt.Policy) -> None:
    arm = Arm()
    outcome = await policy.run(arm, validate=yes, max_actions=5)
    assert (outcome.reason, len(arm.acts)) == ("completed", 5)


@pytest.mark.asyncio
async def test_a_fixtures_handle_is_driven_from_a_task_of_a_bigger_program(policy: seqrt.Policy) -> None:
    arm = Arm(hold_s=0.02)
    task = asyncio.create_task(policy.run(arm, validate=yes, max_seconds=10))
    await asyncio.to_thread(arm.third.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert arm.held_once
    outcome = await asyncio.gather(policy.run(Arm(), validate=yes, max_actions=3), asyncio.sleep(0))
    assert outcome[0].actions == 3


@pytest.fixture
async def anyio_policy() -> AsyncIterator[seqrt.Policy]:
    async with seqrt.connect(policy=a_policy()) as handle:
        yield handle


@backends
@pytest.mark.anyio
async def test_connect_lives_in_an_anyio_fixture(anyio_policy: seqrt.Policy) -> None:
    outcome = await anyio_policy.run(Arm(), validate=yes, max_actions=5)
    assert outcome.reason == "completed"


@backends
@pytest.mark.anyio
async def test_connect_lives_in_an_exit_stack_and_errors_come_out_as_themselves() -> None:
    class Fault(Exception):
        pass

    def act(_: object) -> None:
        raise Fault

    arm = Arm()
    with pytest.raises(Fault) as caught:  # noqa: PT012
        async with AsyncExitStack() as stack:
            policy = await stack.enter_async_context(seqrt.connect(policy=a_policy()))
            other = await stack.enter_async_context(seqrt.connect(policy=a_policy()))
            assert (await other.run(Arm(), validate=yes, max_actions=3)).actions == 3
            await policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=3)
    assert caught.value.outcome.reason == "raised:Fault"  # type: ignore[attr-defined]
    assert arm.held_once


@backends
@pytest.mark.anyio
async def test_two_handles_drive_two_arms_side_by_side() -> None:
    left, right = Arm(), Arm()
    async with (
        seqrt.connect(policy=a_policy()) as one,
        seqrt.connect(policy=a_policy()) as two,
        anyio.create_task_group() as tasks,
    ):

        async def drive_left() -> None:
            await one.run(left, validate=yes, max_seconds=10)

        tasks.start_soon(drive_left)
        await two.run(right, validate=yes, max_actions=6)
        one.interrupt()
    assert len(right.acts) == 6
    assert left.held_once
    assert right.log.count("hold") == 0


# Callbacks that block the loop for real; a slower grid, so that a busy machine is not taken for a blocking driver

SLOW_HZ = 25.0
TOO_LONG_S = 0.02


@backends
@pytest.mark.anyio
async def test_a_blocking_observe_is_refused_before_motion_with_the_line_to_write() -> None:
    arm = Arm()
    looked: list[float] = []

    def observe() -> Any:
        looked.append(0)
        time.sleep(TOO_LONG_S)
        return arm.observe()

    async with seqrt.connect(policy=a_policy(SLOW_HZ)) as policy:
        with pytest.raises(CallbackTooSlow, match=r"run\(seqrt\.robots\.threaded\(robot\), …\)") as caught:
            await policy.run(observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=5)
    assert caught.value.callback == "observe"
    assert caught.value.allowed_s == pytest.approx(0.25 / SLOW_HZ)
    assert caught.value.took_s >= TOO_LONG_S
    assert arm.log == []
    assert len(looked) == 3, "the best of three: a first call may open things"


@backends
@pytest.mark.anyio
async def test_an_observe_that_blocks_at_its_first_call_alone_is_fine() -> None:
    arm = Arm()

    def observe() -> Any:
        if not arm.observed:
            time.sleep(TOO_LONG_S)
        return arm.observe()

    async with seqrt.connect(policy=a_policy(SLOW_HZ)) as policy:
        outcome = await policy.run(observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=5)
    assert outcome.reason == "completed"


@backends
@pytest.mark.anyio
async def test_an_act_that_blocks_three_times_in_its_first_ten_ends_the_run_with_hold() -> None:
    arm = Arm()

    def act(row: Any) -> None:
        arm.act(row)
        if len(arm.acts) in (2, 4, 5, 6):
            time.sleep(TOO_LONG_S)

    async with seqrt.connect(policy=a_policy(SLOW_HZ)) as policy:
        with pytest.raises(CallbackTooSlow, match="threaded") as caught:
            await policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=50)
    assert caught.value.callback == "act"
    assert len(arm.acts) == 6, "three in a row"
    assert caught.value.outcome is not None
    assert arm.held_once


@backends
@pytest.mark.anyio
async def test_an_act_that_blocks_later_or_now_and_then_is_not_stopped_for_it() -> None:
    arm = Arm()

    def act(row: Any) -> None:
        arm.act(row)
        if len(arm.acts) in (1, 2, 4, 5, 11, 12, 13):
            time.sleep(TOO_LONG_S)

    async with seqrt.connect(policy=a_policy(SLOW_HZ)) as policy:
        outcome = await policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=14)
    assert outcome.reason == "completed"
