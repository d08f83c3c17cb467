"""The JSON face: bodies of ``POST /v1/act`` read, refused by name, and turned into acts and answers."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.errors import InvalidRequest, Unavailable, WireError
from seqrt.gateway.face import IMAGES, READINGS, ActBody, answer_of, check_pictures, read_body, request_of
from seqrt.observation.codecs import encode_picture
from seqrt.wire.codec import encode
from seqrt.wire.codec import read_body as read_tree
from seqrt.wire.frames import encode_frames
from seqrt.wire.headers import FRAMES, JSON, MSGPACK
from seqrt.wire.messages import ActResponse

JPEG = encode_picture(np.zeros((6, 8, 3), np.uint8), "jpeg")
DEPTH = encode_picture(np.zeros((6, 8), np.uint16), "png")
TEXT = base64.b64encode(JPEG).decode()

BODY: dict[str, Any] = {
    "model": "arm",
    "observation": {
        "images": [{"view": "wrist", "data": TEXT, "timestamp_ms": None}],
        "proprioception": {
            "joint_positions": [0, 1.5],
            "joint_velocities": None,
            "end_effector_pose": None,
            "gripper": 0.25,
        },
        "instruction": "push",
    },
}


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """The body with one place of it another."""
    body = copy.deepcopy(BODY)
    inner = body
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return body


def test_what_an_older_client_sends_becomes_an_act_without_its_nulls() -> None:
    request = request_of(read_body(BODY))
    assert request.inputs == {
        "images": [{"view": "wrist", "data": TEXT}],
        "proprioception": {"joint_positions": [0.0, 1.5], "gripper": [0.25]},
        "instruction": "push",
    }
    assert (request.episode_id, request.seq, request.seed, request.params) == (None, None, None, None)


def test_options_become_what_a_worker_reads_and_null_ones_nothing() -> None:
    options = {"seed": 3, "robot": "left", "action_horizon": 8, "return_world_prediction": None}
    request = request_of(read_body({**BODY, **options}))
    assert (request.seed, request.embodiment, request.params) == (3, "left", {"action_horizon": 8})


def test_a_gripper_of_several_fingers_a_state_and_every_reading_go_through() -> None:
    readings = {"joint_positions": [0.0], "joint_velocities": [1.0], "end_effector_pose": [0.0] * 7, "gripper": [1, 2]}
    body = changed("observation", "proprioception", to=readings)
    body["observation"]["state"] = {"force": [1, 2, 3]}
    inputs = request_of(read_body(body)).inputs
    assert inputs["proprioception"] == {**readings, "gripper": [1.0, 2.0]}
    assert inputs["state"] == {"force": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("body", "where", "what"),
    [
        ([BODY], "", "a map"),
        ({**BODY, "temperature": 1}, "temperature", "action_horizon, seed, robot, return_world_prediction"),
        ({**BODY, 3: 1}, "3", "unknown option"),
        ({**BODY, "episode_id": "e"}, "episode_id", "unknown option"),
        ({"observation": BODY["observation"]}, "", "`model`"),
        ({"model": "arm"}, "", "`observation`"),
        ({**BODY, "model": ""}, "model", "length"),
        ({**BODY, "model": None}, "model", "str"),
        ({**BODY, "seed": True}, "seed", "int"),
        ({**BODY, "action_horizon": 0}, "action_horizon", ">= 1"),
        ({**BODY, "robot": 3}, "robot", "str"),
        (changed("observation", to=None), "observation", "object"),
        (changed("observation", to=np.zeros(3)), "", "array"),
        (changed("observation", "mood", to=1), "observation.mood", "unknown field"),
        (changed("observation", "instruction", to=None), "observation.instruction", "str"),
        (changed("observation", "images", to=[]), "observation.images", ">= 1"),
        (
            changed("observation", "images", to=BODY["observation"]["images"] * (IMAGES + 1)),
            "observation.images",
            "256",
        ),
        (changed("observation", "images", 0, "view", to=None), "observation.images[0].view", "str"),
        (changed("observation", "images", 0, "kind", to="ir"), "observation.images[0].kind", "ir"),
        (changed("observation", "images", 0, "url", to="http://"), "observation.images[0].url", "unknown field"),
        (changed("observation", "images", 0, "data", to=None), "observation.images[0].data", "base64"),
        (changed("observation", "images", 0, "data", to=np.zeros((6, 8, 3))), "observation.images[0].data", "ndarray"),
        (changed("observation", "proprioception", to=[0.0]), "observation.proprioception", "object"),
        (changed("observation", "proprioception", "joint_positions", to=["0"]), "joint_positions[0]", "float"),
        (changed("observation", "proprioception", "end_effector_pose", to=[0.0] * 6), "end_effector_pose", "7"),
        (changed("observation", "proprioception", "gripper", to=True), "proprioception.gripper", "bool"),
        (changed("observation", "proprioception", "gripper", to=float("nan")), "proprioception.gripper", "finite"),
        (changed("observation", "state", to={"force": [float("inf")]}), "observation.state.force", "finite"),
        (changed("observation", "state", to={"skin": [0.0] * READINGS}), "observation.state.skin", "numbers"),
        (changed("observation", "state", to={f"{n}": [] for n in range(READINGS)}), "observation.state.", "names"),
        (changed("observation", "state", to={"force": np.zeros((2, 2))}), "state", ""),
    ],
)
def test_what_is_wrong_in_a_body_is_named(body: Any, where: str, what: str) -> None:
    with pytest.raises(WireError) as raised:
        read_body(body)
    assert where in raised.value.where
    assert what in raised.value.what
    assert raised.value.reason == "field"


def test_the_same_act_in_each_form_says_the_same() -> None:
    as_arrays = changed("observation", "proprioception", "joint_positions", to=np.array([0, 1.5], np.float32))
    read = [
        read_body(read_tree(json.dumps(BODY).encode(), JSON)),
        read_body(read_tree(encode_frames(BODY), FRAMES)),
        read_body(read_tree(encode(as_arrays), MSGPACK)),
    ]
    assert [request_of(body) for body in read] == [request_of(read[0])] * 3


def test_a_policy_sees_the_same_text_whatever_form_its_pictures_came_in() -> None:
    body = read_body(read_tree(encode(changed("observation", "images", 0, "data", to=JPEG)), MSGPACK))
    check_pictures(body, {})
    assert request_of(body).inputs["images"][0]["data"] == TEXT


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PLACES = [
    ("model",),
    ("seed",),
    ("observation",),
    ("observation", "images"),
    ("observation", "images", 0),
    ("observation", "images", 0, "data"),
    ("observation", "images", 0, "timestamp_ms"),
    ("observation", "proprioception"),
    ("observation", "proprioception", "gripper"),
    ("observation", "state"),
]


@given(st.sampled_from(PLACES), values)
def test_whatever_stands_in_a_place_is_an_act_or_a_typed_refusal(place: tuple[Any, ...], value: Any) -> None:
    try:
        body = read_body(changed(*place, to=value))
        check_pictures(body, {})
        assert isinstance(request_of(body).inputs, Mapping)
    except (WireError, InvalidRequest):
        pass


@given(values)
def test_any_tree_at_all_is_an_act_or_a_typed_refusal(tree: Any) -> None:
    with pytest.raises(WireError):
        read_body(tree)


def pictured(**picture: Any) -> ActBody:
    return read_body(changed("observation", "images", to=[{"view": "wrist", "data": TEXT, **picture}]))


def sized(width: int, height: int) -> str:
    """A PNG's header, of that size."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(head + b"\x08\x02\x00\x00\x00\x00\x00\x00\x00").decode()


@pytest.mark.parametrize(
    "picture",
    [
        {},
        {"kind": "rgb"},
        {"data": base64.b64encode(DEPTH).decode(), "kind": "depth"},
        {"data": base64.b64encode(DEPTH).decode()},
        {"data": sized(2000, 2000)},
    ],
)
def test_pictures_of_colours_and_of_distances_pass_by_their_headers(picture: dict[str, Any]) -> None:
    check_pictures(pictured(**picture), {})


@pytest.mark.parametrize(
    ("picture", "what"),
    [
        ({"data": "Zm9v"}, "neither PNG nor JPEG"),
        ({"data": ""}, "neither PNG nor JPEG"),
        ({"data": "!"}, "PNG nor JPEG"),
        ({"data": "é"}, "base64"),
        ({"kind": "depth"}, "one channel of 16"),
        ({"data": base64.b64encode(DEPTH).decode(), "kind": "rgb"}, 'kind: "depth"'),
        ({"data": sized(2001, 2000)}, "4 megapixels"),
    ],
)
def test_what_is_no_picture_as_it_says_is_refused_by_place_and_view(picture: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as raised:
        check_pictures(pictured(**picture), {})
    assert raised.value.details == {"where": "observation.images[0]", "view": "wrist"}


def test_a_view_that_is_declared_is_left_to_the_worker_to_size() -> None:
    check_pictures(pictured(data=sized(8192, 8192)), {"wrist": {"width": 8192, "height": 8192}})


CHUNK = {"steps": [{"index": 0, "values": [0.0]}], "robot": "arm", "action_dim": 1}


def answered(response: ActResponse, **more: Any) -> dict[str, Any]:
    about = {"model": "m", "created": 7, "elapsed_s": 0.25, "acts_left": None, **more}
    return answer_of(response, read_body(BODY), **about)


def test_an_answer_says_what_it_took_and_what_it_used() -> None:
    response = ActResponse(
        outputs=None, perf={"inference_ms": 20.0}, warnings=["w"], request_id="r-01234567", action_chunk=CHUNK
    )
    assert answered(response, acts_left=4) == {
        "id": "act-01234567",
        "created": 7,
        "model": "m",
        "object": "act.response",
        "warnings": ["w"],
        "action_chunk": CHUNK,
        "usage": {"frames_received": 1, "acts_left": 4},
        "perf": {"inference_ms": 20.0, "ttfa_ms": 250.0},
    }
    assert answered(response)["usage"] == {"frames_received": 1}


@pytest.mark.parametrize("chunk", [None, {**CHUNK, "steps": []}])
def test_an_answer_without_steps_is_the_workers_fault_and_never_reaches_a_robot(chunk: Any) -> None:
    with pytest.raises(Unavailable) as raised:
        answered(ActResponse(outputs=None, action_chunk=chunk))
    assert raised.value.code == "upstream_error"
