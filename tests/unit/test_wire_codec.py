from __future__ import annotations

import datetime
import decimal
import enum
import types
import uuid

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seqrt.errors import WireError
from seqrt.wire import decode, decode_body, decode_info, decode_json, encode, encode_json, require_one_of
from seqrt.wire.arrays import MARKERS
from seqrt.wire.headers import FRAMES, JSON, MSGPACK
from seqrt.wire.limits import FRAMES_A_POST
from seqrt.wire.messages import (
    ActRequest,
    ActResponse,
    AnswerPlan,
    AskPlan,
    EpisodeEnd,
    ErrorBody,
    Frame,
    ObserveRequest,
    ObserveResponse,
    PolicyInfo,
)


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


class Colour(enum.Enum):
    RED = object()


LOOP: list[object] = []
LOOP.append(LOOP)

UNSENDABLE = {
    "an object": (object(), "type"),
    "a set": ({1}, "type"),
    "a frozen set": (frozenset([1]), "type"),
    "a date": (datetime.datetime(2024, 1, 1), "type"),
    "a decimal": (decimal.Decimal(1), "type"),
    "a uuid": (uuid.UUID(int=0), "type"),
    "an enum": (Colour.RED, "type"),
    "an extension type": (msgspec.msgpack.Ext(1, b""), "type"),
    "raw bytes of msgpack": (msgspec.Raw(b"\x01"), "type"),
    "a generator": ((n for n in ()), "type"),
    "an object array": (np.array([None]), "dtype"),
    "a structured array": (np.zeros(1, [("a", "f4")]), "dtype"),
    "a datetime array": (np.zeros(1, "M8[s]"), "dtype"),
    "a datetime scalar": (np.datetime64(0, "s"), "dtype"),
    "a zero-size text array": (np.zeros(1, "S0").view("S1")[:0].astype("V1"), "dtype"),
    "a masked array": (np.ma.masked_array([1, 2], [0, 1]), "type"),
    "an int past 64 bits": (2**64, "integer"),
    "an int past 64 bits below": (-(2**63) - 1, "integer"),
    "an int in a list": ([1, 2, 2**64], "integer"),
    "a surrogate": ("\ud800", "utf8"),
    "a surrogate as a key": ({"\ud800": 1}, "utf8"),
    "a float as a key": ({1.5: 1}, "keys"),
    "None as a key": ({None: 1}, "keys"),
    "a bool as a key": ({True: 1}, "keys"),
    "a tuple as a key": ({(1, 2): 1}, "keys"),
    "65 containers": (nested(65), "depth"),
    "a list inside itself": (LOOP, "depth"),
    "a strided memoryview": (memoryview(b"abcd")[::2], "type"),
}


@pytest.mark.parametrize("case", UNSENDABLE)
def test_what_cannot_travel_is_refused_with_its_path(case: str) -> None:
    value, reason = UNSENDABLE[case]
    with pytest.raises(WireError) as refusal:
        encode(ActRequest(inputs={"arms": [{"left": 0}, {"left": value}]}))
    assert refusal.value.reason == reason
    assert refusal.value.where.startswith("inputs.arms[1].left")


@pytest.mark.parametrize("case", sorted(set(UNSENDABLE) - {"a strided memoryview"}))
def test_json_refuses_what_msgpack_refuses(case: str) -> None:
    with pytest.raises(WireError):
        encode_json({"v": UNSENDABLE[case][0]})


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        np.float32("nan"),
        np.array([1.0, np.inf]),
        [1.0, float("nan")],
        1j,
        np.zeros(2, "c8"),
        np.longdouble(1),
        np.zeros(1, "g"),
        {1: 2},
        {b"k": 2},
    ],
    ids=repr,
)
def test_json_refuses_what_it_has_no_form_for(value: object) -> None:
    with pytest.raises(WireError, match=r"^outputs\.v"):
        encode_json(ActResponse(outputs={"v": value}))


def test_a_tensor_is_refused_with_the_remedy() -> None:
    tensor = types.SimpleNamespace(__array__=lambda: None)
    with pytest.raises(WireError, match="pass a numpy array"):
        encode({"t": tensor})


def test_64_containers_inside_one_another_travel_both_ways() -> None:
    assert decode(encode(nested(64)), list) == nested(64)
    assert decode_json(encode_json(nested(64)), list) == nested(64)


@pytest.mark.parametrize("padding", [0, 40_000], ids=["short", "long"])
def test_an_array_is_one_value_whatever_its_map_holds(padding: int) -> None:
    value: object = np.zeros(padding + 1, np.uint8)
    for _ in range(64):
        value = [value]
    arrived = decode(encode(value), list)
    for _ in range(64):
        arrived = arrived[0]
    assert arrived.nbytes == padding + 1


MESSAGES = [
    ActRequest(inputs={"state": [1.0, 2.0], 3: b"x", b"k": None}, seq=0, episode_id="e"),
    ActRequest(call="act", seq=4, episode_id="e" * 256, plan=AskPlan(previous=-1, dry_in_s=0.25, epoch=2)),
    ActResponse(outputs=None, plan=AnswerPlan(stale=True, epoch=1)),
    ActResponse(outputs=[[1, 2]], perf={"inference_ms": 3.5}, warnings=["clipped"], request_id="r-00000000"),
    ObserveRequest(episode_id="e", frames=[Frame(seq=3, inputs={"a": "b"})], skipped=[0, 1, 2], begun=True),
    ObserveResponse(through=-1),
    EpisodeEnd(episode_id="e"),
    ErrorBody(detail="d", code="busy", retryable=True, retry_after_s=1.0, details={"k": [1]}),
    PolicyInfo(protocol=1, takes=["prefix"], timeouts={"request": 300.0}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_arrives_as_it_was_sent(message: msgspec.Struct) -> None:
    assert decode(encode(message), type(message)) == message


@pytest.mark.parametrize("message", MESSAGES[1:], ids=lambda m: type(m).__name__)
def test_a_message_arrives_as_json_too(message: msgspec.Struct) -> None:
    assert decode_json(encode_json(message), type(message)) == message


def test_json_carries_arrays_as_lists_and_bytes_as_base64() -> None:
    tree = {"a": np.array([[1, 2]], ">i2"), "f": np.float32(0.5), "b": b"\x00\x01", "t": (True, None), "e": np.empty(0)}
    assert encode_json(tree) == b'{"a":[[1,2]],"f":0.5,"b":"AAE=","t":[true,null],"e":[]}'


WRONG = {
    "unknown field": ({"inputs": 1, "sed": 3}, ActRequest, "sed"),
    "unknown field inside": ({"inputs": 1, "plan": {"epok": 3}}, ActRequest, "plan.epok"),
    "seq a bool": ({"inputs": 1, "seq": True}, ActRequest, "seq"),
    "seq text": ({"inputs": 1, "seq": "3"}, ActRequest, "seq"),
    "seq a float": ({"inputs": 1, "seq": 3.0}, ActRequest, "seq"),
    "seq a numpy int": ({"inputs": 1, "seq": np.int64(3)}, ActRequest, "seq"),
    "seq negative": ({"inputs": 1, "seq": -1}, ActRequest, "seq"),
    "seq past 63 bits": ({"inputs": 1, "seq": 2**63}, ActRequest, "seq"),
    "no episode id": ({"inputs": 1, "episode_id": ""}, ActRequest, "episode_id"),
    "episode id of 257": ({"inputs": 1, "episode_id": "e" * 257}, ActRequest, "episode_id"),
    "episode id of 257 at its end": ({"episode_id": "e" * 257}, EpisodeEnd, "episode_id"),
    "another call": ({"call": "observe"}, ActRequest, "call"),
    "params a list": ({"inputs": 1, "params": []}, ActRequest, "params"),
    "skipped negative": ({"episode_id": "e", "skipped": [0, -1]}, ObserveRequest, "skipped[1]"),
    "frame without inputs": ({"episode_id": "e", "frames": [{"seq": 0}]}, ObserveRequest, "frames[0]"),
    "through": ({"through": -2}, ObserveResponse, "through"),
    "a list": ([1], ActRequest, ""),
    "null": (None, ActRequest, ""),
    "an array": (np.zeros(3), ActRequest, ""),
    "an array as the plan": ({"inputs": 1, "plan": np.zeros(3)}, ActRequest, ""),
    "an array as params": ({"inputs": 1, "params": np.zeros(3)}, ActRequest, "params"),
    "an array as skipped": ({"episode_id": "e", "skipped": np.zeros(3)}, ObserveRequest, "skipped"),
    "no outputs": ({"plan": {"t": 1}}, ActResponse, ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_message_with_a_wrong_field_is_refused_by_its_name(case: str) -> None:
    tree, message, where = WRONG[case]
    with pytest.raises(WireError) as refusal:
        decode(encode(tree), message)
    assert refusal.value.where == where
    assert refusal.value.reason == "field"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ActRequest(), "neither"),
        (ActRequest(inputs=None, call="act", seq=1, episode_id="e"), "both"),
        (ActRequest(call="act", seq=1), "episode"),
        (ActRequest(call="act", episode_id="e"), "count"),
        (ActRequest(call="act", seq=0, episode_id="e"), "at least 1"),
    ],
)
def test_an_act_has_inputs_or_call(request_: ActRequest, words: str) -> None:
    with pytest.raises(WireError, match=words) as refusal:
        require_one_of(request_)
    assert words not in ("both", "neither") or ("`inputs`" in str(refusal.value) and "`call`" in str(refusal.value))


def test_an_act_with_inputs_or_call_passes() -> None:
    require_one_of(ActRequest(inputs=None))
    require_one_of(ActRequest(call="act", seq=1, episode_id="e"))


def test_a_newer_workers_fields_are_ignored_and_a_newer_protocol_is_refused_with_both_versions() -> None:
    info = decode_info(encode({"protocol": 1, "model": "m", "colour": {"of": "paint"}}))
    assert info == PolicyInfo(protocol=1, model="m")
    with pytest.raises(WireError, match="protocol 2, this robot 1") as refusal:
        decode_info(encode({"protocol": 2, "model": ["not", "text", "any", "more"]}))
    assert refusal.value.reason == "protocol"


@pytest.mark.parametrize("tree", [[], None, {"model": "m"}, {"protocol": True}, {"protocol": 1, "infer_s": "1"}])
def test_what_is_no_description_of_a_policy_is_refused(tree: object) -> None:
    with pytest.raises(WireError):
        decode_info(encode(tree))


def test_a_body_is_read_by_its_content_type() -> None:
    expected = EpisodeEnd(episode_id="e")
    assert decode_body(encode(expected), f"{MSGPACK.upper()} ; q=1", EpisodeEnd) == expected
    for content_type in (JSON, "application/json; charset=utf-8", None, ""):
        assert decode_body(encode_json(expected), content_type, EpisodeEnd) == expected
    with pytest.raises(WireError, match="text/html") as refusal:
        decode_body(b"<html>", "text/html", EpisodeEnd)
    assert refusal.value.reason == "media_type"
    with pytest.raises(WireError) as refusal:
        decode_body(b"SQF", FRAMES, EpisodeEnd)
    assert refusal.value.reason == "frames"


plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
keys = (st.text(max_size=8) | st.binary(max_size=4) | st.integers(-5, 2**64 - 1)).filter(lambda key: key not in MARKERS)
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)
numeric = arrays.boolean_dtypes() | arrays.integer_dtypes() | arrays.floating_dtypes() | arrays.complex_number_dtypes()
some_arrays = arrays.arrays(numeric, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
episodes = st.none() | st.text(min_size=1, max_size=256)


@given(trees, episodes, st.none() | st.integers(0, 2**63 - 1))
def test_any_act_arrives_as_it_was_sent(inputs: object, episode_id: str | None, seq: int | None) -> None:
    act = ActRequest(inputs=inputs, episode_id=episode_id, seq=seq)
    assert decode(encode(act), ActRequest) == act


@given(some_arrays)
def test_any_array_arrives_as_it_was_sent(array: np.ndarray) -> None:
    arrived = decode(encode({"a": array.T}), dict)["a"]
    assert arrived.dtype.str == array.dtype.str
    np.testing.assert_array_equal(arrived, array.T)


@given(st.recursive(st.none() | st.integers(0, 9) | st.text(max_size=5), st.lists, max_leaves=30), st.integers(1, 4))
def test_a_long_body_is_read_like_a_short_one(tree: object, copies: int) -> None:
    long = {"pad": bytes(20_000), "trees": [{"tree": tree, "pad": bytes(20_000), "n": [tree] * 50}] * copies}
    assert decode(encode(long), dict) == long


@pytest.mark.parametrize(("pictures", "size"), [(2, 14_700), (1, 12_000), (3, 300)])
def test_as_many_observations_as_one_post_takes_are_read_whatever_their_pictures_have(pictures: int, size: int) -> None:
    seen = {f"view {n}": bytes(size) for n in range(pictures)}
    sent = ObserveRequest(episode_id="e", frames=[Frame(seq=n, inputs=seen) for n in range(FRAMES_A_POST)])
    assert decode(encode(sent), ObserveRequest) == sent


@pytest.mark.parametrize("value", [b"x" * 200, [1] * 100, {"a": {"b": b"c" * 100}}])
def test_plain_values_in_bulk_are_refused_whatever_they_are_in(value: object) -> None:
    with pytest.raises(WireError) as refused:
        decode(encode({str(n): [value] * 50 for n in range(200)}), dict)
    assert refused.value.reason == "too_large"


def test_a_long_picture_makes_no_room_for_plain_values() -> None:
    values = {"picture": bytes(2**20), **{str(n): [n] * 8000 for n in range(200)}}
    with pytest.raises(WireError) as refused:
        decode(encode(values), dict)
    assert refused.value.reason == "too_large"
