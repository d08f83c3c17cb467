from __future__ import annotations

import numpy as np
import pytest

from seqrt.errors import WireError
from seqrt.wire import encode, encode_json, read_act, require_one_of
from seqrt.wire.headers import JSON, MSGPACK
from seqrt.wire.messages import ActRequest

OBSERVATION = {"images": [{"view": "wrist", "data": "YWJj"}], "instruction": "pick"}

TRANSLATED = {
    "the present form": ({"inputs": OBSERVATION, "seq": 3}, ActRequest(inputs=OBSERVATION, seq=3)),
    "a data-less act": ({"call": "act", "seq": 3, "episode_id": "e"}, ActRequest(call="act", seq=3, episode_id="e")),
    "a data-less act and a model": (
        {"model": "m", "call": "act", "seq": 3, "episode_id": "e"},
        ActRequest(call="act", seq=3, episode_id="e"),
    ),
    "the present form and a model": (
        {"model": "m", "inputs": OBSERVATION, "seq": 3, "params": {"speed": 1}, "episode_id": "e"},
        ActRequest(inputs=OBSERVATION, seq=3, params={"speed": 1}, episode_id="e"),
    ),
    "inputs of null": ({"inputs": None}, ActRequest(inputs=None)),
    "inputs and a model": ({"inputs": OBSERVATION, "model": "m"}, ActRequest(inputs=OBSERVATION)),
    "an observation": ({"observation": OBSERVATION}, ActRequest(inputs=OBSERVATION)),
    "an observation and options": (
        {"model": "m", "observation": OBSERVATION, "seed": 7, "robot": "droid", "action_horizon": 8, "episode_id": "e"},
        ActRequest(inputs=OBSERVATION, seed=7, embodiment="droid", params={"action_horizon": 8}, episode_id="e"),
    ),
    "options of null": (
        {"observation": OBSERVATION, "seed": None, "robot": None, "return_world_prediction": None},
        ActRequest(inputs=OBSERVATION),
    ),
    "the body itself": ({**OBSERVATION, "model": "m", "seed": 7}, ActRequest(inputs=OBSERVATION, seed=7)),
    "the body itself, a list": ([1, 2], ActRequest(inputs=[1, 2])),
}


@pytest.mark.parametrize("case", TRANSLATED)
def test_a_body_of_any_form_gives_the_act_it_means(case: str) -> None:
    tree, act = TRANSLATED[case]
    assert read_act(encode(tree), MSGPACK) == act
    assert read_act(encode_json(tree), JSON) == act


def test_the_body_itself_may_be_an_array() -> None:
    assert read_act(encode(np.arange(3)), MSGPACK).inputs.tolist() == [0, 1, 2]


def test_a_body_of_an_unknown_type_is_the_policys_own_input() -> None:
    assert read_act(b"\xff\xd8\xff", "image/jpeg") == ActRequest(inputs=b"\xff\xd8\xff")


@pytest.mark.parametrize(
    ("tree", "field"),
    [
        ({"inputs": 1, "colour": "red"}, "colour"),
        ({"observation": {}, "colour": "red"}, "colour"),
        ({"input": 1, "seq": 3}, "input"),
        ({"observation": {}, "inputs": {}}, "observation"),
        ({"observation": {}, "call": "act"}, "observation"),
        ({"observation": {}, "seed": "x"}, "seed"),
        ({"observation": {}, "robot": 3}, "embodiment"),
    ],
)
def test_an_unknown_or_wrong_field_is_refused_by_name(tree: object, field: str) -> None:
    with pytest.raises(WireError) as refusal:
        read_act(encode(tree), MSGPACK)
    assert refusal.value.where == field


@pytest.mark.parametrize("tree", [{}, {"model": "m"}, {"episode_id": "e"}, {"seq": 3, "episode_id": "e"}])
def test_a_body_without_inputs_is_an_act_with_neither(tree: object) -> None:
    with pytest.raises(WireError, match="neither"):
        require_one_of(read_act(encode(tree), MSGPACK))
