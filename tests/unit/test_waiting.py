"""What waits for a tick, on the machine's own clock: short waits, no network."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import seqrt
from seqrt.runtime.waiting import Tick, Timed, Turns, WaitStatistics, waiter
from seqrt.testing import virtual

linux = pytest.mark.skipif(sys.platform != "linux", reason="timerfd is Linux's")
LOOPS = ["asyncio", "trio", pytest.param("uvloop", marks=pytest.mark.skipif(
    importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
))]  # fmt: skip
loops = pytest.mark.parametrize("loop", LOOPS)
both = pytest.mark.parametrize("tick", ["auto", "sleep"])


def run(function: Callable[..., Awaitable[Any]], *args: Any, loop: str) -> Any:
    """In real time, on a loop by name."""
    if loop == "uvloop":
        return anyio.run(function, *args, backend_options={"use_uvloop": True})
    return anyio.run(function, *args, backend=loop)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def means(tick: Tick) -> str:
    with waiter(tick) as waiting:
        return waiting.statistics().means


@linux
@loops
def test_the_machines_own_clock_is_waited_for_by_a_timer_of_the_kernel(loop: str) -> None:
    assert run(means, "auto", loop=loop) == run(means, "timerfd", loop=loop) == "timerfd"
    assert run(means, "sleep", loop=loop) == "sleep"


@pytest.mark.parametrize("backend", virtual.backends())
@pytest.mark.parametrize("tick", ["auto", "timerfd", "sleep"])
def test_virtual_time_is_slept_through_whatever_was_asked_for(tick: Tick, backend: str) -> None:
    assert virtual.run(means, tick, backend=backend) == "sleep"


def test_a_loop_whose_clock_somebody_replaced_is_slept_through() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.time = lambda: 0.0  # type: ignore[method-assign]
        try:
            return await means("auto")
        finally:
            del loop.time

    assert asyncio.run(main()) == "sleep"


@loops
@both
def test_a_wait_ends_at_its_deadline_or_after_and_is_counted(tick: Tick, loop: str) -> None:
    async def main() -> tuple[list[bool], list[float], WaitStatistics]:
        with waiter(tick) as waiting:
            begun, woken, late_s = waiting.now(), [], []
            for deadline in (begun + 0.004, begun + 0.006, begun + 0.0061, begun - 1.0):
                woken.append(await waiting.until(deadline))
                late_s.append(waiting.now() - deadline)
            return woken, late_s, waiting.statistics()

    woken, late_s, statistics = run(main, loop=loop)
    assert woken == [False] * 4
    # A deadline of uvloop's own sleep may round down by its clock's millisecond.
    assert min(late_s) >= (-1e-3 if (loop, tick) == ("uvloop", "sleep") else 0)
    assert statistics.waits + statistics.passed == 4
    assert statistics.passed >= 1
    assert statistics.late_s is not None
    assert statistics.woken == 0


@loops
@both
def test_other_tasks_get_a_turn_in_every_wait(tick: Tick, loop: str) -> None:
    async def main() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            with waiter(tick) as waiting:
                for _ in range(20):
                    await waiting.until(waiting.now() - 0.001)
            tasks.cancel_scope.cancel()
        return turns

    assert run(main, loop=loop) > 15  # of 20: trio runs those due in any order


@loops
@both
def test_a_wake_ends_a_wait_that_would_have_been_long(tick: Tick, loop: str) -> None:
    async def main() -> tuple[bool, bool, int]:
        with waiter(tick) as waiting:
            deadline = waiting.now() + 60

            async def press() -> None:
                await anyio.sleep(0.002)
                waiting.wake()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(press)
                woken = await waiting.until(deadline)
            again = await waiting.until(waiting.now() + 0.002)  # the next one is a whole one
            return woken, again, waiting.statistics().woken

    assert run(main, loop=loop) == (True, False, 1)


@linux
@loops
def test_the_timer_is_given_back_however_the_wait_ends(loop: str) -> None:
    async def main() -> list[int]:
        counts = [open_files()]
        with waiter("timerfd") as waiting:
            counts.append(open_files())
            await waiting.until(waiting.now() + 0.001)
        counts.append(open_files())
        with anyio.move_on_after(0.002), waiter("timerfd") as waiting:
            await waiting.until(waiting.now() + 60)
        counts.append(open_files())
        with pytest.raises(ZeroDivisionError), waiter("timerfd"):
            _ = 1 / 0
        return [*counts, open_files()]

    before, meanwhile, *after = run(main, loop=loop)
    assert meanwhile == before + 1
    assert after == [before] * 3


@linux
def test_where_the_system_has_no_timer_left_auto_sleeps_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    import resource

    async def main() -> str:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # all are taken: stdin, stdout, stderr
        try:
            with pytest.raises(OSError, match="Too many open files"):
                await means("timerfd")
            return await means("auto")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with caplog.at_level(logging.WARNING):
        assert anyio.run(main) == "sleep"
    assert "no timerfd" in caplog.text


def test_a_tick_that_is_none_is_refused_when_it_is_written() -> None:
    with pytest.raises(ValueError, match="'auto', 'timerfd' or 'sleep', not 'fast'"):
        seqrt.Play(tick="fast")  # type: ignore[arg-type]


# How long before a deadline to be woken, and from when on no other task is let in


def test_a_quiet_loop_is_woken_ever_closer_to_the_deadline_but_never_below_the_least() -> None:
    turns, leads = Turns(), []
    for _ in range(2000):
        turns.took(0.00005)
        turns.fade()
        leads.append(turns.lead_s(0.02))
    assert leads == sorted(leads, reverse=True)
    assert leads[-1] == pytest.approx(0.0002)
    assert turns.alone_s() == pytest.approx(0.00005, rel=0.01)


def test_one_long_turn_widens_the_lead_at_once_up_to_its_most() -> None:
    turns = Turns()
    for _ in range(2000):
        turns.fade()
    turns.took(0.0006)
    assert turns.lead_s(0.02) == pytest.approx(0.00075)
    assert turns.alone_s() == pytest.approx(0.0006)
    turns.took(0.7)  # a suspended laptop
    assert (turns.lead_s(0.02), turns.alone_s()) == (0.0015, 0.001)


def test_a_suspended_laptop_is_forgotten() -> None:
    turns = Turns()
    turns.took(600.0)
    for _ in range(1000):
        turns.fade()
    assert turns.lead_s(0.02) == 0.0002


@pytest.mark.parametrize("hz", [50, 100, 500, 1000])
def test_no_more_than_its_share_of_a_wait_is_spun(hz: int) -> None:
    turns = Turns()
    turns.took(0.01)
    assert turns.lead_s(1 / hz) <= 0.15 / hz + 1e-12


@linux
def test_the_timer_fires_once_and_can_be_set_anew_while_it_waits() -> None:
    async def main() -> bool:
        timed = Timed(asyncio.get_running_loop().time)
        try:
            timed._timer.fire_after(60)
            timed._timer.fire_after(0)
            with anyio.fail_after(10):
                await anyio.wait_readable(timed._timer.fd)
            timed._timer.fire_after(60)  # no longer readable
            with anyio.move_on_after(0.002) as scope:
                await anyio.wait_readable(timed._timer.fd)
            return scope.cancelled_caught
        finally:
            timed.close()

    assert asyncio.run(main())
