from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
import trio
from fastapi import FastAPI

import seqrt
from examples import fastapi_teleop, flow_policy, my_policy, trio_rig
from seqrt.testing import FakeArm, Faulty, Scripted, Slow, inline, virtual
from seqrt.testing.connected import connected

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

HOST = "127.0.0.1:8000"
TOKEN = "a token of the test"
KEY = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.anyio
async def test_the_example_policy_keeps_the_light_in_view_over_a_link_that_takes_its_time() -> None:
    head = my_policy.SimulatedHead()
    async with connected(my_policy.MyPolicy(), up_s=0.0203, down_s=0.0203, offload=inline(0.0307)) as ends:
        outcome = await ends.policy.run(head, validate=lambda row: True, max_actions=300)
    assert outcome.reason == "completed"
    assert outcome.underruns == 0
    assert outcome.frozen_frames == 0, "its pictures are like a camera's"
    assert np.linalg.norm(head.light - head.position) < 0.05


@pytest.mark.anyio
async def test_the_example_policy_sweeps_where_there_is_no_light() -> None:
    arm = FakeArm(2, names=my_policy.JOINTS, camera=(my_policy.HEIGHT, my_policy.WIDTH))
    async with connected(my_policy.MyPolicy()) as ends:
        await ends.policy.run(arm, validate=lambda row: True, max_actions=60)
    assert np.ptp(arm.rows[:, 0]) > 0.5


@pytest.mark.anyio
async def test_the_flow_policy_goes_on_from_the_rows_it_is_handed_and_keeps_clear_of_the_disc() -> None:
    here, clear = np.array([-0.9, 0.0]), np.inf

    def act(row: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        nonlocal here, clear
        here, clear = row, min(clear, float(np.linalg.norm(row - flow_policy.DISC)))

    class Numbered(flow_policy.FlowPolicy):
        """Other noise at each call, the same in each test."""

        guided: tuple[bool, ...] = ()

        def infer(self, obs: Any, *, prefix: Any = None, delay: Any = None, spacing: Any = None) -> Any:  # type: ignore[override]
            self.guided += (prefix is not None,)
            return super().infer(obs, prefix=prefix, delay=delay, spacing=spacing, seed=len(self.guided))

    policy, play = Numbered(), seqrt.Play(continuity="server", fresh_s=0.4)
    async with connected(policy, offload=inline(0.0807)) as ends:
        outcome = await ends.policy.run(
            observe=lambda: {"state": here, "goal": np.array([0.9, 0.0])},
            act=act, hold=lambda: None, validate=lambda row: True, max_actions=100, play=play,
        )  # fmt: skip
    assert outcome.reason == "completed"
    assert outcome.underruns == 0
    assert clear > flow_policy.RADIUS
    assert sum(policy.guided) >= 3


def rig_of(*arms: Any) -> tuple[dict[str, trio_rig.ArmWithView], trio_rig.Camera]:
    async def read() -> trio_rig.Picture:
        await trio.sleep(0.0303)
        return np.zeros((48, 64, 3), dtype=np.uint8)

    camera = trio_rig.Camera(read)
    return {name: trio_rig.ArmWithView(arm, camera) for name, arm in zip(("left", "right"), arms, strict=True)}, camera


async def drive_rig(robots: dict[str, trio_rig.ArmWithView], camera: trio_rig.Camera) -> dict[str, seqrt.RunOutcome]:
    async with connected(my_policy.MyPolicy()) as left, connected(my_policy.MyPolicy()) as right:
        policies = {"left": left.policy, "right": right.policy}
        return await trio_rig.drive(robots, policies, camera, max_actions=60)


def two_arms() -> tuple[FakeArm, FakeArm]:
    return FakeArm(2, names=my_policy.JOINTS), FakeArm(2, names=my_policy.JOINTS)


def test_the_rig_drives_both_arms_to_their_end() -> None:
    arms = two_arms()
    outcomes = virtual.run(drive_rig, *rig_of(*arms), backend="trio")
    assert {name: outcome.actions for name, outcome in outcomes.items()} == {"left": 60, "right": 60}
    assert [len(arm.acts) for arm in arms] == [60, 60]


def test_one_arm_of_the_rig_that_fails_stops_the_other_and_both_hold() -> None:
    left, right = two_arms()
    with pytest.raises(BaseExceptionGroup) as failed:
        virtual.run(drive_rig, *rig_of(left, Faulty(right, act_on={20})), backend="trio")
    assert failed.group_contains(OSError)
    assert [len(left.holds), len(right.holds)] == [1, 1]
    assert len(left.acts) < 25
    assert left.holds[0] >= left.acts[-1].at_s


@asynccontextmanager
async def teleop(robot: Any, policy: Any = None) -> AsyncIterator[tuple[httpx.AsyncClient, FastAPI]]:
    async with connected(policy or Scripted(dims=2, hz=20.0, rows=20, infer_s=0.1203, step_size=0.0001)) as ends:

        @asynccontextmanager
        async def handle() -> AsyncIterator[seqrt.Policy]:
            yield ends.policy

        app = fastapi_teleop.teleop(handle, robot, token=TOKEN, hosts=[HOST])
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}", headers=KEY)
        async with app.router.lifespan_context(app), client:
            yield client, app


async def when(client: httpx.AsyncClient, true: Any) -> dict[str, Any]:
    """The status, once ``true`` of it; virtual time stands behind the wait."""
    with anyio.fail_after(60):
        while True:
            status: dict[str, Any] = (await client.get("/status")).json()
            if true(status):
                return status
            await anyio.sleep(0.0107)


@pytest.mark.anyio
async def test_a_run_is_started_watched_and_ends_by_itself() -> None:
    arm = FakeArm(2)
    async with teleop(arm) as (client, _):
        assert (await client.post("/run", params={"actions": 40})).status_code == 202
        playing = await when(client, lambda status: status["state"] == "playing")
        assert playing["running"]
        assert playing["rows_left"] > 0
        done = await when(client, lambda status: not status["running"])
    assert done["error"] is None
    assert done["outcome"]["reason"] == "completed"
    assert done["outcome"]["actions"] == len(arm.acts) == 40


@pytest.mark.anyio
async def test_a_second_run_is_refused_while_one_goes_on() -> None:
    async with teleop(FakeArm(2)) as (client, _):
        await client.post("/run")
        assert (await client.post("/run")).status_code == 409


@pytest.mark.anyio
async def test_pause_holds_and_resume_goes_on_and_stop_holds_again() -> None:
    arm = FakeArm(2)
    async with teleop(arm) as (client, _):
        await client.post("/run", params={"actions": 10_000})
        await when(client, lambda status: status["state"] == "playing")
        await client.post("/pause")
        await when(client, lambda status: status["state"] == "paused")
        played = len(arm.acts)
        await anyio.sleep(3.0007)
        assert (len(arm.holds), len(arm.acts)) == (1, played)
        await client.post("/resume")
        await when(client, lambda status: status["state"] == "playing")
        await client.post("/stop")
        ended = await when(client, lambda status: not status["running"])
    assert ended["outcome"]["reason"] == "interrupted"
    assert len(arm.holds) == 2


@pytest.mark.anyio
async def test_a_stop_reaches_a_run_that_still_waits_for_its_first_observation() -> None:
    async with teleop(Slow(FakeArm(2), observe_s=10_000.0)) as (client, _):
        await client.post("/run")
        await anyio.sleep(1.0)
        assert (await client.get("/status")).json()["running"]
        await client.post("/stop")
        await when(client, lambda status: not status["running"])


@pytest.mark.anyio
async def test_the_runs_error_comes_back_in_the_status() -> None:
    arm = FakeArm(2)
    async with teleop(Faulty(arm, act_on={5})) as (client, _):
        await client.post("/run")
        ended = await when(client, lambda status: not status["running"])
    assert ended["error"] == "OSError: [TxRxResult] There is no status packet!"
    assert ended["outcome"]["reason"] == "raised:OSError"
    assert len(arm.holds) == 1


@pytest.mark.anyio
async def test_shutting_the_server_down_holds() -> None:
    arm = FakeArm(2)
    async with teleop(arm) as (client, _):
        await client.post("/run", params={"actions": 10_000})
        await when(client, lambda status: status["state"] == "playing")
        assert not arm.holds
    assert len(arm.holds) == 1
    assert arm.holds[0] >= arm.acts[-1].at_s


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer another"}, 401),
        ({"authorization": "Bearer \xfc"}, 401),
        ({"authorization": ""}, 401),
        ({"authorization": TOKEN}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8000", "origin": "http://evil.example:8000"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://{HOST}"}, 202),
    ],
)
@pytest.mark.parametrize("path", ["/run", "/pause", "/resume", "/stop"])
async def test_only_who_has_the_token_and_comes_from_here_can_move_the_arm(
    path: str, headers: dict[str, str], status: int
) -> None:
    arm = FakeArm(2)
    async with teleop(arm) as (client, _):
        sent = {key: value.encode("latin-1") for key, value in headers.items()}
        assert (await client.post(path, headers=sent)).status_code == status
        if status != 202:
            await anyio.sleep(1.0)
            assert not arm.observed


@pytest.mark.anyio
async def test_nothing_can_be_read_without_the_token() -> None:
    async with teleop(FakeArm(2)) as (client, app):
        client.headers.pop("authorization")
        for route in ("/status", "/docs", "/openapi.json"):
            assert (await client.get(route)).status_code in (401, 404), app.routes


def test_a_server_without_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="anybody could move the arm"):
        fastapi_teleop.teleop(lambda: seqrt.connect(base_url="http://127.0.0.1:1"), FakeArm(2), token="")
