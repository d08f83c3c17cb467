"""What a run does where nothing is said: the table of defaults, and the names and order of what can be said."""

from __future__ import annotations

import inspect
from dataclasses import fields

import seqrt
from seqrt import Aligned, Limits, Play, RunOutcome, StopAndGo
from seqrt.action.asking import OBSERVE_PHASE
from seqrt.action.underrun import Nothing, RepeatLast, Zeros, underrun_for
from seqrt.policies.limits import HostLimits
from seqrt.runtime import options
from seqrt.timeline.histogram import Quantiles


def test_how_a_run_plays_and_when_it_stops_where_nothing_is_said() -> None:
    assert Play() == Play(
        prefetch=True, splice=Aligned(), seam=None, underrun=None, late=StopAndGo(), continuity="auto", in_flight=8,
        seed=None, substeps=1, fresh_s=None, sensor_delay_s=0.0, actuator_delay_s=0.0, tick="auto",
    )  # fmt: skip
    assert Limits() == Limits(
        startup_timeout_s=0.0, max_age_s=None, max_stall_s=None, frozen_s=None, first_step=None, act_errors=0,
        observe_errors=0,
    )  # fmt: skip


def test_an_arm_may_stand_ten_seconds_and_one_where_nothing_can_be_sent_meanwhile() -> None:
    spaces = ("absolute", "delta", "velocity", None)
    assert [Limits().stall_s(space) for space in spaces] == [10.0, 10.0, 10.0, 1.0]
    assert Limits().stall_s(None, held=True) == 10.0
    assert [Limits(max_stall_s=3.0).stall_s(space) for space in spaces] == [3.0] * 4


def test_a_starved_tick_sends_what_the_space_allows() -> None:
    kinds = [type(underrun_for(space)) for space in ("absolute", "velocity", "delta", None)]
    assert kinds == [RepeatLast, Zeros, Zeros, Nothing]


def test_the_bounds_nobody_sets() -> None:
    assert (options.HOLD_BOUND_S, options.ACT_BOUND_S, options.ACT_ON_STOP_S, options.END_BOUND_S) == (1, 1, 0.1, 1)
    assert (options.IN_A_ROW, options.SYNC_SHARE, OBSERVE_PHASE) == (3, 0.25, 0.25)
    assert (HostLimits().stream_wait_s, HostLimits().answers_s) == (10.0, 60.0)
    assert inspect.signature(seqrt.connect).parameters["timeout_s"].default == 30.0


def test_what_is_said_by_position_keeps_its_place() -> None:
    """Frozen dataclasses take arguments by position too: their order is part of what users type."""
    assert [field.name for field in fields(Play)] == [
        "prefetch", "splice", "seam", "underrun", "late", "continuity", "in_flight", "seed", "substeps", "fresh_s",
        "sensor_delay_s", "actuator_delay_s", "tick",
    ]  # fmt: skip
    assert [field.name for field in fields(Limits)] == [
        "startup_timeout_s", "max_age_s", "max_stall_s", "frozen_s", "first_step", "act_errors", "observe_errors",
    ]  # fmt: skip


def test_an_outcome_tells_all_that_was_promised_under_these_names() -> None:
    promised = {
        "actions", "chunks", "elapsed_s", "underruns", "underrun_s", "stopped_early", "reason", "max_seam_jump",
        "action_space", "overruns", "rows_dropped", "answers_dropped", "refused_chunks", "retries", "reconnects",
        "acts_per_s", "inference_s", "bytes_sent", "frames_sent", "frames_skipped", "frozen_frames", "starved_ticks",
        "lag_ticks", "tick_lateness_s", "observation_age_s", "act_latency_s", "seam_jump", "innovation", "disagreement",
    }  # fmt: skip
    outcome = RunOutcome(actions=0, chunks=0, elapsed_s=0.0, reason="completed")
    assert {name for name in promised if not hasattr(outcome, name)} == set()
    assert {"p50", "p95", "p99", "max"} <= {field.name for field in fields(Quantiles)}
