"""More acts than a policy can serve: what cannot be served in time is refused at once, and the others do not suffer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from episodic import started

from seqrt.errors import Unavailable
from seqrt.policies import Host, policy
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, AskPlan

pytestmark = pytest.mark.anyio

CALL_S = 0.1003


def single(**declared: Any) -> Any:
    @policy(**declared)
    class Single:
        def infer(self, obs: Any) -> Any:
            return 0.0

    return Single()


async def act(host: Host, robot: str, step: int, dry_in_s: float | None = None, **more: Any) -> None:
    plan = AskPlan(dry_in_s=dry_in_s, begun=step > 0 or None)
    request = ActRequest(inputs={"x": step}, seq=step, episode_id=robot, plan=plan)
    await host.act(request, request_id=f"r-{robot}-{step}", **more)


@dataclass
class Robot:
    """Asks every ``period_s``, with ``dry_in_s`` of its plan left, whatever it is answered."""

    name: str
    period_s: float = 0.5
    dry_in_s: float = 0.4
    took_s: list[float] = field(default_factory=list)
    refused: list[Unavailable] = field(default_factory=list)
    refused_after_s: list[float] = field(default_factory=list)

    async def drive(self, host: Host, until: float) -> None:
        step = 0
        async with anyio.create_task_group() as tasks:
            while anyio.current_time() < until:
                tasks.start_soon(self._ask, host, step)
                step += 1
                await anyio.sleep(self.period_s)

    async def _ask(self, host: Host, step: int) -> None:
        asked_at = anyio.current_time()
        try:
            await act(host, self.name, step, self.dry_in_s if self.took_s else 0.0)
        except Unavailable as refused:
            self.refused.append(refused)
            self.refused_after_s.append(anyio.current_time() - asked_at)
        else:
            self.took_s.append(anyio.current_time() - asked_at)


async def test_an_act_whose_turn_would_come_too_late_is_refused_at_once_with_when_to_come_back() -> None:
    host = await started(single(queue_timeout_s=5), duration_s=2.0)
    for step in range(2):  # what a call takes is learnt
        await act(host, "a", step, 1.0)
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for robot in "bcd":
            tasks.start_soon(act, host, robot, 0)
            await anyio.sleep(0.001)
        with pytest.raises(Unavailable, match="turn would come in 6 s") as busy:
            await act(host, "e", 0)
        assert anyio.current_time() == pytest.approx(began + 0.003)
        assert (busy.value.code, busy.value.details) == ("busy", {"position": 3})
        assert busy.value.retry_after_s == pytest.approx(1.0, abs=0.01)
    assert host.statistics()["refused"] == 1


async def test_an_act_whose_own_deadline_is_before_its_turn_is_refused_at_once() -> None:
    host = await started(single(), duration_s=2.0)
    for step in range(2):
        await act(host, "a", step, 1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act, host, "b", 0)
        await anyio.sleep(0.5)
        with pytest.raises(Unavailable, match="may wait 1 s") as busy:
            await act(host, "c", 0, deadline_s=1.0)
        assert busy.value.retry_after_s == pytest.approx(0.5)
        await act(host, "d", 0, deadline_s=2.0)


async def test_an_act_of_a_robot_that_stands_is_let_in_before_those_that_have_time() -> None:
    host = await started(single(), duration_s=2.0)
    for step in range(2):
        await act(host, "a", step, 1.0)
    for robot in "bcd":
        await act(host, robot, 0)
    done: list[str] = []

    async def one(robot: str, step: int, dry_in_s: float, deadline_s: float | None = None) -> None:
        await act(host, robot, step, dry_in_s, deadline_s=deadline_s)
        done.append(robot)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "a", 2, 1.0)
        await anyio.sleep(0.001)
        for robot in "bc":
            tasks.start_soon(one, robot, 1, 1.9)
            await anyio.sleep(0.001)
        tasks.start_soon(one, "d", 1, 0.0, 4.0)  # behind the others its turn would come in 6 s
    assert done == ["a", "d", "b", "c"]


async def test_each_act_that_waits_knows_its_place() -> None:
    host = await started(single(), duration_s=1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act, host, "a", 0)
        await anyio.sleep(0.01)
        for robot, dry_in_s in (("b", 0.9), ("c", 0.1), ("d", 0.5)):
            request = ActRequest(inputs={}, seq=0, episode_id=robot, plan=AskPlan(dry_in_s=dry_in_s))
            tasks.start_soon(lambda r=request, n=robot: host.act(r, request_id=f"r-0000000{n}"))
        await anyio.sleep(0.01)
        assert [host.position(f"r-0000000{robot}") for robot in "bcd"] == [3, 1, 2]
        assert host.position("r-0000000b", owner="another") is None
        assert (host.load().acts_waiting, host.load().acts_running) == (3, 1)
    assert host.position("r-0000000b") is None


async def test_a_new_episode_is_refused_before_those_that_are_live_run_dry() -> None:
    host = await started(single(), duration_s=CALL_S)
    robots = [Robot(f"{number}") for number in range(10)]  # twice what a worker of ten acts a second can do
    async with anyio.create_task_group() as tasks:
        for robot in robots:
            tasks.start_soon(robot.drive, host, 30.0)
            await anyio.sleep(2.0037)
    live = [robot for robot in robots if robot.took_s]
    turned_away = [robot for robot in robots if not robot.took_s]
    assert 4 <= len(live) <= 5
    for robot in live:
        assert not robot.refused
        assert max(robot.took_s) < robot.dry_in_s + CALL_S
    for robot in turned_away:
        assert robot.refused[0].code == "busy"
        assert robot.refused[0].details == {"position": 1}
        assert max(robot.refused_after_s) == 0.0
    assert host.load().full
    assert host.statistics()["inferred"] / 30.0 > 0.9 * min(10.0, 2.0 * len(live)) * 0.9


async def test_robots_that_ask_as_often_as_they_are_answered_give_way_and_no_episode_is_refused_for_them() -> None:
    host = await started(single(), duration_s=CALL_S)
    asked: dict[str, int] = {}

    async def eager(robot: str) -> None:
        for step in range(100):
            await act(host, robot, step, 1.5 if step else 0.0)
            asked[robot] = step

    async with anyio.create_task_group() as tasks:
        for robot in "abcdef":
            tasks.start_soon(eager, robot)
            await anyio.sleep(1.0)
    assert asked == dict.fromkeys("abcdef", 99)


async def test_a_draining_worker_takes_no_act_without_an_episode() -> None:
    host = await started(single())
    await host.act(ActRequest(inputs={}), request_id="r-00000001")
    host.drain()
    with pytest.raises(Unavailable) as draining:
        await host.act(ActRequest(inputs={}), request_id="r-00000002")
    assert draining.value.details == {"reason": "draining"}


async def test_a_worker_that_still_loads_is_not_drained() -> None:
    host = Host(single(), offload=inline())
    with pytest.raises(Unavailable) as loading:
        host.drain()
    assert loading.value.warming
    await host.start()
    assert (host.stage, host.load().draining) == ("ready", False)


async def test_while_the_workers_own_loop_is_crowded_no_episode_is_begun_beside_live_ones() -> None:
    host = await started(single())
    crowded = True
    host.refuse_new_while(lambda: crowded)
    await act(host, "a", 0)  # the first one: it cannot be the others' fault
    with pytest.raises(Unavailable) as busy:
        await act(host, "b", 0)
    assert (busy.value.code, busy.value.details) == ("busy", {"position": 1})
    await act(host, "a", 1)
    assert host.load().full
    crowded = False
    await act(host, "b", 0)
