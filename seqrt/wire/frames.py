"""The frames form of an act: JSON, and its pictures behind it as they are, without base64.

``"SQF1"``, u32 length of the JSON, u32 n, n × u32 lengths, the JSON, the n segments; little-endian. In the JSON, a
picture's ``data`` is the number of its segment. Pictures are ``images[i].data`` of ``inputs``, else ``observation``,
else the body itself.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from typing import Any, Final

from seqrt.errors import WireError
from seqrt.wire.incoming import Body, read_json
from seqrt.wire.limits import BODY_BYTES, SEGMENTS
from seqrt.wire.outgoing import json_tree, write_json

_MAGIC: Final = b"SQF1"
_HEADER: Final = struct.Struct("<4sII")


def encode_frames(message: Any) -> bytes:
    """A message with its pictures outside the JSON.

    Args:
        message: As `seqrt.wire.codec.encode_json` takes it. A picture's ``data`` moves out when it is bytes or
            canonical base64 text (what decodes and encodes again to itself); other text stays where it stands.

    Raises:
        WireError: It has no JSON form, or a picture's ``data`` is a number, which only a segment may be.
    """
    tree = json_tree(message)
    segments: list[bytes] = []
    for picture in _pictures(tree):
        data = picture["data"]
        if isinstance(data, (int, float)):
            raise _bad(f"a picture's data is the number {data}")
        segment = data if isinstance(data, bytes) else _canonical(data)
        if segment is not None and len(segments) < SEGMENTS:
            picture["data"] = len(segments)
            segments.append(segment)
    text = write_json(tree)
    if max([len(text), *map(len, segments)]) >= 2**32:
        raise _bad("a part of 4 GiB or more")
    lengths = struct.pack(f"<{len(segments)}I", *map(len, segments))
    return b"".join([_HEADER.pack(_MAGIC, len(text), len(segments)), lengths, text, *segments])


def decode_frames(body: Body, *, as_text: bool = True) -> Any:
    """The tree a frames body stands for.

    Args:
        body: The whole body.
        as_text: Put each picture back as base64 text, as it was in the JSON form; False: as bytes.

    Raises:
        WireError: Anything that is no such body; ``reason`` is ``frames``.
    """
    view = memoryview(body).toreadonly().cast("B")
    text, segments = _split(view)
    try:
        tree = read_json(text)
    except WireError as error:
        raise _bad(f"its JSON: {error.what}") from error
    unnamed = dict(enumerate(segments))
    for picture in _pictures(tree):
        number = picture["data"]
        if type(number) is not int:
            if isinstance(number, (bool, float)):
                raise _bad(f"a picture's data is {number}")
            continue
        if number not in unnamed:
            raise _bad(f"segment {number} of {len(segments)} is named twice or not there")
        segment = unnamed.pop(number)
        picture["data"] = base64.b64encode(segment).decode("ascii") if as_text else bytes(segment)
    if unnamed:
        raise _bad(f"segment {min(unnamed)} is not named")
    return tree


def _split(view: memoryview) -> tuple[memoryview, list[memoryview]]:
    if view.nbytes > BODY_BYTES:
        raise _bad(f"{view.nbytes} bytes, at most {BODY_BYTES} are read")
    if view.nbytes < _HEADER.size:
        raise _bad("shorter than its header")
    magic, text_bytes, count = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise _bad("it does not begin with SQF1")
    if count > SEGMENTS:
        raise _bad(f"{count} segments, at most {SEGMENTS}")
    at = _HEADER.size + 4 * count
    if view.nbytes < at:
        raise _bad("shorter than its lengths")
    lengths = struct.unpack_from(f"<{count}I", view, _HEADER.size)
    expected = at + text_bytes + sum(lengths)
    if view.nbytes != expected:
        raise _bad(f"{view.nbytes} bytes, its header says {expected}")
    text = view[at : at + text_bytes]
    at += text_bytes
    segments = []
    for length in lengths:
        segments.append(view[at : at + length])
        at += length
    return text, segments


def _pictures(tree: Any) -> Iterator[dict[str, Any]]:
    """Every map in ``images`` that has ``data``."""
    holder = tree
    if isinstance(tree, dict):
        holder = tree.get("inputs", tree.get("observation", tree))
    images = holder.get("images") if isinstance(holder, dict) else None
    if isinstance(images, list):
        yield from (image for image in images if isinstance(image, dict) and "data" in image)


def _canonical(data: Any) -> bytes | None:
    """The bytes of a base64 text, None for anything that would not come back the same."""
    if not isinstance(data, str):
        return None
    try:
        segment = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return segment if base64.b64encode(segment).decode("ascii") == data else None


def _bad(what: str) -> WireError:
    return WireError(f"no frames body: {what}", reason="frames")
