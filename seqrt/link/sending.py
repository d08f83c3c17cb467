"""How a request goes onto HTTP/2: its head in few bytes and little work, its end in the frame of its last piece.

httpcore writes three times for a request with a body: its head, the body, and a frame that says only that it ended.
Each of them is a packet, and wakes the other end. Pure: what is to be sent, not the sending.
"""

from __future__ import annotations

import httpcore

from seqrt.wire.heads import plain_fields


def head_of(request: httpcore.Request) -> list[tuple[bytes, bytes]]:
    """The fields of a request's head, those of HTTP/2 first, names in lower case."""
    authority = next((value for name, value in request.headers if name.lower() == b"host"), b"")
    url = request.url
    return [
        (b":method", request.method),
        (b":authority", authority),
        (b":scheme", url.scheme),
        (b":path", url.target),
        *plain_fields(request.headers),
    ]


def length_of(request: httpcore.Request) -> int | None:
    """How long its body is; None for none."""
    for name, value in request.headers:
        if name.lower() == b"content-length":
            return int(value)
    return None
