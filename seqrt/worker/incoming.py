"""Reading a request's body: at once, before anything is waited for, and never more of it than may be held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from seqrt.errors import remote_error
from seqrt.wire.limits import RETRY_S
from seqrt.worker.asgi import Receive

BODY_STALL_S: Final = 30.0
"""A body of which nothing arrives for this long is given up."""

AHEAD_BYTES: Final = 2**20
"""So much room at the most is reserved for a body before it has arrived."""

DRAIN_BYTES: Final = 256 * 2**20
"""How much of a refused HTTP/1.1 body is read on, so that its sender gets to read the answer."""


class Disconnected(Exception):
    """The client left before its body was here; there is nobody to answer."""


class Inflow:
    """The bytes of all bodies being read now.

    Args:
        most: How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    def take(self, count: int) -> None:
        """Reserve room.

        Raises:
            Unavailable: There is none (429).
        """
        if self._bytes + count > self._most:
            raise remote_error("busy", "too many bodies are being read", retry_after_s=RETRY_S)
        self._bytes += count

    def give(self, count: int) -> None:
        """Give room back."""
        self._bytes -= count


class Incoming:
    """One request's body.

    Args:
        receive: ASGI's.
        content_length: The header's value, None where there is none.
        http_1: Whether the connection has to be read on before a refusal can be seen.

    Attributes:
        received: Bytes of it that have arrived.
    """

    def __init__(self, receive: Receive, content_length: str | None, *, http_1: bool) -> None:
        self._receive = receive
        self._announced = content_length
        self._http_1 = http_1
        self._ended = False
        self._begun = False
        self.received = 0

    async def read(self, most: int, inflow: Inflow, moved: Callable[[], None]) -> bytes:
        """The whole body.

        Args:
            most: How long it may be; a longer one is refused by its content-length, or where it gets too long.
            inflow: Reserves the room.
            moved: Called whenever some of it arrives.

        Raises:
            InvalidRequest: Too long (413).
            Unavailable: No room (429), or nothing arrives any more (504).
            Disconnected: The client left.
        """
        announced = _length(self._announced)
        if announced is not None and announced > most:
            raise _too_large(announced, most)
        # What comes soon. All that is announced would let a few who announce much and send nothing keep all others out.
        taken, size, chunks = min(announced or 0, AHEAD_BYTES), 0, []
        inflow.take(taken)
        try:
            with anyio.move_on_after(BODY_STALL_S) as patience:
                while not self._ended:
                    chunk = await self._next()
                    size += len(chunk)
                    if size > most:
                        raise _too_large(size, most)
                    if size > taken:
                        inflow.take(size - taken)
                        taken = size
                    chunks.append(chunk)
                    moved()
                    if not self._ended:
                        patience.deadline = anyio.current_time() + BODY_STALL_S
            if not self._ended:
                raise _stalled()
        finally:
            inflow.give(taken)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def drain(self) -> None:
        """After a refusal on HTTP/1.1: read on and drop, or closing would take the answer with it."""
        left = DRAIN_BYTES
        if not self._http_1 or (not self._begun and self._announced is None):
            return
        try:
            while not self._ended and left > 0:
                with anyio.move_on_after(BODY_STALL_S) as patience:
                    left -= len(await self._next())
                if patience.cancelled_caught:
                    return
        except Exception:  # whatever it is, the refusal has been decided
            return

    async def _next(self) -> bytes:
        self._begun = True
        message = await self._receive()
        if message["type"] != "http.request":
            raise Disconnected
        self._ended = not message.get("more_body", False)
        chunk = bytes(message.get("body", b""))
        self.received += len(chunk)
        return chunk


def _stalled() -> Exception:
    return remote_error("timeout", f"nothing of the body arrived for {BODY_STALL_S:g} s")


def _length(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise remote_error("invalid_request", f"content-length is no number: {text!r:.40}")
    return int(text)


def _too_large(size: int, most: int) -> Exception:
    return remote_error(
        "payload_too_large",
        f"the body has {size} bytes or more; {most} is the most a worker reads",
        details={"reason": "body", "most": most},
    )
