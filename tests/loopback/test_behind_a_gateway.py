"""Robots, a gateway and two workers over real HTTP/2: one worker drains or goes while they run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pytest
from test_two_workers import PATIENT, Served, by_state, moves, served

import seqrt
from seqrt.gateway.keyfile import write
from seqrt.gateway.keys import Key, hash_of
from seqrt.gateway.server import GatewayServer, gateway
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.worker import serving
from seqrt.worker.tls import Certificate

ROOT = "of-the-workers"


def values(events: list[ev.Event]) -> list[float]:
    ticks = [event for event in events if isinstance(event, ev.Ticked) and event.kind == "played"]
    return [tick.row[0] for tick in ticks if tick.row is not None]


PINNED = Certificate(Path(__file__).with_name("selfsigned.pem"), pinned=True)


@dataclass
class Robot:
    """One robot's runs, and what was told of them."""

    policy: seqrt.Policy
    arm: FakeArm
    events: list[ev.Event]
    error: seqrt.SeqrtError | None = None

    async def run(self, until: Callable[[], bool], **options: Any) -> None:
        try:
            await self.policy.run(
                self.arm,
                until=lambda _: until(),
                validate=lambda row: True,
                record=self.events.append,
                **{"limits": PATIENT, **options},
            )
        except seqrt.SeqrtError as error:
            self.error = error

    @property
    def restarts(self) -> int:
        return sum(isinstance(event, ev.EpisodeRestarted) for event in self.events)

    @property
    def was_answered(self) -> bool:
        """Whether the newest episode was."""
        kinds = [type(event) for event in self.events if isinstance(event, ev.EpisodeRestarted | ev.Answered)]
        return bool(kinds) and kinds[-1] is ev.Answered


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


async def run_all(
    robots: list[Robot], happens: Callable[[], Any] = lambda: None, over: Callable[[], bool] = lambda: True
) -> None:
    """Run them until it is ``over``, and have something happen before, once each arm moves."""
    done = False

    def until() -> bool:
        nonlocal done
        if not done and all(robot.was_answered and robot.arm.acts for robot in robots):
            done = True
            happens()
        return (done and over()) or any(robot.error for robot in robots)

    async with anyio.create_task_group() as running:
        for robot in robots:
            robot.events.clear()
            running.start_soon(robot.run, until)
    assert [robot.error for robot in robots] == [None] * len(robots)
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
        await robot.run(lambda: len(robot.arm.acts) >= 3)
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
                enough = [False]

                def go_on() -> bool:
                    enough[0] = enough[0] or all(len(robot.arm.acts) > 10 for robot in four)
                    return enough[0]

                await run_all(four, a.policy.drain, over=go_on)
                first = [robot.events[:] for robot in four]
                await run_all(four)
                assert {robot.policy.statistics().host for robot in four} == {b.host}
            assert a.policy.statistics()["episodes"] == 0
        tasks.cancel_scope.cancel()
    assert [robot.error for robot in four] == [None] * 4
    assert all(moves(events) == [] for events in first)
    for events in first:  # every row in its order, none lost
        played = values(events)
        assert played == [float(n) for n in range(1, len(played) + 1)]
    assert all(robot.arm.holds == [] for robot in four)


@seqrt.policy(actions=seqrt.Actions(key="actions", hz=40, space="absolute"), episodes="shared")
class Remembering:
    """A policy with state, which serves many episodes."""

    def infer(self, obs: Any, *, episode: seqrt.Episode) -> Any:
        episode.state["acts"] = episode.state.get("acts", 0) + 1
        return {"actions": obs["state"][0] + np.arange(1.0, 21.0)[:, np.newaxis] + np.zeros(3)}


@pytest.mark.anyio
async def test_a_worker_killed_while_robots_run_has_its_own_robots_begin_anew_and_no_other_notices() -> None:
    async with (
        anyio.create_task_group() as tasks,
        served(Remembering(), tasks, secret=ROOT) as a,
        served(Remembering(), tasks, secret=ROOT) as b,
        behind(a, b) as front,
        robots(front.url, 4, on_lost="restart") as four,
    ):
        lost, left = (a, b) if four[0].policy.statistics().host == a.host else (b, a)
        struck = [robot for robot in four if robot.policy.statistics().host == lost.host]
        await run_all(four, lost.stop, over=lambda: all(robot.restarts and robot.was_answered for robot in struck))
    for robot in four:
        assert (robot.error, robot.arm.holds) == (None, [])
        assert robot.restarts == (robot in struck)
        assert moves(robot.events) == ([(lost.host, left.host)] if robot in struck else [])


@pytest.mark.anyio
async def test_a_worker_killed_while_robots_run_that_should_stop_ends_their_runs_and_no_other_notices() -> None:
    """Long before a robot that waits for its own worker would give up: no arm has run dry, or stood for long."""
    async with (
        anyio.create_task_group() as tasks,
        served(Remembering(), tasks, secret=ROOT) as a,
        served(Remembering(), tasks, secret=ROOT) as b,
        behind(a, b) as front,
        robots(front.url, 4) as four,
    ):
        lost, left = (a, b) if four[0].policy.statistics().host == a.host else (b, a)
        struck = [robot for robot in four if robot.policy.statistics().host == lost.host]
        others = [robot for robot in four if robot not in struck]
        was_stopped = False

        def go_on() -> bool:
            nonlocal was_stopped
            if not was_stopped and all(robot.was_answered and robot.arm.acts for robot in four):
                was_stopped = True
                lost.stop()
            return all(robot.error for robot in struck)

        async with anyio.create_task_group() as running:
            for robot in four:
                options: Any = {"limits": seqrt.Limits(max_stall_s=600)} if robot in struck else {}
                running.start_soon(partial(robot.run, go_on, **options))
        assert {robot.policy.statistics().host for robot in others} == {left.host}
    for robot in struck:
        assert isinstance(robot.error, seqrt.Gone)
        assert len(robot.arm.holds) == 1
    for robot in others:
        assert (robot.error, robot.arm.holds, moves(robot.events)) == (None, [], [])


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
