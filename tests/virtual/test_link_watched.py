"""What a run finds out about its link: slow acts and lost ones, a worker that is another one, a key that changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from answering import by_state
from driven import drive

from seqrt import AuthError, Conflict, LinkLost, Play
from seqrt.link.http import HttpLink
from seqrt.policies import Timeouts
from seqrt.testing import LinkTransport, Scripted
from seqrt.testing.connected import HOST, connected, served
from seqrt.testing.offload import inline
from seqrt.timeline import events as ev
from seqrt.wire.messages import ActRequest, ObserveRequest
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

ALONE = Play(in_flight=1, fresh_s=0.6)
OBSERVATION = {"state": [0.0, 0.0, 0.0]}


class Losing:
    """Loses the request, or the answer, of the act of that number; remembers what was sent."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.ids: list[str] = []
        self.headers: list[httpx.Headers] = []

    def __call__(self, request: httpx.Request) -> bool:
        self.headers.append(request.headers)
        if request.url.path != "/act":
            return False
        self.ids.append(request.headers["x-seq-request-id"])
        return len(self.ids) == self._number


# Acts.


@pytest.mark.parametrize("lost", ["lose_request", "lose_answer"])
async def test_an_act_that_is_lost_is_found_out_by_asking_and_sent_again_under_its_id(lost: Any) -> None:
    policy, losing = by_state(rows=100), Losing(4)
    async with connected(policy, **{lost: losing}) as there:
        driven = await drive(there.policy, max_actions=150, play=ALONE)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.underruns, driven.outcome.reconnects, driven.outcome.retries) == (0, 0, 1)
    (failed,) = driven.of(ev.ActFailed)
    assert (failed.request_id, failed.retrying) == (losing.ids[3], True)
    state = "unknown" if lost == "lose_request" else "answered"
    assert state in [event.act for event in driven.of(ev.Pinged)]
    (answered,) = [event for event in driven.of(ev.Answered) if event.request_id == failed.request_id]
    assert answered.at_s - failed.at_s < 0.2
    asked = next(event for event in driven.of(ev.Asked) if event.request_id == failed.request_id)
    assert failed.at_s - asked.at_s < 2.2
    assert max(Counter(call.t for call in policy.calls).values()) == 1
    assert driven.played == [float(n) for n in range(1, 151)]


async def test_a_slow_act_is_asked_after_and_left_alone() -> None:
    policy = by_state(rows=100, infer_s=[0.0803, 0.0803, 3.5003, 0.0803])
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=150, play=ALONE)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.underruns, driven.outcome.retries, driven.outcome.reconnects) == (0, 0, 0)
    assert [event.act for event in driven.of(ev.Pinged)].count("running") >= 2
    assert len(policy.calls) == len({call.t for call in policy.calls})


async def test_a_first_inference_of_65_s_is_pinged_all_along_and_no_lost_link() -> None:
    async with connected(by_state(infer_s=[65.0003, 0.0803])) as there:
        driven = await drive(there.policy, max_actions=20)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.reconnects, driven.outcome.link_down_s) == (0, 0.0)
    assert driven.outcome.pings >= 60
    assert driven.outcome.ping_s is not None
    assert driven.outcome.ping_s.p50 == pytest.approx(0.0202, rel=0.1)
    assert there.link.statistics().requests_to["/act"] < 30


async def test_an_act_past_its_deadline_is_a_timeout_and_its_connection_is_kept() -> None:
    policy = by_state(rows=160, infer_s=[0.0803, 0.0803, 5.0003, 0.0803], timeouts=Timeouts(request=2))
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=200, play=ALONE)
    assert driven.error is None
    assert "timeout" in [event.code for event in driven.of(ev.ActFailed)]
    assert driven.of(ev.LinkLost) == []
    assert there.link.statistics().requests_to["/policy"] == 1


async def test_every_request_that_may_take_long_says_how_long_it_will_be_waited_for() -> None:
    losing = Losing(4)
    policy = by_state(rows=100, timeouts=Timeouts(request=30))
    async with connected(policy, lose_request=losing, timeout_s=7.0) as there:
        await drive(there.policy, max_actions=150, play=ALONE)
    told = [
        (each.get("x-seq-request-id"), each["x-seq-deadline-s"]) for each in losing.headers if "content-type" in each
    ]
    assert {deadline for rid, deadline in told if rid is None} == {"7.000"}  # posts, and the episode's end
    tries = [float(deadline) for rid, deadline in told if rid == losing.ids[3]]
    assert len(tries) == 2
    assert tries[0] == 30.0
    assert tries[1] < tries[0]  # what is left of it


async def test_what_a_run_knows_of_its_link_stands_in_its_statistics() -> None:
    async with connected(by_state()) as there, anyio.create_task_group() as tasks:

        async def look() -> None:
            await anyio.sleep(5.003)
            seen.append(there.policy.statistics().outcome)

        seen: list[Any] = []
        tasks.start_soon(look)
        await drive(there.policy, max_actions=120)
    assert seen[0].pings >= 3
    assert seen[0].ping_s.max < 0.1
    assert (seen[0].reconnects, seen[0].retries, seen[0].link_down_s) == (0, 0, 0.0)


async def test_a_predict_over_a_half_open_connection_fails_within_seconds_and_the_next_one_works() -> None:
    async with connected(by_state()) as there:
        await there.policy.predict(OBSERVATION)
        there.link.begin_outage("half-open")
        began = anyio.current_time()
        with pytest.raises(LinkLost, match="nothing came for 2"):
            await there.policy.predict(OBSERVATION)
        assert anyio.current_time() - began < 3.0
        await there.policy.predict(OBSERVATION)


# Who answers.


@pytest.mark.parametrize("how", ["refused", "half-open"])
async def test_answers_of_a_worker_that_declares_something_else_are_not_played(how: Any) -> None:
    other = Scripted(rows=50, hz=10, infer_s=0.0803, by="state", step_size=-1.0)
    async with connected(by_state(rows=100)) as there, anyio.create_task_group() as tasks:
        host = served(other)
        await host.start()

        async def replace() -> None:
            await anyio.sleep(3.013)
            there.link.begin_outage(how)
            there.link.app = app(host)
            await anyio.sleep(1.0)
            there.link.end_outage()

        tasks.start_soon(replace)
        driven = await drive(there.policy, max_actions=400, play=ALONE)
    assert isinstance(driven.error, Conflict)
    assert driven.error.details["reason"] == "redeclared"
    assert "actions" in str(driven.error)
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert driven.played == [float(n) for n in range(1, len(driven.played) + 1)]


async def test_what_is_declared_is_read_again_beside_the_act_and_costs_no_round_trip() -> None:
    up_s = 0.1503
    async with connected(by_state(rows=120), up_s=up_s, down_s=up_s, outages=[(3.013, 3.513, "reset")]) as there:
        driven = await drive(there.policy, max_actions=160, play=ALONE)
    assert there.link.statistics().requests_to["/policy"] >= 2
    (lost,), (back,) = driven.of(ev.LinkLost), driven.of(ev.LinkBack)
    tried = [event.at_s for event in driven.of(ev.ActFailed) if event.retrying]
    last = max(at_s for at_s in tried if at_s <= back.at_s)
    assert lost.at_s <= last
    assert back.at_s - last < 2 * up_s + 0.0803 + 0.05  # one round trip and one inference


# The key.


@asynccontextmanager
async def keyed(*keys: str) -> AsyncIterator[tuple[HttpLink, LinkTransport, list[str]]]:
    """A link whose key is found anew for each connection, and the keys it found."""
    host = served(Scripted(infer_s=0.0803))
    await host.start()
    found: list[str] = []

    def new_client() -> httpx.AsyncClient:
        found.append(keys[min(len(found), len(keys) - 1)])
        bearer = {"authorization": f"Bearer {found[-1]}"}
        return httpx.AsyncClient(transport=transport, base_url="http://worker.test", headers=bearer, timeout=None)

    async with LinkTransport(app(host, secret=keys[0]), up_s=0.0101, down_s=0.0101) as transport:
        link = HttpLink(new_client, host=HOST, timeout_s=5.0, offload=inline())
        await link.info()
        transport.app = app(host, secret="the new one")
        try:
            yield link, transport, found
        finally:
            await link.aclose()


async def test_a_key_that_changed_is_looked_up_again_and_nobody_notices() -> None:
    async with keyed("the old one", "the new one") as (link, transport, found):
        post = await link.prepare(ObserveRequest(episode_id="e"))
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(link.observe, post)
        ask = await link.prepare(ActRequest(inputs=OBSERVATION))
        assert (await link.act(ask, "r-00000000", 5.0)).outputs is not None
    assert found == ["the old one", "the new one"]
    assert not transport.app_errors


async def test_a_second_refusal_of_the_key_is_an_error() -> None:
    async with keyed("the old one", "a wrong one") as (link, transport, found):
        ask = await link.prepare(ActRequest(inputs=OBSERVATION))
        with pytest.raises(AuthError):
            await link.act(ask, "r-00000000", 5.0)
        with pytest.raises(AuthError):
            await link.act(ask, "r-00000001", 5.0)
        assert transport.statistics().requests_to["/act"] == 3
    assert found == ["the old one", "a wrong one"]


# Budgets.


async def test_a_link_that_stays_down_says_what_was_tried_how_often_and_for_how_long() -> None:
    async with connected(by_state(rows=20), outages=[(3.013, math.inf, "refused")]) as there:
        driven = await drive(there.policy, max_actions=400)
        there.link.end_outage()
    assert isinstance(driven.error, LinkLost)
    assert driven.error.phase == "connect"
    assert "cannot connect" in str(driven.error)
    assert "tries in 1" in str(driven.error)
    assert "no row was due for 10" in str(driven.error)
    assert driven.outcome is not None
    assert driven.outcome.link_down_s == pytest.approx(driven.outcome.elapsed_s - driven.of(ev.LinkLost)[0].at_s)
