from __future__ import annotations

import msgspec
import numpy as np
import pytest

from seqrt.errors import WireError
from seqrt.wire import decode, encode

ARRAYS = [
    np.arange(6, dtype="<f4").reshape(2, 3),
    np.arange(3, dtype=">f4"),
    np.arange(3, dtype=">i8"),
    np.array([1.5, np.nan, np.inf], "<f2"),
    np.array([1 + 2j, -0.0j], "<c8"),
    np.array([True, False]),
    np.array(3.5),
    np.array(7, "u1"),
    np.empty((0, 7), "<f8"),
    np.empty((3, 0, 2), "<i2"),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(20, dtype="<i4")[::-2],
    np.array(["left", "gripper ✓"]),
    np.array([b"a", b"bc"]),
    np.zeros((1,) * 64, "<f4") if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else np.zeros((1,) * 32),
    np.arange(70_000, dtype="<f8"),
    np.random.default_rng(0).integers(0, 255, (224, 224, 3), dtype=np.uint8),
]
SCALARS = [np.float32(1.5), np.int64(-3), np.uint8(255), np.bool_(True), np.float16(0.5), np.complex64(1j)]


def body_of(fields: dict[object, object]) -> bytes:
    return msgspec.msgpack.encode({"x": fields})


def read(fields: dict[object, object]) -> object:
    return decode(body_of(fields), dict)["x"]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str}{a.shape}")
def test_an_array_arrives_as_it_was_sent_and_read_only(array: np.ndarray) -> None:
    arrived = decode(encode({"a": {"b": [array]}}), dict)["a"]["b"][0]
    assert arrived.dtype == array.dtype
    assert arrived.dtype.str == array.dtype.str
    assert arrived.shape == array.shape
    np.testing.assert_array_equal(arrived, array)
    assert not arrived.flags.writeable
    assert arrived.flags.aligned
    assert arrived.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        arrived[...] = arrived


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_a_numpy_scalar_arrives_with_its_type(scalar: np.generic) -> None:
    arrived = decode(encode([scalar]), list)[0]
    assert type(arrived) is type(scalar)
    assert arrived == scalar


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [(np.float64(1.5), 1.5), (np.str_("x"), "x"), (np.bytes_(b"x"), b"x"), ((1, (2,)), [1, [2]]), (3 + 4j, 3 + 4j)],
)
def test_other_values_arrive_plain(sent: object, arrives: object) -> None:
    arrived = decode(encode({"v": sent}), dict)["v"]
    assert arrived == arrives
    assert type(arrived) is type(arrives) or isinstance(arrived, np.complex128)


def test_the_written_layout_is_the_one_msgpack_numpy_reads() -> None:
    assert msgspec.msgpack.decode(encode(np.array([1.0, 2.0], "<f4"))) == {
        b"nd": True,
        b"type": "<f4",
        b"kind": b"",
        b"shape": [2],
        b"data": b"\x00\x00\x80?\x00\x00\x00@",
    }
    assert msgspec.msgpack.decode(encode(np.int16(5))) == {b"nd": False, b"type": "<i2", b"data": b"\x05\x00"}


def test_msgpack_numpy_and_seqrt_read_one_another() -> None:
    msgpack = pytest.importorskip("msgpack")
    msgpack_numpy = pytest.importorskip("msgpack_numpy")
    tree = {"a": np.arange(6, dtype=">i4").reshape(2, 3), "s": np.float32(2.5), "n": [1, "x", None]}
    theirs = decode(msgpack.packb(tree, default=msgpack_numpy.encode), dict)
    ours = msgpack.unpackb(encode(tree), object_hook=msgpack_numpy.decode)
    for read_back in (theirs, ours):
        np.testing.assert_array_equal(read_back["a"], tree["a"])
        assert read_back["s"] == tree["s"]
        assert read_back["n"] == tree["n"]


DATA = np.arange(6, dtype="<f4").tobytes()
DIALECTS = {
    "ours": {"nd": True, "type": "<f4", "kind": b"", "shape": [2, 3], "data": DATA},
    "no kind": {"nd": True, "type": "<f4", "shape": [2, 3], "data": DATA},
    "kind as text": {"nd": True, "type": "<f4", "kind": "", "shape": [2, 3], "data": DATA},
    "openpi": {"__ndarray__": True, "data": DATA, "dtype": "<f4", "shape": [2, 3]},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("keys", [str, str.encode], ids=["text keys", "bin keys"])
@pytest.mark.parametrize("rows", [2, 60_000])
def test_every_dialect_gives_the_same_array(dialect: str, keys: object, rows: int) -> None:
    expected = np.arange(rows * 3, dtype="<f4").reshape(rows, 3)
    fields = {**DIALECTS[dialect], "shape": [rows, 3], "data": expected.tobytes()}
    arrived = read({keys(key): value for key, value in fields.items()})
    np.testing.assert_array_equal(arrived, expected)
    assert arrived.dtype == expected.dtype


@pytest.mark.parametrize("keys", [str, str.encode], ids=["text keys", "bin keys"])
@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"nd": False, "type": "<f4", "data": np.float32(1.5).tobytes()}, np.float32(1.5)),
        ({"nd": False, "type": "<f4", "kind": b"", "data": np.float32(1.5).tobytes()}, np.float32(1.5)),
        ({"__npgeneric__": True, "dtype": "<f4", "data": 1.5}, np.float32(1.5)),
        ({"__npgeneric__": True, "dtype": "|u1", "data": 255}, np.uint8(255)),
        ({"__npgeneric__": True, "dtype": "|b1", "data": True}, np.bool_(True)),
        ({"__npgeneric__": True, "dtype": "<f4", "data": float("inf")}, np.float32("inf")),
        ({"__npgeneric__": True, "dtype": "<U3", "data": "abc"}, np.str_("abc")),
    ],
)
def test_every_dialect_gives_the_same_scalar(keys: object, fields: dict[str, object], value: np.generic) -> None:
    arrived = read({keys(key): held for key, held in fields.items()})
    assert type(arrived) is type(value)
    assert arrived == value


GOOD = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [1], b"data": bytes(4)}
REFUSED = {
    "object dtype": ({**GOOD, b"type": "|O"}, "dtype"),
    "object kind": ({**GOOD, b"kind": b"O"}, "dtype"),
    "structured kind": ({**GOOD, b"kind": b"V", b"type": [["a", "<f4"]]}, "dtype"),
    "structured text": ({**GOOD, b"type": "f4,f4"}, "dtype"),
    "sub-array": ({**GOOD, b"type": "(2,)f4"}, "dtype"),
    "void": ({**GOOD, b"type": "|V4"}, "dtype"),
    "datetime": ({**GOOD, b"type": "<M8[s]", b"data": bytes(8)}, "dtype"),
    "timedelta": ({**GOOD, b"type": "<m8"}, "dtype"),
    "zero-size text": ({**GOOD, b"type": "<U0", b"data": b""}, "dtype"),
    "zero-size bytes": ({**GOOD, b"type": "|S0", b"data": b""}, "dtype"),
    "dtype as a number": ({**GOOD, b"type": 4}, "dtype"),
    "dtype in non-ASCII digits": ({**GOOD, b"type": "<f٤"}, "dtype"),
    "dtype past a machine": ({**GOOD, b"type": ">f12"}, "dtype"),
    "shape too small": ({**GOOD, b"data": bytes(8)}, "shape"),
    "shape too large": ({**GOOD, b"shape": [2]}, "shape"),
    "shape of a terabyte": ({**GOOD, b"shape": [2**40]}, "shape"),
    "shape past 63 bits": ({**GOOD, b"shape": [2**32, 2**32]}, "shape"),
    "empty shape past 63 bits": ({**GOOD, b"shape": [0, 2**62, 2**62], b"data": b""}, "shape"),
    "negative shape": ({**GOOD, b"shape": [-1, -1]}, "shape"),
    "shape of floats": ({**GOOD, b"shape": [1.0]}, "shape"),
    "shape of bools": ({**GOOD, b"shape": [True]}, "shape"),
    "shape a number": ({**GOOD, b"shape": 1}, "shape"),
    "65 axes": ({**GOOD, b"shape": [1] * 65}, "shape"),
    "data as text": ({**GOOD, b"data": "abcd"}, "data"),
    "data as a list": ({**GOOD, b"data": [0, 0, 0, 0]}, "data"),
    "nd as a number": ({**GOOD, b"nd": 1}, "dialect"),
    "no nd": ({key: value for key, value in GOOD.items() if key != b"data"}, "dialect"),
    "a key more": ({**GOOD, b"order": "F"}, "dialect"),
    "a key twice": ({**GOOD, "type": "<f4"}, "dialect"),
    "bool of 2": ({**GOOD, b"type": "|b1", b"data": b"\x02"}, "data"),
    "text past Unicode": ({**GOOD, b"type": "<U1", b"data": b"\xff\xff\xff\xff"}, "utf8"),
    "text of a surrogate": ({**GOOD, b"type": "<U1", b"data": b"\x00\xd8\x00\x00"}, "utf8"),
    "scalar of another size": ({b"nd": False, b"type": "<f8", b"data": bytes(4)}, "shape"),
    "openpi's object": ({"__ndarray__": True, "data": bytes(4), "dtype": "|O", "shape": [1]}, "dtype"),
    "openpi's scalar out of range": ({"__npgeneric__": True, "dtype": "|u1", "data": 256}, "dtype"),
    "openpi's scalar of another kind": ({"__npgeneric__": True, "dtype": "|u1", "data": 1.0}, "dtype"),
    "openpi's scalar past float32": ({"__npgeneric__": True, "dtype": "<f4", "data": 1e300}, "dtype"),
    "openpi's marker untrue": ({"__ndarray__": False, "data": bytes(4), "dtype": "<f4", "shape": [1]}, "dialect"),
    "GR00T's layout": ({"__ndarray_class__": True, "as_npy": b"\x93NUMPY"}, "dialect"),
    "msgpack-numpy's complex": ({b"complex": True, b"data": "1+2j"}, "dialect"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("padding", [0, 40_000], ids=["short", "long"])
def test_a_map_that_is_no_array_of_ours_is_refused_by_reason(case: str, padding: int) -> None:
    fields, reason = REFUSED[case]
    with pytest.raises(WireError) as refusal:
        decode(msgspec.msgpack.encode({"pad": bytes(padding), "x": fields}), dict)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("case", ["object dtype", "shape too large", "structured text", "a key more", "nd as a number"])
def test_a_long_hostile_array_is_refused_like_a_short_one(case: str) -> None:
    fields, reason = REFUSED[case]
    long = {**fields, b"data": bytes(100_000)}
    with pytest.raises(WireError) as refusal:
        read(long)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    "ordinary", [{"nd": 3}, {"nd": True}, {"nd": None, "data": b"x"}, {"type": "<f4", "data": b""}]
)
@pytest.mark.parametrize("padding", [0, 40_000], ids=["short", "long"])
def test_a_map_with_a_key_that_only_looks_like_an_array_stays_a_map(ordinary: dict[str, object], padding: int) -> None:
    tree = {**ordinary, "pad": bytes(padding)}
    assert decode(encode({"x": tree}), dict) == {"x": tree}


@pytest.mark.parametrize("claim", [GOOD, {"nd": True, "data": 1}, {"__ndarray__": 1}, {b"nd": 0}])
def test_a_map_that_would_arrive_as_an_array_is_not_sent(claim: dict[object, object]) -> None:
    with pytest.raises(WireError, match=r"inputs\.m: ") as refusal:
        encode({"inputs": {"m": claim}})
    assert refusal.value.reason == "dialect"


def test_large_arrays_are_views_on_the_body_and_small_ones_are_not() -> None:
    frame = np.ones((224, 224, 3), np.uint8)
    body = encode({"a": frame, "b": frame, "state": np.zeros(8, "f4")})
    tree = decode(body, dict)
    on_body = np.frombuffer(body, np.uint8)
    assert np.shares_memory(tree["a"], on_body)
    assert np.shares_memory(tree["b"], on_body)
    assert not np.shares_memory(tree["state"], on_body)


def test_a_small_part_of_a_large_body_does_not_keep_the_body_alive() -> None:
    body = encode([np.ones(2**15, np.uint8) for _ in range(16)])
    assert not any(np.shares_memory(array, np.frombuffer(body, np.uint8)) for array in decode(body, list))


def test_a_body_that_may_still_change_gives_arrays_that_may_not_be_written() -> None:
    arrived = decode(bytearray(encode({"a": np.ones(50_000, np.uint8)})), dict)["a"]
    with pytest.raises(ValueError, match="WRITEABLE"):
        arrived.flags.writeable = True
