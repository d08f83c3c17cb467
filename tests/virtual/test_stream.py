from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import httpx
import pytest
from driven import Driven, drive

from seqrt import Conflict, Gone, LinkLost, Observations, Play, Stream
from seqrt.link.local import LocalLink
from seqrt.policies import Timeouts
from seqrt.policies.limits import HostLimits
from seqrt.runtime.uplink import Uplink
from seqrt.testing.connected import connected, served
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode, encode
from seqrt.wire.messages import ActRequest, ErrorBody, ObserveRequest
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio


class Sent:
    """What crossed the link, read by the wire's own codec. Loses the requests it is told to, once each."""

    def __init__(self, *, lose_post_of: int | None = None) -> None:
        self.posts: list[ObserveRequest] = []
        self.acts: list[tuple[str, ActRequest]] = []
        self._lose_post_of = lose_post_of

    def __call__(self, request: httpx.Request) -> bool:
        if request.url.path == "/act":
            self.acts.append((request.headers["x-seq-request-id"], decode(request.content, ActRequest)))
        elif request.url.path == "/observe":
            post = decode(request.content, ObserveRequest)
            self.posts.append(post)
            if self._lose_post_of in [frame.seq for frame in post.frames]:
                self._lose_post_of = None
                return True
        return False

    @property
    def numbers(self) -> list[int]:
        return [frame.seq for post in self.posts for frame in post.frames]

    @property
    def asked(self) -> list[int]:
        """The steps acts were about."""
        return [message.seq - 1 for _, message in self.acts if message.seq is not None]

    @property
    def skipped(self) -> list[int]:
        return sorted({number for post in self.posts for number in post.skipped})


WITH_A_RESERVE = Play(fresh_s=0.6, in_flight=1)
"""Asked early, one at a time: half of the plan is left when an answer is late."""


def windowed(*at: int) -> Observations:
    return Observations(streams={"state": Stream(at=list(at), shape=[3], dtype="float32")})


# Windows.


async def test_a_window_of_two_frames_is_handed_over_as_the_table_says() -> None:
    policy = Scripted(rows=10, hz=20, infer_s=0.0803, observations=windowed(-15, 0))
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=40, play=Play(prefetch=False))
    # H = 10, d = 2 (0.1005 s): asked at 0, then at each tick that finds the plan dry. Before step 15: step 0.
    table = {0: (0, 0), 12: (0, 12), 24: (9, 24), 36: (21, 36)}
    assert {call.t: call.steps for call in policy.calls} == table
    assert [event.step for event in driven.of(ev.Asked)] == list(table)


@pytest.mark.parametrize("prefetch", [True, False])
async def test_only_the_steps_that_acts_read_are_uploaded_each_once(prefetch: bool) -> None:
    sent = Sent()
    policy = Scripted(rows=30, hz=20, infer_s=0.1303, observations=windowed(-15, 0))
    async with connected(policy, lose_request=sent) as there:
        driven = await drive(there.policy, max_actions=300, play=Play(prefetch=prefetch))
    asked = [event.step for event in driven.of(ev.Asked)]
    read = {max(0, step + offset) for step in asked for offset in (-15, 0)}
    counted = Counter(sent.numbers)
    assert max(counted.values()) == 1
    assert read <= set(counted)
    # What is sent ahead for an act that then comes a little later was for nothing: at most while s settles.
    assert len(set(counted) - read) <= (6 if prefetch else 0)
    assert driven.outcome is not None
    assert driven.outcome.frames_sent == len(sent.numbers)
    assert sent.skipped == []


async def test_frames_an_act_will_read_are_sent_before_it_asks() -> None:
    """Of a window of two frames the older one is there already: the act waits for one alone."""
    sent = Sent()
    policy = Scripted(rows=30, hz=20, infer_s=0.1303, observations=windowed(-7, 0))
    async with connected(policy, lose_request=sent) as there:
        await drive(there.policy, max_actions=300)
    order = {number: i for i, number in enumerate(sent.numbers)}
    settled = sent.asked[4:]
    assert len(settled) > 5
    assert all(order[step - 7] < order[step] for step in settled)
    assert all(frames == [step] for step, frames in _posted_with(sent, settled).items())


def _posted_with(sent: Sent, steps: list[int]) -> dict[int, list[int]]:
    posts = [[frame.seq for frame in post.frames] for post in sent.posts]
    return {step: next(post for post in posts if step in post) for step in steps}


async def test_the_frame_read_is_the_frame_taken_even_where_the_driver_reuses_its_buffer() -> None:
    class Reusing(FakeArm):
        def __init__(self) -> None:
            super().__init__(3)
            self._buffer: Any = None

        def observe(self) -> dict[str, Any]:
            seen = super().observe()
            if self._buffer is None:
                self._buffer = seen["state"]
            self._buffer[:] = len(self.observed) - 1  # the step
            return {"state": self._buffer}

    policy = Scripted(rows=30, hz=20, infer_s=0.1303, observations=windowed(-15, 0), by="clock")
    async with connected(policy) as there:
        await drive(there.policy, Reusing(), max_actions=100)
    assert len(policy.calls) > 3
    assert all(call.observation["state"][0] == call.t for call in policy.calls)


# Undeclared: every number, sent or told.


async def test_a_policy_without_windows_gets_its_acts_own_observation_and_the_other_numbers_as_skipped() -> None:
    sent = Sent()
    policy = Scripted(rows=20, hz=20, infer_s=0.1303)
    async with connected(policy, lose_request=sent) as there:
        driven = await drive(there.policy, max_actions=100)
    asked = [event.step for event in driven.of(ev.Asked)]
    assert sent.numbers == asked[: len(sent.numbers)]
    assert sorted([*sent.numbers, *sent.skipped]) == list(range(sent.numbers[-1] + 1))
    assert driven.outcome is not None
    assert driven.outcome.retries == 0


async def test_steps_without_an_observation_are_told_and_waited_for_by_nobody() -> None:
    class Blinking(FakeArm):
        def observe(self) -> Any:
            seen = super().observe()
            return None if len(self.observed) % 3 == 0 else seen

    policy = Scripted(rows=20, hz=20, infer_s=0.1303)
    async with connected(policy) as there:
        driven = await drive(there.policy, Blinking(3), max_actions=100, play=WITH_A_RESERVE)
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert driven.outcome.retries == 0
    assert driven.outcome.frames_skipped > 20


async def test_steps_missing_in_a_window_read_the_frame_before_them() -> None:
    class Blinking(FakeArm):
        def observe(self) -> Any:
            seen = super().observe()
            return None if len(self.observed) - 1 in (9, 10) else seen

    policy = Scripted(rows=10, hz=20, infer_s=0.0803, observations=windowed(-15, 0))
    async with connected(policy) as there:
        driven = await drive(there.policy, Blinking(3), max_actions=30, play=Play(prefetch=False))
    # The window at 24 reads 9, at which none was taken: 8, kept for that and sent with the act.
    assert {call.t: call.steps for call in policy.calls} == {0: (0, 0), 12: (0, 12), 24: (8, 24)}
    assert driven.outcome is not None
    assert driven.outcome.retries == 0


# Lost and sent again.


@pytest.mark.parametrize("observations", [None, windowed(0)])
async def test_a_lost_post_is_sent_again_after_a_409_and_the_act_replayed_under_its_id(
    observations: Observations | None,
) -> None:
    policy = Scripted(rows=50, hz=20, infer_s=0.0803, observations=observations)
    probe = Sent()
    async with connected(policy, lose_request=probe) as there:
        await drive(there.policy, max_actions=100, play=WITH_A_RESERVE)
    lost = probe.asked[2]

    sent, policy = Sent(lose_post_of=lost), Scripted(rows=50, hz=20, infer_s=0.0803, observations=observations)
    limits = HostLimits(stream_wait_s=0.5)
    async with connected(policy, lose_request=sent, limits=limits, timeout_s=1.0) as there:
        driven = await drive(there.policy, max_actions=100, play=WITH_A_RESERVE)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    failed = driven.of(ev.ActFailed)
    assert [(event.code, event.retrying) for event in failed] == [("conflict", True)]
    ids = [rid for rid, message in sent.acts if message.seq == lost + 1]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert failed[0].request_id == ids[0]
    assert Counter(sent.numbers)[lost] >= 2
    assert [call.t for call in policy.calls].count(lost) == 1


async def test_a_409_that_names_what_never_was_ends_the_run_and_does_not_loop() -> None:
    async def always_lacking(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/act":
            await worker(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        body = encode(
            ErrorBody(detail="no", code="conflict", retryable=False, details={"reason": "frames_missing", "from": 0})
        )
        await send({"type": "http.response.start", "status": 409, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    policy = Scripted(rows=20, hz=20, infer_s=0.08)
    async with connected(policy) as there:
        worker, there.link.app = there.link.app, always_lacking
        driven = await drive(there.policy, max_actions=20)
        there.link.app = worker
    assert isinstance(driven.error, Conflict)
    assert driven.arm.acts == []
    assert there.link.statistics().requests_to["/act"] <= 3


async def test_an_answer_lost_on_its_way_is_asked_for_again_and_infer_ran_once() -> None:
    lost: list[str] = []

    def lose(request: httpx.Request) -> bool:
        if request.url.path == "/act" and len(policy.calls) == 3 and not lost:
            lost.append(request.headers["x-seq-request-id"])
            there.link.begin_outage("reset")
            there.link.end_outage()
        return False

    sent, policy = Sent(), Scripted(rows=50, hz=20, infer_s=0.0803)
    async with connected(policy, lose_request=sent, lose_answer=lose) as there:
        driven = await drive(there.policy, max_actions=150, play=WITH_A_RESERVE)
    assert len(lost) == 1
    assert [rid for rid, _ in sent.acts].count(lost[0]) == 2
    steps = [call.t for call in policy.calls]
    assert len(steps) == len(set(steps))
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert driven.outcome.reconnects == 1
    assert lost[0] in [event.request_id for event in driven.of(ev.Answered)]


# Another worker in its place.


async def _restarted(policy: Any, at_s: float = 2.013, down_s: float = 0.304) -> tuple[Driven, Any, Sent]:
    """Drive while the worker is killed and another one, with its own policy object, takes its place."""
    first, second = policy(), policy()
    sent = Sent()
    async with connected(first, lose_request=sent) as there, anyio.create_task_group() as tasks:
        host = served(second)
        await host.start()

        async def restart() -> None:
            await anyio.sleep(at_s)
            there.link.begin_outage("refused")
            await anyio.sleep(down_s)
            there.link.app = app(host)
            there.link.end_outage()

        tasks.start_soon(restart)
        driven = await drive(there.policy, max_actions=200, play=WITH_A_RESERVE)
    return driven, second, sent


@pytest.mark.parametrize("observations", [None, windowed(0), windowed(-15, 0), windowed(-3, -2, -1, 0)])
async def test_a_stateless_policy_goes_on_at_a_worker_that_was_restarted(observations: Observations | None) -> None:
    driven, second, _ = await _restarted(
        lambda: Scripted(rows=50, hz=20, infer_s=0.0803, by="state", observations=observations)
    )
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns) == (200, 0)
    assert driven.played == [float(n) for n in range(1, 201)]
    assert len(second.calls) > 3
    offsets = [0] if observations is None else list(observations.streams["state"].at)  # type: ignore[index]
    for call in second.calls:
        assert list(call.steps) == [max(0, call.t + offset) for offset in offsets]


@pytest.mark.parametrize("observations", [None, windowed(-15, 0)])
async def test_a_worker_restarted_before_its_first_answer_is_sent_the_episode_anew_at_once(
    observations: Observations | None,
) -> None:
    driven, second, _ = await _restarted(
        lambda: Scripted(rows=50, hz=20, infer_s=0.0803, by="state", observations=observations),
        at_s=0.0603,
        down_s=0.0203,
    )
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 201)]
    assert second.calls[0].t == 0
    assert driven.of(ev.Answered)[0].at_s < 1  # not after the ten seconds that a worker waits for number 0


class Remembering(Scripted):
    """A policy with state: an episode is bound to the worker that began it."""

    def reset(self) -> None:
        pass


async def test_a_policy_with_state_is_gone_and_the_arm_is_held() -> None:
    driven, second, _ = await _restarted(lambda: Remembering(rows=50, hz=20, infer_s=0.0803))
    assert isinstance(driven.error, Gone)
    assert len(driven.arm.holds) == 1
    assert second.calls == []
    assert driven.outcome is not None
    assert driven.outcome.reason == "raised:Gone"


async def test_frames_over_the_workers_limits_are_told_as_skipped_and_recorded_once() -> None:
    class Growing(FakeArm):
        def observe(self) -> dict[str, Any]:
            import numpy as np

            seen = super().observe()
            return {**seen, "log": np.zeros(40_000 if 20 <= len(self.observed) < 60 else 4, np.uint8)}

    sent = Sent()
    policy = Scripted(rows=20, hz=20, infer_s=0.0803)
    async with connected(policy, lose_request=sent, limits=HostLimits(episode_bytes=20_000)) as there:
        driven = await drive(there.policy, Growing(3), max_actions=150)
    assert driven.error is None
    assert len(driven.of(ev.FramesRefused)) == 1
    refused = [number for number in sent.numbers if 19 <= number < 59]
    assert len(refused) >= 2
    assert set(refused) <= set(sent.skipped)
    assert max(Counter(sent.numbers).values()) == 1
    # The policy sees nothing new meanwhile, and the arm stands; then it goes on.
    assert driven.outcome is not None
    assert driven.outcome.actions == 150
    assert driven.outcome.retries == 0
    assert driven.kinds[-60:] == ["played"] * 60


async def test_two_runs_of_one_episode_go_on_counting_and_wait_for_nothing() -> None:
    policy, sent = Scripted(rows=20, hz=20, infer_s=0.3803, by="state"), Sent()
    async with connected(policy, lose_request=sent) as there, there.policy.episode():
        first = await drive(there.policy, max_actions=27, play=Play(in_flight=1))
        second = await drive(there.policy, first.arm, max_actions=50, play=Play(in_flight=1))
    started = second.of(ev.RunStarted)[0]
    assert started.first_step == max(event.step for event in first.of(ev.Observed)) + 1
    assert second.outcome is not None
    assert (second.outcome.retries, second.outcome.underruns) == (0, 0)
    waited = next(tick.at_s for tick in second.of(ev.Ticked) if tick.kind == "played")
    assert waited < 0.3803 + 0.0202 + 0.3803 + 0.05  # an inference of the first run may be under way
    assert len({post.episode_id for post in sent.posts}) == 1


@pytest.mark.parametrize(("observations", "most"), [(None, 2), (windowed(0), 2), (windowed(-15, 0), 19)])
async def test_what_no_window_can_read_any_more_is_not_kept_while_an_answer_is_waited_for(
    observations: Observations | None, most: int
) -> None:
    async with connected(Scripted()) as there:
        uplink = Uplink(LocalLink(there.host), "episode", observations, inline())
        for number in range(500):
            uplink.keep(number, {"state": [0.0, 0.0, 0.0]})
            if number == 20:
                uplink.send_for(number)
                await uplink.flush()
        assert uplink.kept <= most
        assert uplink.queue_again(0) != []  # what the act reads that is not over is still there
        uplink.close(20)
        uplink.keep(500, {"state": [0.0, 0.0, 0.0]})
        await uplink.flush()
        uplink.serve_to(400)
        assert uplink.kept <= most - 1


async def test_a_link_that_goes_while_an_act_waits_for_what_was_sent_again_ends_a_run_that_has_not_moved() -> None:
    lost: list[httpx.Request] = []

    def first_post(request: httpx.Request) -> bool:
        if request.url.path != "/observe" or not second_run or lost:
            return False
        lost.append(request)
        return True

    async def go() -> None:
        await anyio.sleep(0.7003)
        there.link.begin_outage("refused")

    limits, second_run = HostLimits(stream_wait_s=0.5), False
    policy = Scripted(hz=20, timeouts=Timeouts(request=3))  # of every act but an episode's first
    async with connected(policy, lose_request=first_post, limits=limits) as there, there.policy.episode():
        await drive(there.policy, max_actions=5)
        second_run = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            driven = await drive(there.policy, max_actions=50)
        there.link.end_outage()
    assert lost
    assert isinstance(driven.error, LinkLost)
    assert driven.arm.acts == []
    assert len(driven.arm.holds) == 1
