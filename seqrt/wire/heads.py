"""How heads are written on HTTP/2, at both ends: in few bytes and little work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import hpack

_NOT_SENT: Final = frozenset(
    {b"host", b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
"""Of HTTP/1.1: RFC 9113, 8.2.2 and 8.3.1."""
_ONCE: Final = frozenset({b"authorization", b"content-length", b"date", b"x-seq-deadline-s", b"x-seq-request-id"})
"""Secret, or another one each time: kept in a table at either end they would push out what does come again."""


class PlainEncoder(hpack.Encoder):
    """hpack's encoder without Huffman's code, which is Python and saves a dozen bytes a head."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        """The block of bytes that says ``headers``."""
        return super().encode(headers, huffman=False)


def plain_fields(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The fields of a head that travel on HTTP/2, names in lower case, those told apart that are not to be kept."""
    fields = []
    for name, value in headers:
        name = name.lower()
        if name not in _NOT_SENT:
            fields.append(hpack.NeverIndexedHeaderTuple(name, value) if name in _ONCE else (name, value))
    return fields
