"""Bytes to trees of plain values and arrays, in memory bounded by the body's length.

msgspec reads every kind of malformed body safely and takes no memory by a header's word alone. What it cannot know
is our limits: one byte of msgpack can become 80 in memory, and bytes inside a tree are copied. So a body is read in
pieces. A piece up to `_AT_ONCE` is decoded blindly and looked through afterwards; a longer one is opened one level
at a time, its values left where they lie (`msgspec.Raw`), until what remains is small pieces and the data of large
arrays, which become views. The blindly decoded bytes are counted against `PLAIN_BYTES`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from seqrt.errors import WireError
from seqrt.wire.arrays import MARKERS, array_claimed, array_of, long_array
from seqrt.wire.limits import BODY_BYTES, DEPTH, JSON_VALUES, PLAIN_BYTES

Body: TypeAlias = bytes | bytearray | memoryview

_AT_ONCE: Final = 2**14
_OPENED_BYTES: Final = 8 * BODY_BYTES
"""Bounds the time: opening a container steps over all it holds, once for each container around it."""

_SMALL: Final = 64
"""Values of so few bytes on average are faster read at once than one by one."""

_DATA: Final = 2**8
"""Text or bytes of so many are as long in memory as they travel: a small picture is no plain value."""

_OWN_ARRAY: Final = 0x85
_LAST_FIX_MAP: Final = 0x8F
_MAP_16: Final = 0xDE
_LONG_BIN: Final = {0xC5: 3, 0xC6: 5}
_BOOLS: Final = {b"\xc2": False, b"\xc3": True}
_REASONS: Final = {
    "truncated": "truncated",
    "trailing": "trailing",
    "utf-8": "utf8",
    "hashable": "keys",
    "timestamp": "extension",
}
_KEYS: Final = frozenset({str, bytes, int})
_LEAVES: Final = frozenset({type(None), bool, int, float, str, bytes})
_NO_INTEGERS: Final = frozenset({type(None), bool, float, str})
_CONTAINERS: Final = frozenset({dict, list})
_HOLDS_DATA: Final = frozenset({dict, list, bytes, str})
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1

_decode = msgspec.msgpack.Decoder().decode
_list = msgspec.msgpack.Decoder(list[Raw])
_map_of_text = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_map_of_bytes = msgspec.msgpack.Decoder(dict[bytes, Raw]).decode
_map_of_int = msgspec.msgpack.Decoder(dict[int, Raw]).decode
_map_of_key: Final = [
    _map_of_text
    if 0xA0 <= lead <= 0xBF or 0xD9 <= lead <= 0xDB
    else _map_of_bytes
    if 0xC4 <= lead <= 0xC6
    else _map_of_int
    if lead <= 0x7F or lead >= 0xE0 or 0xCC <= lead <= 0xD3
    else None
    for lead in range(256)
]
"""What reads a map, by the first byte of its first key; None where a key may not be what begins so."""

_json = msgspec.json.Decoder()


def read_msgpack(body: Body) -> Any:
    """The tree in a msgpack body: dict, list, text, bytes, numbers, None, read-only arrays and numpy scalars.

    Raises:
        WireError: Anything else; ``reason`` says which rule was broken.
    """
    view = _checked_length(body)
    try:
        return _Reader(view.nbytes).value(view, 0)
    except WireError:
        raise
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise WireError(str(error), reason=_reason(error)) from error


def read_json(body: Body) -> Any:
    """The tree in a JSON body: dict, list, text, numbers, None. Arrays are nested lists there.

    Raises:
        WireError: Anything else.
    """
    view = _checked_length(body)
    data = body if isinstance(body, bytes) else bytes(view)
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > JSON_VALUES:
        raise WireError(f"more than {JSON_VALUES} values in one JSON body", reason="too_large")
    try:
        tree = _json.decode(data)
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise WireError(str(error), reason=_reason(error)) from error
    _check_json(tree, 0)
    return tree


def _checked_length(body: Body) -> memoryview:
    view = memoryview(body)
    if type(body) is bytes and len(body) <= BODY_BYTES:
        return view
    if view.nbytes > BODY_BYTES:
        raise WireError(f"a body of {view.nbytes} bytes, at most {BODY_BYTES} are read", reason="too_large")
    return view.toreadonly() if view.ndim == 1 and view.itemsize == 1 else view.toreadonly().cast("B")


class _Reader:
    """Reads one body; holds what it has spent of the limits."""

    __slots__ = ("_body_bytes", "_opened_left", "_plain_left")

    def __init__(self, body_bytes: int) -> None:
        self._body_bytes = body_bytes
        self._plain_left = PLAIN_BYTES
        self._opened_left = _OPENED_BYTES

    def value(self, piece: memoryview, depth: int) -> Any:
        """The value in ``piece``, which holds exactly one, inside ``depth`` containers."""
        if len(piece) <= _AT_ONCE:
            return self._at_once(piece, depth)
        lead = piece[0]
        if lead == _OWN_ARRAY:
            array = long_array(piece, self._body_bytes)
            if array is not None:
                return array
        header, count = _container(piece)
        if not header:
            return _leaf(_decode(piece))  # long text or bytes; of anything else bytes are left over: refused
        if len(piece) <= min(count * _SMALL, self._plain_left):
            return self._at_once(piece, depth)
        if lead <= _LAST_FIX_MAP or lead >= _MAP_16:
            return self._map(piece, depth, header, count)
        self._open(piece, depth, count)
        return [self.value(memoryview(raw), depth + 1) for raw in _list.decode(piece)]

    def _at_once(self, piece: memoryview, depth: int) -> Any:
        self._plain_left -= len(piece)
        if self._plain_left < -_AT_ONCE:
            raise _too_plain()  # not even decoded: of short pieces the last one alone may be too many
        tree = _decode(piece)
        if len(piece) >= _DATA:
            self._plain_left += _data_in(tree)
        if self._plain_left < 0:
            raise _too_plain()
        kind = type(tree)
        return tree if kind in _LEAVES else _settled(tree, depth) if kind in _CONTAINERS else _leaf(tree)

    def _map(self, piece: memoryview, depth: int, header: int, count: int) -> Any:
        self._open(piece, 0, count)
        decode = _map_of_key[piece[header]]
        if decode is None:
            raise _wrong_key()
        try:
            entries: dict[Any, Any] = decode(piece)
        except msgspec.ValidationError:
            # Keys of several types. msgspec has no typed form for those, and an untyped key may be a whole tree, so
            # such a map is read as plain values and may be as large as those.
            return self._at_once(piece, depth)
        if not MARKERS.isdisjoint(entries) and _array_claimed(entries):
            fields = {key: self._field(memoryview(raw)) for key, raw in entries.items()}
            return array_of(fields, body_bytes=self._body_bytes)
        if depth >= DEPTH:
            raise _too_deep()
        for key, raw in entries.items():
            entries[key] = self.value(memoryview(raw), depth + 1)
        return entries

    def _field(self, piece: memoryview) -> Any:
        """A value in an array's map: its data stays where it lies."""
        header = _LONG_BIN.get(piece[0]) if len(piece) > _AT_ONCE else None
        return self.value(piece, 0) if header is None else piece[header:]

    def _open(self, piece: memoryview, depth: int, count: int) -> None:
        if depth >= DEPTH:
            raise _too_deep()
        self._plain_left -= count
        self._opened_left -= len(piece)
        if self._plain_left < 0:
            raise _too_plain()
        if self._opened_left < 0:
            raise WireError("large containers inside one another", reason="too_large")


def _container(piece: memoryview) -> tuple[int, int]:
    """Length of a container's header and number of its values; a header of 0 for what is no container."""
    lead = piece[0]
    if 0x80 <= lead <= 0x9F:
        return 1, lead & 0x0F
    if 0xDC <= lead <= 0xDF:
        header = 5 if lead & 1 else 3
        return header, int.from_bytes(piece[1:header], "big")
    return 0, 0


def _array_claimed(entries: dict[Any, Raw]) -> bool:
    """`array_claimed` for values not read yet: of those only ``nd`` matters, and whether it is a bool."""
    if "nd" not in entries:
        return array_claimed(entries)
    return array_claimed({**entries, "nd": _BOOLS.get(bytes(memoryview(entries["nd"])[:2]))})


def _settled(tree: Any, depth: int) -> Any:
    """Looks through what was decoded blindly and puts arrays where their maps are, in place."""
    if type(tree) is dict:
        if array_claimed(tree):
            return array_of(tree)
        if not _KEYS.issuperset(map(type, tree)):
            raise _wrong_key()
    if depth >= DEPTH:
        raise _too_deep()
    if type(tree) is list and _LEAVES.issuperset(map(type, tree)):
        return tree
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        kind = type(value)
        if kind not in _LEAVES:
            tree[key] = _settled(value, depth + 1) if kind in _CONTAINERS else _leaf(value)
    return tree


def _data_in(tree: Any) -> int:
    """The bytes of a tree that are in long texts and bytes, arrays' data among them."""
    kind = type(tree)
    if kind is bytes or kind is str:
        return len(tree) if len(tree) >= _DATA else 0
    if kind is dict:
        return sum(_data_in(value) for value in tree.values() if type(value) in _HOLDS_DATA)
    if kind is list:
        return sum(_data_in(value) for value in tree if type(value) in _HOLDS_DATA)
    return 0


def _leaf(value: Any) -> Any:
    if type(value) in _LEAVES:
        return value
    raise WireError("extension types are not read", reason="extension")


def _check_json(tree: Any, depth: int) -> None:
    if type(tree) is int and not _INT_MIN <= tree <= _INT_MAX:
        raise WireError("an integer past 64 bits", reason="integer")
    if type(tree) not in _CONTAINERS:
        return
    if depth >= DEPTH:
        raise _too_deep()
    values = tree.values() if type(tree) is dict else tree
    if not _NO_INTEGERS.issuperset(map(type, values)):
        for value in values:
            _check_json(value, depth + 1)


def _wrong_key() -> WireError:
    return WireError("a map's key is neither text nor bytes nor an integer", reason="keys")


def _too_plain() -> WireError:
    what = f"more than {PLAIN_BYTES} bytes of plain values: numbers in bulk travel as arrays"
    return WireError(what, reason="too_large")


def _too_deep() -> WireError:
    return WireError(f"more than {DEPTH} containers inside one another", reason="depth")


def _reason(error: Exception) -> str:
    text = str(error).lower()
    return next((reason for part, reason in _REASONS.items() if part in text), "malformed")
