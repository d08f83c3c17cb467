"""Robots, a gateway and two workers over real HTTP/2: one worker drains or goes while they run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pytest
from test_two_workers import Served, by_state, moves, served, values

import seqrt
from seqrt.gateway.keyfile import write
from seqrt.gateway.keys import Key, hash_of
from seqrt.gateway.server import GatewayServer, gateway
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.worker import serving
from seqrt.worker.tls import Certificate

ROOT = "of-the-workers"
PINNED = Certificate(Path(__file__).with_name("selfsigned.pem"), pinned=True)


@dataclass
class Robot:
    """One robot's run, and what was told of it."""

    policy: seqrt.Policy
    arm: FakeArm
    events: list[ev.Event]
    gives_up: bool = False
    outcome: seqrt.RunOutcome | None = None
    error: seqrt.SeqrtError | None = None

    async def run(self, rows: int, looks: Callable[[], Any] = lambda: None) -> None:
        def until(_: Any) -> bool:
            looks()
            return False

        try:
            self.outcome = await self.policy.run(
                self.arm, max_actions=rows, until=until, validate=lambda row: True, record=self.events.append,
                limits=seqrt.Limits(max_stall_s=1.0 if self.gives_up else 10.0),
            )  # fmt: skip
        except seqrt.SeqrtError as error:
            self.error = error


@asynccontextmanager
async def behind(*workers: Served) -> AsyncIterator[GatewayServer]:
    async with gateway({"pi": [worker.url for worker in workers]}, secret=ROOT, grace_s=0.1) as server:
        yield server


@asynccontextmanager
async def robots(url: str, count: int, **options: Any) -> AsyncIterator[list[Robot]]:
    async with anyio.create_task_group() as tasks:
        made, leave = list[Robot](), anyio.Event()

        async def hold_open(task_status: anyio.abc.TaskStatus[Any]) -> None:
            async with seqrt.connect(model="pi", base_url=url, **options) as policy:
                made.append(Robot(policy, FakeArm(3), []))
                task_status.started()
                await leave.wait()

        for _ in range(count):
            await tasks.start(hold_open)
        yield made
        leave.set()


async def run_all(robots: list[Robot], rows: int, happens: Callable[[], Any] = lambda: None) -> None:
    """Run them at once, and have something happen when each arm has been sent five rows."""
    done = False

    def look() -> None:
        nonlocal done
        if not done and all(len(robot.arm.acts) >= 5 for robot in robots):
            done = True
            happens()

    async with anyio.create_task_group() as running:
        for robot in robots:
            running.start_soon(robot.run, rows, look)
    assert done


@pytest.mark.anyio
async def test_the_certificate_a_gateway_names_is_pinned_and_its_secret_is_never_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="seqrt")
    async with (
        serving(by_state(), secret=ROOT, tls=PINNED) as worker,
        gateway({"pi": worker.url}, secret=ROOT, fingerprints={worker.url: PINNED.fingerprint}) as front,
        robots(front.url, 1) as (robot,),
    ):
        await robot.run(5)
        assert robot.policy.statistics().host == worker.url.removeprefix("https://")
    assert robot.error is None
    assert robot.arm.holds == []
    said = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("seqrt."))
    assert "v1_act_connect.answered" in said
    assert "seqrt-lease." not in said


@pytest.mark.anyio
async def test_a_worker_drained_while_robots_run_serves_each_episode_to_its_end_and_gets_none_of_the_next() -> None:
    async with anyio.create_task_group() as tasks, serving(by_state(), secret=ROOT) as a:
        second = by_state()
        async with served(second, tasks, secret=ROOT) as b, behind(Served(a.url, tasks.cancel_scope), b) as front:
            async with robots(front.url, 4) as four:
                await run_all(four, 20, a.policy.drain)
                first = [robot.events[:] for robot in four]
                await run_all(four, 5)
                assert {robot.policy.statistics().host for robot in four} == {b.host}
            assert a.policy.statistics()["episodes"] == 0
        tasks.cancel_scope.cancel()
    assert [robot.error for robot in four] == [None] * 4
    assert all(moves(events) == [] for events in first)
    assert all(len(values(robot.arm, robot.events)) == 25 for robot in four)
    assert all(robot.arm.holds == [] for robot in four)


@seqrt.policy(actions=seqrt.Actions(key="actions", hz=40, space="absolute"), episodes="shared")
class Remembering:
    """A policy with state, which serves many episodes."""

    def infer(self, obs: Any, *, episode: seqrt.Episode) -> Any:
        episode.state["acts"] = episode.state.get("acts", 0) + 1
        return {"actions": obs["state"][0] + np.arange(1.0, 21.0)[:, np.newaxis] + np.zeros(3)}


@pytest.mark.anyio
@pytest.mark.parametrize("on_lost", ["stop", "restart"])
async def test_a_worker_killed_while_robots_run_takes_its_own_robots_along_as_they_wished_and_no_other(
    on_lost: Any,
) -> None:
    async with (
        anyio.create_task_group() as tasks,
        served(Remembering(), tasks, secret=ROOT) as a,
        served(Remembering(), tasks, secret=ROOT) as b,
        behind(a, b) as front,
        robots(front.url, 4, on_lost=on_lost) as four,
    ):
        struck = [robot for robot in four if robot.policy.statistics().host == a.host]
        assert len(struck) == 2
        for robot in struck:
            robot.gives_up = on_lost == "stop"
        await run_all(four, 40, a.stop)
        for robot in four:
            restarted = [event for event in robot.events if isinstance(event, ev.EpisodeRestarted)]
            if robot not in struck:
                assert (robot.error, robot.arm.holds, moves(robot.events), restarted) == (None, [], [], [])
            elif on_lost == "restart":
                assert (robot.error, robot.arm.holds, len(restarted)) == (None, [], 1)
                assert moves(robot.events) == [(a.host, b.host)]
            else:
                assert isinstance(robot.error, seqrt.Gone)
                assert len(robot.arm.holds) == 1


@pytest.mark.anyio
async def test_a_robot_whose_key_the_gateway_does_not_know_is_refused_before_anything_moves(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    line = Key(name="lab", sha256=hash_of(b"right"))
    write(keys, msgspec.json.encode(line) + b"\n")
    async with (
        serving(by_state(), secret=ROOT) as worker,
        gateway({"pi": worker.url}, secret=ROOT, keys=keys) as front,
    ):
        with pytest.raises(seqrt.AuthError):
            async with seqrt.connect(model="pi", base_url=front.url, api_key="wrong"):
                raise AssertionError("it was let in")
        async with seqrt.connect(model="pi", base_url=front.url, api_key="right") as policy:
            assert policy.statistics().host == worker.url.removeprefix("http://")
