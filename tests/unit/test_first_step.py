from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from seqrt.action.declaration import Actions, Parts
from seqrt.action.first_step import FirstStep
from seqrt.errors import ActionError, DeclarationError, FirstStepTooFar, ObservationError
from seqrt.runtime.options import Limits

ABSOLUTE = Actions(space="absolute")
NAMED = Actions(space="absolute", names=("waist", "elbow", "gripper"))


def asked(
    distances: dict[str, Any],
    seen: dict[str, Any],
    actions: Actions | None = ABSOLUTE,
    names: dict[str, Any] | None = None,
) -> FirstStep:
    return FirstStep.of(distances, actions, names or {}, {key: np.asarray(value) for key, value in seen.items()})


def refused(step: FirstStep, row: list[float]) -> FirstStepTooFar:
    with pytest.raises(FirstStepTooFar) as caught:
        step.check(np.array(row), 4)
    return caught.value


def test_a_row_as_far_as_allowed_is_let_through_and_a_further_one_names_all_there_is_to_name():
    step = asked({"state": 0.25}, {"state": [1.0, 2.0]})
    step.check(np.array([1.25, 1.75]), 0)
    error = refused(step, [1.0, 2.5])
    assert (error.row, error.column, error.value, error.limit) == (4, 1, 2.5, 0.25)
    assert (error.key, error.observed) == ("state", 2.0)
    assert str(error).startswith(
        "the first row (row 4 of its chunk) would take column 1 to 2.5, 'state' shows it at 2:"
    )
    assert isinstance(error, ActionError)


def test_each_column_may_have_a_distance_of_its_own():
    step = asked({"state": [0.1, 5.0]}, {"state": [0.0, 0.0]})
    step.check(np.array([0.1, -5.0]), 0)
    assert refused(step, [0.2, 0.0]).column == 0


def test_the_newest_observation_counts_and_is_not_the_drivers_to_change():
    step = asked({"state": 0.1}, {"state": [0.0]})
    buffer = np.array([5.0], np.float32)
    step.see({"state": buffer})
    buffer[:] = 0.0
    step.check(np.array([5.1]), 0)
    assert refused(step, [0.0]).observed == 5.0


def test_a_float32_state_is_not_held_against_the_row_to_its_last_bit():
    step = asked({"state": 0.1}, {"state": np.array([123.4], np.float32)})  # 123.4000015, and 0.1000015 from the row
    step.check(np.array([123.3]), 0)
    assert refused(step, [123.2999]).limit == 0.1


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_state_that_is_not_finite_lets_no_row_through(bad):
    refused(asked({"state": 0.1}, {"state": [0.0, bad]}), [0.0, 0.0])


def test_columns_go_by_name_where_both_sides_name_them():
    step = asked({"joints": [0.1, 0.2]}, {"joints": [5.0, 1.0]}, NAMED, {"joints": ("elbow", "waist")})
    step.check(np.array([1.2, 5.1, 999.0]), 0)
    assert step.unheld == ("gripper",), "told before motion"
    error = refused(step, [1.0, 5.2, 0.0])
    assert (error.column, error.observed, error.limit) == (1, 5.0, 0.1)
    assert "column 1 (elbow)" in str(error)


def test_two_vectors_may_observe_a_row_together():
    seen, names = {"arm": [1.0, 2.0], "hand": [0.5]}, {"arm": ("waist", "elbow"), "hand": ("gripper",)}
    step = asked({"arm": 0.1, "hand": 0.01}, seen, NAMED, names)
    step.check(np.array([1.0, 2.0, 0.5]), 0)
    assert step.unheld == ()
    assert refused(step, [1.0, 2.0, 0.6]).key == "hand"


def test_opposite_quaternions_are_the_same_turn():
    actions = Actions(space="absolute", parts=Parts(quaternion=(1, 2, 3, 4)))
    step = asked({"pose": 0.1}, {"pose": [0.0, 1.0, 0.0, 0.0, 0.0]}, actions)
    step.check(np.array([0.0, -1.0, 0.0, 0.0, 0.05]), 0)
    refused(step, [0.0, 0.0, 1.0, 0.0, 0.0])


def test_without_a_limit_nothing_is_held_and_nothing_is_looked_at():
    step = FirstStep.of(None, None, {}, {})
    step.see({})
    step.check(np.array([1e9]), 0)


@pytest.mark.parametrize("space", [None, "delta", "velocity"])
def test_a_distance_from_a_state_means_nothing_but_for_targets(space):
    with pytest.raises(DeclarationError, match=f"space is {space or 'undeclared'}") as error:
        asked({"state": 0.1}, {"state": [0.0]}, Actions(space=space))
    assert error.value.field == "actions.space"
    with pytest.raises(DeclarationError):
        asked({"state": 0.1}, {"state": [0.0]}, None)


@pytest.mark.parametrize(
    ("distances", "seen", "actions", "names", "words"),
    [
        ({"stat": 0.1}, {"state": [0.0]}, ABSOLUTE, None, r"no such key \(it has: 'state'\)"),
        ({"state": 0.1}, {"state": [[0.0]]}, ABSOLUTE, None, r"no vector of numbers \(shape \[1, 1\]\)"),
        ({"state": 0.1}, {"state": "grasp"}, ABSOLUTE, None, "no vector of numbers"),
        ({"state": [0.1, 0.2]}, {"state": [0.0]}, ABSOLUTE, None, "gives 2 distances for 'state', which holds 1"),
        ({"state": 0.1}, {"state": [0.0, 0.0]}, NAMED, None, "observes 2 numbers and a row has 3; name them"),
        ({"state": 0.1}, {"state": [0.0]}, NAMED, {"state": ("knee",)}, "no column of a row has one of these"),
    ],
)
def test_what_does_not_fit_is_refused_before_motion(distances, seen, actions, names, words):
    with pytest.raises(ObservationError, match=words):
        asked(distances, seen, actions, names)


def test_a_row_whose_length_is_known_only_when_it_comes_is_refused_then():
    step = asked({"state": 0.1}, {"state": [0.0, 0.0]})
    with pytest.raises(ActionError, match="observes 2 numbers and a row has 3"):
        step.check(np.zeros(3), 0)


@pytest.mark.parametrize("bad", [{"state": 0.0}, {"state": -1}, {"state": math.nan}, {"state": []}, {"state": "far"}])
def test_a_distance_that_is_none_is_refused_where_it_is_written(bad):
    with pytest.raises(ValueError, match=r"first_step\['state'\]"):
        Limits(first_step=bad)


@pytest.mark.parametrize("bad", [{}, 0.1, ["state"]])
def test_first_step_takes_a_key_and_a_distance(bad):
    with pytest.raises(TypeError, match="first_step= takes"):
        Limits(first_step=bad)
