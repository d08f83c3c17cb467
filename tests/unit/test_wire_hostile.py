from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqrt.errors import WireError
from seqrt.wire import decode, decode_json, encode
from seqrt.wire.limits import BODY_BYTES, DEPTH, JSON_VALUES, PLAIN_BYTES, size_of
from seqrt.wire.messages import ActRequest

MIB = 2**20


def array(count: int, content: bytes = b"") -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + content


def mapping(count: int, content: bytes = b"") -> bytes:
    return b"\xdf" + count.to_bytes(4, "big") + content


MALFORMED = {
    "nothing": (b"", "truncated"),
    "two values": (b"\x01\x01", "trailing"),
    "long text and a byte": (b"\xda\x50\x00" + b"a" * 0x5000 + b"\x01", "trailing"),
    "text past the body": (b"\xdb\xff\xff\xff\xffabc", "truncated"),
    "bytes past the body": (b"\xc6\xff\xff\xff\xffabc", "truncated"),
    "an unused byte": (b"\xc1", "malformed"),
    "text not UTF-8": (b"\xa2\xff\xfe", "utf8"),
    "a key not UTF-8": (b"\x81\xa1\xff\x01", "utf8"),
    "long text not UTF-8": (b"\x81\xa1a\xda\x50\x00" + b"\xff" * 0x5000, "utf8"),
    "an extension": (b"\xd4\x05\x00", "extension"),
    "an extension inside": (b"\x81\xa1a\x91\xd4\x05\x00", "extension"),
    "a long extension": (b"\x91\xc8\x50\x00\x05" + bytes(0x5000), "extension"),
    "a timestamp": (b"\x91\xd6\xff\x00\x00\x00\x00", "extension"),
    "a timestamp past its range": (b"\x91\xd7\xff" + b"\xff" * 8, "extension"),
    "None as a key": (b"\x81\xc0\x01", "keys"),
    "a bool as a key": (b"\x81\xc3\x01", "keys"),
    "a float as a key": (b"\x81\xcb" + bytes(8) + b"\x01", "keys"),
    "a list as a key": (b"\x81\x91\x01\x01", "keys"),
    "a map as a key": (b"\x81\x80\x01", "keys"),
    "an extension as a key": (b"\x81\xd4\x05\x00\x01", "keys"),
    "a long map with a list as a key": (b"\x82\x91\x01\xc6\x00\x00\x50\x00" + bytes(0x5000) + b"\x01\x01", "keys"),
    "65 lists": (b"\x91" * (DEPTH + 1) + b"\x01", "depth"),
    "65 maps": (b"\x81\x01" * (DEPTH + 1) + b"\x01", "depth"),
    "10,000 lists": (b"\x91" * 10_000 + b"\x01", "depth"),
    "100,000 lists": (b"\x91" * 100_000 + b"\x01", "depth"),
    "65 lists around long bytes": (b"\x91" * (DEPTH + 1) + b"\xc5\x50\x00" + bytes(0x5000), "depth"),
    "65 maps around long bytes": (b"\x81\x01" * (DEPTH + 1) + b"\xc5\x50\x00" + bytes(0x5000), "depth"),
    "2^32 values": (array(2**32 - 1), "truncated"),
    "2^32 values and many": (array(2**32 - 1, b"\x01" * 50_000), "truncated"),
    "2^32 entries": (mapping(2**32 - 1), "truncated"),
    "2^32 entries and many": (mapping(2**32 - 1, b"\x01" * 50_000), "truncated"),
    "a body past the limit": (bytes(BODY_BYTES + 1), "too_large"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_body_is_refused_by_reason(case: str) -> None:
    body, reason = MALFORMED[case]
    with pytest.raises(WireError) as refusal:
        decode(body, object)
    assert refusal.value.reason == reason


MALFORMED_JSON = {
    "nothing": b"",
    "half": b'{"a":',
    "two values": b"1 2",
    "NaN": b"NaN",
    "not UTF-8": b'"\xff"',
    "a surrogate": b'"\\ud800"',
    "an int past 64 bits": b'{"a":[1,18446744073709551616]}',
    "an int past 64 bits below": b"-9223372036854775809",
    "an int of 5000 digits": b"1" * 5000,
    "a float past its range": b"1e999",
    "65 lists": b"[" * 65 + b"]" * 65,
    "65 maps": b'{"a":' * 65 + b"1" + b"}" * 65,
    "100,000 lists": b"[" * 100_000,
    "more values than are read": b"[" + b"1," * JSON_VALUES + b"1]",
    "msgpack": b"\x81\xa1a\x01",
}


@pytest.mark.parametrize("case", MALFORMED_JSON)
def test_a_malformed_json_body_is_refused(case: str) -> None:
    with pytest.raises(WireError):
        decode_json(MALFORMED_JSON[case], object)


HUNGRY: dict[str, Callable[[], bytes]] = {
    "empty maps": lambda: array(16 * MIB, b"\x80" * 16 * MIB),
    "as many empty maps as may be": lambda: array(PLAIN_BYTES // 4, b"\x80" * (PLAIN_BYTES // 4)),
    "pieces just short enough": lambda: array(200, (b"\xdc\x3f\x00" + b"\x90" * 0x3F00) * 200),
    "a key that is a tree": lambda: mapping(2, b"\xa1a\xc0" + array(4 * MIB, b"\x91\xc0" * 4 * MIB) + b"\x01"),
    "a key that is a tree, and long data": lambda: mapping(
        2, b"\xa1a\xc6" + (9 * MIB).to_bytes(4, "big") + bytes(9 * MIB) + array(4 * MIB, b"\x91\xc0" * 4 * MIB) + b"\1"
    ),
    "small numbers in 64 lists": lambda: b"\x91" * 60 + array(MIB, b"\x01" * MIB),
    "a shape of a terabyte": lambda: msgspec.msgpack.encode({**CLAIM, b"shape": [2**40]}),
    "an empty shape": lambda: msgspec.msgpack.encode({**CLAIM, b"shape": [0, 2**40], b"data": b""}),
    "elements of a gigabyte": lambda: msgspec.msgpack.encode({**CLAIM, b"type": "|S999999999"}),
    "a scalar of a gigabyte": lambda: msgspec.msgpack.encode(
        {"__npgeneric__": True, "dtype": "|S999999999", "data": b"x"}
    ),
}
CLAIM = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [1], b"data": bytes(4)}


@pytest.mark.parametrize("case", HUNGRY)
def test_no_body_takes_more_memory_than_a_few_times_its_length_or_a_fixed_amount(case: str) -> None:
    body = HUNGRY[case]()
    tracemalloc.start()
    try:
        decode(body, object)
    except WireError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 80 * PLAIN_BYTES + 2 * len(body)


def test_reading_a_large_array_takes_no_copy() -> None:
    body = encode({"image": np.zeros(32 * MIB, np.uint8)})
    tracemalloc.start()
    try:
        decode(body, dict)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_numbers_in_bulk_are_told_to_travel_as_arrays() -> None:
    with pytest.raises(WireError, match="as arrays"):
        decode(encode([0.5] * 200_000), list)
    assert len(decode(encode([0.5] * 30_000), list)) == 30_000


def test_a_list_of_small_values_and_large_arrays_is_read() -> None:
    tree = [*range(5000), np.zeros(2 * PLAIN_BYTES, np.uint8), {"a": np.ones(50_000, np.uint8)}]
    arrived = decode(encode(tree), list)
    assert arrived[:5000] == tree[:5000]
    assert arrived[5000].nbytes == 2 * PLAIN_BYTES
    assert arrived[5001]["a"].all()


def test_keys_of_several_types_are_read_beside_long_data() -> None:
    tree = {"a": bytes(30_000), b"b": {1: "x"}, 3: [np.zeros(20_000, np.uint8)]}
    arrived = decode(encode(tree), dict)
    assert arrived["a"] == tree["a"]
    assert arrived[b"b"] == {1: "x"}
    assert arrived[3][0].nbytes == 20_000


GOOD_BODY = encode(
    ActRequest(
        inputs={"image": np.arange(20_000, dtype="<i4"), "state": [0.5, None, True], "text": "ab", b"k": np.float32(1)},
        episode_id="e" * 32,
        seq=3,
    )
)


@given(st.binary(max_size=200))
@example(b"\x81\xa2nd\xc3")
def test_any_bytes_either_decode_or_raise_our_error(body: bytes) -> None:
    for read in (decode, decode_json):
        for message in (object, ActRequest):
            with contextlib.suppress(WireError):
                read(body, message)


@given(st.lists(st.tuples(st.integers(0, 250) | st.integers(0, len(GOOD_BODY) - 1), st.integers(0, 255)), max_size=4))
def test_a_good_body_with_any_bytes_changed_either_decodes_or_raises_our_error(changes: list[tuple[int, int]]) -> None:
    body = bytearray(GOOD_BODY)
    for place, byte in changes:
        body[place] = byte
    with contextlib.suppress(WireError):
        decode(bytes(body), ActRequest)


@given(st.integers(0, len(GOOD_BODY) - 1))
@example(0)
def test_a_body_cut_short_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        decode(GOOD_BODY[:length], ActRequest)


ARRAY_WORDS = b"nd type kind shape data __ndarray__ __npgeneric__ dtype <f4".split()
tokens = st.sampled_from(
    [
        *(bytes([byte]) for byte in b"\x80\x81\x82\x85\x90\x91\x93\xc0\xc2\xc3\x01\xff\xc1"),
        *(b"\xc4" + bytes([len(word)]) + word for word in [*ARRAY_WORDS, b"", bytes(4)]),
        *(bytes([0xA0 + len(word)]) + word for word in ARRAY_WORDS),
        b"\xc5\x50\x00" + bytes(0x5000),
        b"\xd4\x01\x00",
        b"\xcb\x7f\xf0" + bytes(6),
    ]
)


@given(st.lists(tokens, max_size=24).map(b"".join))
def test_any_words_of_msgpack_either_decode_or_raise_our_error(body: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(body, object)


def test_an_observation_is_charged_with_what_it_holds() -> None:
    assert size_of({}) > 0
    image = np.zeros((224, 224, 3), np.uint8)
    assert image.nbytes < size_of({"image": image}) < image.nbytes + 500
    assert size_of(["x" * 1000, (b"y" * 1000,), memoryview(b"z" * 1000)]) > 3000
    assert size_of([0] * 1000) > 10_000
    endless: list[object] = []
    endless += [endless, endless]
    with pytest.raises(WireError):
        size_of(endless)
