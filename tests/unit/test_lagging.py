from __future__ import annotations

import math

import numpy as np
import pytest

from seqrt import Lag, Play, StopAndGo, Stretch
from seqrt.action.asking import Spacing
from seqrt.action.chunk import Chunk, Dropped, Spliced
from seqrt.action.lagging import LagInForce, lag_in_force, stretch_rate
from seqrt.action.plan import Plan


def spaced(d: int, s: int, horizon: int, e: int | None = None) -> Spacing:
    return Spacing(d=d, s=s, f=s, e=d if e is None else e, horizon=horizon, in_flight=4)


def measured(lag: LagInForce, needs: list[tuple[float, int]]) -> list[int]:
    return [lag.measure(needed, now) for now, needed in needs]


def test_the_lag_rises_with_the_need_at_once_and_never_beyond_the_most():
    assert measured(LagInForce(20), [(0, 0), (1, 5), (2, 3), (3, 12), (4, 99)]) == [0, 5, 5, 12, 20]


def test_the_lag_falls_after_thirty_seconds_of_being_two_ticks_too_high_by_what_it_was_at_least():
    lag = LagInForce(50)
    lag.measure(10, 0.0)
    assert measured(lag, [(1.0, 4), (20.0, 7), (30.9, 4), (31.0, 4), (31.1, 4)]) == [10, 10, 10, 7, 7]
    assert measured(lag, [(62.0, 4), (62.1, 4)]) == [4, 4]


def test_what_a_splice_strategy_lays_later_by_itself_is_no_lag_of_the_next_chunk():
    lag = lag_in_force(StopAndGo(), hz=20)
    lag.placed(3)  # as Nearest() does
    assert lag.of_next() == 0


@pytest.mark.parametrize("needed", [9, 10, 12])
def test_a_need_within_a_tick_of_the_lag_begins_the_thirty_seconds_anew(needed):
    lag = LagInForce(50)
    lag.measure(10, 0.0)
    assert measured(lag, [(1.0, 0), (25.0, needed), (26.0, 0), (32.0, 0)])[-1] == max(10, needed)
    assert lag.measure(0, 56.1) == 0


def test_a_chunks_own_lag_moves_one_row_a_seam_from_nought():
    lag, own = LagInForce(50), []
    lag.measure(3, 0.0)
    for _ in range(5):
        own.append(lag.of_next())
        lag.placed(own[-1])
    assert own == [1, 2, 3, 3, 3]
    lag.placed(1)  # the arm had stood: nothing was passed
    assert lag.of_next() == 2
    lag.restart()
    assert (lag.of_next(), lag.ticks) == (1, 3)


def test_the_first_chunk_of_a_run_without_a_need_plays_without_lag():
    assert LagInForce(50).of_next() == 0


@pytest.mark.parametrize(
    ("d", "s", "horizon", "rate"), [(12, 3, 15, 1.0), (12, 10, 32, 1.0), (40, 8, 32, 32 / 48), (40, 8, 25, 25 / 48)]
)
def test_the_rate_at_which_a_chunk_lasts_until_the_next(d, s, horizon, rate):
    assert stretch_rate(spaced(d, s, horizon)) == Stretch().rate(spaced(d, s, horizon)) == pytest.approx(rate)
    assert Stretch().rate(None) == 1.0


def test_what_is_needed_counts_losses_of_the_recent_past():
    assert spaced(40, 8, 32).short_by == 16
    assert spaced(40, 8, 32, e=45).short_by == 21
    assert spaced(12, 3, 15).short_by == 0


@pytest.mark.parametrize("late", [StopAndGo(), Stretch()])
def test_only_lag_lags(late):
    lag = lag_in_force(late, 50.0)
    assert (lag.measure(10, 0.0), lag.of_next()) == (0, 0)
    assert lag_in_force(Lag(0.5), 50.0).measure(99, 0.0) == 25


@pytest.mark.parametrize("max_s", [0, -1, math.inf, math.nan])
def test_a_lag_that_means_nothing_is_refused(max_s):
    with pytest.raises(ValueError, match="max_s"):
        Lag(max_s)


@pytest.mark.parametrize("late", ["lag", Lag, 0.5, None])
def test_late_takes_a_strategy(late):
    with pytest.raises(TypeError, match="late="):
        Play(late=late)


@pytest.mark.parametrize("n", [0, 9, -1])
def test_in_flight_is_one_to_eight(n):
    with pytest.raises(ValueError, match="in_flight"):
        Play(in_flight=n)


# In the plan.


def chunk(observed: int, rows: int = 12, model: bool = False) -> Chunk:
    made = np.array([[observed, i] for i in range(rows)], np.float64)
    return Chunk(made, observed, rows_model=np.hstack([made * 10, made[:, :1]]) if model else None)


def played(plan: Plan, ticks: int) -> list[list[float] | None]:
    dues = [plan.pop() for _ in range(ticks)]
    return [None if due is None else due.row.tolist() for due in dues]


def test_a_lagging_chunk_is_not_due_before_its_first_row_and_the_old_plan_plays_until_then():
    plan = Plan()
    plan.splice(chunk(0), observed_at=0)
    played(plan, 6)
    result = plan.splice(chunk(3), observed_at=3, lag=5)
    assert isinstance(result, Spliced)
    assert (result.chunk.start, result.first, result.dropped) == (8, 0, 0)
    assert played(plan, 4) == [[0, 6], [0, 7], [3, 0], [3, 1]]


def test_several_chunks_wait_for_their_turn():
    plan = Plan()
    plan.splice(chunk(0), observed_at=0)
    played(plan, 4)
    plan.splice(chunk(2), observed_at=2, lag=4)
    plan.splice(chunk(4), observed_at=4, lag=5)
    assert played(plan, 7) == [[0, 4], [0, 5], [2, 0], [2, 1], [2, 2], [4, 0], [4, 1]]


def test_a_lag_never_leaves_a_gap_and_a_starved_tick_adds_nothing_to_it():
    plan = Plan()
    plan.splice(chunk(0, 4), observed_at=0)
    assert played(plan, 7)[3:] == [[0, 3], None, None, None]
    result = plan.splice(chunk(5), observed_at=4, lag=3)  # seen while the arm stood
    assert isinstance(result, Spliced)
    assert (result.chunk.start, result.first) == (4, 0)
    plan = Plan()
    plan.splice(chunk(0, 4), observed_at=0)
    played(plan, 7)
    result = plan.splice(chunk(1), observed_at=1, lag=2)
    assert isinstance(result, Spliced)
    assert (result.chunk.start, result.first) == (3, 1)


def test_a_chunk_that_is_passed_without_a_lag_plays_with_one():
    plan = Plan()
    plan.splice(chunk(0, 20), observed_at=0)
    played(plan, 12)
    assert isinstance(plan.splice(chunk(1, 8), observed_at=1), Dropped)
    assert isinstance(plan.splice(chunk(1, 8), observed_at=1, lag=4), Spliced)


# Rows in the model's own space.


def test_what_is_ahead_is_known_in_the_models_space_where_every_chunk_has_it():
    plan = Plan()
    plan.splice(chunk(0, 6, model=True), observed_at=0)
    played(plan, 2)
    ahead = plan.ahead_model(2, 3)
    assert ahead is not None
    assert ahead.tolist() == [[0, 20, 0], [0, 30, 0], [0, 40, 0], [0, 50, 0]]
    assert plan.ahead_model(4, 4) is not None
    assert len(plan.ahead_model(4, 4)) == 4  # the last row, again and again
    assert plan.ahead_model(6, 1) is None


def test_one_chunk_without_them_and_the_prefix_is_in_the_space_of_the_actions():
    plan = Plan()
    plan.splice(chunk(0, 12), observed_at=0)
    made = chunk(1, 12, model=True)
    plan.splice(Chunk(made.rows, 1, committed=4, rows_model=made.rows_model), observed_at=2)
    assert plan.ahead_model(4, 3) is None
    assert plan.ahead_model(6, 3) is not None
    assert plan.ahead(4, 3) is not None
