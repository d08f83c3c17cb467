from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.action.staleness import Played, Staleness, fresh_within, rows_behind, told_to_move
from seqrt.errors import StaleObservation
from seqrt.runtime.moments import Moments
from seqrt.runtime.options import Limits, Play

PERIOD_S = 0.05


def test_an_observation_as_old_as_the_limit_may_be_gone_by_and_an_older_one_may_not():
    limit = Staleness(0.5)
    limit.check(0.5, step=3)
    with pytest.raises(StaleObservation, match=r"observation 3 would be 0\.51 s old .* is 0\.5 s") as refused:
        limit.check(0.51, step=3)
    assert (refused.value.age_s, refused.value.limit_s, refused.value.step) == (0.51, 0.5, 3)
    assert "Play(fresh_s" in str(refused.value)
    Staleness(None).check(1e6, step=3)


@pytest.mark.parametrize(
    ("max_age_s", "fresh_s", "enough_s"), [(None, None, math.inf), (0.5, None, 0.5), (None, 0.4, 0.4), (0.5, 0.4, 0.4)]
)
def test_a_newer_observation_is_wanted_beyond_the_wish_and_beyond_the_limit(
    max_age_s: float | None, fresh_s: float | None, enough_s: float
) -> None:
    staleness = Staleness(max_age_s, fresh_s)
    assert staleness.suffices(enough_s)
    assert enough_s == math.inf or not staleness.suffices(enough_s + 0.001)
    assert staleness.allows(0.45)


def test_two_seconds_are_said_once():
    staleness = Staleness(None)
    assert [staleness.says(age_s) for age_s in (0.1, 2.0, 2.1, 3.0)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("fresh_s", "max_age_s", "aim_s"), [(None, None, None), (0.4, None, 0.4), (0.4, 1.0, 0.4), (None, 1.0, 0.75)]
)
def test_a_limit_of_age_is_aimed_below_unless_the_user_aims_otherwise(fresh_s, max_age_s, aim_s):
    assert fresh_within(fresh_s, max_age_s) == aim_s


@pytest.mark.parametrize(
    ("delay_s", "rows"), [(0.0, 0), (0.01, 0), (0.0125, 0), (0.013, 1), (0.06, 1), (0.0625, 1), (0.063, 2), (0.12, 3)]
)
def test_how_many_rows_fall_between_what_is_seen_and_when(delay_s, rows):
    """The observation is a quarter of a 50 ms period behind its row: that row falls inside from 12.5 ms on."""
    assert rows_behind(delay_s, PERIOD_S) == rows


@given(st.floats(0, 0.6), st.integers(20, 40))
def test_that_figure_is_what_a_moving_arm_is_counted(delay_s, ticks):
    played = Played(delay_s)
    for tick in range(ticks):
        played.rose(tick * PERIOD_S)
    begun = (ticks - 1 + 0.25) * PERIOD_S
    assert played.behind(begun - delay_s) == min(ticks, rows_behind(delay_s, PERIOD_S))


@pytest.mark.parametrize(
    ("sensor_s", "actuator_s", "position", "age_s"),
    [
        (0.0, 0.0, 10, 0.0),
        (0.06, 0.0, 9, 0.06),
        (0.0, 0.06, 9, 0.0),
        (0.06, 0.06, 7, 0.06),
        ({"wrist": 0.11, "state": 0.01}, 0.0, 8, 0.11),
        (5.0, 0.0, 0, 5.0),
    ],
)
def test_a_moment_counts_the_rows_whose_effect_it_can_show(sensor_s, actuator_s, position, age_s):
    play = Play(sensor_delay_s=sensor_s, actuator_delay_s=actuator_s)
    moments = Moments(play.seen_behind_s, play.moved_behind_s)
    for tick in range(10):
        moments.played.rose(tick * PERIOD_S)
    moment = moments.begin(9, 10, 9.25 * PERIOD_S, epoch=3)
    assert (moment.position, moment.epoch) == (position, 3)
    assert moment.begun_at - moment.captured_at == pytest.approx(age_s)


def test_while_the_arm_stood_nothing_falls_behind():
    moments = Moments(0.2, 0.2)
    for tick in range(10):
        moments.played.rose(tick * PERIOD_S)
    assert moments.begin(30, 10, 30.25 * PERIOD_S, epoch=1).position == 10


def test_what_was_captured_before_a_resume_is_of_the_epoch_before():
    moments = Moments(0.1, 0.1)
    moments.renew(2.0)
    assert [moments.begin(1, 0, begun_at, epoch=5).epoch for begun_at in (2.01, 2.09, 2.11)] == [4, 4, 5]


def test_the_times_of_rows_are_kept_no_longer_than_they_are_needed():
    played = Played(0.5)
    for tick in range(5000):
        played.rose(tick * PERIOD_S)
    assert len(played._rises) == 11


@pytest.mark.parametrize(
    ("space", "last", "row", "moves"),
    [
        ("absolute", [1.0], [1.0], False),
        ("absolute", [1.0], [1.1], True),
        ("absolute", None, [1.0], True),
        (None, [1.0], [1.0], False),
        ("velocity", [1.0], [1.0], True),
        ("velocity", [1.0], [0.0], False),
        ("delta", None, [0.0], False),
    ],
)
def test_which_rows_tell_the_arm_to_move(space, last, row, moves):
    assert told_to_move(np.array(row), None if last is None else np.array(last), space) is moves


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, True, "0.1"])
def test_a_delay_that_is_none_is_refused(bad):
    with pytest.raises((TypeError, ValueError), match="sensor_delay_s must be"):
        Play(sensor_delay_s=bad)
    with pytest.raises((TypeError, ValueError), match=r"sensor_delay_s\['wrist'\]"):
        Play(sensor_delay_s={"wrist": bad})
    with pytest.raises((TypeError, ValueError), match="actuator_delay_s"):
        Play(actuator_delay_s=bad)


@pytest.mark.parametrize("name", ["max_age_s", "frozen_s"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_none_is_refused(name, bad):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: bad})
