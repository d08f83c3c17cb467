"""The lag benchmark's own arithmetic: intervals, delays, measures, plants; and that its oracle gets there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.lag import grid, latency, measures, worlds
from bench.lag.policy import Views, planned
from bench.lag.stats import paired_difference, paired_ratio, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (8, 10, 0.4902, 0.9433), (950, 1000, 0.9347, 0.9619)]
)
def test_wilsons_interval_is_that_of_the_tables(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert (found.value, found.low, found.high) == pytest.approx((successes / n, low, high), abs=5e-4)


def test_a_paired_difference_is_narrower_the_more_the_episodes_agree() -> None:
    rng = np.random.default_rng(0)
    theirs = rng.random(1000) < 0.8
    ours = theirs.copy()
    ours[np.flatnonzero(~theirs)[:50]] = True
    apart = paired_difference(ours, theirs)
    assert apart.value == pytest.approx(0.05)
    assert 0.03 < apart.low < apart.value < apart.high < 0.07
    shuffled = paired_difference(rng.permutation(ours), theirs)
    assert shuffled.high - shuffled.low > 1.5 * (apart.high - apart.low)


def test_a_ratio_of_the_same_episodes_is_one_for_sure_and_of_half_of_them_a_half() -> None:
    theirs = np.ones(400, bool)
    same, half = paired_ratio(theirs, theirs), paired_ratio(np.arange(400) % 2 == 0, theirs)
    assert (same.low, same.value, same.high) == (1.0, 1.0, 1.0)
    assert half.low < half.value == 0.5 < half.high


@pytest.mark.parametrize("name", list(latency.DISTRIBUTIONS))
def test_delays_have_the_typical_value_and_are_the_same_for_everyone(name: str) -> None:
    drawn = latency.drawn(name, 0.12, episodes=200, ticks=160, period_s=0.02, seed=3)
    assert drawn.shape == (200, 160)
    assert (drawn > 0).all()
    assert np.median(drawn) == pytest.approx(0.12, rel=0.12)
    assert (drawn == latency.drawn(name, 0.12, episodes=200, ticks=160, period_s=0.02, seed=3)).all()


def test_of_the_spikes_one_in_twenty_is_twice_as_late_or_more_and_an_outage_holds_back_a_second() -> None:
    spiky = latency.drawn("spikes", 0.12, episodes=200, ticks=160, period_s=0.02, seed=0)
    assert np.mean(spiky > 0.22) == pytest.approx(0.05, abs=0.01)
    assert spiky.max() <= 0.12 * latency.SPIKE_TIMES
    out = latency.drawn("outage", 0.12, episodes=200, ticks=160, period_s=0.02, seed=0)
    assert np.quantile(out.max(axis=1), 0.5) == pytest.approx(1.12, abs=0.05)


def test_a_reversal_is_a_seam_in_motion_that_goes_back_and_jerk_counts_where_the_seam_is() -> None:
    tip = np.cumsum([[0.0, 0.01, 0.01, -0.02, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01]], axis=1).astype(complex)
    seams = np.zeros(tip.shape, bool)
    seams[0, [3, 7]] = True
    assert measures.reversals(tip, seams) == 0.5
    commands = np.stack([tip.real, tip.imag], axis=-1)
    commands[0, :, 1] = np.linspace(0, 1, 10) ** 3  # some jerk everywhere
    assert measures.jerk_ratio(commands, seams, np.ones(tip.shape, bool)) > 2
    assert math.isnan(measures.jerk_ratio(commands, np.zeros_like(seams), np.ones(tip.shape, bool)))


@pytest.mark.parametrize("body", [worlds.Point(), worlds.Arm()], ids=["point", "arm"])
def test_a_plan_played_as_it_is_goes_where_it_says(body: worlds.Body) -> None:
    drawn = worlds.chances(body, 5, 0)
    none = np.zeros(5, np.int64)
    goal, goal_v = drawn.goal_at(0)
    q = np.tile(body.rest, (5, 1))
    still = np.zeros_like(q)
    views = Views(
        q, still, goal, goal_v, drawn.obstacle, none + 0.0, none + 0.0, np.zeros((5, 50, body.dims)), none, none, none,
        none,
    )  # fmt: skip
    rows = planned(body, views, 50)
    v = still
    for i in range(50):
        for _ in range(worlds.SUBSTEPS):
            q, v = worlds.served(q, v, rows[:, i], body.omega)
    assert np.abs(body.tip(q) - drawn.obstacle).min() > worlds.RADIUS
    assert (np.abs(body.tip(q) - body.tip(rows[:, -1])) < 0.1).all()
    assert (body.tip(q).real > 0.3).all()


def test_the_oracle_reaches_the_goal_and_a_late_loop_that_does_not_align_seldom_does() -> None:
    oracle = grid.driven(grid.Cell("point", 0, "none", False, 0.0, "oracle"), 12, 1)
    assert oracle.reached.mean() >= 0.9
    assert (oracle.starved, oracle.age_p50_s < 0.25) == (0.0, True)
    late = grid.driven(grid.Cell("point", 0, "constant", False, 0.22, "not aligned"), 12, 1)
    assert late.reached.mean() < 0.2
    assert late.reversals > 0.8


def test_enough_answers_for_the_covers_to_speak_are_taken_in() -> None:
    fresh = grid.driven(grid.Cell("point", 0, "spikes", False, 0.12, "fresh, one seed"), 4, 1)
    assert fresh.acts_per_s > 10
    assert fresh.starved == 0.0


def test_every_strategy_of_the_full_grid_is_known_and_no_cell_is_there_twice() -> None:
    cells = grid.cells("full")
    assert len(set(cells)) == len(cells)
    assert all(grid.strategy_of(cell).name == cell.strategy for cell in cells)
    with pytest.raises(ValueError, match="smoke, reduced or full"):
        grid.cells("huge")
