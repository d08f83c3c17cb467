from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from seqrt.action.declaration import Actions
from seqrt.action.rows import rows_of
from seqrt.errors import ActionError

KEYED = Actions(key="actions")
BARE = Actions()


@pytest.mark.parametrize(
    ("outputs", "actions", "rows"),
    [
        ({"actions": [[1, 2], [3, 4]]}, KEYED, [[1.0, 2.0], [3.0, 4.0]]),
        ({"actions": np.ones((2, 1), dtype=np.float32), "state": "anything"}, KEYED, [[1.0], [1.0]]),
        ([[1, 2], [3, 4]], BARE, [[1.0, 2.0], [3.0, 4.0]]),
        (((1, 2), (3, 4)), BARE, [[1.0, 2.0], [3.0, 4.0]]),
        ([np.array([1.0, 2.0]), np.array([3.0, 4.0])], BARE, [[1.0, 2.0], [3.0, 4.0]]),
        (np.arange(4, dtype=np.int64).reshape(2, 2), None, [[0.0, 1.0], [2.0, 3.0]]),
        (np.arange(4, dtype=">i2").reshape(2, 2), None, [[0.0, 1.0], [2.0, 3.0]]),
        (np.ones((1, 2), dtype=np.float16), None, [[1.0, 1.0]]),
        ([1, 2, 3], None, [[1.0, 2.0, 3.0]]),
        (np.array([1.5, 2.5]), None, [[1.5, 2.5]]),
        (3, None, [[3.0]]),
        (np.float64(3), None, [[3.0]]),
        (np.array(3.0), None, [[3.0]]),
    ],
)
def test_what_is_read_as_rows(outputs, actions, rows):
    read = rows_of(outputs, actions)
    assert read.dtype == np.float64
    assert read.tolist() == rows


@pytest.mark.parametrize(
    ("outputs", "actions", "words"),
    [
        ({"other": 1, "state": 2}, KEYED, "no key 'actions' (it has: other, state); set actions.key"),
        ({}, KEYED, "it has: none"),
        ([[1.0]], KEYED, "actions.key is 'actions' but the answer is a list"),
        (None, KEYED, "actions.key is 'actions' but the answer is nothing"),
        ({"actions": None}, KEYED, "actions.key 'actions' holds nothing; answer with numbers in an array [H, A]"),
        ({"actions": []}, KEYED, "actions.key 'actions' holds no rows (shape [0])"),
        ({"actions": np.zeros((0, 7))}, KEYED, "actions.key 'actions' holds no rows (shape [0, 7])"),
        ({"actions": np.zeros((7, 0))}, KEYED, "actions.key 'actions' holds no rows (shape [7, 0])"),
        ({"actions": {"x": 1}}, KEYED, "actions.key 'actions' holds a dict"),
        ({"actions": "left"}, KEYED, "actions.key 'actions' holds text"),
        ({"actions": [[1, 2], [3]]}, KEYED, "actions.key 'actions' holds rows of unequal length"),
        ({"actions": np.zeros((1, 5, 7))}, KEYED, "shape [1, 5, 7]; return it without the leading axis of 1"),
        ({"actions": np.zeros((4, 5, 7))}, KEYED, "shape [4, 5, 7]; one axis of steps, one of columns"),
        ({"actions": np.zeros(7)}, KEYED, "shape [7]; for a single action return [action], a chunk of one row"),
        ({"actions": 1.0}, KEYED, "shape []; for a single action"),
        ({"actions": np.array([[True]])}, KEYED, "holds an array of bool"),
        ({"actions": np.array([[1j]])}, KEYED, "holds an array of complex128"),
        ({"a": [[1.0]]}, BARE, "(keys: a) and no key is declared; set actions.key"),
    ],
)
def test_a_declared_answer_is_refused_by_the_name_of_the_field_with_what_to_do(outputs, actions, words):
    with pytest.raises(ActionError) as refused:
        rows_of(outputs, actions)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"actions": [[1.0]]}, "the answer is a mapping (keys: actions)"),
        ([{"x": 1}], "the answer holds a dict"),
        ("left", "the answer holds text"),
        (b"\x00\x01", "the answer holds a bytes"),
        (None, "the answer holds nothing"),
        (True, "the answer holds a bool"),
        ([True, False], "the answer holds a bool"),
        ([[1, None]], "the answer holds nothing"),
        ([[1, 2], ["a", 3]], "the answer holds text"),
        ([2**70], "the answer holds an integer past 64 bits"),
        ([[1, 2], [3]], "rows of unequal length"),
        ([[[1.0]]], "shape [1, 1, 1]"),
        ([], "the answer holds no rows (shape [0])"),
        ([[]], "the answer holds no rows (shape [1, 0])"),
        (np.array(["1.0"]), "the answer holds an array of <U3"),
        (object(), "the answer holds an object"),
    ],
)
def test_an_undeclared_answer_that_is_no_rows_says_to_declare_actions(outputs, words):
    with pytest.raises(ActionError) as refused:
        rows_of(outputs, None)
    assert words in str(refused.value)
    assert "declare actions=" in str(refused.value)


@pytest.mark.parametrize(("answered", "horizon", "played"), [(50, 8, 8), (8, 8, 8), (5, 8, 5), (50, None, 50)])
def test_a_longer_answer_is_cut_and_a_shorter_one_plays_whole(answered, horizon, played):
    rows = rows_of(np.arange(answered, dtype=float)[:, None], Actions(open_loop_horizon=horizon))
    assert rows[:, 0].tolist() == list(range(played))


def test_only_the_declared_key_is_looked_at():
    outputs = {"state": [[1, 2], [3]], "actions": np.zeros((10, 7)), "note": object()}
    assert rows_of(outputs, KEYED).shape == (10, 7)


def test_a_policy_that_fills_the_same_array_anew_does_not_change_rows_that_still_play():
    answer = np.zeros((3, 2))
    rows = rows_of({"actions": answer}, KEYED)
    answer[:] = 9.0
    assert rows.tolist() == [[0.0, 0.0]] * 3
    assert not rows.flags.writeable


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64]),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
    )
)
def test_any_numeric_array_is_rows_or_a_refusal_and_never_another_error(array):
    try:
        rows = rows_of(array, None)
    except ActionError:
        assert array.ndim > 2 or array.size == 0
    else:
        assert rows.shape == (array.shape if array.ndim == 2 else (1, array.size))
        assert np.array_equal(rows.ravel(), array.astype(np.float64).ravel(), equal_nan=True)


@pytest.mark.parametrize(
    ("outputs", "form", "rows"),
    [
        (3.0, "one", [[3.0]]),
        ([1, 2, 3], "one", [[1.0, 2.0, 3.0]]),
        ([[1, 2, 3]], "one", [[1.0, 2.0, 3.0]]),
        ([1, 2, 3], "steps", [[1.0], [2.0], [3.0]]),
        ([[1, 2], [3, 4]], "steps", [[1.0, 2.0], [3.0, 4.0]]),
        ([np.array([1.0, 2.0])], "steps", [[1.0, 2.0]]),
    ],
)
def test_an_answer_of_the_older_form_is_one_action_or_a_list_of_them(outputs, form, rows):
    assert rows_of(outputs, None, form).tolist() == rows


@pytest.mark.parametrize(
    ("outputs", "form", "words"),
    [
        ([[1, 2], [3, 4]], "one", 'own_actions="one" means one action, the answer is a list (shape [2, 2]); declare'),
        (3.0, "steps", 'own_actions="steps" means a list of actions, the answer is one (shape []); declare'),
        ({"actions": [[1.0]]}, "steps", "declare actions= in place of own_actions="),
        ([{"x": 1}], "steps", "the answer holds a dict; declare actions= in place of own_actions="),
        ([[[1.0]]], "one", "shape [1, 1, 1]"),
        ([], "one", "no rows"),
        ([], "steps", "no rows"),
    ],
)
def test_an_answer_that_is_not_of_the_older_form_says_what_to_declare(outputs, form, words):
    with pytest.raises(ActionError) as refused:
        rows_of(outputs, None, form)
    assert words in str(refused.value)
