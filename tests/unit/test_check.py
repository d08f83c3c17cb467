from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqrt.errors import ObservationError
from seqrt.observation import Observations, Stream, check


def declared(**streams: Any) -> Observations:
    return Observations(streams={key: Stream(**fields) for key, fields in streams.items()})


STATE = declared(state={"shape": [8], "dtype": "float32"})


def test_what_fits_comes_through_and_what_is_not_declared_is_left_out() -> None:
    state = np.zeros(8, np.float32)
    checked = check({"state": state, "debug": "not sent"}, STATE)
    assert list(checked) == ["state"]
    assert checked["state"] is state


@pytest.mark.parametrize("observations", [None, Observations()])
def test_without_streams_anything_passes_as_it_is(observations: Observations | None) -> None:
    observation = {"anything": object()}
    assert check(observation, observations) is observation


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.full(8, 0.25), "float32"),
        (np.arange(8), "float32"),
        ([0.0] * 8, "float32"),
        (np.arange(8), "uint8"),
        (np.arange(8, dtype=np.uint8), "int64"),
        (np.ones(8, bool), "float32"),
    ],
)
def test_a_type_that_can_hold_the_values_is_cast_to(value: Any, dtype: str) -> None:
    cast = check({"x": value}, declared(x={"dtype": dtype}))["x"]
    assert cast.dtype.name == dtype
    assert np.array_equal(cast, np.asarray(value))


@pytest.mark.parametrize(
    ("value", "dtype", "told"),
    [
        (np.zeros((2, 2, 3)), "uint8", "float64"),
        (np.array([300]), "uint8", "300"),
        (np.array([-1]), "uint8", "-1"),
        (np.array([1e300]), "float32", "too large"),
        (np.array([1j]), "float32", "complex128"),
    ],
)
def test_a_type_that_cannot_hold_the_values_is_refused_with_both_types(value: Any, dtype: str, told: str) -> None:
    with pytest.raises(ObservationError, match=told) as refused:
        check({"wrist": value}, declared(wrist={"dtype": dtype}))
    assert refused.value.key == "wrist"
    assert (refused.value.expected, refused.value.found) == (dtype, value.dtype.name)
    assert "'wrist'" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "declaration", "told"),
    [
        (np.zeros(7), [8], r"\[7\], the policy declares \[8\]"),
        (np.zeros((480, 640, 3)), [640, 480, 3], "another order"),
        (np.zeros(8), [1, 8], "leading axis"),
        (np.zeros((1, 8)), [8], "drop the leading axis"),
        (3.0, [1], r"value\[None\]"),
    ],
)
def test_a_shape_that_differs_is_refused_with_both_shapes(value: Any, declaration: list[int], told: str) -> None:
    with pytest.raises(ObservationError, match=told) as refused:
        check({"x": value}, declared(x={"shape": declaration}))
    assert refused.value.expected == declaration
    assert refused.value.found == list(np.shape(value))


def test_a_missing_key_is_named_with_the_one_that_was_probably_meant() -> None:
    with pytest.raises(ObservationError, match="did you mean 'wrist_cam'") as refused:
        check({"wrist_cam": 0, "state": 0}, declared(wrist={}))
    assert refused.value.key == "wrist"


def test_camera_names_that_differ_are_both_in_the_message() -> None:
    with pytest.raises(ObservationError, match=r"'observation\.images\.front'.*'front'"):
        check({"front": 0}, declared(**{"observation.images.front": {}}))


@pytest.mark.parametrize("value", ["text", [[1], [1, 2]], {"a": 1}, None, [None]])
def test_what_is_not_numbers_is_refused_where_numbers_are_declared(value: Any) -> None:
    with pytest.raises(ObservationError, match="'x'"):
        check({"x": value}, declared(x={"dtype": "float32"}))


def test_an_observation_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ObservationError, match="not a mapping"):
        check([1, 2], STATE)


def test_a_value_of_which_nothing_is_declared_passes_as_it_is() -> None:
    assert check({"prompt": "pick it up"}, declared(prompt={}))["prompt"] == "pick it up"


def test_names_say_how_many_entries_the_last_axis_has() -> None:
    named = declared(state={"names": ["x", "y"]})
    assert check({"state": [1.0, 2.0]}, named)["state"].tolist() == [1.0, 2.0]
    with pytest.raises(ObservationError, match="names 2 entries"):
        check({"state": np.zeros(3)}, named)
