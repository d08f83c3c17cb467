from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.schedule import TickSchedule

RATES_HZ = (3, 10, 15, 30, 50, 100, 333)
rates = st.sampled_from(RATES_HZ)
uptimes = st.floats(0, 1e7)  # a monotonic clock counts from boot: up to four months


@pytest.mark.parametrize("hz", RATES_HZ)
@pytest.mark.parametrize("t0", [0.0, 0.1, 12_345.678, 1e6, 1e7])
def test_the_step_at_its_own_deadline_is_that_step_over_a_million_ticks(hz, t0):
    schedule = TickSchedule(t0, 1 / hz)
    wrong = [k for k in range(0, 1_000_001, 239) if schedule.step_at(schedule.deadline(k)) != k]
    assert not wrong


@given(rates, uptimes, st.integers(0, 1_000_000), st.integers(0, 1_000))
@settings(max_examples=150, deadline=None)
def test_float_rounding_never_names_another_step(hz, t0, k, first):
    schedule = TickSchedule(t0, 1 / hz, first=first)
    step = first + k
    assert schedule.step_at(schedule.deadline(step)) == step
    assert schedule.step_at(schedule.deadline(step) + 0.999 / hz) == step
    assert schedule.step_at(schedule.deadline(step) - 0.001 / hz) == step - 1


@given(rates, uptimes, st.integers(0, 1_000_000), st.floats(0, 50))
@settings(max_examples=150, deadline=None)
def test_after_a_late_tick_the_newest_due_step_is_played_and_the_grid_stands(hz, t0, k, late):
    schedule = TickSchedule(t0, 1 / hz)
    now = schedule.deadline(k) + late / hz
    coming, skipped = schedule.after(k, now)
    assert coming == k + 1 + skipped
    assert skipped >= 0
    assert schedule.deadline(coming + 1) > now  # no burst: the step after it is still to come
    assert schedule.deadline(coming) == t0 + coming / hz or abs(schedule.deadline(coming) - t0 - coming / hz) < 1e-6


@pytest.mark.parametrize(
    ("late_periods", "coming", "skipped"),
    [(0.0, 8, 0), (0.5, 8, 0), (0.999, 8, 0), (1.0, 8, 0), (1.7, 8, 0), (2.3, 9, 1), (5.25, 12, 4)],
)
def test_whole_periods_are_skipped_and_the_rest_is_lateness(late_periods, coming, skipped):
    schedule = TickSchedule(100.0, 0.05)
    assert schedule.after(7, schedule.deadline(7) + late_periods * 0.05) == (coming, skipped)


def test_a_loop_that_lost_a_second_goes_on_from_the_old_base():
    schedule = TickSchedule(10.0, 0.02)
    now, step, played = 10.0, 0, [0]
    for _ in range(20):
        now = max(now, schedule.deadline(step)) + (1.001 if step == 5 else 0.003)
        step, _ = schedule.after(step, now)
        played.append(step)
    assert played[:8] == [0, 1, 2, 3, 4, 5, 55, 56]
    assert schedule.deadline(played[-1]) == pytest.approx(10.0 + 0.02 * played[-1])


def test_a_second_run_of_an_episode_goes_on_counting():
    schedule = TickSchedule(5.0, 0.1, first=40)
    assert schedule.deadline(40) == 5.0
    assert schedule.step_at(5.25) == 42
    assert schedule.after(40, 5.0) == (41, 0)
