"""Numpy arrays and scalars as plain maps, and back: every layout that is written or read.

Written: ``{b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [...], b"data": bin}`` for an array and
``{b"nd": False, b"type": ..., b"data": bin}`` for a scalar, which is what msgpack-numpy reads and writes too. Read as
well: the same with text keys or without ``kind``, and openpi's ``__ndarray__`` and ``__npgeneric__``.

Nothing read here runs code or takes memory by a number the sender chose: the dtype is one of a fixed set, and an
array is made only over data that has exactly the length its shape and dtype ask for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import MsgspecError, msgpack

from seqrt.errors import WireError
from seqrt.wire.limits import AXES

ARRAY_KINDS: Final = frozenset("biufcSU")
"""Kinds of dtype that travel. The others hold objects (O), are structured (V) or count time (m, M)."""

_OURS: Final = frozenset({b"nd", b"__ndarray__", b"__npgeneric__", "__ndarray__", "__npgeneric__"})
_OTHERS: Final = frozenset({"__ndarray_class__", "__nparray__", "__numpy__", "__np__", "__array__", "__tensor__"})
MARKERS: Final = _OURS | _OTHERS | {name.encode() for name in _OTHERS} | {"nd", b"complex"}
"""A map with none of these keys is a plain map. Tested first, because it is one call in C."""

_TYPE = re.compile(
    r"[<>|=]?(?:\?|b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|S[1-9][0-9]{0,8}|U[1-9][0-9]{0,7})", re.ASCII
)
_NAMES: Final = ("nd", "type", "kind", "shape", "data", "__ndarray__", "__npgeneric__", "dtype")
_NAME_OF: Final[Mapping[Any, str]] = {form: name for name in _NAMES for form in (name, name.encode())}
_OWN: Final = frozenset({b"nd", b"type", b"kind", b"shape", b"data"})
_ARRAY: Final = frozenset({"nd", "type", "shape", "data"})
_SCALAR: Final = frozenset({"nd", "type", "data"})
_OPENPI_ARRAY: Final = frozenset({"__ndarray__", "dtype", "shape", "data"})
_OPENPI_SCALAR: Final = frozenset({"__npgeneric__", "dtype", "data"})
_HEAD_BYTES: Final = 128
_DATA_KEY: Final = b"\xc4\x04data"
_BIN_16: Final = 0xC5
_BIN_32: Final = 0xC6
_INT_ALONE: Final = frozenset({int})
_LOOKED_AT: Final = frozenset("bU")
_MAX_63_BITS: Final = 2**63 - 1
_LAST_CODE_POINT: Final = 0x10FFFF
_PLAIN_OF_KIND: Final[Mapping[str, tuple[type, ...]]] = {
    "b": (bool,),
    "i": (int,),
    "u": (int,),
    "f": (float, int),
    "S": (bytes,),
    "U": (str,),
}


def as_map(value: Any) -> Any:
    """The plain form of a value msgpack has no form for (an encoder's ``enc_hook``); one copy only where it must.

    The value has been through `seqrt.wire.outgoing.check`, so its dtype is known to be one that travels. An array
    that does not lie in C order is copied into it.
    """
    if isinstance(value, np.ndarray):
        plain = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        return {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape, b"data": plain.data}
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.complex128(value)
    if isinstance(value, np.generic) and not isinstance(value, (float, str, bytes)):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    return plain_form(value)


def plain_form(value: Any) -> Any:
    """A subclass of a plain type (``np.float64``, ``np.str_``, an IntEnum, any Mapping) as that plain type.

    Raises:
        NotImplementedError: It is none; what an ``enc_hook`` is to raise.
    """
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError


def array_claimed(fields: Mapping[Any, Any]) -> bool:
    """Whether a map says it is an array or numpy scalar, in a layout of ours or somebody else's.

    A text key ``nd`` alone is no such claim, because people use that name: it is one when its value is a bool and
    ``type``, ``dtype``, ``shape`` or ``data`` stands beside it. The other markers belong to nobody's own data.
    """
    if b"nd" in fields:
        return True
    if MARKERS.isdisjoint(fields):
        return False
    nd = fields.get("nd")
    if (nd is True or nd is False) and not fields.keys().isdisjoint(("type", "dtype", "shape", "data")):
        return True
    return any(key != "nd" and key in MARKERS for key in fields)


def array_of(fields: Mapping[Any, Any], *, body_bytes: int = 0) -> Any:
    """The array or numpy scalar a map stands for; call it only where `array_claimed` says so.

    Args:
        fields: The map, its ``data`` bytes or a memoryview.
        body_bytes: Length of the body ``data`` is a view of. An array smaller than an eighth of it is copied: one
            that is kept would keep the whole body alive, and it is charged with its own bytes only.

    Returns:
        A read-only array, aligned for its dtype, on ``data`` itself where that is possible; or a numpy scalar.

    Raises:
        WireError: An unknown layout (reason ``dialect``), ``dtype``, ``shape``, or ``data`` of another length.
    """
    if len(fields) == 5 and fields.get(b"nd") is True and fields.get(b"kind") == b"" and fields.keys() >= _OWN:
        return _array(_layout(fields[b"type"], fields[b"shape"]), fields[b"data"], body_bytes)
    named = {_NAME_OF.get(key, ""): value for key, value in fields.items()}
    keys = named.keys()
    if len(named) == len(fields) and "" not in keys:
        if "kind" in keys and (keys >= _ARRAY or keys >= _SCALAR):
            _check_kind(named.pop("kind"))
        if keys == _ARRAY and named["nd"] is True:
            return _array(_layout(named["type"], named["shape"]), named["data"], body_bytes)
        if keys == _SCALAR and named["nd"] is False:
            return _array(_layout(named["type"], []), named["data"], body_bytes)[()]
        if keys == _OPENPI_ARRAY and named["__ndarray__"] is True:
            return _array(_layout(named["dtype"], named["shape"]), named["data"], body_bytes)
        if keys == _OPENPI_SCALAR and named["__npgeneric__"] is True:
            return _plain_scalar(_layout(named["dtype"], []).dtype, named["data"])
    listed = ", ".join(repr(key)[:40] for key in list(fields)[:8])
    raise WireError(f"a map with the keys {listed} is in no array layout known here", reason="dialect")


def long_array(piece: memoryview, body_bytes: int) -> npt.NDArray[Any] | None:
    """The array in a piece of msgpack that holds nothing else, without decoding it value by value.

    A robot's frames have the same few dtypes and shapes all day: what stands before the data is looked up, not read.

    Args:
        piece: A map in msgpack.
        body_bytes: As `array_of`.

    Returns:
        The array; None where the piece is anything but the layout written here with its data last.
    """
    start = bytes(piece[:_HEAD_BYTES])
    at = start.find(_DATA_KEY) + len(_DATA_KEY)
    if at < len(_DATA_KEY) or at + 5 > len(start):
        return None
    data_at = at + (5 if start[at] == _BIN_32 else 3)
    if start[at] not in (_BIN_16, _BIN_32) or int.from_bytes(start[at + 1 : data_at], "big") != len(piece) - data_at:
        return None
    layout = _layout_of_head(start[:at])
    return None if layout is None else _array(layout, piece[data_at:], body_bytes)


@lru_cache(maxsize=512)
def _layout_of_head(head: bytes) -> _Layout | None:
    """The layout named by an array's map up to its data, None where ``head`` is no such part of a map."""
    try:
        fields = msgpack.decode(head + b"\xc4\x00")
    except (MsgspecError, ValueError, TypeError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.keys() != _OWN or fields[b"nd"] is not True or fields[b"kind"] != b"":
        return None
    return _layout(fields[b"type"], fields[b"shape"])


class _Layout(NamedTuple):
    """What an array's data has to be."""

    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    data_bytes: int


def _check_kind(kind: Any) -> None:
    if kind not in (b"", ""):
        raise WireError(f"arrays of kind {kind!r:.20} (objects, structured) do not travel", reason="dtype")


def _layout(text: Any, shape: Any) -> _Layout:
    if isinstance(text, bytes) and text.isascii():
        text = text.decode("ascii")
    if not isinstance(text, str):
        raise WireError(f"a dtype is a {type(text).__name__}, not text", reason="dtype")
    if type(shape) is not list:
        raise WireError(f"a shape is a {type(shape).__name__}, not a list", reason="shape")
    if len(shape) > AXES:
        raise WireError(f"{len(shape)} axes, at most {AXES} travel", reason="shape")
    if not _INT_ALONE.issuperset(map(type, shape)):
        raise WireError("a shape holds something else than lengths", reason="shape")
    return _checked_layout(text, tuple(shape))


@lru_cache(maxsize=512)
def _checked_layout(text: str, axes: tuple[int, ...]) -> _Layout:
    if _TYPE.fullmatch(text) is None:
        raise WireError(f"dtype {text:.60} does not travel", reason="dtype")
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError) as error:  # f16 and the like exist on some machines only
        raise WireError(f"dtype {text} does not exist on this machine", reason="dtype") from error
    if min(axes, default=0) < 0:
        raise WireError(f"shape {list(axes)[:8]} holds a negative length", reason="shape")
    if math.prod(length or 1 for length in axes) * dtype.itemsize > _MAX_63_BITS:
        raise WireError("the shape is past 63 bits", reason="shape")
    return _Layout(dtype, axes, math.prod(axes) * dtype.itemsize)


def _array(layout: _Layout, data: Any, body_bytes: int) -> npt.NDArray[Any]:
    if type(data) is not bytes and type(data) is not memoryview:
        raise WireError(f"an array's data is a {type(data).__name__}, not bytes", reason="data")
    dtype, axes, expected = layout
    found = len(data)
    if expected != found:
        raise WireError(f"shape {list(axes)} of {dtype.str} is {expected} bytes, data has {found}", reason="shape")
    try:
        array: npt.NDArray[Any] = np.ndarray(axes, dtype, data)
    except (ValueError, OverflowError) as error:  # more axes than this numpy has
        raise WireError(f"numpy refuses shape {list(axes)[:8]}: {error}", reason="shape") from error
    if dtype.kind in _LOOKED_AT:
        _check_values(array, data)
    if found * 8 < body_bytes or (dtype.itemsize > 1 and not array.flags.aligned):
        array = array.copy()
        array.flags.writeable = False
    return array


def _plain_scalar(dtype: np.dtype[Any], value: Any) -> Any:
    """A scalar as openpi writes it: its data is a plain value, held against the dtype rather than cast into it."""
    fits = type(value) in _PLAIN_OF_KIND.get(dtype.kind, ())
    if fits and dtype.kind in "iu":
        fits = np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
    elif fits and dtype.kind in "SU":  # made without the dtype: its length is the sender's word
        return dtype.type(value)
    if fits:
        with np.errstate(over="ignore"):
            scalar = np.asarray(value).astype(dtype)[()]
        if dtype.kind != "f" or np.isfinite(scalar) or not math.isfinite(value):
            return scalar
    raise WireError(f"{value!r:.40} is no scalar of {dtype.str}", reason="dtype")


def _check_values(array: npt.NDArray[Any], data: Any) -> None:
    """Refuses bytes that are no value of the dtype and that numpy would hand on unlooked at."""
    if array.size == 0:
        return
    if array.dtype.kind == "b" and np.frombuffer(data, np.uint8).max() > 1:
        raise WireError("a bool is neither 0 nor 1", reason="data")
    if array.dtype.kind == "U":
        points = np.frombuffer(data, array.dtype.str[0] + "u4")
        if points.max() > _LAST_CODE_POINT or ((points >= 0xD800) & (points <= 0xDFFF)).any():
            raise WireError("text in an array is not Unicode", reason="utf8")
