"""Messages and trees to bytes and back: msgpack between robot and worker, JSON for everyone else.

`encode` and `decode` are what runtime, worker and peers call. Arrays travel anywhere in a message, see
`seqrt.wire.arrays`; what may not travel is refused by `seqrt.wire.outgoing` and `seqrt.wire.incoming`. Neither side
waits or starts anything; a body of a megabyte takes a fraction of a millisecond, so callers in an event loop hand
larger ones to their offload.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from seqrt.errors import WireError
from seqrt.wire.frames import decode_frames
from seqrt.wire.headers import FRAMES, JSON, MSGPACK, media_type
from seqrt.wire.incoming import Body, read_json, read_msgpack
from seqrt.wire.messages import PROTOCOL, ActRequest, PolicyInfo
from seqrt.wire.outgoing import write_json, write_msgpack

T = TypeVar("T")

_PLACE: Final = re.compile(r"(?P<what>.*) - at (?:`key` in )?`\$\.?(?P<where>[^`]*)`", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def encode(message: Any) -> bytes:
    """The msgpack form of a message or tree.

    Args:
        message: A Struct of `seqrt.wire.messages`, or dict, list, tuple, text, bytes, number, None, numpy array or
            scalar, nested. Tuples arrive as lists; an array's elements are copied once, into the result.

    Raises:
        WireError: Something in it cannot travel; ``where`` is its path.
    """
    return write_msgpack(message)


def decode(body: Body, type: type[T]) -> T:
    """The message in a msgpack body.

    Args:
        body: The whole body, and nothing after it. A bytearray must not change afterwards: arrays look into it.
        type: The Struct expected, or ``dict``, ``object`` …

    Returns:
        The message. Arrays in it are read-only; large ones are views that keep ``body`` alive.

    Raises:
        WireError: It is no such message; ``where`` is the field where there is one.
    """
    return as_message(read_msgpack(body), type)


def encode_json(message: Any) -> bytes:
    """The JSON form: arrays as nested lists, numpy scalars as numbers, bytes as base64 text.

    Raises:
        WireError: Something in it has no such form: NaN, infinity, complex numbers, keys that are not text.
    """
    return write_json(message)


def decode_json(body: Body, type: type[T]) -> T:
    """The message in a JSON body. What was an array is nested lists there, what was bytes is base64 text.

    Raises:
        WireError: It is no such message.
    """
    return as_message(read_json(body), type)


def decode_body(body: Body, content_type: str | None, type: type[T]) -> T:
    """The message in a body of the given content type; without one, JSON.

    Raises:
        WireError: It is no such message, or (reason ``media_type``) a content type that is not read here.
    """
    return as_message(read_body(body, content_type), type)


def read_body(body: Body, content_type: str | None) -> Any:
    """The tree in a body, by its content type; without one, JSON.

    Raises:
        WireError: As `decode_body`.
    """
    media = media_type(content_type)
    if media == MSGPACK:
        return read_msgpack(body)
    if media in (JSON, ""):
        return read_json(body)
    if media == FRAMES:
        return decode_frames(body)
    raise WireError(f"a body of type {media!r:.80}; {MSGPACK}, {FRAMES} and {JSON} are read", reason="media_type")


def decode_info(body: Body, content_type: str | None = MSGPACK) -> PolicyInfo:
    """The `PolicyInfo` of a worker, which may be newer than this reader: fields unknown here are ignored.

    Raises:
        WireError: It is no such message, or (reason ``protocol``) the worker speaks a newer major version.
    """
    tree = read_body(body, content_type)
    if not isinstance(tree, dict):
        raise WireError("the worker's description is not a map", reason="field")
    protocol = tree.get("protocol")
    if type(protocol) is int and protocol > PROTOCOL:
        raise WireError(
            f"the worker speaks protocol {protocol}, this robot {PROTOCOL}: update seqrt on the robot",
            where="protocol",
            reason="protocol",
        )
    known = set(PolicyInfo.__struct_fields__)
    return as_message({key: value for key, value in tree.items() if key in known}, PolicyInfo)


def require_one_of(request: ActRequest) -> None:
    """Checks what the fields' types cannot say: ``inputs`` or ``call``, and what a data-less act has to name.

    Raises:
        WireError: Both or neither of ``inputs`` and ``call`` (reason ``one_of``); a data-less act without
            ``episode_id`` or ``seq``, or with ``seq`` 0: it counts what was streamed, so nothing was.
    """
    has_inputs, has_call = request.inputs is not msgspec.UNSET, request.call is not msgspec.UNSET
    if has_inputs and has_call:
        raise WireError("an act has `inputs` or `call`, this one has both", where="inputs", reason="one_of")
    if not has_inputs and not has_call:
        raise WireError("an act has `inputs` or `call`, this one has neither", where="inputs", reason="one_of")
    if has_call and request.episode_id is None:
        raise WireError("a data-less act names its episode", where="episode_id", reason="field")
    if has_call and not request.seq:
        raise WireError("a data-less act needs the count streamed, at least 1", where="seq", reason="field")


def as_message(tree: Any, type: type[T]) -> T:
    """A tree as the message ``type``, held against its fields strictly: no bool or text where an int belongs.

    Raises:
        WireError: A field that is unknown, missing or of another type; reason ``field``.
    """
    try:
        return msgspec.convert(tree, type)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from error
    except RecursionError as error:
        raise WireError("nested too deep", reason="depth") from error
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        # msgspec takes an array for a mapping, because it can be indexed, and asks it for fields.
        raise WireError("an array stands where a map belongs", reason="field") from error


def _field_error(text: str) -> WireError:
    place = _PLACE.fullmatch(text)
    what, where = (place["what"], place["where"]) if place else (text, "")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        where = f"{where}.{unknown['field']}".lstrip(".")
        what = f"unknown field `{unknown['field']:.80}`"
    return WireError(what, where=where[:200], reason="field")
