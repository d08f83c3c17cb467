"""Bodies of posts, handed over piece by piece as the sender lets them."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from seqrt.link.border import Urgency
from seqrt.link.sender import Post, Sender


class Pieces(httpx.AsyncByteStream):
    """A post's body on one connection; read once.

    Args:
        body: It.
        post: Its place in the sender.
        sender: Says how many bytes go next, and when.
        size: How many it has let go already.

    Attributes:
        gone: Called when a further piece goes.
    """

    def __init__(self, body: bytes, post: Post, sender: Sender, size: int) -> None:
        self._body, self._post, self._sender, self._size = body, post, sender, size
        self._at = 0
        self.gone: Callable[[], None] = lambda: None

    def __aiter__(self) -> Pieces:
        """The pieces, as their turns come."""
        return self

    async def __anext__(self) -> bytes:
        """The next one; waits for its turn."""
        if self._at == len(self._body):
            raise StopAsyncIteration
        if self._size == 0:
            self._size = await self._sender.turn(self._post)
            self.gone()
        piece = self._body[self._at : self._at + self._size]  # the whole of it is itself, no copy
        self._at += self._size
        self._size = 0
        return piece


class Paced:
    """One post, from its turn to its answer.

    Args:
        body: Its body.
        number: Of its newest observation.
        urgency: What hangs on it.
        sender: The way up.
    """

    def __init__(self, body: bytes, number: int, urgency: Urgency, sender: Sender) -> None:
        self._size, self._number, self._urgency, self._sender = len(body), number, urgency, sender
        self._post = Post(self._size, number, urgency)
        self._granted = 0

    async def turn(self) -> None:
        """Wait until its first bytes may go: it takes nobody's stream and no time of its deadline before."""
        self._granted = await self._sender.turn(self._post)

    def pieces(self, body: bytes) -> Pieces:
        """What hands it over; asked for again, it is sent anew, over another connection."""
        granted, self._granted = self._granted, 0
        if not granted:
            self._post = Post(self._size, self._number, self._urgency)
        return Pieces(body, self._post, self._sender, granted)

    def answered(self) -> None:
        """Its answer is here."""
        self._sender.answered(self._post)

    def lost(self) -> None:
        """There will be none, or it says nothing."""
        self._sender.lost(self._post)
