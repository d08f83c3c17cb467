"""Calls that wait for others to join: more gets done, and nobody is served later than its plan allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from episodic import started

from seqrt.policies import Host, policy
from seqrt.policies.terms import Concurrency
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, AskPlan

pytestmark = pytest.mark.anyio

ALONE_S, MORE_S = 0.1003, 0.002


@policy(concurrency=Concurrency(max_concurrent=8))
class Batched:
    """A call takes `ALONE_S`, and a little more with each act in it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def infer(self, obs: list[Any]) -> list[Any]:
        self.sizes.append(len(obs))
        return [0.0 for _ in obs]


class Lasting:
    """Runs a call for as long as it takes with so many acts in it."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, float]] = []

    async def __call__(self, call: Callable[[], Any], /) -> Any:
        acts = len(getattr(call, "args", ((), ()))[1])
        began_at = anyio.current_time()
        result = await inline(ALONE_S + MORE_S * acts)(call)
        self.calls.append((began_at, anyio.current_time()))
        return result


@dataclass
class Robot:
    name: str
    think_s: float
    dry_in_s: float
    answered: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)

    async def drive(self, host: Host, until: float, wait_s: float = 0.0) -> None:
        await anyio.sleep(wait_s)
        step = 0
        while anyio.current_time() < until:
            asked_at = anyio.current_time()
            plan = AskPlan(dry_in_s=self.dry_in_s, begun=True)
            request = ActRequest(inputs={"x": step}, seq=step, episode_id=self.name, plan=plan)
            await host.act(request, request_id=f"r-{self.name}{step:015x}")
            self.answered.append(anyio.current_time())
            self.took_s.append(self.answered[-1] - asked_at)
            step += 1
            await anyio.sleep(self.think_s)


async def driven(robots: list[Robot], *, until: float = 20.0) -> Batched:
    served = Batched()
    host = Host(served, offload=Lasting())
    await host.start()
    async with anyio.create_task_group() as tasks:
        for number, robot in enumerate(robots):
            tasks.start_soon(robot.drive, host, until, 0.0131 * number)
    return served


async def test_robots_that_ask_again_and_again_are_served_together_where_they_have_time() -> None:
    robots = [Robot(f"{number}", think_s=0.0207, dry_in_s=1.5) for number in range(8)]
    served = await driven(robots)
    together_s = ALONE_S + 8 * MORE_S + 0.0207
    acts = sum(len(robot.answered) for robot in robots)
    assert acts > 0.95 * 8 * 20.0 / together_s  # apart, one and seven at a time: 8 in 0.217 s and not in 0.137
    assert served.sizes[-10:].count(8) >= 9
    assert max(max(robot.took_s) for robot in robots) < 1.5


async def test_robots_that_are_short_are_not_kept_waiting_for_others() -> None:
    robots = [Robot(f"{number}", think_s=0.0207, dry_in_s=0.15) for number in range(8)]
    served = await driven(robots)
    assert 8 not in served.sizes


async def test_one_robot_alone_never_waits() -> None:
    robot = Robot("alone", think_s=0.5, dry_in_s=1.5)
    await driven([robot])
    assert robot.took_s == pytest.approx([ALONE_S + MORE_S] * len(robot.took_s))


async def test_a_robot_that_runs_short_while_a_call_waits_begins_it() -> None:
    served = Batched()
    host = Host(served, offload=Lasting())
    await host.start()
    robots = [Robot(f"{number}", think_s=0.0507, dry_in_s=1.5) for number in range(4)]
    short = Robot("short", think_s=0.6113, dry_in_s=0.12)
    async with anyio.create_task_group() as tasks:
        for robot in robots:
            tasks.start_soon(robot.drive, host, 20.0)
        tasks.start_soon(short.drive, host, 20.0, 5.0)
    call_s = ALONE_S + 5 * MORE_S
    assert max(short.took_s) <= 2 * call_s + 1e-6  # the one that runs, and its own


async def test_a_leader_that_leaves_while_it_waits_for_others_hands_the_lead_on() -> None:
    robots = [Robot(f"{number}", think_s=0.0607, dry_in_s=1.5) for number in range(3)]
    host = Host(Batched(), offload=Lasting())
    await host.start()
    async with anyio.create_task_group() as tasks:
        for robot in robots:
            tasks.start_soon(robot.drive, host, 4.0)
        for number in range(20):  # acts that give up at once, whatever the line does at that moment
            await anyio.sleep(0.1907)
            with anyio.move_on_after(0.0111):
                plan = AskPlan(dry_in_s=1.5, begun=True)
                request = ActRequest(inputs={"x": 0}, seq=number, episode_id="leaves", plan=plan)
                await host.act(request, request_id=f"r-{number:016x}")
    assert host.statistics()["acts"] == 0
    assert all(robot.answered[-1] > 3.5 for robot in robots)


async def test_a_newer_act_of_the_robot_whose_call_waits_is_served_in_place_of_the_one_it_waits_with() -> None:
    host = Host(Batched(), offload=Lasting())
    await host.start()
    robots = [Robot(f"{number}", think_s=0.0507, dry_in_s=1.5) for number in range(4)]
    waited: list[tuple[bool, float]] = []

    async def one(step: int) -> None:
        plan = AskPlan(dry_in_s=1.5, begun=True)
        request = ActRequest(inputs={"x": 0}, seq=step, episode_id="twice", plan=plan)
        answer = (await host.act(request, request_id=f"r-{step:016x}")).plan
        assert answer is not None
        if step % 2 == 0:
            waited.append((bool(answer.stale), answer.queue_s or 0.0))

    async with anyio.create_task_group() as tasks:
        for robot in robots:
            tasks.start_soon(robot.drive, host, 20.0)
        for step in range(0, 120, 2):
            tasks.start_soon(one, step)
            await anyio.sleep(0.0053)
            tasks.start_soon(one, step + 1)
            await anyio.sleep(0.2917)
    assert len(waited) == 60
    assert any(stale for stale, _ in waited)
    assert all(stale or queue_s <= 0.0053 for stale, queue_s in waited)


async def test_acts_of_one_call_at_a_time_begin_at_once() -> None:
    @policy()
    class Single:
        def infer(self, obs: Any) -> Any:
            return 0.0

    host = await started(Single(), duration_s=0.1)
    robot = Robot("a", think_s=0.05, dry_in_s=9.0)
    await robot.drive(host, 3.0)
    assert robot.took_s == pytest.approx([0.1] * len(robot.took_s))
