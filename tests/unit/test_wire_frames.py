from __future__ import annotations

import base64
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqrt.errors import WireError
from seqrt.wire import decode_body, decode_frames, encode_frames
from seqrt.wire.headers import FRAMES
from seqrt.wire.limits import SEGMENTS
from seqrt.wire.messages import ActRequest


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def body_of(json: bytes, *segments: bytes, lengths: list[int] | None = None, magic: bytes = b"SQF1") -> bytes:
    told = [len(segment) for segment in segments] if lengths is None else lengths
    return struct.pack(f"<4sII{len(told)}I", magic, len(json), len(told), *told) + json + b"".join(segments)


PICTURES = [{"view": "wrist", "data": text(b"\x89PNG" + bytes(100))}, {"view": "base", "data": text(b"\xff\xd8")}]


@pytest.mark.parametrize("holder", ["inputs", "observation", None])
def test_pictures_travel_outside_the_json_and_come_back_as_they_were(holder: str | None) -> None:
    tree = {"images": PICTURES, "state": [1.5, None]}
    message = {holder: tree, "seed": 3} if holder else tree
    body = encode_frames(message)
    assert b"iVBOR" not in body
    assert b"\x89PNG" in body
    assert decode_frames(body) == message
    assert PICTURES[0]["data"] == text(b"\x89PNG" + bytes(100))


def test_the_layout_is_the_contracts() -> None:
    message = {"inputs": {"images": [{"data": text(b"abc")}, {"data": text(b"")}]}}
    json = b'{"inputs":{"images":[{"data":0},{"data":1}]}}'
    assert encode_frames(message) == b"SQF1" + struct.pack("<IIII", len(json), 2, 3, 0) + json + b"abc"


def test_pictures_as_bytes_travel_like_their_base64_text() -> None:
    message = {"inputs": {"images": [{"data": b"abc"}]}}
    assert decode_frames(encode_frames(message)) == {"inputs": {"images": [{"data": "YWJj"}]}}
    assert decode_frames(encode_frames(message), as_text=False) == message


def test_a_message_with_arrays_travels_as_its_json_form() -> None:
    act = ActRequest(inputs={"images": [{"data": b"abc"}], "state": np.zeros(2, "f4")}, seq=3)
    arrived = decode_body(encode_frames(act), FRAMES, ActRequest)
    assert arrived == ActRequest(inputs={"images": [{"data": "YWJj"}], "state": [0.0, 0.0]}, seq=3)


@pytest.mark.parametrize("data", ["YW=j", "YWJj\n", "YWI", "YWJ=", "YWJj====", "é", "not base64!", None, {"a": 1}])
def test_what_is_not_canonical_base64_stays_in_the_json(data: object) -> None:
    message = {"inputs": {"images": [{"data": data}, {"view": "no data"}, 3]}, "images": [{"data": text(b"elsewhere")}]}
    body = encode_frames(message)
    assert struct.unpack_from("<I", body, 8) == (0,)
    assert decode_frames(body) == message


def test_more_pictures_than_segments_stay_in_the_json() -> None:
    message = {"images": [{"data": text(bytes([n % 256]))} for n in range(SEGMENTS + 5)]}
    assert decode_frames(encode_frames(message)) == message


@pytest.mark.parametrize("data", [0, 1.5, True])
def test_a_number_as_a_pictures_data_is_not_sent(data: object) -> None:
    with pytest.raises(WireError) as refusal:
        encode_frames({"images": [{"data": data}]})
    assert refusal.value.reason == "frames"


ONE = b'{"images":[{"data":0}]}'
BAD = {
    "nothing": b"",
    "half a header": b"SQF1\x00\x00",
    "another magic": body_of(ONE, b"abc", magic=b"SQF2"),
    "no JSON": body_of(b""),
    "half the JSON": body_of(ONE[:-1], b"abc"),
    "JSON past 64 containers": body_of(b"[" * 65 + b"]" * 65),
    "257 segments": body_of(b"{}", *[b""] * 257),
    "2^32 segments": struct.pack("<4sII", b"SQF1", 2, 2**32 - 1) + b"{}",
    "JSON past the body": struct.pack("<4sII", b"SQF1", 2**32 - 1, 0) + b"{}",
    "a segment past the body": body_of(ONE, b"abc", lengths=[2**32 - 1]),
    "lengths past the body": struct.pack("<4sIII", b"SQF1", 0, 200, 3),
    "a byte short": body_of(ONE, b"abc")[:-1],
    "a byte more": body_of(ONE, b"abc") + b"x",
    "a segment not named": body_of(b'{"images":[]}', b"abc"),
    "a segment named elsewhere": body_of(b'{"inputs":{},"images":[{"data":0}]}', b"abc"),
    "a segment named twice": body_of(b'{"images":[{"data":0},{"data":0}]}', b"abc"),
    "a segment that is not there": body_of(b'{"images":[{"data":0},{"data":1}]}', b"abc"),
    "a segment below zero": body_of(b'{"images":[{"data":-1}]}', b"abc"),
    "a segment's number a float": body_of(b'{"images":[{"data":0.0}]}', b"abc"),
    "a segment's number a bool": body_of(b'{"images":[{"data":0},{"data":false}]}', b"abc"),
    "pictures in a text": body_of(b'"images"', b"abc"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_body_is_refused_for_the_reason_frames(case: str) -> None:
    with pytest.raises(WireError) as refusal:
        decode_frames(BAD[case])
    assert refusal.value.reason == "frames"


@given(st.binary(max_size=100) | st.binary(max_size=100).map(lambda rest: b"SQF1" + rest))
@example(b"SQF1" + bytes(8))
def test_any_bytes_either_decode_or_raise_our_error(body: bytes) -> None:
    reasons = []
    try:
        decode_frames(body)
    except WireError as error:
        reasons.append(error.reason)
    assert set(reasons) <= {"frames"}


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_any_pictures_come_back_as_they_were(pictures: list[bytes]) -> None:
    message = {"observation": {"images": [{"data": text(data)} for data in pictures]}}
    assert decode_frames(encode_frames(message)) == message
