"""Mixing two rows: plain columns averaged, grippers taken whole, quaternions turned."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from seqrt.action.declaration import Actions, Parts
from seqrt.action.parts import Mixing


def _about_z(degrees: float) -> list[float]:
    half = math.radians(degrees) / 2
    return [math.cos(half), 0.0, 0.0, math.sin(half)]


@pytest.mark.parametrize("space", [None, "delta", "velocity"])
def test_rows_of_a_space_that_is_not_absolute_are_not_mixed(space: str | None) -> None:
    assert Mixing.of(None) is None
    assert Mixing.of(Actions(space=space)) is None  # type: ignore[arg-type]


def test_plain_columns_are_averaged_by_weight_and_the_ends_are_the_rows_themselves() -> None:
    mixing = Mixing.of(Actions(space="absolute"))
    assert mixing is not None
    old, new = np.array([[0.0, 10.0]] * 3), np.array([[1.0, 20.0]] * 3)
    mixed = mixing.mix(old, new, np.array([0.0, 0.25, 1.0]))
    assert mixed.tolist() == [[0.0, 10.0], [0.25, 12.5], [1.0, 20.0]]


def test_a_gripper_is_never_half_open() -> None:
    mixing = Mixing.of(Actions(space="absolute", parts=Parts(gripper=(1,))))
    assert mixing is not None
    assert mixing.mix(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]), 0.1).tolist() == [[0.1, 1.0]]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_quaternion_turns_on_the_short_way_at_an_even_rate(sign: float) -> None:
    mixing = Mixing.of(Actions(space="absolute", parts=Parts(quaternion=(0, 1, 2, 3))))
    assert mixing is not None
    old, new = np.array([_about_z(0.0)] * 3), sign * np.array([_about_z(90.0)] * 3)
    mixed = mixing.mix(old, new, np.array([1 / 3, 2 / 3, 1.0]))
    assert np.allclose(mixed, [_about_z(30.0), _about_z(60.0), _about_z(90.0)])


def test_equal_and_nearly_equal_quaternions_stay_finite_and_of_unit_length() -> None:
    mixing = Mixing(quaternions=((0, 1, 2, 3),))
    for degrees in (0.0, 1e-7, 1e-3):
        mixed = mixing.mix(np.array([_about_z(0.0)]), np.array([_about_z(degrees)]), 0.5)
        assert np.allclose(mixed, [_about_z(degrees / 2)], atol=1e-12)
        assert np.linalg.norm(mixed) == pytest.approx(1.0)


@given(st.lists(st.floats(-1, 1), min_size=12, max_size=12), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_one_row_is_mixed_as_many_are(numbers: list[float], weight: float) -> None:
    old, new = np.array(numbers[:6]), np.array(numbers[6:])
    for row in (old, new):
        length = float(np.linalg.norm(row[1:5]))
        row[1:5] = row[1:5] / length if length > 0.1 else [0.0, 0.0, 1.0, 0.0]
    mixing = Mixing(gripper=(5,), quaternions=((1, 2, 3, 4),))
    if np.dot(old[1:5], new[1:5]) == pytest.approx(0.0, abs=1e-9):
        new[1:5] = old[1:5]  # a half turn has no short way
    many = mixing.mix(old[np.newaxis], new[np.newaxis], weight)[0]
    assert mixing.between(old, new, weight) == pytest.approx(many, abs=1e-9)
    assert mixing.between(old, old, weight) == pytest.approx(old, abs=1e-9)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"quaternion": (0, 1, 2)}, "write four for each"),
        ({"gripper": (1,), "quaternion": (0, 1, 2, 3)}, "column 1 stands there twice"),
        ({"gripper": (-1,)}, "greater than or equal to 0"),
        ({"gripper": (True,)}, "valid integer"),
        ({"hand": (1,)}, "Extra inputs"),
    ],
)
def test_parts_that_mean_nothing_are_refused(parts: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Parts.model_validate(parts)


def test_a_part_beyond_the_row_is_refused() -> None:
    with pytest.raises(ValidationError, match="column 2 is none of the 2"):
        Actions(names=("x", "y"), parts=Parts(gripper=(2,)))
