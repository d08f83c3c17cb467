from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import numpy as np
import pytest

from seqrt.robots import threaded
from seqrt.robots.threaded import ThreadedRobot
from seqrt.runtime.robot import gather

pytestmark = pytest.mark.anyio
LONG_S = 60.0


class BusArm:
    """A blocking driver that notes what it was called for, and by which thread; ``act`` waits at the gate."""

    names = ("shoulder", "elbow")

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.threads: set[int] = set()
        self.inside = 0
        self.beside = 0
        self.in_act = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def _call(self, name: str, value: Any = None) -> None:
        self.inside += 1
        self.beside = max(self.beside, self.inside)
        self.threads.add(threading.get_ident())
        if name == "act":
            self.in_act.set()
            assert self.gate.wait(LONG_S)
        self.calls.append((name, value))
        self.inside -= 1

    def observe(self) -> dict[str, Any]:
        self._call("observe")
        return {"state": np.zeros(2, np.float32)}

    def act(self, row: Any) -> None:
        self._call("act", float(row[0]))

    def hold(self) -> None:
        self._call("hold")


class Shutter:
    """A camera that gives a frame, or raises, whenever the test says so."""

    def __init__(self) -> None:
        self.number = 0
        self.error: Exception | None = None
        self._released = threading.Semaphore(0)

    def release(self, error: Exception | None = None) -> None:
        self.error = error
        self._released.release()

    def read(self) -> Any:
        assert self._released.acquire(timeout=LONG_S)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.number += 1
        return np.full((2, 2, 3), self.number, np.uint8)


@pytest.fixture
def arm() -> Iterator[BusArm]:
    arm = BusArm()
    yield arm
    arm.gate.set()


@pytest.fixture
def shutter() -> Iterator[Shutter]:
    shutter = Shutter()
    yield shutter
    shutter.release()


def row(value: float) -> Any:
    return np.array([value, 0.0])


async def until_in_act(arm: BusArm) -> None:
    assert await anyio.to_thread.run_sync(arm.in_act.wait, LONG_S)


async def frames(robot: ThreadedRobot, key: str, count: int) -> None:
    """Wait until the camera's thread has read ``count`` frames."""
    with anyio.fail_after(LONG_S):
        while robot.statistics()[key].frames_read < count:
            await anyio.lowlevel.checkpoint()


async def test_every_call_of_the_bus_is_made_in_order_by_one_thread(arm: BusArm) -> None:
    async with threaded(arm) as robot, anyio.create_task_group() as tasks:
        await robot.act(row(0))
        for value in range(1, 4):
            tasks.start_soon(robot.act, row(value))
            tasks.start_soon(robot.observe)
        tasks.start_soon(robot.hold)
    assert (len(arm.calls), len(arm.threads), arm.beside) == (8, 1, 1)
    assert threading.get_ident() not in arm.threads
    assert robot.names == ("shoulder", "elbow")


async def test_it_is_a_robot_to_a_run(arm: BusArm) -> None:
    async with threaded(arm) as robot:
        callbacks = gather(robot, validate=lambda row: True)
        assert callbacks.act is not None
        await callbacks.act(row(1.0))
        assert (await callbacks.observe())["state"].tolist() == [0, 0]


async def test_the_threads_start_with_the_first_call_when_it_was_not_entered(arm: BusArm) -> None:
    before = set(threading.enumerate())
    robot = threaded(arm)
    assert set(threading.enumerate()) <= before
    await robot.act(row(1.0))
    await robot.aclose()
    assert arm.calls == [("act", 1.0)]


async def test_what_the_driver_raises_comes_out_of_the_call(arm: BusArm) -> None:
    arm.hold = lambda: 1 / 0  # type: ignore[method-assign, return-value, assignment]
    async with threaded(arm) as robot:
        with pytest.raises(ZeroDivisionError):
            await robot.hold()
        await robot.act(row(2.0))
    assert arm.calls == [("act", 2.0)]


async def test_hold_waits_behind_a_cancelled_act_that_has_begun_and_never_runs_beside_it(arm: BusArm) -> None:
    arm.gate.clear()
    async with threaded(arm) as robot, anyio.create_task_group() as tasks:
        tasks.start_soon(robot.act, row(1.0))
        await until_in_act(arm)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(LONG_S):
            async with anyio.create_task_group() as holding:
                holding.start_soon(robot.hold)
                await anyio.wait_all_tasks_blocked()
                assert arm.calls == []
                arm.gate.set()
    assert arm.calls == [("act", 1.0), ("hold", None)]
    assert arm.beside == 1


async def test_a_cancelled_act_that_has_not_begun_is_taken_back(arm: BusArm) -> None:
    arm.gate.clear()
    async with threaded(arm) as robot, anyio.create_task_group() as tasks:
        tasks.start_soon(robot.act, row(1.0))
        await until_in_act(arm)
        with anyio.move_on_after(0.01):
            await robot.act(row(2.0))
        arm.gate.set()
        await robot.hold()
    assert arm.calls == [("act", 1.0), ("hold", None)]


async def test_a_cancelled_hold_still_holds_once_the_bus_is_free(arm: BusArm) -> None:
    arm.gate.clear()
    async with threaded(arm) as robot, anyio.create_task_group() as tasks:
        tasks.start_soon(robot.act, row(1.0))
        await until_in_act(arm)
        with anyio.move_on_after(0.01):
            await robot.hold()
        arm.gate.set()
    assert arm.calls == [("act", 1.0), ("hold", None)]


async def test_estop_is_called_beside_a_stuck_bus(arm: BusArm, caplog: pytest.LogCaptureFixture) -> None:
    stopped: list[int] = []
    arm.gate.clear()
    async with (
        threaded(arm, estop=lambda: stopped.append(len(arm.calls)), estop_after_s=0.05) as robot,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(robot.act, row(1.0))
        await until_in_act(arm)
        await robot.hold()
        assert stopped == [0]
        arm.gate.set()
    assert arm.calls == [("act", 1.0), ("hold", None)]
    assert "estop" in caplog.text


async def test_estop_is_not_called_beside_a_bus_that_is_free(arm: BusArm) -> None:
    stopped: list[int] = []
    async with threaded(arm, estop=lambda: stopped.append(len(arm.calls)), estop_after_s=LONG_S) as robot:
        await robot.act(row(1.0))
        await robot.hold()
    assert (arm.calls, stopped) == ([("act", 1.0), ("hold", None)], [])


async def test_estop_without_one_is_an_error(arm: BusArm) -> None:
    async with threaded(arm) as robot:
        with pytest.raises(RuntimeError, match="no estop"):
            await robot.estop()


async def test_a_camera_is_read_beside_the_bus_and_its_newest_frame_is_taken(arm: BusArm, shutter: Shutter) -> None:
    async with threaded(arm, cameras={"wrist": shutter.read}) as robot:
        for _ in range(3):
            shutter.release()
        await frames(robot, "wrist", 3)
        observation = await robot.observe()
        assert observation is not None
        assert observation["wrist"][0, 0, 0] == 3
        assert observation["state"].shape == (2,)
        statistics = robot.statistics()["wrist"]
        assert (statistics.frames_read, statistics.frames_observed) == (3, 1)
        assert statistics.age_s is not None
        assert statistics.age_s >= 0
        shutter.release()


async def test_the_first_observation_waits_for_every_cameras_first_frame(arm: BusArm, shutter: Shutter) -> None:
    observed: list[Any] = []

    async def observe(robot: ThreadedRobot) -> None:
        observed.append(await robot.observe())

    async with threaded(arm, cameras={"wrist": shutter.read}) as robot:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(observe, robot)
            await anyio.wait_all_tasks_blocked()
            assert observed == []
            assert robot.statistics()["wrist"].age_s is None
            shutter.release()
        assert observed[0]["wrist"][0, 0, 0] == 1
        shutter.release()


async def test_a_frame_is_never_given_twice_and_the_bus_is_left_alone_meanwhile(arm: BusArm, shutter: Shutter) -> None:
    other = Shutter()
    cameras = {"wrist": shutter.read, "top": other.read}
    async with threaded(arm, cameras=cameras) as robot:
        shutter.release()
        other.release()
        assert await robot.observe() is not None
        assert await robot.observe() is None
        shutter.release()
        await frames(robot, "wrist", 2)
        assert await robot.observe() is None  # the other stands still
        other.release()
        await frames(robot, "top", 2)
        observation = await robot.observe()
        assert observation is not None
        assert [int(observation[key][0, 0, 0]) for key in cameras] == [2, 2]
        assert [name for name, _ in arm.calls] == ["observe", "observe"]
        shutter.release()
        other.release()


async def test_what_a_camera_raises_comes_out_once_and_it_is_read_again(arm: BusArm, shutter: Shutter) -> None:
    async with threaded(arm, cameras={"wrist": shutter.read}) as robot:
        shutter.release(OSError("USB lost"))
        with pytest.raises(OSError, match="USB lost"):
            await robot.observe()
        shutter.release()
        assert await robot.observe() is not None
        shutter.release()


async def test_a_robot_may_have_nothing_but_cameras_to_look_at(shutter: Shutter) -> None:
    class Gripper:
        def act(self, row: Any) -> None: ...
        def hold(self) -> None: ...

    async with threaded(Gripper(), cameras={"wrist": shutter.read}) as robot:
        shutter.release()
        observation = await robot.observe()
        assert observation is not None
        assert list(observation) == ["wrist"]
        assert robot.names is None
        shutter.release()


async def test_leaving_it_does_not_wait_for_ever_for_a_stuck_driver(
    arm: BusArm, caplog: pytest.LogCaptureFixture
) -> None:
    arm.gate.clear()
    with anyio.fail_after(LONG_S), caplog.at_level(logging.WARNING):
        async with threaded(arm, close_s=0.05) as robot, anyio.create_task_group() as tasks:
            tasks.start_soon(robot.act, row(1.0))
            await until_in_act(arm)
            tasks.cancel_scope.cancel()
    assert "left behind: robot bus" in caplog.text
    with pytest.raises(RuntimeError, match="closed"):
        await robot.act(row(2.0))


async def test_leaving_it_ends_its_threads(arm: BusArm, shutter: Shutter) -> None:
    before = set(threading.enumerate())
    async with threaded(arm, cameras={"wrist": shutter.read}) as robot:
        await robot.act(row(1.0))
        shutter.release()
        await robot.observe()
        mine = [each for each in set(threading.enumerate()) - before if each.name in ("robot bus", "camera wrist")]
        assert len(mine) == 2
        shutter.release()
    for thread in mine:
        await anyio.to_thread.run_sync(thread.join, LONG_S)
        assert not thread.is_alive()


async def test_an_async_driver_is_refused_with_what_to_do() -> None:
    class Already:
        async def act(self, row: Any) -> None: ...
        async def hold(self) -> None: ...
        async def observe(self) -> Any: ...

    with pytest.raises(ValueError, match="hand it to run"):
        threaded(Already())


@pytest.mark.parametrize("name", ["act", "hold", "observe"])
async def test_a_robot_that_lacks_a_method_is_refused(name: str) -> None:
    methods = {other: lambda self, *args: None for other in ("act", "hold", "observe") if other != name}
    with pytest.raises(ValueError, match=f"has no {name}"):
        threaded(type("Half", (), methods)())


def test_ctrl_c_ends_a_program_whose_bus_is_stuck() -> None:
    program = """
        import anyio, os, signal, sys, threading
        from seqrt.robots import threaded

        class Stuck:
            def observe(self): return {}
            def hold(self): ...
            def act(self, row):
                threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
                threading.Event().wait()

        async def main():
            async with threaded(Stuck()) as robot:
                await robot.act(None)

        anyio.run(main, backend=sys.argv[1])
    """
    for backend in ("asyncio", "trio"):
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), backend], capture_output=True, text=True, timeout=60
        )
        assert "left behind: robot bus" in ended.stderr
        assert ended.returncode != 0
