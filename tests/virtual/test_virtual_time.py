from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import warnings

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from seqrt.testing import deadlock, virtual
from seqrt.testing.deadlock import Deadlock
from seqrt.testing.durations import drawn, jittered, spiky
from seqrt.testing.offload import inline

pytestmark = pytest.mark.anyio


async def test_an_hour_of_sleep_takes_no_time() -> None:
    began_s = time.monotonic()
    await anyio.sleep(3600)
    assert anyio.current_time() == 3600
    assert time.monotonic() - began_s < 3600


async def test_a_call_that_blocks_takes_virtual_time_and_what_falls_due_meanwhile_is_late() -> None:
    woken_at: list[float] = []

    async def wake(at_s: float) -> None:
        await anyio.sleep_until(at_s)
        woken_at.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        for at_s in (1.0, 2.5, 4.0):
            tasks.start_soon(wake, at_s)
        await anyio.sleep(0.5)
        virtual.block(2.5)
        assert anyio.current_time() == 3.0
    assert woken_at == [3.0, 3.0, 4.0]


def test_time_blocks_in_virtual_time_alone_and_only_forwards() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="for virtual time"):
            virtual.block(1.0)
        with pytest.raises(ValueError, match="backwards"):
            virtual.block(-1.0)

    for backend in virtual.backends():
        anyio.run(main, backend=backend)


@pytest.mark.parametrize("_run", range(2))
async def test_each_test_has_a_clock_of_its_own_that_starts_at_zero(_run: int) -> None:
    assert anyio.current_time() == 0.0
    await anyio.sleep(1)


async def test_a_task_wakes_at_its_deadline_and_never_before() -> None:
    for k in range(1, 2000):
        await anyio.sleep_until(k * 0.05)
        assert anyio.current_time() >= k * 0.05
        assert anyio.current_time() == pytest.approx(k * 0.05, abs=1e-9)


async def test_tasks_interleave_by_their_deadlines() -> None:
    seen: list[str] = []

    async def tick(name: str, period_s: float, phase_s: float) -> None:
        for k in range(3):
            await anyio.sleep_until(phase_s + k * period_s)
            seen.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick, "a", 1.0, 0.1)
        tasks.start_soon(tick, "b", 1.0, 0.2)
    assert seen == ["a", "b"] * 3


async def test_a_timeout_that_is_not_reached_costs_no_time() -> None:
    for _ in range(100):
        with anyio.fail_after(1000):
            await anyio.sleep(0.01)
    assert anyio.current_time() == pytest.approx(1.0)


async def test_a_thread_can_call_into_a_loop_that_has_no_timer(anyio_backend_name: str) -> None:
    if anyio_backend_name == "asyncio":
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        threading.Thread(target=loop.call_soon_threadsafe, args=(woken.set,)).start()
        await woken.wait()
    assert await anyio.to_thread.run_sync(lambda: 3) == 3
    assert anyio.current_time() == 0.0


async def test_sockets_work_and_take_no_time() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:

        async def echo(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                await stream.send(await stream.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, echo)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"red")
                assert await stream.receive() == b"red"
            tasks.cancel_scope.cancel()
    assert anyio.current_time() < 1  # happy eyeballs may have set a timer


@pytest.fixture(params=virtual.backends())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_run_returns_what_the_function_returns(name: str) -> None:
    async def main(first: int, second: int) -> tuple[int, float]:
        await anyio.sleep(10)
        return first + second, anyio.current_time()

    assert virtual.run(main, 1, 2, backend=name) == (3, 10.0)


def test_run_raises_what_the_function_raises(name: str) -> None:
    async def main() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        virtual.run(main, backend=name)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a thread in these tests waits for none of theirs."""
    monkeypatch.setattr(deadlock, "GRACE_LOOKS", 20)


@pytest.mark.usefixtures("impatient")
def test_a_deadlock_is_an_error_that_names_where_each_task_waits(name: str) -> None:
    async def waits_for_nobody() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits_for_nobody)
            await anyio.sleep(2.5)

    with pytest.raises(Deadlock, match=r"(?s)at 2\.5.* s every task waits.*waits_for_nobody|main"):
        virtual.run(main, backend=name)


@pytest.mark.usefixtures("impatient")
def test_clean_up_runs_after_a_deadlock(name: str) -> None:
    cleaned: list[str] = []

    async def main() -> None:
        try:
            await anyio.Event().wait()
        finally:
            cleaned.append("yes")

    with pytest.raises(Deadlock):
        virtual.run(main, backend=name)
    assert cleaned == ["yes"]


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="curio"):
        virtual.backend("curio")


def test_a_loop_that_was_made_and_closed_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop = virtual.VirtualClockLoop()
        assert loop.run_until_complete(asyncio.sleep(5, "slept")) == "slept"
        loop.close()
        unused = virtual.VirtualClockLoop()
        unused.close()
        del loop, unused
        gc.collect()


def test_readers_of_plain_asyncio_are_told_of_their_sockets() -> None:
    async def main() -> bytes:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for end in (ours, theirs):
                end.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(ours, b"x")
            return await loop.sock_recv(theirs, 1)

    assert virtual.run(main) == b"x"


async def test_an_inline_call_takes_its_scripted_durations_and_then_the_last_again() -> None:
    offload = inline([3.0, 0.5])
    ends_s = []
    for _ in range(3):
        await offload(lambda: None)
        ends_s.append(anyio.current_time())
    assert ends_s == [3.0, 3.5, 4.0]


async def test_an_inline_call_runs_to_its_end_when_its_caller_is_cancelled() -> None:
    done: list[float] = []
    with anyio.move_on_after(0.1) as scope:
        await inline(1.0)(lambda: done.append(anyio.current_time()))
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert done == [1.0]


async def test_what_an_inline_call_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        await inline(0.2)(lambda: 1 / 0)
    assert anyio.current_time() == pytest.approx(0.2)


def test_seeded_durations_repeat() -> None:
    def series(seed: int) -> list[float]:
        draw = drawn(spiky(jittered(0.12, seed=seed), 0.57, chance=0.2, seed=seed))
        return [draw() for _ in range(200)]

    assert series(1) == series(1) != series(2)
    assert 10 < series(1).count(0.57) < 80


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), [], [0.1, -1]])
def test_a_duration_that_is_none_is_refused(bad: float | list[float]) -> None:
    with pytest.raises(ValueError, match="duration"):
        drawn(bad)
