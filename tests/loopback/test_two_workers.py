"""A robot with two workers to go to, over real HTTP/2: what a scripted network cannot show of losing the first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from test_worker_process import PATIENT, end, start

import seqrt
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.worker import serving


def by_state() -> Scripted:
    """No chunk asked for before the first worker is lost reaches the end of a run."""
    return Scripted(rows=30, hz=20, by="state")


class Served:
    """A worker that can be stopped before the test is over."""

    def __init__(self, url: str, scope: anyio.CancelScope) -> None:
        self.url, self.host = url, url.removeprefix("http://")
        self._scope = scope

    def stop(self) -> None:
        self._scope.cancel()


@asynccontextmanager
async def served(policy: Any, tasks: anyio.abc.TaskGroup, **options: Any) -> AsyncIterator[Served]:
    scope, ready, urls = anyio.CancelScope(), anyio.Event(), list[str]()

    async def serve() -> None:
        with scope:
            async with serving(policy, grace_s=0.1, **options) as server:
                urls.append(server.url)
                ready.set()
                await anyio.sleep_forever()

    tasks.start_soon(serve)
    await ready.wait()
    try:
        yield Served(urls[0], scope)
    finally:
        scope.cancel()


def moves(events: list[ev.Event]) -> list[tuple[str, str]]:
    return [(event.before, event.host) for event in events if isinstance(event, ev.WorkerChanged)]


def values(arm: FakeArm, events: list[ev.Event]) -> list[float]:
    ticks = [event for event in events if isinstance(event, ev.Ticked) and event.kind == "played"]
    return [tick.row[0] for tick in ticks if tick.row is not None]


@pytest.mark.anyio
async def test_a_server_stopped_in_mid_run_leaves_the_run_to_the_other_and_each_gets_its_own_key() -> None:
    arm, events = FakeArm(3), list[ev.Event]()
    async with (
        anyio.create_task_group() as tasks,
        served(by_state(), tasks, secret="of-a") as a,
        served(second := by_state(), tasks, secret="of-b") as b,
        seqrt.connect(base_url=[a.url, b.url], api_key=["of-a", "of-b"]) as policy,
    ):

        def stop_the_first(_: Any) -> bool:
            if len(arm.acts) >= 15:
                a.stop()
            return False

        outcome = await policy.run(
            arm, max_actions=60, until=stop_the_first, validate=lambda row: True, limits=PATIENT, record=events.append
        )
        assert policy.statistics().host == b.host
    assert (outcome.reason, outcome.actions, outcome.worker_changes) == ("completed", 60, 1)
    assert moves(events) == [(a.host, b.host)]
    assert values(arm, events) == [float(n) for n in range(1, 61)]
    assert arm.holds == []
    assert second.calls


@pytest.mark.anyio
async def test_a_key_the_second_refuses_is_said_before_anything_moves() -> None:
    async with (
        anyio.create_task_group() as tasks,
        served(by_state(), tasks, secret="of-a") as a,
        served(by_state(), tasks, secret="of-b") as b,
    ):
        with pytest.raises(seqrt.AuthError) as refused:
            async with seqrt.connect(base_url=[a.url, b.url], api_key="of-a"):
                raise AssertionError("the second was not asked")
    assert refused.value.host == b.host


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_process_killed_in_mid_run_leaves_the_run_to_the_other(tmp_path: Path, backend: str) -> None:
    (a, url_a), (b, url_b) = start(tmp_path), start(tmp_path)
    arm, events = FakeArm(3), list[ev.Event]()
    with_a_picture = arm.observe

    def observe() -> dict[str, Any]:
        return {**with_a_picture(), "picture": [0]}

    def kill(_: Any) -> bool:
        if len(arm.acts) >= 15:
            a.kill()
        return False

    async def main() -> seqrt.RunOutcome:
        async with seqrt.connect(base_url=[url_a, url_b]) as policy:
            return await policy.run(
                observe=observe, act=arm.act, hold=arm.hold, max_actions=60, until=kill,
                validate=lambda row: True, limits=PATIENT,
                record=events.append,
            )  # fmt: skip

    try:
        outcome = anyio.run(main, backend=backend)
    finally:
        end(a)
        end(b)
    assert (outcome.actions, outcome.worker_changes) == (60, 1)
    assert values(arm, events) == [float(n) for n in range(1, 61)]
    assert arm.holds == []
