"""Every way a link can fail, with a plan that covers it: nothing of it is felt at the robot, and nothing is lost."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import anyio
import pytest
from answering import by_state
from driven import Driven, drive

from seqrt import Gone, Observations, Play, Stream
from seqrt.testing import FakeArm, Scripted
from seqrt.testing.connected import Connected, connected, served
from seqrt.timeline import events as ev
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

ROWS = 160
"""Eight seconds: more than any fault here lasts."""
AT_S = 3.013
AHEAD = Play(fresh_s=0.6)


class Stateful(Scripted):
    """An episode of it stays at its worker."""

    def reset(self) -> None:
        """Nothing to forget."""


def windowed() -> Scripted:
    window = Observations(streams={"state": Stream(at=[-3, 0])})
    return by_state(rows=ROWS, observations=window)


def stateful() -> Scripted:
    return Stateful(rows=ROWS, hz=20, infer_s=0.0803, by="state")


POLICIES = {"windowed": windowed, "stateful": stateful}


def stalls(*, until_s: float, for_s: float, seed: int) -> list[Any]:
    rng, at_s, found = random.Random(seed), 1.0, []
    while at_s < until_s:
        found.append((at_s, at_s + for_s, "stalled"))
        at_s += for_s + rng.expovariate(1 / 2.5)
    return found


def assert_nothing_was_felt_or_lost(driven: Driven, policy: Scripted, actions: int) -> None:
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.underruns, driven.outcome.overruns, len(driven.arm.holds)) == (0, 0, 0)
    assert driven.played == [float(n) for n in range(1, actions + 1)]
    assert max(Counter(call.t for call in policy.calls).values()) == 1  # no act ran twice
    for call in policy.calls:
        assert call.steps == ((max(0, call.t - 3), call.t) if isinstance(policy, Stateful) is False else (call.t,))
    assert driven.outcome.frames_skipped == 0


# Faults that pass.


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize(
    ("outage", "reconnects"),
    [
        ((AT_S, AT_S + 2.0, "refused"), 1),
        ((AT_S, AT_S + 0.2, "reset"), 1),
        ((AT_S, AT_S + 0.2, "closed"), 1),
        ((AT_S, math.inf, "half-open"), 1),
        ((AT_S, AT_S + 3.0, "silent"), 1),
        ((AT_S, AT_S + 5.0, "stalled"), 1),
        ((AT_S, AT_S + 0.5, "stalled"), 0),
        ((AT_S, AT_S + 1.5, "stalled"), 0),
    ],
)
async def test_a_fault_that_the_plan_covers_is_not_felt(kind: str, outage: Any, reconnects: int) -> None:
    policy = POLICIES[kind]()
    async with connected(policy, outages=[outage]) as there:
        driven = await drive(there.policy, max_actions=180, play=AHEAD)
    assert_nothing_was_felt_or_lost(driven, policy, 180)
    assert driven.outcome is not None
    assert driven.outcome.reconnects == reconnects
    assert len(driven.of(ev.LinkLost)) == reconnects
    assert (driven.outcome.link_down_s > 0) is bool(reconnects)


@pytest.mark.parametrize("kind", POLICIES)
async def test_a_half_open_connection_is_replaced_two_seconds_after_its_last_byte(kind: str) -> None:
    policy = POLICIES[kind]()
    async with connected(policy, outages=[(AT_S, math.inf, "half-open")]) as there:
        driven = await drive(there.policy, max_actions=200, play=AHEAD)
    (lost,), (back,) = driven.of(ev.LinkLost), driven.of(ev.LinkBack)
    assert "nothing came for 2.0 s" in lost.error
    assert AT_S + 1.5 < lost.at_s < AT_S + 2.1
    assert back.at_s - lost.at_s < 0.2
    assert there.link.statistics().requests_to["/policy"] == 2  # what is declared there was read again


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.long)])
async def test_bursts_of_half_a_second_at_random_cost_nothing(kind: str, seconds: int) -> None:
    policy = POLICIES[kind]()
    async with connected(policy, outages=stalls(until_s=seconds, for_s=0.5, seed=7)) as there:
        driven = await drive(there.policy, max_actions=20 * seconds, play=AHEAD)
    assert_nothing_was_felt_or_lost(driven, policy, 20 * seconds)
    assert driven.of(ev.LinkLost) == []


async def restart(there: Connected, policy: Scripted) -> None:
    await anyio.sleep(AT_S)
    there.link.begin_outage("refused")
    host = served(policy)
    await host.start()
    there.link.app = app(host)
    await anyio.sleep(2.0)
    there.link.end_outage()


async def test_a_worker_that_was_restarted_is_sent_what_it_lacks() -> None:
    policy, second = windowed(), windowed()
    async with connected(policy) as there, anyio.create_task_group() as tasks:
        tasks.start_soon(restart, there, second)
        driven = await drive(there.policy, max_actions=200, play=AHEAD)
    assert second.calls
    policy.calls.extend(second.calls)
    assert_nothing_was_felt_or_lost(driven, policy, 200)


async def test_a_worker_with_state_that_was_restarted_ends_the_run_with_hold() -> None:
    async with connected(stateful()) as there, anyio.create_task_group() as tasks:
        tasks.start_soon(restart, there, stateful())
        driven = await drive(there.policy, FakeArm(3), max_actions=200, play=AHEAD)
    assert isinstance(driven.error, Gone)
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
