from __future__ import annotations

import math
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from driven import drive, reversals

import seqrt
from seqrt import Play, Sequential
from seqrt.action.asking import rows_during
from seqrt.testing.connected import connected
from seqrt.testing.durations import jittered
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

NETWORK_S = 0.0202  # there and back, as `connected` has it


async def test_the_first_row_played_is_row_0_however_long_the_first_answer_took() -> None:
    """LeRobot 4223, 3125: 21 of 30 rows skipped on an empty buffer."""
    async with connected(Scripted(rows=30, hz=30, infer_s=[0.7, 0.2], tagged=True)) as there:
        driven = await drive(there.policy, max_actions=60)
    first = driven.arm.rows[0]
    assert (first[1], first[2]) == (0, 0)  # of observation 0, row 0
    assert driven.of(ev.Spliced)[0].dropped == 0
    begun = next(tick.step for tick in driven.of(ev.Ticked) if tick.kind == "played")
    assert begun == math.ceil(30 * (0.7 + NETWORK_S))


async def test_a_new_chunk_begins_at_the_row_after_those_played_and_skips_no_other() -> None:
    """LeRobot 4223: one row more skipped at every chunk."""
    async with connected(Scripted(rows=30, hz=30, infer_s=0.2852, by="state", tagged=True)) as there:
        driven = await drive(there.policy, max_actions=300, play=seqrt.Play(in_flight=1))
    seams = [(tick.step, tick.row) for tick in driven.of(ev.Ticked) if tick.seam_jump is not None]
    assert len(seams) > 10
    for step, row in seams:
        assert row is not None
        assert row[2] == step - row[1] - 1  # row i of observation t is due at t + 1 + i
        assert row[2] in (9, 10)  # 0.305 s at 30 Hz
    assert driven.played == [float(n) for n in range(1, 301)]


async def test_the_next_episode_plays_nothing_of_the_one_before() -> None:
    """LeRobot 1116: 30 rows queued and one request in flight at the end of an episode."""
    policy = Scripted(rows=50, hz=20, infer_s=0.2803, tagged=True)
    async with connected(policy) as there:
        first = FakeArm(3)
        before = await drive(there.policy, first, until=lambda _: len(first.acts) == 20)
        calls = len(policy.calls)
        after = await drive(there.policy, max_actions=60)
    assert before.outcome is not None
    assert before.of(ev.Ticked)[-1].rows_left >= 29
    assert len(before.of(ev.Asked)) == len(before.of(ev.Answered)) + 1 or before.of(ev.Ticked)[-1].rows_left == 30
    # The first row of the second run is row 0 of its own first observation, and came after an inference of its own.
    assert after.arm.rows[0].tolist() == [1.0, 0.0, 0.0]
    assert len(policy.calls) > calls
    assert after.played == sorted(after.played)


@pytest.mark.parametrize("in_episode", [False, True])
async def test_a_run_ended_with_a_request_in_flight_leaves_nothing_to_the_next(in_episode: bool) -> None:
    policy = Scripted(rows=20, hz=20, infer_s=0.3003, by="state")
    first, second = FakeArm(3), FakeArm(3, start=[1000.0] * 3)

    def lose(request: httpx.Request) -> bool:  # the observation it is about never arrives
        return request.url.path == "/observe" and len(first.acts) > 15 and not second.observed

    async with connected(policy, lose_request=lose) as there:
        asked: list[ev.Asked] = []

        def ended(_: Any) -> bool:
            return len(first.acts) > 25 and bool(asked) and len(asked) > len(answered)

        answered: list[ev.Answered] = []

        def watch(event: ev.Event) -> None:
            asked.extend([event] if isinstance(event, ev.Asked) else [])
            answered.extend([event] if isinstance(event, ev.Answered) else [])

        async def both() -> None:
            await there.policy.run(first, until=ended, validate=lambda row: True, record=watch)
            assert len(asked) == len(answered) + 1
            outcome = await there.policy.run(second, max_actions=50, validate=lambda row: True)
            assert outcome.retries == 0
            assert outcome.elapsed_s < 2 * 0.41 + 50 / 20 + 0.2  # it waits for no observation that never came

        if in_episode:
            async with there.policy.episode():
                await both()
        else:
            await both()
    assert second.rows[:, 0].tolist() == [1000.0 + n for n in range(1, 51)]


async def test_latency_longer_than_the_chunk_is_said_once_and_the_arm_stops_and_goes() -> None:
    """LeRobot 4580, Psi0 35: 24 ticks of inference, 16 rows."""
    async with connected(Scripted(rows=16, hz=30, infer_s=0.7798, by="state")) as there:
        driven = await drive(there.policy, max_actions=120, play=seqrt.Play(in_flight=1))
    assert driven.error is None
    assert driven.outcome is not None
    said = driven.of(ev.LatencyExceedsChunk)
    assert len(said) == 1
    assert said[0].latency_s == pytest.approx(0.80, abs=0.01)
    assert said[0].covers_s == pytest.approx(16 / 30)
    assert driven.played == [float(n) for n in range(1, 121)]
    assert driven.outcome.underruns == driven.outcome.chunks - 1 == 7
    assert driven.outcome.rows_dropped == 0  # asked when dry, nothing is thrown away


async def test_a_slow_first_answer_does_not_make_every_later_request_early() -> None:
    """LeRobot 2541, openpi 271: the estimate stays at the cold start for ever."""
    async with connected(Scripted(rows=20, hz=20, infer_s=[3.0, 0.3003])) as there:
        driven = await drive(there.policy, max_actions=400, play=seqrt.Play(in_flight=1))
    settled = driven.of(ev.Asked)[3:]
    assert {asked.d for asked in settled} == {rows_during(0.3003 + NETWORK_S, 0.05)}
    # The second chunk is asked for once the first is played out: nothing typical is known yet. Then never again.
    assert [tick.step for tick in driven.of(ev.Ticked) if tick.kind == "starved"][-1] < settled[0].step


@pytest.mark.parametrize(("one_way_s", "play"), [(0.1251, Play()), (0.2001, Play(splice=Sequential()))])
async def test_fifty_rows_at_30_hz_never_starve_after_the_second_chunk(one_way_s: float, play: Play) -> None:
    """The best-known peer at 0.9 s: 8 gaps in 10 s and 274 uploads for 10 inferences."""
    policy = Scripted(rows=50, hz=30, infer_s=0.5, tagged=True)
    async with connected(policy, up_s=one_way_s, down_s=one_way_s) as there:
        driven = await drive(there.policy, max_seconds=12.0, play=play)
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert driven.of(ev.LatencyExceedsChunk) == []
    # One observation an act, and nothing else, is uploaded.
    assert driven.outcome.frames_sent <= len(driven.of(ev.Asked)) <= len(policy.calls) + 1


async def test_half_passed_chunks_move_the_arm_as_much_as_one_request_at_a_time_can() -> None:
    policy = Scripted(rows=50, hz=30, infer_s=0.5, by="state")
    async with connected(policy, up_s=0.2001, down_s=0.2001) as there:
        driven = await drive(there.policy, max_actions=400, play=seqrt.Play(in_flight=1))
    d = rows_during(0.9002, 1 / 30)
    kinds = driven.kinds[driven.kinds.index("played") :]
    assert kinds.count("played") / len(kinds) == pytest.approx(50 / (2 * d), abs=0.01)
    assert driven.played == [float(n) for n in range(1, 401)]
    assert len(driven.of(ev.LatencyExceedsChunk)) == 1


async def test_small_motions_in_radians_are_no_reason_not_to_ask() -> None:
    """LeRobot 1557, 3204: a similarity filter makes async sync for robots in radians."""
    policy = Scripted(rows=50, dims=6, hz=30, infer_s=0.3003, by="state", step_size=0.002)
    async with connected(policy) as there:
        driven = await drive(there.policy, FakeArm(6), max_actions=300)
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert np.allclose(np.diff(driven.played), 0.002, atol=1e-6)


async def test_every_due_request_of_a_many_jointed_robot_is_served_and_none_twice() -> None:
    """LeRobot 3484: 30 joints and more, nearly all observations dropped."""
    policy = Scripted(rows=20, dims=32, hz=30, infer_s=0.1003)
    async with connected(policy) as there:
        driven = await drive(there.policy, FakeArm(32), max_actions=300)
    asked = [asked.step for asked in driven.of(ev.Asked)]
    assert len(set(asked)) == len(asked)
    assert [call.t for call in policy.calls] == asked[: len(policy.calls)]
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0


async def test_a_delay_always_over_the_estimate_still_plays_the_chunk() -> None:
    """LeRobot 4056: chunks discarded until the robot stalls."""
    policy = Scripted(rows=20, hz=20, infer_s=jittered(0.35, 0.3, seed=5), by="state")
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=400)
    assert driven.outcome is not None
    assert driven.outcome.actions == 400
    assert driven.outcome.answers_dropped == 0
    assert reversals(driven.values) == 0


async def test_a_chunk_that_shrinks_in_mid_run_is_played_whole() -> None:
    """dsrl_pi0 13, strands 1718: 16 rows, then 10."""
    policy = Scripted(rows=[16, 16, 16, 10], hz=20, infer_s=0.0803, by="state")
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=200)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert {spliced.rows for spliced in driven.of(ev.Spliced)} == {16, 10}
    assert driven.played == [float(n) for n in range(1, 201)]
    assert all(spliced.row < spliced.rows for spliced in driven.of(ev.Spliced))


async def test_without_prefetch_a_shrinking_chunk_is_played_to_its_last_row() -> None:
    policy = Scripted(rows=[16, 10], hz=20, infer_s=0.0803, tagged=True)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=46, play=Play(prefetch=False))
    rows = [tick.row for tick in driven.of(ev.Ticked) if tick.kind == "played" and tick.row is not None]
    assert [row[2] for row in rows] == [*range(16), *range(10), *range(10), *range(10)]


@seqrt.policy(actions=seqrt.Actions(key="actions", hz=20, space="absolute"))
class WithMore:
    """An answer with other arrays in it: none of them is rows."""

    def infer(self, obs: Any) -> Any:
        rows = np.arange(1.0, 11.0)[:, np.newaxis] + np.zeros(7)
        return {"state": np.zeros(8), "actions": rows, "logits": np.full((3, 4), np.nan), "text": "reach"}


async def test_only_the_declared_key_of_an_answer_is_played() -> None:
    """A broker of openpi: every array in the answer is sliced along."""
    async with connected(WithMore(), offload=inline(0.0503)) as there:
        driven = await drive(there.policy, FakeArm(7), max_actions=10)
        chunk = await there.policy.predict({"state": np.zeros(8, np.float32)})
    assert driven.values[:5] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert driven.arm.rows.shape == (10, 7)
    assert chunk.rows.shape == (10, 7)
    assert chunk.outputs["state"].shape == (8,)
    assert chunk.outputs["text"] == "reach"


async def test_sequential_plays_every_row_of_every_chunk() -> None:
    policy = Scripted(rows=15, hz=15, infer_s=0.3803, tagged=True)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=150, play=Play(splice=Sequential()))
    rows = [tick.row for tick in driven.of(ev.Ticked) if tick.kind == "played" and tick.row is not None]
    assert [row[2] for row in rows] == [*range(15)] * 10
    assert driven.outcome is not None
    assert driven.outcome.rows_dropped == 0
    assert driven.outcome.chunks == 10


async def test_sequential_asks_for_as_many_chunks_as_it_plays() -> None:
    policy = Scripted(rows=4, hz=20, infer_s=0.0302)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=12, play=Play(splice=Sequential()))
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.chunks, len(policy.calls)) == (12, 3, 3)
    assert driven.outcome.underruns == 0


@pytest.mark.parametrize("splice", [Sequential(), seqrt.Aligned()])
@pytest.mark.parametrize("act_s", [0.0, 0.0302, 0.0452])
async def test_the_row_that_is_being_sent_is_not_wanted_once_more(splice: Any, act_s: float) -> None:
    """A blocking driver's act takes its time: what is observed meanwhile asks for no chunk beyond the end."""

    class Slow(FakeArm):
        async def act(self, row: Any) -> None:  # type: ignore[override]
            super().act(row)
            await anyio.sleep(act_s)

    policy = Scripted(rows=4, hz=20, infer_s=0.0302)
    async with connected(policy) as there:
        driven = await drive(there.policy, Slow(3), max_actions=4, play=Play(splice=splice))
    assert driven.outcome is not None
    assert (driven.outcome.actions, len(policy.calls)) == (4, 1)


async def test_sequential_chunks_do_not_pile_up() -> None:
    policy = Scripted(rows=15, hz=15, infer_s=0.3803, tagged=True)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_seconds=60.0, play=Play(splice=Sequential()))
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    assert max(tick.rows_left for tick in driven.of(ev.Ticked)) < 15 + 8
    assert driven.outcome.observation_age_s is not None
    assert driven.outcome.observation_age_s.max < 2.0


async def test_sequential_plays_on_where_aligned_would_stop_and_go() -> None:
    """0.1.0's own figure: chunks of 0.64 s at a refill of 0.79 s move the arm 82 % of the time."""
    policy = Scripted(rows=32, hz=50, infer_s=0.128)
    async with connected(policy, up_s=0.331, down_s=0.331) as there:
        driven = await drive(there.policy, max_actions=400, play=Play(splice=Sequential()))
    kinds = driven.kinds[driven.kinds.index("played") :]
    assert kinds.count("played") / len(kinds) == pytest.approx(32 / 40, abs=0.03)
    assert len(driven.of(ev.LatencyExceedsChunk)) == 1


async def test_rows_handed_to_the_robot_are_its_own_to_change() -> None:
    """Strands 1152, Positronic 438: arrays that were read are read-only."""

    class Halving(FakeArm):
        def act(self, row: Any) -> None:
            row *= 0.5
            super().act(row)

    async with connected(Scripted(rows=10, hz=20, infer_s=0.0303)) as there:
        driven = await drive(there.policy, Halving(3), max_actions=40)
    assert driven.error is None
    assert driven.values == [value / 2 for value in driven.played]
