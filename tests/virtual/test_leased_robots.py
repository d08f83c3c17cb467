"""Robots that a gateway sends to their workers: what they notice of it, and what they do not."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from answering import by_state
from driven import Driven, drive
from test_standby import ROWS, WITH_A_RESERVE, moved, nothing_was_noticed

from seqrt import AuthError, Gone, Limits, Observations, Stream
from seqrt.gateway.seats import Seats
from seqrt.policies.limits import HostLimits
from seqrt.runtime.policy import Policy
from seqrt.testing.fleet import Fleet, behind_a_gateway
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

A, B = "a.test:80", "b.test:80"


class Remembering(Scripted):
    """A policy with state."""

    def reset(self) -> None:
        """Between episodes."""


def remembering() -> Scripted:
    return Remembering(rows=50, hz=20, infer_s=0.0803, by="state")


async def driving(fleet: Fleet, robot: Policy, at_s: float, happens: Any, **options: Any) -> Driven:
    """Drive one robot, and have something happen meanwhile."""
    options = {"max_actions": ROWS, "play": WITH_A_RESERVE, **options}
    async with anyio.create_task_group() as tasks:

        async def meanwhile() -> None:
            await anyio.sleep(at_s)
            if (awaited := happens()) is not None:
                await awaited

        tasks.start_soon(meanwhile)
        driven = await drive(robot, **options)
        tasks.cancel_scope.cancel()
    return driven


async def test_acts_go_straight_to_the_worker_the_gateway_named() -> None:
    async with behind_a_gateway(first := by_state(), second := by_state()) as fleet:
        one, other = await fleet.connect(), await fleet.connect()
        driven = [await drive(robot, max_actions=40) for robot in (one, other)]
        assert [robot.statistics().host for robot in (one, other)] == [A, B]
        assert fleet.gateway.statistics().requests_to.keys() == {"/policy", "/v1/act/connect"}
    assert all(each.error is None for each in driven)
    assert first.calls
    assert second.calls


async def test_closing_gives_the_seat_back() -> None:
    async with behind_a_gateway(by_state(), limits=HostLimits(episodes=1)) as fleet:
        one = await fleet.connect()
        await drive(one, max_actions=10)
        await one.aclose()
        assert await fleet.connect()
        assert fleet.gateway.statistics().requests_to["/v1/act/release"] == 1


async def test_a_lease_is_renewed_while_the_run_is_on_and_nothing_is_noticed_of_it() -> None:
    async with behind_a_gateway(by_state(), ttl_s=2.0) as fleet:
        robot = await fleet.connect()
        driven = await drive(robot, max_actions=ROWS, play=WITH_A_RESERVE)
        asked = fleet.gateway.statistics().requests_to
    nothing_was_noticed(driven)
    assert asked["/v1/act/connect"] == 1
    assert asked["/v1/act/keepalive"] >= 6


async def test_a_gateway_that_is_away_for_a_while_stops_nobody_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with behind_a_gateway(by_state(), ttl_s=4.0) as fleet:
        robot = await fleet.connect()

        async def away() -> None:
            fleet.gateway.begin_outage("refused")
            await anyio.sleep(2.0)
            fleet.gateway.end_outage()

        driven = await driving(fleet, robot, 1.013, away)
    nothing_was_noticed(driven)
    assert moved(driven) == []
    said = [text for text in caplog.messages if text.startswith("seq ev=lease.unrenewed rid=")]
    assert said
    for text in said:
        assert [pair.split("=")[0] for pair in text.split()[2:]] == ["rid", "host", "left_s", "error"]


async def test_a_gateway_that_stays_away_is_said_now_and_then_and_asked_no_more_once_the_lease_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with behind_a_gateway(remembering(), ttl_s=4.0) as fleet:
        robot = await fleet.connect()
        driven = await driving(
            fleet, robot, 1.013, lambda: fleet.gateway.begin_outage("refused"), max_actions=10 * ROWS
        )
        asked = fleet.gateway.statistics().requests_to["/v1/act/keepalive"]
    assert isinstance(driven.error, Gone)
    assert 1 <= caplog.text.count("ev=lease.unrenewed") <= 2
    assert asked > 5


async def test_a_lease_that_was_over_between_two_runs_is_asked_for_anew_before_the_next() -> None:
    async with behind_a_gateway(by_state(), ttl_s=5.0) as fleet:
        robot = await fleet.connect()
        first = await drive(robot, max_actions=20)
        await anyio.sleep(60.0)
        second = await drive(robot, max_actions=20)
        assert fleet.gateway.statistics().requests_to["/v1/act/connect"] == 2
    assert (first.error, second.error) == (None, None)
    assert second.played == [float(n) for n in range(1, 21)]


async def test_step_by_step_a_lease_is_renewed_too() -> None:
    async with behind_a_gateway(Remembering(rows=5, hz=20), ttl_s=3.0) as fleet:
        robot, arm = await fleet.connect(), FakeArm(3)
        async with robot.episode():
            for _ in range(20):
                await robot.predict(arm.observe())
                await anyio.sleep(0.5)
        assert fleet.gateway.statistics().requests_to["/v1/act/connect"] == 1


@pytest.mark.parametrize("streams", [None, Observations(streams={"state": Stream(at=[-15, 0])})])
async def test_a_killed_worker_is_left_for_the_one_the_gateway_names_next(streams: Observations | None) -> None:
    async with behind_a_gateway(by_state(observations=streams), by_state(observations=streams)) as fleet:
        robot = await fleet.connect()
        driven = await driving(fleet, robot, 2.013, lambda: fleet.workers[0].begin_outage("refused"))
        assert robot.statistics().host == B
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


async def test_a_worker_started_anew_is_connected_to_once_more() -> None:
    async with behind_a_gateway(by_state(), ttl_s=300.0) as fleet:
        robot = await fleet.connect()

        async def restart() -> None:
            fleet.workers[0].begin_outage("reset")
            await fleet.workers[0].restart(by_state())
            fleet.workers[0].end_outage()

        driven = await driving(fleet, robot, 2.013, restart)
        assert fleet.gateway.statistics().requests_to["/v1/act/connect"] == 2
    nothing_was_noticed(driven)


async def test_a_killed_worker_whose_policy_has_state_ends_the_run_with_hold() -> None:
    async with behind_a_gateway(remembering(), remembering()) as fleet:
        robot = await fleet.connect(on_lost="stop")
        driven = await driving(
            fleet, robot, 2.013, lambda: fleet.workers[0].begin_outage("refused"), limits=Limits(max_stall_s=1.0)
        )
        assert isinstance(driven.error, Gone)
        assert len(driven.arm.holds) == 1
        again = await drive(robot, max_actions=20)
        assert again.error is None
        assert robot.statistics().host == B


@pytest.mark.parametrize("spare", [0, 1])
async def test_a_killed_worker_whose_policy_has_state_is_waited_for_by_nobody_who_can_ask(spare: int) -> None:
    """The gateway finds nobody there: the state is lost for certain, whatever the robot would wait out."""
    async with behind_a_gateway(remembering(), *[remembering()] * spare) as fleet:
        robot = await fleet.connect(on_lost="stop")
        driven = await driving(fleet, robot, 2.013, lambda: fleet.workers[0].begin_outage("refused"))
    assert isinstance(driven.error, Gone)
    assert driven.error.details["reason"] == "lease"
    assert len(driven.arm.holds) == 1
    assert driven.arm.holds[0] - (driven.of(ev.LinkLost)[0].at_s) < 3.0


@pytest.mark.parametrize("inside", [None, "silent", "closed"])
@pytest.mark.parametrize("kind", ["refused", "silent"])
async def test_a_worker_with_state_that_may_be_there_is_waited_for(kind: Any, inside: Any) -> None:
    """The gateway gets there, or cannot tell: the robot's own network, or one that parts both from it."""
    async with behind_a_gateway(remembering(), remembering()) as fleet:
        robot = await fleet.connect(on_lost="stop")

        async def away() -> None:
            worker = fleet.workers[0]
            worker.link.begin_outage(kind)
            if inside is not None:
                worker.inside.begin_outage(inside)
            await anyio.sleep(6.0)
            worker.end_outage()

        driven = await driving(fleet, robot, 2.013, away)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.actions == ROWS
    assert moved(driven) == []


async def test_a_killed_worker_whose_policy_has_state_is_begun_anew_at_the_next() -> None:
    async with behind_a_gateway(remembering(), remembering()) as fleet:
        robot = await fleet.connect(on_lost="restart")
        driven = await driving(fleet, robot, 2.013, lambda: fleet.workers[0].begin_outage("refused"))
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns, driven.outcome.episodes_restarted) == (ROWS, 0, 1)
    assert moved(driven) == [(A, B)]
    assert driven.arm.holds == []


@pytest.mark.parametrize("on_lost", ["stop", "restart"])
async def test_a_worker_with_state_that_was_started_anew_has_lost_it(on_lost: Any) -> None:
    async with behind_a_gateway(remembering()) as fleet:
        robot = await fleet.connect(on_lost=on_lost)

        async def restart() -> None:
            fleet.workers[0].begin_outage("reset")
            await fleet.workers[0].restart(remembering())
            fleet.workers[0].end_outage()

        driven = await driving(fleet, robot, 2.013, restart)
    assert len(driven.of(ev.EpisodeRestarted)) == (on_lost == "restart")
    if on_lost == "stop":
        assert isinstance(driven.error, Gone)
        assert len(driven.arm.holds) == 1
    else:
        assert driven.error is None
        assert driven.arm.holds == []


async def test_the_robots_own_outage_with_state_goes_on_where_it_was() -> None:
    """The gateway could name another one; the state is where it was."""
    async with behind_a_gateway(remembering(), remembering()) as fleet:
        robot = await fleet.connect(on_lost="restart")

        async def blink() -> None:
            fleet.workers[0].link.begin_outage("closed")
            await anyio.sleep(1.5)
            fleet.workers[0].link.end_outage()

        driven = await driving(fleet, robot, 2.013, blink)
    assert driven.error is None
    assert moved(driven) == []
    assert driven.of(ev.EpisodeRestarted) == []


async def test_a_drained_worker_serves_the_episode_to_its_end_and_the_next_one_is_elsewhere() -> None:
    async with behind_a_gateway(by_state(), by_state()) as fleet:
        robot = await fleet.connect()
        first = await driving(fleet, robot, 1.013, fleet.workers[0].host.drain)
        second = await drive(robot, max_actions=20)
    nothing_was_noticed(first)
    assert moved(first) == []
    assert second.error is None
    assert moved(second) == [(A, B)]
    assert second.of(ev.Answered)[0].at_s < 1


async def test_a_cold_gateway_is_waited_out_by_the_run_and_by_nobody_for_longer_than_asked() -> None:
    async with behind_a_gateway(by_state(), started=False) as fleet:
        robot = await fleet.connect()
        refused = await drive(robot, max_actions=20)
        async with anyio.create_task_group() as tasks:

            async def load() -> None:
                await anyio.sleep(7.3)
                await fleet.workers[0].host.start()

            tasks.start_soon(load)
            driven = await drive(robot, max_actions=20, limits=Limits(startup_timeout_s=60))
    assert refused.error is not None
    assert getattr(refused.error, "warming", False)
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 21)]
    assert driven.of(ev.Warming)
    assert driven.of(ev.WorkerChanged) == []


async def test_a_robot_in_line_begins_when_its_turn_has_come() -> None:
    async with behind_a_gateway(by_state(), limits=HostLimits(episodes=1)) as fleet:
        first, second = await fleet.connect(), await fleet.connect()
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await drive(first, max_actions=60)
                await first.aclose()

            tasks.start_soon(leave)
            driven = await drive(second, max_actions=20, limits=Limits(startup_timeout_s=60))
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 21)]


async def test_where_a_full_house_is_refused_nothing_moves_until_somebody_leaves() -> None:
    seats = Seats(1, on_full="reject")
    async with behind_a_gateway(first_of := by_state(), limits=HostLimits(episodes=1), seats=seats) as fleet:
        first, second, arm = await fleet.connect(), await fleet.connect(), FakeArm(3)
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await anyio.sleep(4.0)
                assert (len(arm.acts), len(first_of.calls)) == (0, 0)
                await first.aclose()

            tasks.start_soon(leave)
            driven = await drive(second, arm, max_actions=20)
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 21)]


async def test_a_lease_taken_away_in_mid_run_is_granted_again() -> None:
    async with behind_a_gateway(by_state(), by_state()) as fleet:
        robot = await fleet.connect()

        async def take_away() -> None:
            worker = fleet.workers[0]
            (owner,) = {session.owner for session in worker.host._episodes._live.values()}
            for site in fleet.place._sites:
                await site.end(owner)

        driven = await driving(fleet, robot, 2.013, take_away)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.actions == ROWS


async def test_a_key_that_the_gateway_refuses_by_then_ends_the_run_where_another_worker_is_needed() -> None:
    async with behind_a_gateway(by_state()) as fleet:
        robot = await fleet.connect()

        def revoked() -> None:
            async def refuse(scope: Any, receive: Any, send: Any) -> None:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"", "more_body": False})

            fleet.gateway.app = refuse
            fleet.workers[0].begin_outage("refused")

        driven = await driving(fleet, robot, 2.013, revoked)
    assert isinstance(driven.error, AuthError)
    assert len(driven.arm.holds) == 1


async def test_a_key_revoked_in_mid_run_has_its_lease_renewed_no_more_and_drives_until_that_is_over() -> None:
    async with behind_a_gateway(by_state(), by_state(), ttl_s=3.0) as fleet:
        robot = await fleet.connect()
        revoked_at: list[float] = []

        def revoked() -> None:
            async def refuse(scope: Any, receive: Any, send: Any) -> None:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"", "more_body": False})

            fleet.gateway.app = refuse
            revoked_at.append(anyio.current_time())

        driven = await driving(fleet, robot, 1.013, revoked, max_actions=10 * ROWS)
        lasted_s = anyio.current_time() - revoked_at[0]
    assert isinstance(driven.error, AuthError)
    assert len(driven.arm.holds) == 1
    assert lasted_s < 3.0 + 1.0
