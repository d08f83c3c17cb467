"""Bytes: messages, arrays, codecs, limits, header names. Pure: nothing here waits, sends, or reads a clock."""

from __future__ import annotations

from seqrt.wire.codec import (
    decode,
    decode_body,
    decode_info,
    decode_json,
    encode,
    encode_json,
    require_one_of,
)
from seqrt.wire.errorbody import body_of, error_from
from seqrt.wire.frames import decode_frames, encode_frames
from seqrt.wire.legacy import read_act
from seqrt.wire.limits import size_of

__all__ = [
    "body_of",
    "decode",
    "decode_body",
    "decode_frames",
    "decode_info",
    "decode_json",
    "encode",
    "encode_frames",
    "encode_json",
    "error_from",
    "read_act",
    "require_one_of",
    "size_of",
]
