from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.asking import OBSERVE_PHASE, Spacing, Standing, due, refill_due, rows_during, spacing, will_read
from seqrt.action.chunk import Chunk, Spliced
from seqrt.action.latency import Latencies
from seqrt.action.plan import Plan


def knowing(latency_s: float | None = None, *, infer_s: float | None = None, count: int = 20) -> Latencies:
    windows = Latencies(infer_s)
    if latency_s is not None:
        for k in range(count):
            windows.add(latency_s, sent_at=float(k), now=k + latency_s)
    return windows


@pytest.mark.parametrize(
    ("latency_periods", "rows"),
    [(0.0, 0), (0.5, 0), (0.74, 0), (0.75, 0), (0.76, 1), (1.74, 1), (1.76, 2), (11.85, 12), (44.9, 45)],
)
def test_rows_played_from_an_observation_to_the_first_tick_its_answer_can_be_used_at(latency_periods, rows):
    assert rows_during(latency_periods * 0.02, 0.02) == rows


@given(st.floats(0, 60), st.sampled_from([3, 10, 15, 30, 50, 100, 333]))
def test_the_count_agrees_with_a_walk_along_the_grid(latency_periods, hz):
    answered = OBSERVE_PHASE + latency_periods  # in periods after the observation's own tick
    first_usable = next(k for k in range(1, 100) if k >= answered - 1e-9)
    assert rows_during(latency_periods / hz, 1 / hz) == first_usable - 1


@pytest.mark.parametrize(
    ("covers_s", "horizon", "s", "fits"),
    [(2.13, 32, 20, True), (1.00, 15, 12, False), (0.64, 10, 12, False), (0.50, 8, 12, False)],
)
def test_the_published_chunks_at_15_hz_and_a_refill_of_0_79_s_one_at_a_time(covers_s, horizon, s, fits):
    assert horizon == pytest.approx(covers_s * 15, abs=0.51)
    spaced = spacing(knowing(0.79, infer_s=0.128), period_s=1 / 15, horizon=horizon)
    assert (spaced.d, spaced.f, spaced.s, spaced.fits) == (12, 12, s, fits)


def test_a_chunk_of_a_second_needs_three_rows_of_spacing_with_four_in_flight():
    spaced = spacing(knowing(0.79, infer_s=0.128), period_s=1 / 15, horizon=15, in_flight=4)
    assert (spaced.d, spaced.s, spaced.f, spaced.fits) == (12, 3, 3, True)


@pytest.mark.parametrize(
    ("latency_s", "infer_s", "in_flight", "expected"),
    [
        # H = 50 at 50 Hz: (d, s, f, e)
        (0.119, 0.06, 1, (6, 44, 6, 6)),
        (0.119, 0.06, 2, (6, 22, 4, 6)),
        (0.0, None, 1, (0, 49, 1, 0)),
        (0.891, 0.3, 1, (44, 45, 45, 44)),
        (0.891, 0.3, 4, (44, 19, 19, 44)),
        (3.0, 1.5, 2, (150, 75, 75, 150)),
    ],
)
def test_spacing_of_fifty_rows_at_50_hz(latency_s, infer_s, in_flight, expected):
    spaced = spacing(knowing(latency_s, infer_s=infer_s), period_s=0.02, horizon=50, in_flight=in_flight)
    assert (spaced.d, spaced.s, spaced.f, spaced.e) == expected


def test_one_row_a_chunk_is_asked_for_at_every_tick():
    spaced = spacing(knowing(0.001), period_s=0.1, horizon=1)
    assert (spaced.d, spaced.s, spaced.f, spaced.fits) == (0, 1, 1, True)


def test_nothing_is_known_of_latency_before_an_answer():
    spaced = spacing(Latencies(), period_s=0.02, horizon=50)
    assert (spaced.d, spaced.s, spaced.f) == (0, 49, 1)


def test_a_worker_may_ask_for_fewer_acts():
    spaced = spacing(knowing(0.05), period_s=0.02, horizon=50, acts_per_s=0.5)
    assert (spaced.f, spaced.s) == (100, 100)


def test_a_busy_worker_is_left_a_fifth_of_its_time():
    spaced = spacing(knowing(0.05, infer_s=0.16), period_s=0.02, horizon=50, in_flight=4)
    assert spaced.f == 10  # 8 ticks of inference, 80 % busy


@pytest.mark.parametrize(("fresh_s", "s"), [(0.3, 9), (0.6, 24), (2.0, 44), (0.05, 6)])
def test_an_age_wish_brings_requests_closer_but_never_below_what_is_of_use(fresh_s, s):
    spaced = spacing(knowing(0.12), period_s=0.02, horizon=50, fresh_s=fresh_s)
    assert spaced.s == s


def test_an_age_wish_that_rounding_would_cut_short_keeps_its_row():
    assert spacing(knowing(0.0), period_s=0.1, horizon=50, fresh_s=0.3).s == 3


def test_covers_push_requests_earlier_than_latency_alone():
    windows = knowing(0.119)
    for cover in [6] * 90 + [20] * 10:
        windows.add_cover(cover)
    spaced = spacing(windows, period_s=0.02, horizon=50)
    assert (spaced.d, spaced.e, spaced.s) == (6, 20, 30)


@pytest.mark.parametrize(
    ("d", "s", "rows", "taken", "spaced_s"),
    [(6, 22, 50, True, 22), (12, 3, 24, True, 12), (12, 3, 23, False, 12), (0, 1, 1, True, 1), (4, 10, 13, False, 10)],
)
def test_a_prefix_goes_along_where_the_delay_fits_into_the_chunk(d, s, rows, taken, spaced_s):
    spaced = Spacing(d=d, s=s, f=1, e=d, horizon=rows, in_flight=1)
    assert spaced.takes_prefix(rows) is taken
    assert spaced.with_prefix().s == spaced_s


@given(
    st.floats(0, 3),
    st.one_of(st.none(), st.floats(0, 2)),
    st.sampled_from([3, 10, 15, 30, 50, 100, 333]),
    st.integers(1, 200),
    st.integers(1, 8),
    st.one_of(st.none(), st.floats(0.01, 100)),
    st.one_of(st.none(), st.floats(0.001, 10)),
)
@settings(deadline=None)
def test_spacing_is_never_below_one_nor_below_what_is_of_use(latency_s, infer_s, hz, horizon, n, acts_per_s, fresh_s):
    spaced = spacing(
        knowing(latency_s, infer_s=infer_s, count=3),
        period_s=1 / hz,
        horizon=horizon,
        in_flight=n,
        acts_per_s=acts_per_s,
        fresh_s=fresh_s,
    )
    assert spaced.s >= spaced.f >= 1
    assert spaced.d >= 0
    if acts_per_s is not None:
        assert hz / spaced.f <= acts_per_s * (1 + 1e-6)
    if infer_s is not None:
        assert spaced.f / hz >= infer_s * (1 - 1e-6)


def test_the_rows_a_prefix_freezes_are_those_of_the_median_until_ten_answers_are_known_and_asking_goes_by_the_p90():
    windows = knowing(0.119, count=8)
    windows.add(0.3, sent_at=20.0, now=20.3)
    spaced = spacing(windows, period_s=0.02, horizon=50)
    assert (spaced.d, spaced.frozen, spaced.s) == (15, 6, 35)
    assert (spaced.with_prefix().d, spaced.with_prefix().s) == (6, 35)
    for k in range(2):
        windows.add(0.3, sent_at=30.0 + k, now=30.3 + k)
    spaced = spacing(windows, period_s=0.02, horizon=50)
    assert (spaced.d, spaced.frozen) == (15, 15), "three of eleven are no spike"


@pytest.mark.parametrize(
    ("in_flight", "overlapping", "s", "spare"),
    [(1, False, 44, 1), (1, True, 22, 2), (2, False, 22, 2), (2, True, 22, 2)],
)
def test_a_chunk_reaches_to_two_requests_where_rows_of_the_plan_before_are_wanted_beside_its_own(
    in_flight, overlapping, s, spare
):
    spaced = spacing(knowing(0.119), period_s=0.02, horizon=50, in_flight=in_flight, overlapping=overlapping)
    assert (spaced.s, spaced.spare) == (s, spare)


def test_an_age_wish_is_no_stricter_for_it():
    assert {spacing(knowing(0.12), period_s=0.02, horizon=50, fresh_s=0.4, overlapping=o).s for o in (False, True)} == {
        14
    }


# Whether to ask now.

SPACED = Spacing(d=6, s=22, f=4, e=6, horizon=50, in_flight=2)


def at(tick=100, in_flight=0, last_sent=78, newest=78, rows_left=22, rows_wanted=None) -> Standing:
    return Standing(tick, in_flight, last_sent, newest, rows_left, rows_wanted)


@pytest.mark.parametrize(
    ("standing", "asks", "why"),
    [
        (at(), True, "spaced by s"),
        (at(newest=79), False, "a tick short of s"),
        (at(last_sent=96), True, "f apart, no more is needed"),
        (at(last_sent=97), False, "a tick short of f"),
        (at(in_flight=1), True, "one of two in flight"),
        (at(in_flight=2), False, "all that may be in flight are"),
        (at(in_flight=2, rows_left=0), False, "dry changes nothing about that"),
        (at(last_sent=99, newest=99, rows_left=0), True, "dry and nothing on its way"),
        (at(last_sent=99, newest=99, rows_left=0, in_flight=1), False, "dry, but an answer is on its way"),
        (at(last_sent=77, newest=77, rows_left=0, in_flight=1), True, "dry, one on its way, and spaced"),
        (at(last_sent=None, newest=None, rows_left=0), True, "never asked"),
        (at(rows_wanted=22), False, "what is planned is all that will be played"),
        (at(rows_wanted=23), True, "one row is missing"),
        (at(rows_left=0, rows_wanted=0), False, "nothing more will be played"),
    ],
)
def test_when_it_asks(standing, asks, why):
    assert due(standing, SPACED) is asks, why


@pytest.mark.parametrize(("rows_left", "in_flight", "asks"), [(0, 0, True), (1, 0, False), (0, 1, False)])
@pytest.mark.parametrize("horizon", [5, 6])
def test_a_chunk_an_answer_outlives_is_asked_for_when_the_plan_is_dry(rows_left, in_flight, asks, horizon):
    spaced = Spacing(d=6, s=6, f=6, e=6, horizon=horizon, in_flight=1)
    assert due(at(rows_left=rows_left, in_flight=in_flight), spaced) is asks
    assert due(at(rows_left=1, in_flight=1), replace(spaced, in_flight=2)), "several are asked for by spacing"
    assert due(at(rows_left=1), spaced, stretched=True), "played slower, some rows are left"


@pytest.mark.parametrize(
    ("standing", "asks"),
    [(at(last_sent=None, newest=None, rows_left=0), True), (at(in_flight=1, rows_left=0, newest=None), False)],
)
def test_before_the_first_answer_one_request_is_out_at_a_time(standing, asks):
    assert due(standing, None) is asks


@pytest.mark.parametrize(
    ("rows_left", "in_flight", "asks"), [(1, 0, False), (0, 0, True), (0, 1, False), (30, 0, False)]
)
def test_without_prefetch_it_asks_when_the_plan_is_dry(rows_left, in_flight, asks):
    standing = at(rows_left=rows_left, in_flight=in_flight)
    assert due(standing, SPACED, prefetch=False) is asks
    assert due(standing, None, prefetch=False) is asks


@pytest.mark.parametrize(
    ("step", "read"), [(100, False), (108, True), (110, True), (105, False), (118, True), (120, True), (90, False)]
)
def test_a_window_is_sent_ahead_where_the_next_request_will_read_it(step, read):
    assert will_read(step, newest=100, spacing=10, offsets=(-2, 0)) is read


@dataclass
class Loop:
    """Plan, windows and decision together, on a grid whose period is 1. Latencies lie off the tick grid."""

    horizon: int
    latency: float | Callable[[], float]
    in_flight: int = 1
    prefetch: bool = True
    prefix: bool = False
    rows_wanted: int | None = None
    starved: int = 0
    played: int = 0
    asked: list[int] = field(default_factory=list)
    splices: list[Spliced] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    latencies: Latencies = field(default_factory=Latencies)
    out: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    spaced: Spacing | None = None

    def run(self, ticks: int) -> Loop:
        for k in range(ticks):
            self.receive(k)
            if self.plan.pop() is not None:
                self.played += 1
            else:
                self.starved += self.played > 0
            if self.rows_wanted is not None and self.played == self.rows_wanted:
                break
            position = self.plan.position
            self.receive(k + OBSERVE_PHASE)
            self.consider(k, position)
        return self

    def receive(self, now: float) -> None:
        while self.out and self.out[0][0] <= now:
            at_, step, position, committed, spaced_s = self.out.pop(0)
            latency = at_ - step - OBSERVE_PHASE
            rows = np.repeat(np.arange(step + 1.0, step + 1 + self.horizon)[:, None], 1, axis=1)
            before = self.plan.newest
            result = self.plan.splice(Chunk(rows, step, committed=committed), position)
            self.latencies.add(latency, sent_at=step + OBSERVE_PHASE, now=at_, cold=before < 0)
            if isinstance(result, Spliced):
                self.splices.append(result)
                if before >= 0 and spaced_s:
                    self.latencies.add_cover(max(0, math.floor(now) - before - spaced_s))
            self.spaced = spacing(self.latencies, period_s=1.0, horizon=self.horizon, in_flight=self.in_flight)
            if self.prefix and self.spaced.takes_prefix(self.horizon):
                self.spaced = self.spaced.with_prefix()

    def consider(self, k: int, position: int) -> None:
        standing = Standing(
            tick=k,
            in_flight=len(self.out),
            last_sent=self.asked[-1] if self.asked else None,
            newest=max([self.plan.newest, *(step for _, step, *_ in self.out)]) if self.asked else None,
            rows_left=self.plan.rows_left,
            rows_wanted=None if self.rows_wanted is None else self.rows_wanted - self.played,
        )
        if due(standing, self.spaced, prefetch=self.prefetch):
            committed = self.spaced.d if self.prefix and self.spaced is not None else 0
            self.asked.append(k)
            latency = self.latency() if callable(self.latency) else self.latency
            self.out.append((k + OBSERVE_PHASE + latency, k, position, committed, self.spaced.s if self.spaced else 0))
            self.out.sort()


@pytest.mark.parametrize(
    ("horizon", "latency", "in_flight"),
    [
        (50, 5.93, 1),  # 50 Hz, 0.12 s
        (50, 5.93, 2),
        (50, 24.6, 1),
        (32, 11.85, 1),  # 15 Hz, 0.79 s
        (15, 11.85, 4),
        (30, 9.1, 1),
        (16, 7.6, 1),
        (10, 1.72, 1),  # 20 Hz, 86 ms
        (2, 0.6, 1),
        (1, 0.3, 1),
        (50, 0.01, 1),
    ],
)
def test_with_a_constant_latency_that_fits_no_tick_starves(horizon, latency, in_flight):
    loop = Loop(horizon, latency, in_flight).run(4_000)
    assert loop.spaced is not None
    assert loop.spaced.fits
    assert loop.starved == 0
    assert loop.played >= 4_000 - latency - 2
    assert len(loop.asked) <= 4_000 / loop.spaced.f + 2


def test_a_hundred_thousand_ticks_of_fifty_rows_at_50_hz_never_starve_and_ask_1_2_times_a_second():
    loop = Loop(50, 5.93).run(100_000)
    assert loop.starved == 0
    assert len(loop.asked) / 2000 == pytest.approx(1.14, abs=0.02)


def test_spikes_starve_nobody_with_two_in_flight():
    chance = random.Random(7)
    loop = Loop(50, lambda: 28.47 if chance.random() < 0.05 else 5.93, in_flight=2).run(10_000)
    assert loop.starved == 0
    assert len(loop.asked) / 200 <= 3.6  # acts a second at 50 Hz


@pytest.mark.parametrize(("horizon", "latency"), [(50, 5.93), (32, 11.85), (30, 9.1), (24, 11.3)])
def test_with_a_prefix_no_tick_starves_and_the_committed_rows_stay_the_old_plans(horizon, latency):
    loop = Loop(horizon, latency, prefix=True).run(3_000)
    assert loop.spaced is not None
    assert loop.starved == 0
    assert {splice.first for splice in loop.splices[2:]} == {loop.spaced.d}


@pytest.mark.parametrize(
    ("horizon", "latency"), [(23, 11.85), (15, 11.85), (12, 11.85), (10, 11.85), (8, 11.85), (16, 24.1), (1, 3.3)]
)
def test_a_latency_beyond_the_chunk_stops_and_goes_and_moves_no_less_than_without_prefetch(horizon, latency):
    loop, plain = Loop(horizon, latency).run(3_000), Loop(horizon, latency, prefetch=False).run(3_000)
    assert loop.spaced is not None
    assert not loop.spaced.fits
    assert loop.starved > 0
    assert loop.played >= plain.played
    d = loop.spaced.d
    assert loop.played / 3_000 >= 0.98 * max(horizon / (horizon + d), horizon / (2 * (d + 1)) if horizon > d else 0)


def test_a_latency_a_hair_beyond_the_chunk_is_said_to_be_and_one_row_more_fits():
    # An answer at 12.75 can be used at tick 13 (d = 12) but comes after the decision of tick 12: requests are 13 apart.
    short, long = Loop(24, 12.5).run(2_000), Loop(25, 12.5).run(2_000)
    assert (short.spaced.fits, short.starved > 0) == (False, True)  # type: ignore[union-attr]
    assert (long.spaced.fits, long.starved) == (True, 0)  # type: ignore[union-attr]


@given(st.integers(1, 60), st.floats(0.01, 70), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_whatever_the_figures_what_fits_never_starves(horizon, latency, in_flight):
    if math.isclose((latency + OBSERVE_PHASE) % 1, 0, abs_tol=1e-3):
        return  # on the grid either order is right
    loop = Loop(horizon, latency, in_flight).run(400)
    if loop.spaced is not None and loop.spaced.fits:
        assert loop.starved == 0
    assert loop.plan.position == loop.played


def test_a_run_of_fifty_rows_with_chunks_of_ten_asks_no_more_than_it_needs():
    loop = Loop(10, 1.72, rows_wanted=50).run(1_000)
    assert (loop.played, loop.starved) == (50, 0)
    assert len(loop.asked) <= 8


@pytest.mark.parametrize(("horizon", "latency"), [(10, 1.72), (4, 2.6), (25, 30.3)])
def test_without_prefetch_the_arm_stands_once_a_chunk_boundary(horizon, latency):
    loop = Loop(horizon, latency, prefetch=False, rows_wanted=5 * horizon).run(2_000)
    stall = rows_during(latency, 1.0)
    assert len(loop.asked) == 5
    assert loop.starved == 4 * stall


@pytest.mark.parametrize(("rows_left", "due"), [(12, True), (13, True), (14, False)])
def test_plans_played_whole_are_refilled_a_quarter_more_than_a_refill_and_a_period_ahead(rows_left, due):
    """What `sequence-ai` 0.1.0 promises: 1.25 × 0.8 s + 82 ms is 1.082 s, and 13 rows of 82 ms last 1.066 s."""
    assert refill_due(rows_left, 0.8, period_s=0.082) is due
