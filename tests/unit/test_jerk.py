"""Boundary over interior jerk, of what was played."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.seam import Measure, seam_innovation
from seqrt.timeline import events as ev
from seqrt.timeline.jerk import JerkRatio
from seqrt.timeline.outcome import fold


def ratio(values: list[float], seams: set[int], space: str | None = "absolute") -> float | None:
    jerk = JerkRatio(space)
    for n, value in enumerate(values):
        jerk.add([value], seam=n in seams)
    return jerk.ratio


def third(values: list[float], n: int) -> float:
    return abs(values[n] - 3 * values[n - 1] + 3 * values[n - 2] - values[n - 3])


@given(st.lists(st.integers(-50, 50), min_size=4, max_size=40), st.sets(st.integers(1, 39), max_size=6))
@settings(max_examples=80, deadline=None)
def test_a_window_of_four_rows_is_at_a_boundary_where_a_seam_lies_within_it(values, seams):
    boundary, interior = [], []
    for n in range(3, len(values)):
        (boundary if seams & {n, n - 1, n - 2} else interior).append(third(values, n))
    measured = ratio([float(v) for v in values], seams)
    if not boundary or not interior or not sum(boundary) + sum(interior):
        assert measured is None
    elif not sum(interior):
        assert measured == math.inf
    else:
        assert measured == pytest.approx((sum(boundary) / len(boundary)) / (sum(interior) / len(interior)))


def test_a_seam_that_goes_on_as_the_chunk_did_is_not_to_be_seen():
    assert ratio([math.sin(n / 3) for n in range(200)], set(range(10, 200, 10))) == pytest.approx(1.0, abs=0.1)


def test_a_seam_on_a_straight_line_is_infinitely_rougher_and_a_line_alone_has_no_ratio():
    line = [0.1 * n for n in range(40)]
    assert ratio(line, {10, 20}) is None, "what is left of the last bits is no jerk"
    assert ratio([*line[:20], *(value + 1.0 for value in line[20:])], {20}) == math.inf


@pytest.mark.parametrize("space", ["delta", "velocity"])
def test_of_steps_and_speeds_the_jerk_is_that_of_the_places_they_lead_to(space):
    steps = [float(n**3 % 17) for n in range(30)]
    places = list(itertools.accumulate(steps, initial=0.0))
    jerks = {n: third(places, n + 1) for n in range(2, 30)}  # step n leads to place n + 1
    boundary = [jerks.pop(n) for n in (20, 21)]
    expected = (sum(boundary) / 2) / (sum(jerks.values()) / len(jerks))
    assert ratio(steps, {20}, space) == pytest.approx(expected)


def test_a_stop_between_two_rows_begins_anew():
    jerk = JerkRatio("absolute")
    for n, value in enumerate([0.0, 1.0, 4.0, 2.0, 5.0]):
        jerk.add([value], seam=n == 4)
    before = jerk.ratio
    jerk.interrupt()
    for value in (90.0, -90.0, 90.0):
        jerk.add([value], seam=False)
    assert jerk.ratio == before
    jerk.add([1.0, 2.0], seam=False)  # another length
    assert jerk.ratio == before


def tick(step: int, value: float, **more: object) -> ev.Ticked:
    return ev.Ticked(
        at_s=step / 10, step=step, late_s=0.0, kind="played", rows_left=3, row=[value, 9.0 * step**3], **more
    )  # type: ignore[arg-type]


def test_the_outcome_takes_rows_played_at_ticks_that_follow_one_another():
    started = ev.RunStarted(at_s=0.0, run="r", hz=10.0, first_step=0, space="absolute", parts=(1,))
    values = [0.0, 1.0, 0.0, 1.0, 3.0, 1.0, 5.0]
    ticks = [tick(n, value, seam_jump=0.5 if n == 6 else None) for n, value in enumerate(values)]
    expected = ratio(values, {6})
    assert expected is not None
    assert fold([started, *ticks]).jerk_ratio == expected, "the column of a part is left out"
    stood = ev.Ticked(at_s=2.0, step=20, late_s=0.0, kind="starved", rows_left=0, row=[7.0, 0.0])
    assert fold([started, *ticks, stood, tick(21, 80.0), tick(22, -80.0), tick(23, 1.0)]).jerk_ratio == expected
    assert fold([started, *ticks, tick(9, 80.0, skipped=2), tick(10, -80.0), tick(11, 1.0)]).jerk_ratio == expected


def test_innovation_and_disagreement_are_folded_into_quantiles():
    spliced = {"at_s": 1.0, "request_id": "r", "observed": 0, "row": 0, "rows": 9, "dropped": 0, "position": 0}
    outcome = fold(
        [
            tick(0, 1.0, seam_innovation=0.5),
            tick(1, 1.0, seam_innovation=2.0),
            ev.Spliced(**spliced),  # type: ignore[arg-type]
            ev.Spliced(**spliced, disagreement=0.25, disagreement_passed=0.125, blended=4),  # type: ignore[arg-type]
        ]
    )
    assert outcome.innovation is not None
    assert (outcome.innovation.count, outcome.innovation.max) == (2, 2.0)
    assert outcome.disagreement is not None
    assert (outcome.disagreement.count, outcome.disagreement.max) == (1, 0.25)
    assert outcome.disagreement_passed is not None
    assert outcome.disagreement_passed.max == 0.125
    assert outcome.blended_chunks == 1


@pytest.mark.parametrize(
    ("before_last", "last", "first", "innovation"),
    [
        ([1.0, 0.0], [3.0, 0.0], [5.0, 0.0], 0.0),  # straight on, at its pace
        ([1.0, 0.0], [3.0, 0.0], [3.0, 1.0], 2.0),
        ([0.0, 0.0], [0.0, 0.0], [0.5, 0.0], 0.5),  # it stood: the jump itself
        (None, [3.0, 0.0], [5.0, 0.0], None),
        (None, None, [5.0], None),
        ([1.0], [1.0], [1.0, 2.0], None),
    ],
)
def test_innovation_is_the_jump_with_ordinary_motion_taken_out(before_last, last, first, innovation):
    rows = [None if row is None else np.array(row) for row in (before_last, last, first)]
    assert seam_innovation(*rows) == innovation
    if innovation is not None:
        with_gripper = [np.append(row, 70.0 * n**2) for n, row in enumerate(rows)]
        assert seam_innovation(*with_gripper, Measure(gripper=(2,))) == innovation
