"""Trees and messages to bytes: looked through before they are encoded, so that a refusal names the place.

An encoder alone would turn sets into lists, dates into extension types, NaN into JSON's null, and would say of an
object array only that it cannot encode it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from msgspec import MsgspecError, Struct, UnsetType, json, msgpack, to_builtins

from seqrt.errors import WireError
from seqrt.wire.arrays import ARRAY_KINDS, array_claimed, as_map, plain_form
from seqrt.wire.limits import DEPTH

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_UNCHECKED: Final = frozenset({type(None), bool, float, bytes, bytearray, UnsetType})
_UNCHECKED_IN_JSON: Final = frozenset({type(None), bool, bytes, UnsetType})
_NUMBERS: Final = frozenset({type(None), bool, float, int})
_SHOWN_PATH: Final = 12
_ENCODING: Final = (MsgspecError, ValueError, TypeError, OverflowError, NotImplementedError, BufferError)


def write_msgpack(value: Any) -> bytes:
    """The msgpack form of a tree or message; arrays are copied once, into the result.

    Raises:
        WireError: As `check`.
    """
    check(value)
    try:
        return _msgpack.encode(value)
    except _ENCODING as error:
        raise WireError(f"cannot be encoded: {error}", reason="type") from error


def write_json(value: Any) -> bytes:
    """The JSON form of a tree or message.

    Raises:
        WireError: As `check` for JSON.
    """
    check(value, as_json=True)
    try:
        return _json.encode(value)
    except _ENCODING as error:
        raise WireError(f"cannot be encoded: {error}", reason="type") from error


def json_tree(value: Any) -> Any:
    """A new tree of what JSON has, and bytes, for a tree or message.

    Raises:
        WireError: As `check` for JSON.
    """
    check(value, as_json=True)
    try:
        return to_builtins(value, builtin_types=(bytes,), enc_hook=_json_form)
    except _ENCODING as error:
        raise WireError(f"cannot be encoded: {error}", reason="type") from error


def _json_form(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic) and not isinstance(value, (float, str, bytes)):
        return value.item()
    return plain_form(value)


def check(value: Any, *, as_json: bool = False) -> None:
    """Looks through a message or tree of values for anything that cannot travel.

    Args:
        value: A Struct, dict, list, tuple, text, bytes, number, None, numpy array or scalar, of any depth.
        as_json: For the JSON form, which has no complex numbers, no NaN and no infinity.

    Raises:
        WireError: ``where`` is the path, e.g. ``inputs.cameras[2]``; ``reason`` one of ``type``, ``dtype``,
            ``shape``, ``integer``, ``utf8``, ``keys``, ``depth``, ``dialect``, ``not_finite``.
    """
    try:
        (_check_json if as_json else _check)(value, 0)
    except _Refused as refused:
        raise WireError(refused.what, where=refused.path(), reason=refused.reason) from None


class _Refused(Exception):
    """Carries the path up, one key a level: no path is built where nothing is refused."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what)
        self.what = what
        self.reason = reason
        self.keys: list[object] = []

    def path(self) -> str:
        steps = [f"[{key}]" if type(key) is int else f".{key!s:.60}" for key in reversed(self.keys)]
        if len(steps) > _SHOWN_PATH:
            steps[_SHOWN_PATH - 1 : -1] = ["…"]
        return "".join(steps).lstrip(".")


def _check(value: Any, depth: int) -> None:
    check_of_kind = _CHECKS.get(type(value))
    if check_of_kind is not None:
        check_of_kind(value, depth)
    elif isinstance(value, Struct):
        _check_each(((name, getattr(value, name)) for name in value.__struct_fields__), depth)
    else:
        _check_other(value, depth)


def _check_other(value: Any, depth: int) -> None:
    """Subclasses of what travels, and what does not."""
    if isinstance(value, (np.ndarray, np.generic)):
        _check_array(value, depth)
    elif isinstance(value, str):
        _check_text(value, depth)
    elif isinstance(value, int):
        _check_integer(value, depth)
    elif isinstance(value, Mapping):
        _check_map(value, depth)
    elif isinstance(value, (list, tuple)):
        _check_list(value, depth)
    elif not isinstance(value, (float, complex, bytes, bytearray)):
        raise _no_form(value)


def _check_json(value: Any, depth: int) -> None:
    """The same for JSON: first what holds for both, one level at a time, then what JSON lacks."""
    if isinstance(value, np.ndarray):
        _check_array(value, depth)
        if value.dtype.kind == "c" or value.dtype.char == "g":
            raise _Refused(f"JSON has no numbers of {value.dtype}", "dtype")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise _Refused("JSON has no NaN and no infinity", "not_finite")
    elif isinstance(value, (complex, np.complexfloating, np.longdouble)):
        raise _Refused(f"JSON has no numbers of type {type(value).__name__}", "type")
    elif isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise _Refused("JSON has no NaN and no infinity", "not_finite")
    elif isinstance(value, (Struct, Mapping, list, tuple)):
        pairs = _pairs(value)
        if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            raise _Refused("the keys of a JSON object are text", "keys")
        _check_each(pairs, depth, as_json=True)
        if isinstance(value, Mapping):
            for key in value:
                _check_text(key, depth)
    else:
        _check(value, depth)


def _pairs(value: Any) -> Iterable[tuple[object, Any]]:
    if isinstance(value, Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    return value.items() if isinstance(value, Mapping) else enumerate(value)


def _check_each(pairs: Iterable[tuple[object, Any]], depth: int, *, as_json: bool = False) -> None:
    if depth >= DEPTH:
        raise _too_deep()
    one = _check_json if as_json else _check
    unchecked = _UNCHECKED_IN_JSON if as_json else _UNCHECKED
    for key, value in pairs:
        if type(value) in unchecked:
            continue
        try:
            one(value, depth + 1)
        except _Refused as refused:
            refused.keys.append(key)
            raise


def _check_map(value: Mapping[Any, Any], depth: int) -> None:
    if array_claimed(value):
        raise _Refused("this map would be read as a numpy array: send the array itself, or rename the key", "dialect")
    for key in value:
        if type(key) is str and key.isascii():
            continue
        if isinstance(key, str):
            _check_text(key, depth)
        elif type(key) is int:
            _check_integer(key, depth)
        elif type(key) is not bytes:
            raise _Refused(f"the key {key!r:.60} is a {type(key).__name__}; keys are str, bytes or int", "keys")
    _check_each(value.items(), depth)


def _check_list(value: list[Any] | tuple[Any, ...], depth: int) -> None:
    kinds = set(map(type, value))
    if not kinds <= _NUMBERS or (int in kinds and _past_64_bits(value)):
        _check_each(enumerate(value), depth)
    elif depth >= DEPTH:
        raise _too_deep()


def _past_64_bits(numbers: Iterable[Any]) -> bool:
    return any(type(number) is int and not _INT_MIN <= number <= _INT_MAX for number in numbers)


def _check_array(value: np.ndarray[Any, Any] | np.generic, depth: int) -> None:
    dtype = value.dtype
    if dtype.kind not in ARRAY_KINDS or (dtype.itemsize == 0 and isinstance(value, np.ndarray)):
        raise _Refused(f"arrays of dtype {dtype} do not travel", "dtype")
    if type(value) is np.ndarray:
        return
    if isinstance(value, np.ma.MaskedArray):
        raise _Refused("a masked array would lose its mask: fill it first", "type")
    if isinstance(value, str):
        _check_text(str(value), depth)


def _check_text(value: str, depth: int) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Refused(f"text that is not Unicode: {error.reason}", "utf8") from None


def _check_integer(value: int, depth: int) -> None:
    if not _INT_MIN <= value <= _INT_MAX:
        raise _Refused("an integer past 64 bits does not travel", "integer")


def _check_memoryview(value: memoryview, depth: int) -> None:
    if not value.c_contiguous:
        raise _Refused("a memoryview that is not contiguous cannot travel", "type")


def _check_nothing(value: object, depth: int) -> None:
    pass


def _too_deep() -> _Refused:
    return _Refused(f"more than {DEPTH} containers inside one another", "depth")


def _no_form(value: Any) -> _Refused:
    hint = ": pass a numpy array" if hasattr(value, "__array__") or hasattr(value, "__dlpack__") else ""
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return _Refused(f"a {name} does not travel{hint}", "type")


_CHECKS: Final[Mapping[type, Callable[[Any, int], None]]] = {
    **dict.fromkeys(_UNCHECKED, _check_nothing),
    np.ndarray: _check_array,
    str: _check_text,
    int: _check_integer,
    dict: _check_map,
    list: _check_list,
    tuple: _check_list,
    memoryview: _check_memoryview,
}
_msgpack = msgpack.Encoder(enc_hook=as_map)
_json = json.Encoder(enc_hook=_json_form)
