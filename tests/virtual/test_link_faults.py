from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import anyio
import pytest
from answering import HZ, Answering, by_state, refusal
from driven import drive

from seqrt import Limits, LinkLost, Play
from seqrt.testing.connected import HOST, connected
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

# Outages.


@pytest.mark.parametrize("kind", ["refused", "reset", "closed", "stalled"])
async def test_an_outage_of_a_second_is_ridden_out_by_the_plan(kind: Any) -> None:
    # Asked at half a second's worth of spacing, so that the outage falls on requests.
    async with connected(by_state(), outages=[(3.013, 4.013, kind)]) as there:
        driven = await drive(there.policy, max_actions=200, play=Play(fresh_s=0.6))
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.underruns, driven.outcome.overruns) == (0, 0)
    assert driven.played == [float(n) for n in range(1, 201)]
    down, back = driven.of(ev.LinkLost), driven.of(ev.LinkBack)
    if kind == "stalled":
        assert (down, back, driven.outcome.reconnects) == ([], [], 0)
        return
    assert len(down) == len(back) == driven.outcome.reconnects == 1
    assert down[0].host == HOST
    assert 3.0 < down[0].at_s < 3.7
    assert 4.013 < back[0].at_s < 4.6
    assert back[0].down_s == pytest.approx(back[0].at_s - down[0].at_s)
    # What took several tries says nothing of the next request.
    assert {event.d for event in driven.of(ev.Asked) if event.at_s > back[0].at_s} == {2}


async def test_a_worker_that_is_back_and_still_loads_is_no_lost_link() -> None:
    """Killed and started again: nobody answers for a second, then it says "warming" for two."""
    async with connected(by_state(), outages=[(3.013, 4.013, "refused")]) as there:

        def loading(path: str, number: int) -> Any:
            return refusal(503, "warming", 1.0) if path == "/act" and 4.0 < anyio.current_time() < 6.0 else None

        there.link.app = Answering(there.link.app, loading)
        driven = await drive(there.policy, max_actions=200, play=Play(fresh_s=0.6))
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.reconnects == 1
    assert len(driven.of(ev.LinkLost)) == 1
    assert driven.of(ev.LinkBack)[0].at_s < 4.013 + 0.25 + 0.1
    assert driven.played == [float(n) for n in range(1, 201)]


@pytest.mark.parametrize("down_s", [1.0, 4.0, 8.0])
async def test_motion_resumes_one_round_trip_after_an_outage_that_outlasts_the_plan(down_s: float) -> None:
    policy = by_state(rows=12)
    until_s = 3.013 + down_s
    async with connected(policy, outages=[(3.013, until_s, "refused")]) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 1
    assert driven.outcome.reconnects == 1
    assert driven.played == [float(n) for n in range(1, 151)]
    ticks = driven.of(ev.Ticked)
    starved = [tick for tick in ticks if tick.kind == "starved"]
    assert all(tick.row == [starved[0].row[0]] * 3 for tick in starved if tick.row and starved[0].row)
    resumed = next(tick.at_s for tick in ticks if tick.kind == "played" and tick.at_s > until_s)
    # A try every 0.25 s finds the link; then one inference and its round trip, and at most two ticks.
    assert resumed - until_s < 0.25 + 0.0202 + 0.1005 + 2 / HZ + 0.01


async def test_nothing_old_is_sent_or_played_in_a_burst_after_an_outage() -> None:
    policy = by_state(rows=12)
    async with connected(policy, outages=[(3.013, 9.013, "refused")]) as there:
        driven = await drive(there.policy, max_actions=150, play=Play(in_flight=1))
    asked = [event.at_s for event in driven.of(ev.Asked)]
    after = [at_s for at_s in asked if 9.013 < at_s < 10.013]
    assert len(after) <= 1.0 * HZ / 8 + 1
    posted = [event for event in driven.of(ev.Posted) if 9.013 < event.at_s < 10.013]
    assert sum(event.frames for event in posted) <= len(after) + 1
    jumps = [tick.seam_jump for tick in driven.of(ev.Ticked) if tick.seam_jump is not None]
    assert max(jumps) == pytest.approx(1.0)


@pytest.mark.parametrize(("kind", "phase"), [("refused", "connect"), ("reset", "act"), ("closed", "act")])
async def test_a_link_that_stays_down_ends_the_run_with_hold_and_names_host_and_phase(kind: Any, phase: str) -> None:
    async with connected(by_state(), outages=[(3.013, math.inf, kind)]) as there:
        driven = await drive(there.policy, max_actions=400, limits=Limits(max_stall_s=2.0))
        there.link.end_outage()
    assert isinstance(driven.error, LinkLost)
    assert (driven.error.host, driven.error.phase) == (HOST, phase)
    assert HOST in str(driven.error)
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.reason == "stalled"
    assert driven.outcome.reconnects == 0
    starved = [tick.at_s for tick in driven.of(ev.Ticked) if tick.kind == "starved"]
    assert starved[-1] - starved[0] == pytest.approx(2.0, abs=1 / HZ)
    assert driven.outcome.starved_ticks == len(starved)


async def test_a_black_hole_ends_the_run_with_hold_within_max_stall_s() -> None:
    """Psi0 95: a half-open socket, the last action replayed for ever."""
    async with connected(by_state(rows=12), outages=[(3.013, math.inf, "silent")]) as there:
        driven = await drive(there.policy, max_actions=400, limits=Limits(max_stall_s=2.0))
    assert isinstance(driven.error, LinkLost)
    assert "nothing came for 2.0 s" in str(driven.error)
    assert (driven.error.host, driven.error.phase) == (HOST, "act")
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == pytest.approx(2.0 * HZ, abs=1)


async def test_a_connection_that_swallows_a_post_and_an_act_is_left_for_a_new_one() -> None:
    policy = by_state(rows=12)
    async with connected(policy, outages=[(3.013, 4.013, "silent")], timeout_s=2.0) as there:
        driven = await drive(there.policy, max_actions=150, play=Play(in_flight=1))
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 151)]
    # The post's bound says it: the act, which may take as long as an inference does, is given up with it.
    assert [event.code for event in driven.of(ev.ActFailed)] == ["unavailable"]
    assert len({call.t for call in policy.calls}) == len(policy.calls)
    starved = driven.kinds.count("starved") / HZ
    assert starved < 2.0 + 0.3


async def test_a_server_that_freezes_for_five_seconds_lets_the_queued_rows_play_on_time() -> None:
    policy = by_state(rows=28)
    async with connected(policy) as there:
        arm, frozen = FakeArm(3), anyio.Event()

        def freeze(row: Any) -> bool:
            if len(arm.acts) == 31:
                there.link.begin_outage("stalled")
                frozen.set()
            return True

        async def thaw() -> None:
            await frozen.wait()
            await anyio.sleep(5.0)
            there.link.end_outage()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(thaw)
            driven = await drive(there.policy, arm, max_actions=120, validate=freeze)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.overruns == 0
    first = driven.kinds.index("starved")
    assert driven.kinds[first - 25 : first] == ["played"] * 25
    times = [tick.at_s for tick in driven.of(ev.Ticked)]
    assert all(later - sooner == pytest.approx(1 / HZ, abs=1e-6) for sooner, later in pairwise(times))
    assert driven.played == [float(n) for n in range(1, 121)]


# Refusals that pass.


@pytest.mark.parametrize(
    ("status", "code"), [(429, "busy"), (503, "unavailable"), (503, "warming"), (502, "upstream_error")]
)
async def test_a_worker_that_refuses_for_now_is_asked_again_when_it_said(status: int, code: str) -> None:
    refused: list[int] = []

    def instead(path: str, number: int) -> Any:
        if path != "/act" or number not in (4, 5):
            return None
        refused.append(number)
        return refusal(status, code, 1.0)

    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, instead)
        driven = await drive(there.policy, max_actions=250, play=Play(in_flight=1, fresh_s=0.6))
    assert refused == [4, 5]
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 1  # two seconds and more: the plan is dry before they are over
    assert driven.outcome.retries == 2
    assert driven.outcome.reconnects == 0
    assert driven.of(ev.LinkLost) == []
    failed = driven.of(ev.ActFailed)
    assert [(event.code, event.retrying) for event in failed] == [(code, True)] * 2
    assert failed[0].request_id == failed[1].request_id
    assert failed[1].at_s - failed[0].at_s >= 1.0
    assert driven.played == [float(n) for n in range(1, 251)]
