"""A request's body, handed over whole; `paced` has those that go in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx


class Whole(httpx.AsyncByteStream):
    """A body in one piece.

    httpx's own is an async generator; trio warns of each one that a dying connection leaves half read.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        """It, once."""
        return _Once(self._body)


class _Once:
    def __init__(self, body: bytes) -> None:
        self._left = [body]

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> bytes:
        if self._left:
            return self._left.pop()
        raise StopAsyncIteration
