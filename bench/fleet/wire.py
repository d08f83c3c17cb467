"""One robot's side of an HTTP/2 connection, in as little Python as will do: a load must not be its own limit.

Requests are the bytes our client sends (`seqrt.link.sending`): what comes again is in the header table, what does not
is never put there, the head goes out with the body. Of an answer's head only the first byte is looked at, which says
200 or not; what else went wrong stands in the body. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
ANSWER_WINDOW = 2**24
_STATUS_200 = 0x88
_NO_PUSH = (2, 0)
_INITIAL_WINDOW, _MAX_FRAME = 4, 5
_GIVE_BACK_AT = 2**22
_ROOM = 65_535


class Broken(Exception):
    """The server ended the connection, or has no room for what is to be sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        stream: Of which request.
        ok: Whether its status was 200.
        body: The whole of it; empty of a stream that was reset.
    """

    stream: int
    ok: bool
    body: bytes


class Wire:
    """What is sent and what came over one connection.

    Args:
        authority: The server's, as in an address.
        key: The secret its requests bring; "" for none.
    """

    def __init__(self, authority: str, key: str = "") -> None:
        self._encoder = hpack.Encoder()
        self._fixed = [
            (b":method", b"POST"),
            (b":authority", authority.encode()),
            (b":scheme", b"http"),
        ]
        self._media = [(b"accept", b"application/x-seq-msgpack"), (b"content-type", b"application/x-seq-msgpack")]
        self._key = _literal(b"authorization", f"Bearer {key}".encode()) if key else b""
        self._heads: dict[str, bytes] = {}
        self._next = 1
        self._room = _ROOM
        self._stream_room = _ROOM
        self._frame = 16_384
        self._left = b""
        self._bodies: dict[int, list[bytes]] = {}
        self._ok: dict[int, bool] = {}
        self._unacknowledged = 0
        self.owed = b""

    @property
    def ready(self) -> bool:
        """Whether the server has said how much it takes."""
        return self._room > _ROOM

    def opening(self) -> bytes:
        """What opens the connection."""
        settings = struct.pack(">HIHI", *_NO_PUSH, _INITIAL_WINDOW, ANSWER_WINDOW)
        return PREFACE + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW, 0, 0, struct.pack(">I", ANSWER_WINDOW))

    def request(self, path: str, body: bytes, request_id: str) -> tuple[int, bytes]:
        """The number of a POST's stream, and its bytes.

        Raises:
            Broken: The server gives no room for it.
        """
        if len(body) > min(self._room, self._stream_room):
            raise Broken("no room in the connection's window")
        self._room -= len(body)
        stream, self._next = self._next, self._next + 2
        head = self._head(path) + _literal(b"x-seq-request-id", request_id.encode()) + self._key
        head += _literal(b"content-length", b"%d" % len(body))
        sent = [_frame(HEADERS, END_HEADERS, stream, head)]
        for at in range(0, len(body), self._frame):
            piece = body[at : at + self._frame]
            sent.append(_frame(DATA, END_STREAM if at + self._frame >= len(body) else 0, stream, piece))
        return stream, b"".join(sent)

    def take(self, data: bytes) -> list[Answer]:
        """The answers that ``data`` completes; what is owed in return is in `owed` then.

        Raises:
            Broken: The server said goodbye.
        """
        data, at, done = self._left + data if self._left else data, 0, list[Answer]()
        while len(data) - at >= 9:
            length = int.from_bytes(data[at : at + 3], "big")
            if len(data) - at - 9 < length:
                break
            kind, flags, stream = data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big")
            self._one(kind, flags, stream, data[at + 9 : at + 9 + length], done)
            at += 9 + length
        self._left = data[at:]
        return done

    def _one(self, kind: int, flags: int, stream: int, payload: bytes, done: list[Answer]) -> None:
        if kind == HEADERS:
            self._ok[stream], self._bodies[stream] = payload[0] == _STATUS_200, []
        elif kind == DATA:
            self._bodies[stream].append(payload)
            self._acknowledge(len(payload))
        elif kind == WINDOW and stream == 0:
            self._room += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
            self.owed += _frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self.owed += _frame(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            raise Broken(f"goodbye: {int.from_bytes(payload[4:8], 'big')}")
        if kind == RESET or (kind in (HEADERS, DATA) and flags & END_STREAM):
            ok = self._ok.pop(stream, False) and kind != RESET
            done.append(Answer(stream, ok, b"".join(self._bodies.pop(stream, []))))

    def _acknowledge(self, count: int) -> None:
        self._unacknowledged += count
        if self._unacknowledged >= _GIVE_BACK_AT:
            self.owed += _frame(WINDOW, 0, 0, struct.pack(">I", self._unacknowledged))
            self._unacknowledged = 0

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            code, value = struct.unpack_from(">HI", payload, at)
            if code == _INITIAL_WINDOW:
                self._stream_room = value
            elif code == _MAX_FRAME:
                self._frame = value

    def _head(self, path: str) -> bytes:
        """What is the same each time: written out once, looked up in the table from then on."""
        block = self._heads.get(path)
        if block is None:
            table = self._encoder.header_table.dynamic_entries
            before = len(table)
            fields = [*self._fixed, (b":path", path.encode()), *self._media]
            block = bytes(self._encoder.encode(fields, huffman=False))
            if len(table) > before:
                self._heads.clear()  # what is in the table is counted from the newest
            else:
                self._heads[path] = block
        return block


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), payload)


def _literal(name: bytes, value: bytes) -> bytes:
    """A field that is never put into the table; both shorter than 127 bytes."""
    return b"\x10%c%b%c%b" % (len(name), name, len(value), value)
