from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.asking import Flight, Spacing, Stagger, Standing, due, hopeful, spacing
from seqrt.action.latency import Cover, Latencies
from seqrt.testing.grid import Delays, Grid


def spiky(seed: int = 1, usual: float = 5.99, late: float = 28.49, chance: float = 0.05) -> Callable[[], float]:
    rng = random.Random(seed)
    return lambda: late if rng.random() < chance else usual


# Which requests count.


@pytest.mark.parametrize(
    ("newest", "position", "reach", "steps"),
    [
        (-1, 0, None, [10, 20, 30]),  # nothing is known of H yet
        (10, 0, 50, [20, 30]),  # older than the plan: freshest wins
        (-1, 60, 50, [20, 30]),  # row 49 of the first was due at position 59
        (-1, 59, 50, [10, 20, 30]),
        (-1, 80, 50, []),
        (-1, 62, 53, [10, 20, 30]),  # three rows of lag
    ],
)
def test_a_request_none_of_whose_rows_could_still_play_is_not_in_flight(newest, position, reach, steps):
    flights = [Flight(10, 10), Flight(20, 20), Flight(30, 30)]
    assert [f.step for f in hopeful(flights, newest=newest, position=position, reach=reach)] == steps


def standing(flights: list[Flight], *, one_by_one: bool = False, last_sent: int = 0) -> Standing:
    return Standing.of(
        flights, tick=100, last_sent=last_sent, planned=30, position=30, rows_left=10, reach=50, one_by_one=one_by_one
    )


def test_at_depth_one_a_request_is_in_flight_until_it_is_over():
    flights = [Flight(20, 20)]
    assert (standing(flights).in_flight, standing(flights).newest) == (0, 30)
    assert (standing(flights, one_by_one=True).in_flight, standing(flights, one_by_one=True).newest) == (1, 30)


def test_no_more_than_two_n_requests_are_out():
    spaced = Spacing(d=6, s=22, f=4, e=6, horizon=50, in_flight=2)
    assert due(standing([Flight(t, t) for t in (10, 20, 25)]), spaced)
    assert not due(standing([Flight(t, t) for t in (10, 20, 25, 28)]), spaced)


@pytest.mark.parametrize(
    ("infer_s", "in_flight", "acts_per_s", "f", "n"),
    [(0.128, 8, None, 8, 8), (None, 8, None, 1, 2), (0.0, 4, None, 1, 4), (0.01, 4, 5.0, 10, 4), (None, 1, None, 1, 1)],
)
def test_before_the_first_answer_requests_are_staggered(infer_s, in_flight, acts_per_s, f, n):
    stagger = Stagger.of(infer_s, period_s=0.02, in_flight=in_flight, acts_per_s=acts_per_s)
    assert (stagger.f, stagger.in_flight) == (f, n)
    first = Standing(tick=0, in_flight=0, last_sent=None, newest=None, rows_left=0)
    assert due(first, stagger)
    assert not due(Standing(tick=f - 1, in_flight=1, last_sent=0, newest=0, rows_left=0, out=1), stagger)
    after = Standing(tick=f, in_flight=1, last_sent=0, newest=0, rows_left=0, out=1)
    assert due(after, stagger) is (n > 1)


@pytest.mark.parametrize(
    ("wanted", "rows_left", "reach", "asks"),
    [(12, 8, 50, False), (13, 8, 50, True), (12, 0, 50, True), (12, 8, 20, True), (12, 8, None, True)],
)
def test_at_the_end_nothing_is_asked_for_that_would_find_no_row_left_while_the_arm_moves(
    wanted, rows_left, reach, asks
):
    spaced = Spacing(d=12, s=3, f=3, e=12, horizon=50, in_flight=8)
    at_end = Standing.of(
        [Flight(90, 90)], tick=100, last_sent=90, planned=80, position=100, rows_left=rows_left, reach=reach,
        rows_wanted=wanted,
    )  # fmt: skip
    assert due(at_end, spaced) is asks


# What a splice needed.


@pytest.mark.parametrize(
    ("spliced", "before", "observed", "spare", "ticks", "spared"),
    [
        (28, 0, 22, 2, 6, 6),  # the next answer, six ticks later
        (50, 0, 44, 2, 28, 6),  # one was lost: the spare made up for it
        (72, 0, 66, 2, 50, 28),  # two were lost: one of them was not paid for
        (50, 0, 44, 1, 28, 28),  # no spare
        (48, 0, 22, 2, 26, 26),  # late, not lost
        (5, 0, 5, 2, 0, 0),
    ],
)
def test_a_loss_the_spare_made_up_for_is_not_paid_for_twice(spliced, before, observed, spare, ticks, spared):
    cover = Cover.of(spliced, before=before, observed=observed, spaced=22, spare=spare)
    assert (cover.ticks, cover.spared) == (ticks, spared)


def test_asking_goes_by_what_is_left_beyond_the_spare_and_a_lag_by_all_of_it():
    windows = Latencies()
    for k in range(25):
        windows.add(0.119, sent_at=k, now=k + 0.119)
        windows.add_cover(28, 6)
    spaced = spacing(windows, period_s=0.02, horizon=50, in_flight=2)
    assert (spaced.e, spaced.alone, spaced.s, spaced.short_by) == (6, 28, 22, 0)
    assert spacing(windows, period_s=0.02, horizon=25, in_flight=2).short_by == 28 + 9 - 25


# The whole rule, on a grid.


@pytest.mark.parametrize("seed", [1, 2])
def test_spikes_to_570_ms_starve_nobody_at_3_3_acts_a_second_with_two_in_flight(seed):
    result = Grid(50, Delays(spiky(seed)), in_flight=2).run(6_000)
    assert (result.starved, result.misplaced, result.reversals, result.too_soon) == (0, 0, 0, 0)
    assert result.acts_per_s(50) <= 3.3
    assert result.most_counted <= 2


@pytest.mark.parametrize(("hz", "rows", "s", "out"), [(15, 32, 10, 3), (15, 15, 3, 4)])
@pytest.mark.parametrize("from_state", [False, True])
def test_chunks_of_2_13_and_1_s_never_stop_at_a_refill_of_0_79_s(hz, rows, s, out, from_state):
    infer = 0.128 * hz
    grid = Grid(rows, Delays(0.6623 * hz, infer), in_flight=8, infer=infer, from_state=from_state)
    result = grid.run(1_000)
    assert (result.starved, result.reversals, result.misplaced, result.lag) == (0, 0, 0, 0)
    assert grid.spaced is not None
    assert grid.spaced.s == s
    assert result.most_counted <= out + 1


@pytest.mark.parametrize(("rows", "lag"), [(32, 16), (25, 23)])
def test_chunks_of_0_64_and_0_50_s_need_a_lag_of_0_32_and_0_46_s_and_then_never_stop(rows, lag):
    infer = 0.128 * 50
    grid = Grid(rows, Delays(0.6623 * 50, infer), in_flight=8, most_lag=50, infer=infer, period_s=0.02)
    grid.run(500)
    before = grid.result.starved
    result = grid.run(1_500)
    assert (result.lag, result.starved - before, result.misplaced, result.reversals) == (lag, 0, 0, 0)
    assert result.most_counted <= 6


@pytest.mark.parametrize(("n", "most_ms"), [(1, 1000), (2, 600), (4, 250)])
def test_fresh_plans_with_several_in_flight_and_independent_delays(n, most_ms):
    result = Grid(50, Delays(spiky()), in_flight=n, fresh=12.5).run(3_000)
    assert result.age(0.99) * 20 <= most_ms
    assert result.most_counted <= n


def test_one_connection_keeps_order_and_stays_old_however_many_are_in_flight():
    fresh = Grid(50, Delays(spiky()), in_flight=4, fresh=12.5).run(2_000).age(0.99)
    assert Grid(50, Delays(spiky(), ordered=True), in_flight=4, fresh=12.5).run(2_000).age(0.99) > 2 * fresh


@given(
    st.integers(1, 60),
    st.integers(2, 8),
    st.floats(0.1, 60),
    st.floats(0, 0.4),
    st.floats(1, 8),
    st.floats(0, 6),
    st.booleans(),
    st.integers(0, 40),
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_delays_no_more_are_out_than_granted_and_no_row_is_out_of_place(
    horizon, n, usual, chance, late, infer, ordered, most_lag
):
    delays = Delays(spiky(3, usual, usual * late, chance), infer, ordered=ordered)
    grid = Grid(horizon, delays, in_flight=n, most_lag=most_lag, infer=infer, period_s=0.02)
    result = grid.run(300)
    assert result.most_counted <= n
    assert result.most_out <= 2 * n
    assert result.too_soon == 0
    assert result.misplaced == 0
    assert result.lag <= most_lag
    lags = [splice.chunk.start for splice in result.splices]
    assert lags == sorted(lags)
    assert grid.plan.position == result.played


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=60), st.integers(1, 60), st.integers(1, 8))
@settings(deadline=None)
def test_estimates_never_leave_the_samples(latencies, horizon, n):
    windows = Latencies()
    for k, latency in enumerate(latencies):
        windows.add(latency, sent_at=10.0 * k, now=10.0 * k + latency)
        windows.add_cover(round(latency * 50), round(latency * 25))
    spaced = spacing(windows, period_s=0.02, horizon=horizon, in_flight=n)
    last = latencies[-20:]
    assert min(last) <= (windows.median_s() or 0) <= (windows.high_s() or 0) <= max(last)
    assert spaced.d <= math.ceil(max(last) / 0.02 + 0.25)
    assert spaced.d <= spaced.e <= max(spaced.d, max(round(x * 25) for x in latencies))
    assert (windows.covers() is None) == (len(latencies) < 20)


def test_the_end_of_a_run_is_not_asked_beyond():
    result = Grid(50, Delays(spiky()), in_flight=4, rows_wanted=120).run(400)
    assert (result.played, result.starved) == (120, 0)
    assert max(result.asked) <= 120 - 7
