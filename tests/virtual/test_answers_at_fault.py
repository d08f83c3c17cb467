from __future__ import annotations

import gc
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from answering import HZ, Answering, acts, by_state, refusal
from driven import drive

from seqrt import AuthError, InternalError, Limits, LinkLost, Play, PolicyError, Unavailable
from seqrt.policies import Timeouts
from seqrt.testing.connected import HOST, connected
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import encode
from seqrt.wire.messages import ActResponse, AnswerPlan

pytestmark = pytest.mark.anyio

# Before the first action.


def _warming(times: int) -> Callable[[str, int], Any]:
    return acts(range(times), refusal(503, "warming", 3.0))


async def test_a_worker_that_warms_up_is_waited_for_and_the_robot_observed_anew() -> None:
    policy = by_state()
    async with connected(policy) as there:
        there.link.app = Answering(there.link.app, _warming(2))
        driven = await drive(there.policy, max_actions=50, limits=Limits(startup_timeout_s=20.0))
    assert driven.error is None
    assert [event.wait_s for event in driven.of(ev.Warming)] == [3.0, 3.0]
    asked = [event.step for event in driven.of(ev.Asked)]
    assert len(set(asked[:3])) == 3  # each time about a new observation
    assert asked[2] >= 2 * 3 * HZ
    assert policy.calls[0].t == asked[2]
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0  # waiting for the first row is none


async def test_warming_up_is_given_up_at_once_when_the_next_wait_would_pass_the_budget() -> None:
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, _warming(100))
        driven = await drive(there.policy, max_actions=50, limits=Limits(startup_timeout_s=8.0))
    assert isinstance(driven.error, Unavailable)
    assert driven.error.warming
    assert driven.error.retry_after_s == 3.0
    assert len(driven.of(ev.Warming)) == 2  # 3 and 6 s; the next one would end after 9
    assert driven.outcome is not None
    assert driven.outcome.elapsed_s < 8.0
    assert driven.arm.acts == []
    assert len(driven.arm.holds) == 1


async def test_without_a_budget_a_cold_worker_is_no_reason_to_wait() -> None:
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, _warming(100))
        driven = await drive(there.policy, max_actions=50)
    assert isinstance(driven.error, Unavailable)
    assert driven.error.warming
    assert driven.of(ev.Warming) == []


async def test_a_link_that_is_down_before_the_first_action_is_tried_for_as_long_as_the_act_may_take() -> None:
    policy = by_state(timeouts=Timeouts(request=3))
    async with connected(policy) as there, there.policy.episode():
        await drive(there.policy, max_actions=5)  # begun: the next run's first act has no startup's time
        there.link.begin_outage("refused")
        driven = await drive(there.policy, max_actions=50)
        there.link.end_outage()
    assert isinstance(driven.error, LinkLost)
    assert driven.error.phase == "connect"
    tried = re.search(r"(\d+) tries in 3\.", str(driven.error))
    assert tried is not None
    assert int(tried[1]) > 3
    assert driven.outcome is not None
    assert 3.0 < driven.outcome.elapsed_s < 4.0
    assert driven.arm.acts == []


async def test_a_link_that_is_down_before_the_first_action_is_said_at_once_and_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="seqrt.runtime")
    async with connected(by_state(timeouts=Timeouts(startup=60))) as there:
        there.link.begin_outage("refused")
        driven = await drive(there.policy, max_actions=50)
        there.link.end_outage()
        tries = sum(there.link.statistics().requests_to.values())
    assert isinstance(driven.error, LinkLost)
    said = [record.message for record in caplog.records]
    assert said[0].startswith(
        f"seq ev=link.lost rid=- | the link to {HOST} is down, nothing has moved yet: cannot connect"
    )
    assert len(said) >= 60 / 10
    assert all("cannot connect" in line and "plays on" not in line for line in said)
    assert tries < 60 * 2 * 5, "one act and one post try it, each four times a second"


async def test_a_worker_that_names_a_time_beyond_the_first_acts_deadline_is_not_waited_for_so_long() -> None:
    async with connected(by_state(timeouts=Timeouts(startup=60))) as there:
        there.link.app = Answering(there.link.app, acts(range(100), refusal(429, "busy", 200.0)))
        driven = await drive(there.policy, max_actions=50)
    assert isinstance(driven.error, Unavailable)
    assert driven.error.code == "busy"
    assert driven.outcome is not None
    assert driven.outcome.elapsed_s < 61.0
    assert driven.arm.acts == []


async def test_after_some_seconds_without_a_link_the_first_act_is_about_what_is_seen_then() -> None:
    async with connected(by_state(), outages=[(0.5, 6.0, "refused")]) as there:
        await anyio.sleep(1.0)
        driven = await drive(there.policy, max_actions=20)
    assert driven.error is None
    first = driven.of(ev.Spliced)[0]
    taken = next(event for event in driven.of(ev.Observed) if event.step == first.observed)
    assert first.at_s > 5.0
    assert first.at_s - taken.at_s < 2.5


# Answers that are none.


async def test_a_wrong_key_ends_the_run_before_any_motion_with_what_to_do() -> None:
    async with connected(by_state(), secret="right") as there:
        there.link.app = Answering(there.link.app, acts(range(9), refusal(401, "unauthenticated")))
        driven = await drive(there.policy, max_actions=50)
    assert isinstance(driven.error, AuthError)
    assert driven.arm.acts == []


async def test_the_key_is_asked_for_and_sent() -> None:
    async with connected(by_state(), secret="right") as there:
        driven = await drive(there.policy, max_actions=20)
        async with connected(by_state()) as other:
            own, other.link.app = other.link.app, there.link.app  # a worker with a key, a robot without
            with pytest.raises(AuthError, match="SEQRT_API_KEY"):
                await other.policy.predict({"state": [0.0, 0.0, 0.0]})
            other.link.app = own
    assert driven.error is None


GARBAGE = [b"", b"<html>502</html>", b"\xc1\xc1\xc1", b"\x80", b"\x81\xa7outputs", encode({"outputs": 1, "unknown": 2})]


@pytest.mark.parametrize("body", GARBAGE)
async def test_a_200_that_is_no_answer_is_a_typed_error(body: bytes) -> None:
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, acts({2}, (200, body, {})))
        driven = await drive(there.policy, max_actions=200, play=Play(in_flight=1))
    assert isinstance(driven.error, InternalError)
    assert (driven.error.host, driven.error.phase, driven.error.status) == (HOST, "act", 200)
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.actions > 40


@pytest.mark.parametrize("t", [-1, -(2**40), 10**6, 2**62])
async def test_an_answer_to_an_observation_never_taken_is_refused_and_three_in_a_row_end_the_run(t: int) -> None:
    body = encode(ActResponse(outputs={"actions": [[900.0] * 3] * 50}, plan=AnswerPlan(t=t)))
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, acts(range(2, 99), (200, body, {})))
        driven = await drive(there.policy, max_actions=400, play=Play(fresh_s=0.6))
    assert isinstance(driven.error, InternalError)
    assert str(t) in str(driven.error)
    assert max(driven.values) < 900
    assert driven.outcome is not None
    assert driven.outcome.refused_chunks == 3
    assert len(driven.arm.holds) == 1


async def test_an_answer_older_than_the_plan_is_dropped_and_counted() -> None:
    body = encode(ActResponse(outputs={"actions": [[900.0] * 3] * 50}, plan=AnswerPlan(t=0)))
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, acts({2}, (200, body, {})))
        driven = await drive(there.policy, max_actions=200, play=Play(fresh_s=0.6))
    assert driven.error is None
    assert [event.why for event in driven.of(ev.AnswerDropped)] == ["older"]
    assert driven.played == [float(n) for n in range(1, 201)]


async def test_a_stale_answer_is_dropped_and_the_next_observation_asked_about() -> None:
    body = encode(ActResponse(outputs=None, plan=AnswerPlan(stale=True)))
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, acts({2}, (200, body, {})))
        driven = await drive(there.policy, max_actions=200, play=Play(fresh_s=0.6))
    assert [event.why for event in driven.of(ev.AnswerDropped)] == ["stale"]
    assert driven.outcome is not None
    assert (driven.outcome.answers_dropped, driven.outcome.underruns) == (1, 0)


# The policy's own faults.


async def test_a_policy_that_raises_once_is_one_error_and_the_run_goes_on() -> None:
    async with connected(by_state(raise_on={2})) as there:
        driven = await drive(there.policy, max_actions=200, play=Play(fresh_s=0.6))
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    failed = driven.of(ev.ActFailed)
    assert [(event.code, event.retrying) for event in failed] == [("policy_error", False)]
    assert "illegal memory access" in failed[0].error
    assert driven.played == [float(n) for n in range(1, 201)]


async def test_a_policy_that_raises_from_the_start_ends_the_run_with_its_own_message() -> None:
    """LeRobot 2622, 3861, 2119, 1772: exceptions become empty answers, the robot never moves."""
    error = KeyError("observation.images.wrist")
    async with connected(by_state(raise_on=range(1000), error=error)) as there:
        driven = await drive(there.policy, max_actions=200)
    assert isinstance(driven.error, PolicyError)
    assert "observation.images.wrist" in str(driven.error)
    assert driven.error.details["type"] == "KeyError"
    assert "traceback" in driven.error.details
    assert driven.arm.acts == []
    assert len(driven.of(ev.ActFailed)) == 3
    assert len({event.request_id for event in driven.of(ev.ActFailed)}) == 3  # never again under its id


async def test_a_policy_that_keeps_raising_ends_the_run_when_it_is_the_third_in_a_row() -> None:
    async with connected(by_state(raise_on={2, 4, 5, 7, 8, 9})) as there:
        driven = await drive(there.policy, max_actions=400, play=Play(fresh_s=0.3))
    assert isinstance(driven.error, PolicyError)
    assert len(driven.of(ev.ActFailed)) == 6
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0


@pytest.mark.parametrize(("raise_on", "ends"), [({3}, False), ({3, 4}, True)])
async def test_a_dry_plan_outlives_one_error_of_the_policy_and_not_two(raise_on: set[int], ends: bool) -> None:
    async with connected(by_state(rows=10, raise_on=raise_on)) as there:
        driven = await drive(there.policy, max_actions=100, play=Play(prefetch=False))
    assert driven.outcome is not None
    assert isinstance(driven.error, PolicyError) is ends
    assert driven.outcome.actions == (30 if ends else 100)
    assert len(driven.arm.holds) == int(ends)
    assert driven.played == [float(n) for n in range(1, driven.outcome.actions + 1)]


async def test_a_first_inference_that_takes_a_minute_does_not_look_like_a_lost_link() -> None:
    async with connected(by_state(infer_s=[70.0, 0.0803]), timeout_s=5.0) as there:
        driven = await drive(there.policy, max_actions=50)
    assert driven.error is None
    assert driven.of(ev.LinkLost) == []
    assert driven.values[0] == 1.0


async def test_no_observation_piles_up_while_the_first_answer_is_waited_for() -> None:
    class Counted(dict[str, Any]):
        alive = 0

        def __init__(self, values: Mapping[str, Any]) -> None:
            super().__init__(values)
            Counted.alive += 1

        def __del__(self) -> None:
            Counted.alive -= 1

    class Counting(FakeArm):
        def observe(self) -> dict[str, Any]:
            return Counted(super().observe())

    most: list[int] = []

    def count_them(row: Any) -> bool:
        gc.collect()
        most.append(Counted.alive)
        return True

    async with connected(by_state(infer_s=[30.0, 0.0803])) as there:
        driven = await drive(there.policy, Counting(3), max_actions=3, validate=count_them)
    assert driven.error is None
    assert len(driven.of(ev.Observed)) > 600
    assert max(most) < 10
