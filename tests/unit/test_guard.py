from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from seqrt.action.declaration import Actions
from seqrt.action.guard import Guard
from seqrt.errors import ActionError

SEVEN = Actions(bounds=[[-1.0, 1.0]] * 7, max_delta=0.1)


def still(rows: int = 10, columns: int = 7) -> np.ndarray:
    return np.zeros((rows, columns))


def refused(guard: Guard, rows: np.ndarray) -> ActionError:
    with pytest.raises(ActionError) as caught:
        guard.check(rows)
    return caught.value


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("actions", [None, SEVEN, Actions(space="delta", max_delta=1.0)])
def test_one_number_that_is_not_finite_refuses_the_chunk_and_names_row_and_column(bad, actions):
    rows = still()
    rows[3, 5] = bad
    error = refused(Guard.of(actions), rows)
    assert str(error) == f"row 3, column 5 is {bad}: not finite"
    assert (error.row, error.column) == (3, 5)
    assert error.value == bad or math.isnan(bad)


@pytest.mark.parametrize(("value", "word", "limit"), [(1.5, "above", 1.0), (-1.25, "below", -1.0)])
def test_a_value_out_of_bounds_names_itself_and_its_bound(value, word, limit):
    rows = still()
    rows[4, 2] = value
    error = refused(Guard.of(Actions(bounds=[[-1.0, 1.0]] * 7)), rows)
    assert str(error) == f"row 4, column 2 is {value:g}, {word} its bound {limit:g}"
    assert (error.row, error.column, error.value, error.limit) == (4, 2, value, limit)


def test_a_named_column_is_called_by_its_name():
    rows = np.array([[0.0, 0.0], [0.0, 9.0]])
    error = refused(Guard.of(Actions(names=["waist", "shoulder"], bounds=[[-1, 1]] * 2)), rows)
    assert "row 1, column 1 (shoulder) is 9" in str(error)


def test_bounds_are_inclusive_and_each_column_has_its_own():
    guard = Guard.of(Actions(bounds=[[-1.0, 1.0], [0.0, 90.0], [5.0, 5.0]]))
    guard.check(np.array([[-1.0, 0.0, 5.0], [1.0, 90.0, 5.0]]))
    assert refused(guard, np.array([[0.0, -0.5, 5.0]])).column == 1


@pytest.mark.parametrize(
    ("max_delta", "steps", "row", "column"),
    [
        (0.1, [[0.0, 0.0], [0.1, 0.0], [0.1, 0.3]], 2, 1),
        ([0.1, 1.0], [[0.0, 0.0], [0.05, 0.9], [0.3, 0.9]], 2, 0),
        ([0.1, 1.0], [[0.0, 0.0], [0.0, -1.5]], 1, 1),
    ],
)
def test_a_step_beyond_max_delta_names_the_row_it_leads_to(max_delta, steps, row, column):
    error = refused(Guard.of(Actions(max_delta=max_delta)), np.array(steps))
    assert (error.row, error.column) == (row, column)
    assert "is a step of" in str(error)


def test_in_an_absolute_space_the_first_row_of_a_chunk_is_no_step():
    Guard.of(Actions(space="absolute", max_delta=0.1)).check(np.array([[50.0], [50.1], [50.0]]))


def test_in_a_delta_space_each_row_is_a_step_of_its_own():
    guard = Guard.of(Actions(space="delta", max_delta=0.1))
    guard.check(np.array([[0.1], [-0.1], [0.1]]))  # 0.2 apart, each 0.1 far
    error = refused(guard, np.array([[0.2], [0.0]]))
    assert (error.row, error.value, error.limit) == (0, 0.2, 0.1)
    guard.check_seam(np.array([-0.1]), np.array([0.1]), row=0)


def test_the_seam_is_a_step_from_the_row_executed_last():
    guard = Guard.of(Actions(max_delta=[0.1, 1.0]))
    last = np.array([0.0, 0.0])
    guard.check_seam(last, np.array([0.1, -1.0]), row=4)
    guard.check_seam(None, np.array([9.0, 9.0]), row=0)
    with pytest.raises(ActionError, match="row 4, column 1 is a step of -2, max_delta is 1"):
        guard.check_seam(last, np.array([0.0, -2.0]), row=4)


def test_rows_of_another_length_are_refused():
    assert str(refused(Guard.of(SEVEN), still(columns=6))) == "rows of 6 numbers, this run's have 7"
    learned = replace(Guard(), dims=4)
    learned.check(still(columns=4))
    assert refused(learned, still(columns=5)).row is None


def test_without_a_declaration_any_finite_rows_pass():
    Guard.of(None).check(np.array([[1e9, -1e9], [-1e9, 1e9]]))


def test_the_tick_looks_at_its_row_once_more():
    guard = Guard.of(SEVEN)
    guard.check_row(np.zeros(7), index=3)
    for row, words in (
        (np.full(7, math.nan), "row 3, column 0 is nan"),
        (np.full(7, 2.0), "row 3, column 0 is 2, above its bound 1"),
        (np.zeros(6), "a row of 6 numbers, this run's have 7"),
    ):
        with pytest.raises(ActionError, match=words) as caught:
            guard.check_row(row, index=3)
        assert caught.value.row == 3


def test_the_tick_looks_at_the_step_once_more():
    guard = Guard.of(Actions(max_delta=[0.1, 1.0]))
    guard.check_row(np.array([0.1, 1.0]), 4, last=np.zeros(2))
    guard.check_row(np.array([9.0, 9.0]), 4)
    with pytest.raises(ActionError, match=r"row 4, column 0 is a step of 0\.2, max_delta is 0\.1"):
        guard.check_row(np.array([0.2, 0.0]), 4, last=np.zeros(2))
    with pytest.raises(ActionError, match=r"row 4, column 0 is a step of -0\.2, max_delta is 0\.1"):
        Guard.of(Actions(space="delta", max_delta=0.1)).check_row(np.array([-0.2, 0.0]), 4, last=np.array([-0.2, 0.0]))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([0.0, 0.0], "column 0 is 0, below its bound 0.1"),
        ([math.nan, 0.0], "column 0 is nan"),
        ([0.5], "a row of 1 numbers"),
    ],
)
def test_the_command_of_a_starved_tick_is_held_against_the_limits_too(command, words):
    guard = Guard.of(Actions(space="velocity", bounds=[[0.1, 1.0], [-1.0, 1.0]]))
    guard.check_command(np.array([0.1, 0.0]))
    with pytest.raises(ActionError, match=words) as refused:
        guard.check_command(np.array(command))
    assert "Play(underrun=)" in str(refused.value)
    assert "row 0" not in str(refused.value)


def test_clipped_is_drawn_to_the_bound_itself():
    guard = Guard.of(Actions(bounds=[[-1.0, 1.0], [0.0, 2.0]]))
    assert guard.clipped(np.array([1.0 + 1e-12, -3.0])).tolist() == [1.0, 0.0]
    assert Guard.of(None).clipped(np.array([9.0])).tolist() == [9.0]


def test_rows_clipped_to_a_bound_in_float32_are_within_it():
    bound = 0.1  # float32(0.1) is 0.10000000149
    guard = Guard.of(Actions(bounds=[[-bound, bound]], max_delta=2 * bound))
    clipped = np.array([[bound], [-bound], [bound]], dtype=np.float32).astype(np.float64)
    assert clipped[0, 0] > bound
    guard.check(clipped)


def test_steps_limited_in_float32_far_from_zero_are_within_max_delta():
    guard = Guard.of(Actions(max_delta=0.01))
    guard.check((np.arange(2000, dtype=np.float32) * np.float32(0.01) + np.float32(3)).astype(np.float64)[:, None][:50])


def test_a_step_past_the_largest_float_is_refused_without_a_warning():
    error = refused(Guard.of(Actions(max_delta=1.0)), np.array([[1.7e308], [-1.7e308]]))
    assert error.value == -math.inf


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-2, 2) | st.just(math.nan)),
    st.sampled_from([None, "absolute", "delta", "velocity"]),
    st.one_of(st.none(), st.floats(0.01, 2), st.lists(st.floats(0.01, 2), min_size=3, max_size=3)),
)
@settings(deadline=None)
def test_what_passes_is_finite_and_within_its_limits(rows, space, max_delta):
    low, high = np.array([-1.0, 0.0, -2.0]), np.array([1.0, 2.0, -0.5])
    guard = Guard.of(Actions(space=space, bounds=list(zip(low, high, strict=True)), max_delta=max_delta))
    steps = rows if space == "delta" else np.diff(rows, axis=0)
    reach = math.inf if max_delta is None else np.asarray(max_delta)
    within = np.isfinite(rows).all() and (rows >= low).all() and (rows <= high).all() and (abs(steps) <= reach).all()
    try:
        guard.check(rows)
    except ActionError:
        assert not within
    else:
        assert np.isfinite(rows).all()
        assert (rows >= low - 1e-6).all()
        assert (rows <= high + 1e-6).all()
        assert (abs(steps) <= reach + 1e-6).all()


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1, 1)), min_size=1, max_size=12),
    st.floats(1e-4, 1e3),
    st.floats(-1e3, 1e3),
    st.floats(0, 1e3),
    st.sampled_from([None, "absolute", "delta", "velocity"]),
)
@settings(deadline=None)
def test_what_is_within_its_limits_is_never_refused_nor_when_a_policy_answers_it_in_float32(
    shape, max_delta, low, width, space
):
    """Rows walked out within the limits in float64, then rounded to the float32 that most policies answer."""
    high = low + width
    at, rows = min(max(shape[0][0], low), high), []
    for _, share in shape:
        at = min(max(at + share * max_delta, low), high) if rows else at
        rows.append(max(min(share * max_delta, high), low) if space == "delta" else at)
    inside = [row for row in rows if abs(row) <= max_delta] if space == "delta" else rows
    if not inside:
        return
    exact = np.array(inside)[:, np.newaxis]
    guard = Guard.of(Actions(space=space, bounds=[(low, high)], max_delta=max_delta))
    for chunk in (exact, exact.astype(np.float32).astype(np.float64)):
        guard.check(chunk)
        last = None
        for index, row in enumerate(chunk):
            guard.check_row(row, index, last)
            last = row


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(2)), elements=st.floats(-2, 2, width=32)),
    st.floats(0.0078125, 1, width=32),
    st.sampled_from(["absolute", "delta"]),
)
@settings(deadline=None)
def test_row_by_row_the_tick_refuses_what_the_arrival_refuses(rows, max_delta, space):
    guard = Guard.of(Actions(space=space, bounds=[(-1, 1)] * 2, max_delta=max_delta))

    def refuses(look) -> bool:
        try:
            look()
        except ActionError:
            return True
        return False

    def tick_by_tick() -> None:
        for index, row in enumerate(rows):
            guard.check_row(row, index, rows[index - 1] if index else None)

    assert refuses(lambda: guard.check(rows)) == refuses(tick_by_tick)


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.just(2)), elements=st.floats(allow_nan=True)),
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.just(2)), elements=st.floats(-2, 2, width=16)),
    st.booleans(),
    st.sampled_from(["absolute", "delta"]),
    st.sampled_from([None, 0.5, [0.5, 1.0]]),
    st.sampled_from([None, [(-1.0, 1.0), (0.0, 1.5)]]),
)
def test_a_glance_lets_nothing_through_that_a_close_look_refuses(wild, tame, is_wild, space, max_delta, bounds):
    rows = wild if is_wild else tame
    glancing = Guard.of(Actions(space=space, bounds=bounds, max_delta=max_delta), columns=2)
    thorough = replace(glancing, dims=None)  # before the length is known there is no glance

    def refusal(look, *args) -> tuple[str, int | None] | None:
        try:
            look(*args)
        except ActionError as error:
            return str(error), error.column
        return None

    assert refusal(glancing.check, rows) == refusal(thorough.check, rows)
    for last in (None, *tame[:1]):
        assert refusal(glancing.check_row, rows[0], 3, last) == refusal(thorough.check_row, rows[0], 3, last)
        assert refusal(glancing.check_seam, last, rows[0], 3) == refusal(thorough.check_seam, last, rows[0], 3)
