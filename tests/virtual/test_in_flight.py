from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import anyio
import numpy as np
import pytest
from answering import Answering, acts
from driven import Driven, drive, reversals
from msgspec.structs import replace

from seqrt import Actions, Lag, Observations, Play, Policy, StopAndGo, Stream
from seqrt.link.local import LocalLink
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.testing.connected import connected, served
from seqrt.testing.durations import spiky
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode, encode
from seqrt.wire.messages import ActRequest, ActResponse, AnswerPlan, PolicyInfo

pytestmark = pytest.mark.anyio

ONE_WAY_S, INFER_S = 0.3312, 0.128  # a refill of 0.79 s


def out_at_once(driven: Driven) -> int:
    """The most acts under way at one time."""
    most = out = 0
    for event in driven.events:
        out += isinstance(event, ev.Asked)
        out -= isinstance(event, ev.Answered)
        most = max(most, out)
    return most


def moving(driven: Driven, last: int) -> float:
    kinds = [kind for kind in driven.kinds if kind in ("played", "starved")][-last:]
    return kinds.count("played") / len(kinds)


@pytest.mark.parametrize("by", ["clock", "state"])
async def test_a_chunk_of_a_second_never_stops_at_a_refill_of_0_79_s(by: Any) -> None:
    policy = Scripted(rows=15, hz=15, infer_s=INFER_S, by=by)
    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.outcome is not None
    assert (driven.outcome.starved_ticks, driven.outcome.answers_dropped, driven.outcome.lag_ticks) == (0, 0, 0)
    assert reversals(driven.values) == 0
    assert 3 <= out_at_once(driven) <= 6
    assert driven.played[-1] - driven.played[0] >= 0.95 * 149


async def test_one_in_flight_is_what_the_user_says() -> None:
    policy = Scripted(rows=15, hz=15, infer_s=INFER_S)
    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S) as there:
        driven = await drive(there.policy, max_actions=60, play=Play(in_flight=1))
    assert out_at_once(driven) == 1
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks > 10


async def test_independent_delays_with_spikes_starve_nobody_and_misplace_no_row() -> None:
    policy = Scripted(rows=50, hz=50, infer_s=0.0103, by="state")
    down_s = spiky(0.0997, 0.5497, chance=0.1, seed=2)
    async with connected(policy, down_s=down_s, in_order=False) as there:
        driven = await drive(there.policy, max_actions=500)
    assert driven.outcome is not None
    assert (driven.outcome.starved_ticks, driven.outcome.retries) == (0, 0)
    assert driven.outcome.answers_dropped > 0
    first = driven.played[0]
    assert driven.played == [first + i for i in range(500)]
    assert {event.why for event in driven.of(ev.AnswerDropped)} <= {"older"}


async def test_an_outage_of_a_second_ends_a_round_trip_and_two_ticks_after_the_link_is_back_without_a_burst() -> None:
    policy = Scripted(rows=50, hz=50, infer_s=0.1003, by="state")
    until_s = 4.0137
    async with connected(policy, outages=[(until_s - 1, until_s, "refused")]) as there:
        driven = await drive(there.policy, max_actions=300)
    assert driven.error is None
    assert driven.outcome is not None
    ticks = driven.of(ev.Ticked)
    stood = [tick.at_s for tick in ticks if tick.kind == "starved"]
    assert all(at_s < until_s + 0.1003 + 0.0202 + 2 / 50 for at_s in stood)
    asked = [event.at_s for event in driven.of(ev.Asked)]
    usual = sum(2.0 < at_s < 3.0 for at_s in asked)
    assert sum(until_s < at_s < until_s + 1 for at_s in asked) <= usual + 2
    assert driven.played == [driven.played[0] + i for i in range(300)]
    assert driven.outcome.max_seam_jump == 1.0, "one tick of motion"


async def test_after_an_outage_that_the_plan_does_not_outlast_the_arm_moves_as_soon_as_can_be() -> None:
    policy = Scripted(rows=25, hz=50, infer_s=0.1003, by="state")
    until_s = 4.0137
    async with connected(policy, outages=[(until_s - 1, until_s, "refused")]) as there:
        driven = await drive(there.policy, max_actions=250)
    assert driven.error is None
    stood = [tick.at_s for tick in driven.of(ev.Ticked) if tick.kind == "starved"]
    assert stood
    assert stood[-1] < until_s + 0.1003 + 0.0202 + 2 / 50
    assert driven.played == [driven.played[0] + i for i in range(250)]
    # The acts of the outage were given up one for the other: what the worker serves afterwards is new.
    numbers = [call.t for call in policy.calls]
    assert numbers == sorted(numbers)


async def test_a_stale_answer_is_dropped_and_says_nothing_of_latency() -> None:
    stale = encode(ActResponse(outputs=None, plan=AnswerPlan(stale=True)))
    async with connected(Scripted(rows=30, hz=20, infer_s=0.1003)) as there:
        there.link.app = Answering(there.link.app, acts({3}, (200, stale, {})))
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == 0
    assert [event.why for event in driven.of(ev.AnswerDropped)] == ["stale"]
    assert driven.outcome.refused_chunks == 0
    dropped = driven.of(ev.AnswerDropped)[0].request_id
    assert dropped not in {event.request_id for event in driven.of(ev.Answered)}
    assert driven.outcome.act_latency_s is not None


@pytest.mark.parametrize(("late", "open_loop"), [(StopAndGo(), True), (Lag(1.0), True), (Lag(1.0), False)])
async def test_rows_that_play_late_bridge_a_chunk_that_is_too_short(
    late: Any, open_loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    actions = Actions(key="actions", hz=15, space="absolute", open_loop=open_loop)
    policy = Scripted(rows=8, infer_s=INFER_S, actions=actions)
    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S) as there:
        driven = await drive(there.policy, max_actions=180, play=Play(late=late))
    assert driven.outcome is not None
    said = [record.message for record in caplog.records if "latency exceeds" in record.message]
    assert len(said) == 1
    assert "takes 0.79 s, asking every 0.20 s, and a chunk covers 0.53 s" in said[0]
    (event,) = driven.of(ev.LatencyExceedsChunk)
    assert (event.latency_s, event.covers_s) == (pytest.approx(0.79, abs=0.02), pytest.approx(8 / 15))
    lags = [event.lag for event in driven.of(ev.Spliced)]
    if isinstance(late, StopAndGo):
        assert driven.outcome.lag_ticks == 0
        assert moving(driven, 90) < 0.8
        assert "stop and go. Longer chunks" in said[0]
        assert "Play(late=Stretch())" in said[0]
        return
    assert ("thrown back" in said[0]) is not open_loop
    assert driven.outcome.lag_ticks == max(lags) == pytest.approx(7, abs=1)  # d 12 + s 3 - H 8
    assert max(abs(b - a) for a, b in pairwise(lags)) <= 1
    assert moving(driven, 90) == 1.0
    assert reversals(driven.values) == 0


async def test_acts_of_an_episode_carry_one_seed() -> None:
    policy = Scripted(rows=20, hz=20, infer_s=0.05, takes_prefix=True)
    async with connected(policy) as there:
        await drive(there.policy, max_actions=60)
        first = {call.seed for call in policy.calls}
        policy.calls.clear()
        await drive(there.policy, max_actions=60)
        second = {call.seed for call in policy.calls}
        policy.calls.clear()
        await drive(there.policy, max_actions=60, play=Play(seed=7))
    assert len(first) == len(second) == 1
    assert None not in first | second
    assert first != second
    assert {call.seed for call in policy.calls} == {7}


async def test_where_a_prefix_leaves_no_room_acts_are_pipelined_and_that_is_said() -> None:
    policy = Scripted(rows=12, hz=20, infer_s=0.0803, takes_prefix=True)
    async with connected(policy, up_s=0.1612, down_s=0.1612) as there:  # d = 8 of 12 rows
        driven = await drive(there.policy, max_actions=150)
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["pipelined"]
    assert all(call.prefix is None for call in policy.calls)
    assert out_at_once(driven) >= 2
    assert moving(driven, 80) == 1.0


class Wishing(LocalLink):
    """A link to a worker that wants no more than so many acts a second from one robot."""

    def __init__(self, host: Host, acts_per_s: float | None) -> None:
        super().__init__(host)
        self._acts_per_s = acts_per_s

    async def info(self) -> PolicyInfo:
        return replace(await super().info(), acts_per_s=self._acts_per_s)


@pytest.mark.parametrize(("acts_per_s", "asked"), [(None, 41), (4.0, 16), (2.0, 8)])
async def test_a_worker_that_wants_fewer_acts_is_asked_less_often(acts_per_s: float | None, asked: int) -> None:
    """From the first request on: before there is an answer too."""
    host = served(Scripted(rows=50, hz=20, infer_s=0.0703))
    await host.start()
    link = Wishing(host, acts_per_s)
    handle = Policy(link, await link.info(), control_hz=None, timeout_s=30.0, offload=inline())
    driven = await drive(handle, max_seconds=4.0, play=Play(fresh_s=0.25))
    await handle.aclose()
    assert driven.error is None
    times = [event.at_s for event in driven.of(ev.Asked)]
    assert len(times) == pytest.approx(asked, abs=1)
    assert min(after - before for before, after in pairwise(times)) >= 1 / (acts_per_s or math.inf) - 1e-6


@pytest.mark.parametrize("window", [None, Observations(streams={"state": Stream(at=[-5, 0])})])
async def test_a_post_that_is_lost_starves_nobody_and_no_act_is_answered_twice(window: Any) -> None:
    """The act waits for its observation, is told, and is replayed; those behind it wait or are served before it."""
    posts = iter(range(1000))
    policy = Scripted(rows=50, hz=20, infer_s=0.0803, by="state", observations=window)

    def lose(request: Any) -> bool:
        return request.url.path == "/observe" and next(posts) == 4

    limits = HostLimits(stream_wait_s=0.5)
    async with connected(policy, lose_request=lose, limits=limits, timeout_s=1.0) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == 0
    assert len({call.t for call in policy.calls}) == len(policy.calls)
    assert driven.played == [driven.played[0] + i for i in range(150)]


async def test_after_a_resume_nothing_asked_before_it_is_played_with_several_out() -> None:
    policy = Scripted(rows=20, hz=20, infer_s=0.1003, tagged=True)
    async with connected(policy, up_s=0.2012, down_s=0.2012) as there, anyio.create_task_group() as tasks:

        async def pause() -> None:
            await anyio.sleep(3.0123)
            there.policy.pause()
            await anyio.sleep(0.1)
            resumed.append(anyio.current_time())
            there.policy.resume()

        resumed: list[float] = []
        tasks.start_soon(pause)
        driven = await drive(there.policy, max_actions=100)
    assert driven.error is None
    assert [event.why for event in driven.of(ev.AnswerDropped)].count("epoch") >= 2
    began = driven.of(ev.PauseEnded)[0].at_s
    observed = {event.step: event.at_s for event in driven.of(ev.Observed)}
    later = [tick.row[1] for tick in driven.of(ev.Ticked) if tick.at_s > began and tick.kind == "played" and tick.row]
    assert later
    assert min(observed[int(step)] for step in later) >= began
    assert driven.outcome is not None
    assert max(event.s or 0 for event in driven.of(ev.Asked)) < 20


async def test_a_policy_whose_acts_depend_on_one_another_is_asked_one_at_a_time() -> None:
    fed = Observations(streams={"state": Stream(every=1)})
    policy = Scripted(rows=15, hz=15, infer_s=INFER_S, observations=fed)
    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S) as there:
        driven = await drive(there.policy, max_actions=60)
    assert out_at_once(driven) == 1


async def test_committed_rows_stay_the_old_plans_when_a_prefix_gives_way_to_several_in_flight() -> None:
    """The delay grows until no prefix fits: no answer asked for meanwhile replaces what was committed."""
    network = iter([0.0606] * 24)
    policy = Scripted(rows=20, hz=20, infer_s=0.1003, takes_prefix=True, by="state")
    async with connected(policy, up_s=lambda: next(network, 0.5006)) as there:
        driven = await drive(there.policy, max_actions=300)
    assert [event.mode for event in driven.of(ev.ContinuityChosen)][:2] == ["prefix", "pipelined"]
    conditioned = {event.request_id for event in driven.of(ev.Asked) if event.prefix}
    out: set[str] = set()
    for event in driven.events:
        if isinstance(event, ev.Asked):
            assert not out & conditioned, "a conditioned act is alone"
            assert event.request_id not in conditioned or not out
            out.add(event.request_id)
        elif isinstance(event, ev.Answered):
            out.discard(event.request_id)


class WithModelRows:
    """The worker's app, with the rows before post-processing (ten times as large) beside those it is asked for."""

    def __init__(self, app: Any, without: int) -> None:
        self._app, self._left = app, without

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if scope["path"] == "/act" and message["type"] == "http.response.body":
                answer = decode(message["body"], ActResponse)
                self._left -= 1
                if self._left < 0:
                    model = 10.0 * np.asarray(answer.outputs["actions"])
                    answer = replace(answer, plan=replace(answer.plan or AnswerPlan(), rows_model=model))
                message = {**message, "body": encode(answer)}
            await send(message)

        await self._app(scope, receive, sent)


async def test_a_prefix_goes_in_the_models_own_space_once_every_committed_row_is_known_there() -> None:
    plans: list[Any] = []

    def read(request: Any) -> bool:
        if request.url.path == "/act":
            plans.append(decode(request.content, ActRequest).plan)
        return False

    policy = Scripted(rows=30, hz=20, infer_s=0.2303, takes_prefix=True)
    async with connected(policy, lose_request=read) as there:
        there.link.app = WithModelRows(there.link.app, without=3)
        driven = await drive(there.policy, max_actions=160)
    assert driven.error is None
    assert all(plan.want_rows_model for plan in plans)
    spaces = [plan.prefix_space for plan in plans if plan.prefix is not None]
    assert spaces == sorted(spaces)  # "action" first, then "model" for good
    assert set(spaces) == {"action", "model"}
    first = next(plan for plan in plans if plan.prefix_space == "model")
    assert (np.asarray(first.prefix)[:, 0] % 10 == 0).all()
    assert len(first.prefix) >= first.d
