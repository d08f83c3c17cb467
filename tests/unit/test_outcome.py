from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.timeline import events as ev
from seqrt.timeline.histogram import Histogram, Quantiles
from seqrt.timeline.outcome import Fold, RunOutcome, fold

STARTED = ev.RunStarted(at_s=0.0, run="r", hz=10.0, first_step=0, model="m", space="absolute")


def tick(step: int, kind: str, **more: object) -> ev.Ticked:
    return ev.Ticked(at_s=step / 10, step=step, late_s=0.001, kind=kind, rows_left=3, **more)  # type: ignore[arg-type]


def ended(at_s: float, reason: str = "completed") -> ev.RunEnded:
    return ev.RunEnded(at_s=at_s, reason=reason)


def test_a_run_reads_as_one_line():
    outcome = RunOutcome(actions=250, chunks=17, elapsed_s=16.84, reason="completed")
    assert str(outcome) == "RunOutcome(250 actions over 17 chunks in 16.8s, completed)"
    assert not outcome.stopped_early


def test_a_stall_an_overrun_and_a_refusal_are_told_in_that_line():
    outcome = RunOutcome(
        actions=9, chunks=2, elapsed_s=2, reason="raised:Stalled", underruns=1, underrun_s=0.79, overruns=3
    )
    assert (
        str(outcome) == "RunOutcome(9 actions over 2 chunks in 2.0s, 1 underruns (0.79s), 3 overruns, raised:Stalled)"
    )
    assert outcome.stopped_early
    refused = RunOutcome(actions=9, chunks=2, elapsed_s=2, reason="completed", refused_chunks=4)
    assert str(refused) == "RunOutcome(9 actions over 2 chunks in 2.0s, 4 chunks refused, completed)"


def test_nothing_happened_is_an_outcome_too():
    outcome = fold([])
    assert (outcome.actions, outcome.chunks, outcome.elapsed_s, outcome.reason) == (0, 0, 0.0, "running")
    assert outcome.max_seam_jump is None
    assert outcome.tick_lateness_s is None
    assert outcome.acts_per_s == 0.0


def test_rows_are_counted_when_played_and_underrun_commands_never():
    kinds = ["waiting", "waiting", "played", "played", "starved", "starved", "played", "paused", "played"]
    outcome = fold([STARTED, *(tick(i, kind) for i, kind in enumerate(kinds)), ended(0.9)])
    assert outcome.actions == 4
    assert (outcome.underruns, outcome.starved_ticks) == (1, 2)
    assert outcome.underrun_s == pytest.approx(0.2)
    assert outcome.elapsed_s == 0.9
    assert (outcome.reason, outcome.action_space) == ("completed", "absolute")


def test_a_run_of_starved_ticks_is_one_underrun_and_a_pause_ends_it():
    pause = ev.PauseBegan(at_s=0.25, rows_forgotten=0)
    events = [
        STARTED,
        tick(0, "played"),
        tick(1, "starved"),
        tick(2, "starved"),
        pause,
        tick(3, "paused"),
        tick(4, "starved"),
        tick(5, "played"),
        tick(6, "starved"),
    ]
    assert (fold(events).underruns, fold(events).starved_ticks) == (3, 4)


@pytest.mark.parametrize(
    ("hz", "substeps", "slow"),
    [
        (10.0, 1, [False, False, False, True]),
        (10.0, 5, [False, True, True, True]),
        (30.0, 1, [False, False, True, True]),
    ],
)
def test_an_act_longer_than_two_of_the_robots_periods_and_50_ms_is_counted(hz, substeps, slow):
    started = ev.RunStarted(at_s=0, run="r", hz=hz, first_step=0, host="", substeps=substeps)
    for act_s, counted in zip((0.0499, 0.0501, 0.0701, 0.2001), slow, strict=True):
        outcome = fold([started, tick(0, "played"), tick(1, "played", act_s=act_s), tick(2, "starved", act_s=None)])
        assert outcome.slow_acts == counted
        assert ("slow acts" in str(outcome)) == counted


def test_commands_between_rows_are_ticks_of_the_robots_and_neither_actions_nor_starved():
    between = [(0, "played"), (0, "between"), (1, "starved"), (1, "between"), (2, "starved"), (2, "between")]
    # Of step 3 the first substep was skipped, so nothing could begin in it: it was starved all the same.
    late = [(3, "between"), (4, "starved"), (4, "between"), (5, "played"), (5, "between"), (6, "starved")]
    outcome = fold([STARTED, *(tick(step, kind, skipped=step == 3) for step, kind in between + late)])
    assert (outcome.actions, outcome.underruns, outcome.starved_ticks, outcome.overruns) == (2, 2, 5, 1)
    assert outcome.tick_lateness_s is not None
    assert outcome.tick_lateness_s.count == 12


def test_periods_skipped_in_the_middle_of_an_underrun_are_part_of_it():
    events = [
        STARTED,
        tick(0, "played"),
        tick(3, "starved", skipped=2),  # skipped while a row was due: an overrun, not a starved tick
        tick(6, "starved", skipped=2),
    ]
    outcome = fold(events)
    assert (outcome.overruns, outcome.starved_ticks, outcome.underruns) == (2, 4, 1)


def test_seams_ages_and_lateness_come_with_the_ticks():
    events = [
        STARTED,
        tick(0, "played", age_s=0.1),
        tick(1, "played", age_s=0.3, seam_jump=0.25),
        tick(2, "played", age_s=0.2, seam_jump=0.5),
        tick(3, "starved"),
    ]
    outcome = fold(events)
    assert outcome.max_seam_jump == 0.5
    assert outcome.seam_jump is not None
    assert outcome.seam_jump.count == 2
    assert outcome.observation_age_s is not None
    assert (outcome.observation_age_s.count, outcome.observation_age_s.max) == (3, 0.3)
    assert outcome.tick_lateness_s is not None
    assert outcome.tick_lateness_s.count == 4


def test_everything_that_went_wrong_on_the_way_is_counted():
    at = {"at_s": 1.0}
    events: list[ev.Event] = [
        STARTED,
        ev.Observed(**at, step=0, took_s=0.01),
        ev.ObservationFrozen(**at, step=1, key="wrist", for_s=0.5, frames=9),
        ev.Observed(**at, step=2, took_s=0.01, frozen=2),
        ev.ObservationOld(**at, step=2, age_s=2.1),
        ev.ObservationMissed(**at, step=3, steps=2),
        ev.ObservationMissed(**at, step=4, error="no frame"),
        ev.Posted(**at, frames=3, bytes=1000, skipped=2, took_s=0.1),
        ev.PostFailed(**at, code="busy", error="full"),
        ev.FramesRefused(**at, frames=2, detail="over the limits"),
        ev.Asked(**at, request_id="r-1", step=0, d=None, s=None, rows_left=0, bytes=200),
        ev.Asked(**at, request_id="r-2", step=5, d=2, s=3, rows_left=4, bytes=300),
        ev.ActFailed(**at, request_id="r-1", code="busy", error="full", retrying=True),
        ev.ActFailed(**at, request_id="r-2", code="policy_error", error="boom", retrying=False),
        ev.Answered(**at, request_id="r-1", observed=0, rows=10, latency_s=0.3, infer_s=0.12, queue_s=0.01),
        ev.Answered(**at, request_id="r-2", observed=5, rows=None, latency_s=0.5),
        ev.AnswerDropped(**at, request_id="r-2", why="stale"),
        ev.ChunkRefused(**at, request_id="r-3", error="row 3, column 5 is nan", row=3, column=5),
        ev.Spliced(**at, request_id="r-1", observed=0, row=2, rows=10, dropped=2, position=2),
        ev.LinkLost(**at, host="gpu:8080", error="reset"),
        ev.LinkBack(**at, down_s=0.4),
        ev.CallbackRaised(**at, callback="act", error="packet"),
        ev.Held(**at, took_s=0.01),
        ended(2.0, "interrupted"),
    ]
    outcome = fold(events)
    assert (outcome.frames_sent, outcome.frames_skipped, outcome.bytes_sent) == (3, 3, 1500)
    assert outcome.frozen_frames == 11
    assert (outcome.retries, outcome.reconnects, outcome.callback_errors) == (2, 1, 1)
    assert (outcome.chunks, outcome.rows_dropped, outcome.answers_dropped, outcome.refused_chunks) == (1, 2, 1, 1)
    assert outcome.inference_s == 0.12
    assert outcome.acts_per_s == 1.0
    assert outcome.act_latency_s is not None
    assert outcome.act_latency_s.max == 0.5
    assert (outcome.reason, outcome.stopped_early) == ("interrupted", True)


def test_the_outcome_may_be_asked_for_while_the_run_goes_on():
    folded = Fold()
    folded.add(STARTED)
    folded.add(tick(0, "played"))
    assert (folded.outcome().actions, folded.outcome().reason) == (1, "running")
    folded.add(ended(0.1))
    assert folded.outcome().reason == "completed"


def test_the_fold_is_of_a_fixed_size():
    folded = Fold()
    folded.add(STARTED)
    for step in range(3000):
        folded.add(tick(step, "played", age_s=(1 + step % 700) / 1000, seam_jump=0.1))
    buckets = [len(h._counts) for h in (folded._late, folded._age, folded._latency, folded._jump)]
    assert max(buckets) < 200


def nearest_rank(samples: list[float], q: float) -> float:
    return sorted(samples)[math.ceil(round(q * len(samples), 9)) - 1]


@given(st.lists(st.floats(2e-6, 1e12), min_size=1, max_size=300))
@settings(max_examples=150, deadline=None)
def test_quantiles_are_within_four_and_a_half_percent(samples):
    histogram = Histogram()
    for sample in samples:
        histogram.add(sample)
    told = histogram.quantiles()
    assert told is not None
    assert (told.count, told.max) == (len(samples), max(samples))
    for q, value in ((0.5, told.p50), (0.95, told.p95), (0.99, told.p99)):
        assert value == pytest.approx(nearest_rank(samples, q), rel=0.045)
    assert told.p50 <= told.p95 <= told.p99 <= told.max


@pytest.mark.parametrize(
    ("sample", "p50", "largest"),
    [(0.0, 0.0, 0.0), (-0.5, 0.0, 0.0), (5e-7, 0.0, 5e-7), (1e300, 1.8e13, 1e300), (math.inf, 1.8e13, math.inf)],
)
def test_samples_at_the_ends_of_the_scale_are_counted_and_never_an_error(sample, p50, largest):
    histogram = Histogram()
    histogram.add(sample)
    told = histogram.quantiles()
    assert told is not None
    assert told.max == largest
    assert told.p50 == pytest.approx(p50, rel=0.05)


def test_no_sample_is_no_figure_and_not_zero():
    assert Histogram().quantiles() is None


def test_quantiles_print_their_four_figures():
    assert str(Quantiles(10, 0.00123, 0.0567, 0.1, 1.5)) == "p50 0.00123 · p95 0.0567 · p99 0.1 · max 1.5"
