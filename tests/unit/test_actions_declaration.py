from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from seqrt.action.declaration import Actions


def test_every_field_is_optional():
    actions = Actions()
    assert actions.model_dump(exclude_defaults=True) == {}
    assert actions.dims is None


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "actions"},
        {"key": "x" * 128},
        {"key": "actions", "model_key": "normalised"},
        {"hz": 15},
        {"hz": 0.001},
        {"hz": 1000},
        {"hz": np.float32(15)},
        {"open_loop_horizon": 1},
        {"open_loop_horizon": 100_000},
        {"space": "absolute"},
        {"space": "delta"},
        {"space": "velocity"},
        {"names": ["waist", "shoulder"]},
        {"bounds": [[-1, 1], [0, 0]]},
        {"bounds": np.array([[-1.0, 1.0]])},
        {"max_delta": 0.1},
        {"max_delta": np.float32(0.5)},
        {"max_delta": [0.1, 0.2]},
        {"max_delta": np.array([0.1, 0.2])},
        {"names": ["a", "b"], "bounds": [[-1, 1]] * 2, "max_delta": [0.1, 0.2]},
        {"names": ["a", "b"], "max_delta": 0.1},
    ],
    ids=str,
)
def test_what_may_be_declared_survives_json(fields):
    actions = Actions(**fields)
    assert Actions.model_validate_json(actions.model_dump_json(exclude_none=True)) == actions


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": ""}, "key"),
        ({"key": "x" * 129}, "key"),
        ({"key": 3}, "key"),
        ({"key": "actions", "model_key": "actions"}, "under another key"),
        ({"model_key": "normalised"}, "model_key needs key"),
        ({"hz": 0}, "greater than 0"),
        ({"hz": -15}, "greater than 0"),
        ({"hz": 1000.5}, "less than or equal to 1000"),
        ({"hz": math.nan}, "finite"),
        ({"hz": math.inf}, "finite"),
        ({"hz": True}, "write a number, not True"),
        ({"hz": "15"}, "write a number, not '15'"),
        ({"open_loop_horizon": 0}, "greater than or equal to 1"),
        ({"open_loop_horizon": 100_001}, "less than or equal to 100000"),
        ({"open_loop_horizon": True}, "valid integer"),
        ({"open_loop_horizon": 8.0}, "valid integer"),
        ({"space": "joint"}, "space"),
        ({"names": []}, "names is empty"),
        ({"names": ["a", "b", "a"]}, "'a' stands there twice"),
        ({"names": ["a", ""]}, "names"),
        ({"names": "ab"}, "names"),
        ({"bounds": []}, "bounds is empty"),
        ({"bounds": [[1, -1]]}, "column 0 has low 1.0 above high -1.0; write [low, high]"),
        ({"bounds": [[-1, math.inf]]}, "finite"),
        ({"bounds": [[math.nan, 1]]}, "finite"),
        ({"bounds": [[False, True]]}, "write a number, not False"),
        ({"bounds": [[-1, 1, 2]]}, "bounds"),
        ({"bounds": [-1, 1]}, "bounds"),
        ({"max_delta": 0}, "greater than 0"),
        ({"max_delta": [0.1, -0.1]}, "greater than 0"),
        ({"max_delta": []}, "max_delta is empty"),
        ({"max_delta": math.inf}, "finite"),
        ({"max_delta": True}, "write a number, not True"),
        ({"max_delta": "0.1"}, "write a number, not '0.1'"),
        ({"names": ["a", "b"], "bounds": [[-1, 1]]}, "names has 2, bounds has 1"),
        ({"bounds": [[-1, 1]], "max_delta": [1, 1]}, "bounds has 1, max_delta has 2"),
        ({"horizon": 8}, "Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_when_it_is_written(fields, words):
    with pytest.raises(ValidationError) as refused:
        Actions(**fields)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "dims"),
    [
        ({"names": ["a", "b", "c"]}, 3),
        ({"bounds": [[-1, 1]] * 4}, 4),
        ({"max_delta": [1.0, 1.0]}, 2),
        ({"max_delta": 1.0}, None),
        ({"hz": 15}, None),
    ],
)
def test_the_length_of_a_row_is_what_the_columns_say(fields, dims):
    assert Actions(**fields).dims == dims


def test_a_declaration_does_not_change():
    with pytest.raises(ValidationError):
        Actions(hz=15).hz = 30.0  # type: ignore[misc]
