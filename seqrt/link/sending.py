"""How a request goes onto HTTP/2: its head in few bytes and little work, its end in the frame of its last piece.

httpcore writes three times for a request with a body: its head, the body, and a frame that says only that it ended.
Each of them is a packet, and wakes the other end. Pure: what is to be sent, not the sending.
"""

from __future__ import annotations

from typing import Any, Final

import hpack
import httpcore

_NOT_SENT: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
"""Of HTTP/1.1: RFC 9113, 8.2.2 and 8.3.1."""
_ONCE: Final = frozenset({b"authorization", b"content-length", b"x-seq-deadline-s", b"x-seq-request-id"})
"""Secret, or another one each time: kept in a table at either end they would push out what does come again."""


class PlainEncoder(hpack.Encoder):
    """hpack's encoder without Huffman's code, which is Python and saves a dozen bytes a request."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        """The block of bytes that says ``headers``."""
        return super().encode(headers, huffman=False)


def head_of(request: httpcore.Request) -> list[tuple[bytes, bytes]]:
    """The fields of a request's head, those of HTTP/2 first, names in lower case."""
    authority = b""
    fields = []
    for name, value in request.headers:
        name = name.lower()
        if name == b"host":
            authority = value
        if name not in _NOT_SENT:
            fields.append(hpack.NeverIndexedHeaderTuple(name, value) if name in _ONCE else (name, value))
    url = request.url
    return [
        (b":method", request.method),
        (b":authority", authority),
        (b":scheme", url.scheme),
        (b":path", url.target),
        *fields,
    ]


def length_of(request: httpcore.Request) -> int | None:
    """How long its body is; None for none."""
    for name, value in request.headers:
        if name.lower() == b"content-length":
            return int(value)
    return None
