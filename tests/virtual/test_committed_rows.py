from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from driven import drive

from seqrt import Play, Sequential
from seqrt.action.asking import rows_during
from seqrt.runtime.options import Limits
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode
from seqrt.wire.messages import ActRequest

pytestmark = pytest.mark.anyio

NETWORK_S = 0.0202  # there and back, as `connected` has it


# Committed rows.


async def _prefixed(policy: Scripted, actions: int = 200, **options: Any) -> Any:
    async with connected(policy) as there:
        return await drive(there.policy, max_actions=actions, **options)


async def test_the_prefix_begins_with_the_row_that_was_next_when_the_observation_was_taken() -> None:
    """Strands 3402, 780: the prefix shifted by the delay."""
    policy = Scripted(rows=30, hz=20, infer_s=0.2303, by="state", takes_prefix=True)
    driven = await _prefixed(policy)
    assert policy.calls[0].prefix is None
    assert policy.calls[0].delay is None
    conditioned = [call for call in policy.calls if call.prefix is not None]
    assert len(conditioned) >= len(policy.calls) - 2
    for call in conditioned:
        assert call.prefix is not None
        seen = float(call.observation["state"][0])
        # The arm was at row n when it was looked at: the first one not yet played is n + 1.
        assert call.prefix[:, 0].tolist() == [seen + 1 + i for i in range(len(call.prefix))]
        assert call.delay == rows_during(0.2303 + NETWORK_S, 0.05)
        assert call.spacing is not None
        assert call.delay <= call.spacing <= 30 - call.delay
        assert len(call.prefix) >= call.delay
    assert driven.played == [float(n) for n in range(1, 201)]


class _Disagreeing(Scripted):
    """Keeps to the committed rows and then jumps: by what follows a test sees which rows were the old plan's."""

    def _script(self, *script: Any) -> Any:
        rows = super()._script(*script)
        committed = script[3]
        rows[0 if committed is None else len(committed) :] += 1000.0 * script[0]
        return rows


async def test_committed_rows_are_played_whatever_comes() -> None:
    policy = _Disagreeing(rows=30, hz=20, infer_s=0.2303, tagged=True, takes_prefix=True)
    driven = await _prefixed(policy)
    by_step = {tick.step: tick.row for tick in driven.of(ev.Ticked) if tick.kind == "played"}
    promised = 0
    for call in policy.calls:
        if call.prefix is None or call.delay is None:
            continue
        for i in range(call.delay):
            row = by_step.get(call.t + 1 + i)
            if row is not None:
                promised += 1
                assert row == call.prefix[i].tolist()
    assert promised > 30


async def test_d_and_s_go_along_with_every_act_and_the_prefix_covers_d() -> None:
    policy = Scripted(rows=30, hz=20, infer_s=0.2303, by="state", takes_prefix=True)
    driven = await _prefixed(policy)
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["prefix"]
    asked = driven.of(ev.Asked)
    assert (asked[0].d, asked[0].s, asked[0].prefix) == (None, None, 0)
    assert len(asked) > 5
    for event in asked[2:]:
        assert event.d is not None
        assert event.s is not None
        assert event.prefix >= event.d > 0


async def test_an_answer_to_an_observation_from_before_a_resume_is_dropped() -> None:
    epochs: list[int | None] = []

    def read(request: httpx.Request) -> bool:
        if request.url.path == "/act":
            plan = decode(request.content, ActRequest).plan
            epochs.append(plan.epoch if plan is not None else None)
        return False

    policy, arm = Scripted(rows=30, hz=20, infer_s=0.4303, by="state", takes_prefix=True), FakeArm(3)

    async def pause_at(second: float) -> None:
        await anyio.sleep_until(second)
        there.policy.pause()
        await anyio.sleep(0.11)
        arm.position = arm.position - 1000.0  # the caller moves it
        there.policy.resume()

    async with connected(policy, lose_request=read) as there, anyio.create_task_group() as tasks:
        tasks.start_soon(pause_at, 2.173)  # the third act is out, from 2.13 on
        driven = await drive(there.policy, arm, max_actions=100)
    assert driven.error is None
    asked = driven.of(ev.Asked)
    assert epochs[:4] == [1, 1, 1, 3]  # pause and resume each raise it
    assert [(event.request_id, event.why) for event in driven.of(ev.AnswerDropped)] == [(asked[2].request_id, "epoch")]
    # The first act after it commits to nothing, and no row of before is played.
    assert [event.prefix for event in asked[2:4]] == [asked[2].rows_left, 0]
    moved = next(i for i, value in enumerate(driven.played) if value < 0)
    assert driven.played[moved:] == [driven.played[moved] + i for i in range(100 - moved)]
    # An act that waited for the one before the pause says nothing of those to come.
    assert {event.d for event in asked[3:]} == {9}
    assert driven.of(ev.LatencyExceedsChunk) == []
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["prefix"]


async def test_continuity_falls_back_where_the_delay_leaves_no_room_and_says_so_once() -> None:
    policy = Scripted(rows=12, hz=20, infer_s=0.4003, by="state", takes_prefix=True)  # d = 8 of 12 rows
    driven = await _prefixed(policy, play=Play(in_flight=1))
    assert driven.error is None
    assert {call.prefix is None for call in policy.calls} == {True}
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["aligned"]
    assert driven.played == [float(n) for n in range(1, 201)]


async def test_continuity_none_sends_no_prefix() -> None:
    policy = Scripted(rows=30, hz=20, infer_s=0.2303, takes_prefix=True)
    driven = await _prefixed(policy, play=Play(continuity=None))
    assert all(call.prefix is None for call in policy.calls)
    assert driven.of(ev.ContinuityChosen) == []


async def test_nothing_is_committed_once_the_plan_has_run_dry() -> None:
    policy = Scripted(rows=20, hz=20, infer_s=[0.1, 0.1, 0.1, 3.0, 0.1], by="state", takes_prefix=True)
    driven = await _prefixed(policy, limits=Limits(max_stall_s=8.0))
    assert driven.outcome is not None
    assert driven.outcome.underruns >= 1
    assert driven.played == [float(n) for n in range(1, 201)]


@pytest.mark.parametrize(
    ("takes_prefix", "play"),
    [
        (False, Play(continuity="server")),
        (True, Play(continuity="server", prefetch=False)),
        (True, Play(continuity="server", splice=Sequential())),
    ],
)
async def test_continuity_that_cannot_be_had_is_refused_before_any_motion(takes_prefix: bool, play: Play) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=20, hz=20, takes_prefix=takes_prefix)) as there:
        with pytest.raises(ValueError, match="continuity='server' needs"):
            await there.policy.run(arm, max_actions=10, play=play)
    assert arm.acts == []
    assert arm.observed == []
