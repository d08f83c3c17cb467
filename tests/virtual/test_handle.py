from __future__ import annotations

from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from driven import drive

import seqrt
from seqrt import (
    ActionError,
    AlreadyDriven,
    ChunkExhausted,
    ObservationError,
    Observations,
    Stream,
)
from seqrt.policies.limits import HostLimits
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode
from seqrt.wire.messages import ObserveRequest

pytestmark = pytest.mark.anyio


def seen(value: float = 0.0) -> dict[str, Any]:
    return {"state": np.full(3, value, np.float32)}


def by_state(**changes: Any) -> Scripted:
    return Scripted(**{"rows": 5, "hz": 20, "infer_s": 0.0803, "by": "state", **changes})


def windowed(*at: int) -> Observations:
    return Observations(streams={"state": Stream(at=list(at), shape=[3], dtype="float32")})


class Remembering(Scripted):
    def __init__(self, **script: Any) -> None:
        super().__init__(**script)
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1


# predict


async def test_predict_gives_the_whole_chunk_and_where_it_came_from() -> None:
    policy = by_state()
    async with connected(policy) as there:
        chunk = await there.policy.predict(seen(7.0), seed=3)
    assert chunk.rows[:, 0].tolist() == [8.0, 9.0, 10.0, 11.0, 12.0]
    assert chunk.rows.dtype == np.float64
    assert len(chunk) == 5
    assert chunk.observed == 0
    assert chunk.infer_s == pytest.approx(0.0803)
    assert chunk.latency_s == pytest.approx(0.0803 + 0.0202, abs=1e-3)
    assert chunk.request_id.startswith("r-")
    chunk.rows[:] = 0  # a copy of the caller's own
    assert chunk.rows[0, 0] == 8.0


@pytest.mark.parametrize("observations", [None, windowed(0), windowed(-2, 0)])
async def test_predict_goes_on_by_the_rows_declared_to_be_played_and_waits_for_no_step_between(
    observations: Observations | None,
) -> None:
    policy = by_state(observations=observations)
    async with connected(policy) as there:
        before = anyio.current_time()
        chunks = [await there.policy.predict(seen(float(i))) for i in range(4)]
        took_s = anyio.current_time() - before
    assert [chunk.observed for chunk in chunks] == [0, 5, 10, 15]
    assert [call.t for call in policy.calls] == [0, 5, 10, 15]
    # One round trip each: the post and the act go at once, and nobody waits for the numbers between.
    assert took_s == pytest.approx(4 * (0.0803 + 0.0202), abs=0.01)


async def test_the_horizon_declared_cuts_what_is_played_and_what_the_step_goes_on_by() -> None:
    policy = by_state(rows=9, actions=seqrt.Actions(key="actions", hz=20, open_loop_horizon=4))
    async with connected(policy) as there:
        chunk = await there.policy.predict(seen())
        assert len(chunk) == 4
        assert np.shape(chunk.outputs["actions"]) == (9, 3)
        assert (await there.policy.predict(seen())).observed == 4


class Talking:
    def infer(self, obs: Any) -> Any:
        return {"text": f"I see {sorted(obs)}", "boxes": [[1, 2], [3]], "score": 0.5}


async def test_predict_may_return_anything_and_a_run_says_what_is_missing_before_any_motion() -> None:
    async with connected(Talking(), offload=inline(), control_hz=20) as there:
        chunk = await there.policy.predict(seen())
        again = await there.policy.predict(seen())
        assert chunk.outputs == {"text": "I see ['state']", "boxes": [[1, 2], [3]], "score": 0.5}
        assert (chunk.observed, again.observed) == (0, 1)
        with pytest.raises(ActionError, match="declare actions="):
            _ = chunk.rows
        with pytest.raises(ActionError, match="declare actions="):
            await there.policy.next_action(seen())
        driven = await drive(there.policy, max_actions=10)
    assert isinstance(driven.error, ActionError)
    assert "declare actions=" in str(driven.error)
    assert driven.arm.acts == []


# next_action


async def test_next_action_hands_out_one_row_a_step_and_asks_when_none_is_left() -> None:
    policy = by_state()
    async with connected(policy) as there:
        rows = [(await there.policy.next_action(seen(100.0)))[0] for _ in range(7)]
        assert there.policy.statistics().rows_left == 3
    assert rows == [101.0, 102.0, 103.0, 104.0, 105.0, 101.0, 102.0]
    assert [call.t for call in policy.calls] == [0, 5]


async def test_an_empty_buffer_without_an_observation_is_said_and_not_none() -> None:
    async with connected(by_state(rows=1)) as there:
        with pytest.raises(ChunkExhausted):
            await there.policy.next_action()
        await there.policy.next_action(seen())
        with pytest.raises(ChunkExhausted):
            await there.policy.next_action()
        assert (await there.policy.next_action(seen(4.0)))[0] == 5.0


async def test_predict_replaces_the_rows_left() -> None:
    async with connected(by_state()) as there:
        await there.policy.next_action(seen(0.0))
        await there.policy.predict(seen(50.0))
        assert (await there.policy.next_action())[0] == 51.0


async def test_rows_left_are_played_by_no_later_run_and_none_of_a_run_by_a_later_call() -> None:
    async with connected(by_state(rows=10)) as there:
        await there.policy.predict(seen(500.0))
        driven = await drive(there.policy, max_actions=14)
        assert driven.values == [float(n) for n in range(1, 15)]
        with pytest.raises(ChunkExhausted):
            await there.policy.next_action()
        async with there.policy.episode():
            await there.policy.predict(seen(500.0))
            driven = await drive(there.policy, max_actions=14)
            assert driven.values == [float(n) for n in range(1, 15)]
            with pytest.raises(ChunkExhausted):
                await there.policy.next_action()


# observe and next_chunk


async def test_observations_sent_ahead_are_there_when_the_chunk_is_asked_for() -> None:
    policy = by_state(observations=windowed(-2, -1, 0))
    async with connected(policy) as there:
        assert [await there.policy.observe(seen(float(i))) for i in range(4)] == [0, 1, 2, 3]
        before = anyio.current_time()
        chunk = await there.policy.next_chunk(seed=9)
        took_s = anyio.current_time() - before
    assert policy.calls[0].steps == (1, 2, 3)
    assert policy.calls[0].observation["state"][0] == 3.0
    assert chunk.observed == 3
    assert took_s == pytest.approx(0.0803 + 0.0202, abs=1e-3)


async def test_next_chunk_asks_about_the_newest_observation_and_not_the_newest_number() -> None:
    async with connected(by_state()) as there:
        await there.policy.predict(seen(2.0))
        assert (await there.policy.next_chunk()).observed == 0
        assert await there.policy.observe(seen(3.0)) == 5
        assert (await there.policy.next_chunk()).rows[0, 0] == 4.0


async def test_a_chunk_before_any_observation_is_refused_here() -> None:
    async with connected(by_state()) as there:
        with pytest.raises(ObservationError, match=r"observe\(obs\) first"):
            await there.policy.next_chunk()
        with pytest.raises(ObservationError):
            await there.policy.observe(None)
        assert there.link.statistics().requests_to == {"/policy": 1}


async def test_an_observation_is_held_against_the_declaration_before_it_is_sent() -> None:
    async with connected(by_state(observations=windowed(0))) as there:
        with pytest.raises(ObservationError, match="state") as refused:
            await there.policy.predict({"stat": np.zeros(3, np.float32)})
        assert refused.value.key == "state"
        with pytest.raises(ObservationError, match=r"\[4\]|\(4,\)"):
            await there.policy.predict({"state": np.zeros(4, np.float32)})
        chunk = await there.policy.predict({"state": np.zeros(3), "unread": object()})  # float64 is cast
    assert chunk.observed == 0


# episode


async def test_two_runs_of_an_episode_share_numbers_and_state_and_never_the_plan() -> None:
    policy = Remembering(rows=30, by="state", infer_s=0.0803)
    posts: list[ObserveRequest] = []

    def read(request: httpx.Request) -> bool:
        if request.url.path == "/observe":
            posts.append(decode(request.content, ObserveRequest))
        return False

    async with connected(policy, lose_request=read) as there:
        async with there.policy.episode() as name:
            first = await drive(there.policy, max_actions=15)
            assert there.policy.statistics().epoch == 1
            second = await drive(there.policy, FakeArm(3, start=[700.0] * 3), max_actions=15)
            chunk = await there.policy.predict(seen(5.0))
            assert there.host.statistics()["episodes"] == 1
        assert there.host.statistics()["episodes"] == 0
        outside = await drive(there.policy, max_actions=15)
    assert policy.resets == 2
    last = max(event.step for event in first.of(ev.Observed))
    assert second.of(ev.RunStarted)[0].first_step == last + 1
    assert chunk.observed > max(event.step for event in second.of(ev.Observed))
    assert outside.of(ev.RunStarted)[0].first_step == 0
    assert first.values == [float(n) for n in range(1, 16)]
    assert second.values == [700.0 + n for n in range(1, 16)]
    assert [post.episode_id == name for post in posts].count(False) == len(outside.of(ev.Posted))
    assert second.of(ev.Asked)[0].rows_left == 0


async def test_an_episode_in_an_episode_and_a_second_driver_are_refused() -> None:
    async with connected(by_state()) as there, there.policy.episode():
        with pytest.raises(AlreadyDriven):
            async with there.policy.episode():
                pass
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(there.policy.predict, seen())
            await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.01)
            with pytest.raises(AlreadyDriven):
                await there.policy.predict(seen())
        await there.policy.predict(seen())


async def test_leaving_an_episode_while_the_worker_is_down_takes_a_second_at_most() -> None:
    async with connected(by_state()) as there:
        async with there.policy.episode():
            await there.policy.predict(seen())
            there.link.begin_outage("silent")
            before = anyio.current_time()
        assert anyio.current_time() - before == pytest.approx(1.0)
        there.link.end_outage()


async def test_interrupt_is_heard_before_the_first_observation_has_come() -> None:
    class Waiting(FakeArm):
        async def observe(self) -> Any:  # type: ignore[override]
            await anyio.sleep(0.5)
            there.policy.interrupt()
            return super().observe()

    async with connected(by_state()) as there:
        driven = await drive(there.policy, Waiting(3), max_actions=10)
        assert driven.outcome is not None
        assert driven.outcome.reason == "interrupted"
        assert driven.arm.acts == []
        there.policy.interrupt()  # nothing runs: nothing to end
        assert (await drive(there.policy, max_actions=10)).outcome.reason == "completed"  # type: ignore[union-attr]


# statistics


async def test_statistics_say_what_the_handle_is_doing() -> None:
    states: list[tuple[str, int]] = []
    async with connected(by_state(rows=20)) as there:
        idle = there.policy.statistics()
        assert (idle.state, idle.rows_left, idle.epoch, idle.outcome) == ("idle", 0, 0, None)

        def look(_: Any) -> bool:
            now = there.policy.statistics()
            states.append((now.state, now.outcome.actions if now.outcome is not None else -1))
            assert now.epoch == 1
            return False

        driven = await drive(there.policy, max_actions=30, until=look)
        after = there.policy.statistics()
    assert states[0][1] == 0
    assert states[1][0] == "starting"
    assert states[-1][0] == "playing"
    assert [actions for _, actions in states] == sorted(actions for _, actions in states)
    assert (after.state, after.outcome) == ("idle", driven.outcome)
    assert there.policy.last_outcome == driven.outcome


async def test_what_a_handle_keeps_does_not_grow_with_its_calls() -> None:
    async with connected(by_state(observations=windowed(-3, 0)), limits=HostLimits(frames=12)) as there:
        for _ in range(60):
            await there.policy.predict(seen())
        assert there.host.statistics()["episodes"] == 1
        assert there.host.statistics()["frame_bytes"] < 12 * 300
