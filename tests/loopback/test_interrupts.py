"""Stopping a run from outside the event loop: threads, signals, Ctrl-C; and `connect` where programs put it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import pytest_asyncio

import seqrt
from seqrt.runtime.waiting import Tick
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

BACKENDS = ("asyncio", "trio")
HZ = 50.0
FAR_HZ = 0.02
"""The first tick is 50 s away: what ends before it was woken."""

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
            arm.third.wait(60)
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
    answered, waiting, files = anyio.Event(), threading.Event(), open_files()

    def press() -> None:
        waiting.wait(60)
        policy.interrupt()

    def record(event: ev.Event) -> None:
        told.append(event)
        if isinstance(event, ev.Answered):
            answered.set()

    async def see_it_wait() -> None:
        """Say so once the loop has gone round often enough for the actuator to have come to its wait."""
        await answered.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        waiting.set()

    async with (
        seqrt.connect(policy=Scripted(rows=20, hz=FAR_HZ)) as policy,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(see_it_wait)
        button = threading.Thread(target=press)
        button.start()
        outcome = await policy.run(
            arm, validate=yes, max_seconds=200, record=record, play=seqrt.Play(tick=tick)
        )  # fmt: skip
        button.join()
        waited = policy.statistics().tick
    assert (outcome.reason, outcome.actions) == ("interrupted", 0)
    assert [event for event in told if isinstance(event, ev.Ticked)] == []
    assert waited is not None
    assert waited.woken == 1
    assert open_files() == files


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


@backends
@pytest.mark.anyio
async def test_interrupt_from_a_signal_handler_wakes_an_idle_loop() -> None:
    """The signal comes while everything sleeps; the loop must not sleep on until the tick."""
    arm, told = Arm(), list[ev.Event]()
    async with seqrt.connect(policy=Scripted(rows=3, hz=FAR_HZ)) as policy:
        with on_alarm(0.05, policy.interrupt) as start:

            def observe() -> Any:
                start()
                return arm.observe()

            outcome = await policy.run(
                observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_seconds=200, record=told.append
            )  # fmt: skip
    assert outcome.reason == "interrupted"
    assert [event for event in told if isinstance(event, ev.Ticked)] == []
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
            arm.third.wait(60)
            policy.pause()
            paused.wait(60)
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
    await asyncio.to_thread(arm.third.wait, 60)
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
