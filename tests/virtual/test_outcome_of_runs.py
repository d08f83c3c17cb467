"""The outcome of a run is the fold over what was recorded of it, and says what the arm did."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest

import seqrt
from seqrt.errors import Stalled
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm, Slow
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import fold
from seqrt.timeline.recorder import read

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05
INFER_S = 0.0703


def yes(_: object) -> bool:
    return True


async def test_the_outcome_is_the_fold_over_the_recorded_file(tmp_path: Path) -> None:
    path = tmp_path / "run.seqrt"
    policy = Scripted(rows=12, infer_s=[*[INFER_S] * 9, 1.0103, INFER_S], bad_values={4: (0, 0, float("nan"))})
    arm = FakeArm(3)
    async with connected(policy) as served:
        outcome = await served.policy.run(
            Slow(arm, observe_s=[0.0] * 20 + [0.1703, 0.0], act_s=[0.0] * 30 + [0.1203, 0.0]), validate=yes,
            max_actions=90, record=path, play=seqrt.Play(fresh_s=0.3),
        )  # fmt: skip
    assert outcome.underruns > 0
    assert outcome.overruns > 0
    assert outcome.refused_chunks == 1
    assert outcome.frames_skipped > 0
    recorded = list(read(path))
    assert fold(recorded) == outcome
    assert isinstance(recorded[0], ev.RunStarted)
    assert isinstance(recorded[-1], ev.RunEnded)
    assert served.policy.last_outcome == outcome
    played = [event for event in recorded if isinstance(event, ev.Ticked) and event.kind == "played"]
    starved = [event for event in recorded if isinstance(event, ev.Ticked) and event.kind == "starved"]
    sent = sorted((*played, *starved), key=lambda event: event.at_s)
    assert [event.row for event in sent] == arm.rows.tolist(), "the record holds what the motors got"


async def test_the_outcome_is_the_fold_over_the_events_handed_to_a_callable() -> None:
    events: list[Any] = []
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(FakeArm(3), validate=yes, max_actions=60, record=events.append)
    assert fold(events) == outcome
    assert [event.at_s for event in events if isinstance(event, ev.Ticked)] == sorted(
        event.at_s for event in events if isinstance(event, ev.Ticked)
    )


async def test_a_run_that_fails_is_recorded_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.seqrt"
    arm = FakeArm(3)
    async with connected(Scripted(rows=12, infer_s=[INFER_S, 60.0])) as served:
        with pytest.raises(Stalled) as caught:
            await served.policy.run(
                arm, validate=yes, max_actions=60, record=path, limits=seqrt.Limits(max_stall_s=0.5)
            )
    assert fold(read(path)) == caught.value.outcome
    held, ended = list(read(path))[-2:]
    assert isinstance(held, ev.Held)
    assert isinstance(ended, ev.RunEnded)
    assert ended.reason == "stalled"
    assert ended.error == str(caught.value)
    told = [event.row for event in read(path) if isinstance(event, ev.Ticked) and event.row is not None]
    assert told == arm.rows.tolist(), "the last starved tick sent nothing, and says so"


async def test_a_cancelled_run_is_recorded_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.seqrt"
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with anyio.move_on_after(1.2345):
            await served.policy.run(FakeArm(3), validate=yes, max_actions=600, record=path)
    assert fold(read(path)) == served.policy.last_outcome
    assert list(read(path))[-1].reason == "raised:Cancelled"  # type: ignore[union-attr]


async def test_recording_to_where_nothing_can_be_written_ends_the_run_with_hold(tmp_path: Path) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(FileNotFoundError) as caught:
            await served.policy.run(arm, validate=yes, max_actions=60, record=tmp_path / "nowhere" / "run.seqrt")
    assert arm.acts == []
    assert len(arm.holds) == 1
    assert caught.value.outcome.reason == "raised:FileNotFoundError"  # type: ignore[attr-defined]


async def test_a_watcher_that_raises_at_the_last_event_of_all_is_not_swallowed() -> None:
    arm = FakeArm(3)

    def watch(event: Any) -> None:
        if isinstance(event, ev.RunEnded):
            raise OSError("pipe closed")

    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        with pytest.raises(OSError, match="pipe closed") as caught:
            await served.policy.run(arm, validate=yes, max_actions=6, record=watch)
    assert caught.value.outcome.reason == "completed"  # type: ignore[attr-defined]


async def test_the_first_row_played_is_row_0_though_the_first_inference_took_long() -> None:
    """Nothing moved meanwhile, so no row went by (lerobot 4223)."""
    arm = FakeArm(3)
    async with connected(Scripted(rows=30, infer_s=[0.7103, INFER_S], tagged=True, hz=30)) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=20, play=seqrt.Play(in_flight=1))
    assert [row[2] for row in arm.rows] == list(range(20))
    assert outcome.rows_dropped == 0
    assert outcome.starved_ticks == outcome.underruns == 0, "waiting for the first row is no underrun"


async def test_an_outcome_prints_as_one_line() -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=60, play=seqrt.Play(in_flight=1))
        chunks, elapsed = outcome.chunks, outcome.elapsed_s
        assert str(outcome) == f"RunOutcome(60 actions over {chunks} chunks in {elapsed:.1f}s, completed)"
        assert 3.0 < elapsed < 3.3
    async with connected(Scripted(rows=12, infer_s=[INFER_S, 1.0103, INFER_S])) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=20, play=seqrt.Play(in_flight=1))
        stalled = f"1 underruns ({outcome.starved_ticks * PERIOD_S:.2f}s)"
        assert str(outcome) == f"RunOutcome(20 actions over 2 chunks in {outcome.elapsed_s:.1f}s, {stalled}, completed)"
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(arm, validate=lambda _: False, max_actions=20, play=seqrt.Play(in_flight=1))
        assert str(outcome) == "RunOutcome(0 actions over 1 chunks in 0.1s, validate)"


async def test_what_a_run_counts_is_what_happened() -> None:
    arm = FakeArm(3)
    events: list[Any] = []
    policy = Scripted(rows=12, infer_s=[INFER_S, 0.9103, INFER_S])
    async with connected(policy) as served:
        outcome = await served.policy.run(
            arm, validate=yes, max_actions=40, record=events.append, play=seqrt.Play(in_flight=1)
        )
    kinds = [event.kind for event in events if isinstance(event, ev.Ticked)]
    assert outcome.actions == 40
    assert len(arm.acts) == 40 + outcome.starved_ticks
    assert outcome.starved_ticks == kinds.count("starved") > 5
    assert outcome.underruns == sum(pair == ("played", "starved") for pair in itertools.pairwise(kinds))
    assert outcome.underrun_s == pytest.approx(outcome.starved_ticks * PERIOD_S)
    assert outcome.chunks == sum(isinstance(event, ev.Spliced) for event in events)
    assert outcome.inference_s == pytest.approx(sum(call.infer_s for call in policy.calls), abs=1e-6)
    assert outcome.action_space == "absolute"
    assert outcome.acts_per_s == pytest.approx(len(policy.calls) / outcome.elapsed_s)
    assert outcome.bytes_sent > 0
    assert outcome.max_seam_jump is not None
    assert outcome.act_latency_s is not None
    assert outcome.act_latency_s.max == pytest.approx(0.9103 + 2 * 0.0101, abs=1e-4)
    assert outcome.tick_lateness_s is not None
    assert outcome.tick_lateness_s.max < 1e-6
    assert outcome.observation_age_s is not None
    assert outcome.observation_age_s.max > 0.9103


@pytest.mark.parametrize(
    ("space", "sent"), [("absolute", "the last row"), ("velocity", "zeros"), ("delta", "zeros"), (None, "nothing")]
)
async def test_what_a_starved_tick_sends_is_the_spaces_own(space: Any, sent: str) -> None:
    arm = FakeArm(3)
    async with connected(Scripted(rows=6, infer_s=[INFER_S, 0.5203], space=space)) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=8)
    starved = outcome.starved_ticks
    assert starved > 4
    between = arm.rows[6 : 6 + starved].tolist()
    if sent == "nothing":
        assert len(arm.acts) == 8
    else:
        assert between == [arm.rows[5].tolist() if sent == "the last row" else [0.0] * 3] * starved


async def test_on_underrun_takes_the_place_of_what_would_be_sent() -> None:
    arm = FakeArm(3)
    called: list[float] = []
    async with connected(Scripted(rows=6, infer_s=[INFER_S, 0.5203])) as served:
        outcome = await served.policy.run(
            arm, validate=yes, max_actions=8, on_underrun=lambda starved_s: called.append(starved_s)
        )
    assert len(arm.acts) == 8
    assert called == pytest.approx([k * PERIOD_S for k in range(outcome.starved_ticks)], abs=1e-6)


async def test_on_underrun_that_needs_no_argument_is_given_none() -> None:
    called: list[Any] = []

    def hold_position(gain: float = 1.0, *rest: Any) -> None:
        called.append((gain, *rest))

    async with connected(Scripted(rows=6, infer_s=[INFER_S, 0.5203])) as served:
        await served.policy.run(FakeArm(3), validate=yes, max_actions=8, on_underrun=hold_position)
    assert set(called) == {(1.0,)}, "seconds are no gain"


@pytest.mark.parametrize("moved", [True, False])
async def test_on_underrun_that_says_it_moved_the_arm_counts_as_playing(moved: bool) -> None:
    arm = FakeArm(3)
    policy = Scripted(rows=[6, 30], infer_s=[INFER_S, 0.5203], tagged=True)
    async with connected(policy) as served:
        outcome = await served.policy.run(arm, validate=yes, max_actions=12, on_underrun=lambda: moved)
    first = next(int(row[2]) for row in arm.rows if row[1] > 0)
    played_since = 6 - sum(acted.at_s <= arm.observed[int(policy.calls[1].t)] for acted in arm.acts[:6])
    assert first == played_since + (outcome.starved_ticks if moved else 0)


async def test_before_the_first_run_there_is_no_outcome_and_during_one_it_is_running() -> None:
    reasons: list[Any] = []
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        assert served.policy.last_outcome is None
        assert served.policy.statistics().outcome is None

        def validate(_: object) -> bool:
            outcome = served.policy.statistics().outcome
            assert outcome is not None
            reasons.append((outcome.reason, outcome.actions))
            return True

        outcome = await served.policy.run(FakeArm(3), validate=validate, max_actions=3)
        assert reasons == [("running", 0), ("running", 1), ("running", 2)]
        assert served.policy.statistics().outcome == served.policy.last_outcome == outcome
