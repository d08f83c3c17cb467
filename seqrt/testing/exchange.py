"""One request and its answer on their way through `seqrt.testing.transport`: what either end has received of it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import httpx

Message = MutableMapping[str, Any]
T = TypeVar("T")


class Inbox(Generic[T]):
    """What has arrived at one end, for one reader."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._error: Exception | None = None
        self._changed = anyio.Event()

    def put(self, item: T) -> None:
        """Something arrived."""
        self._items.append(item)
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """The connection broke: the reader gets this, whatever else had arrived."""
        self._error = error
        self._changed.set()

    async def get(self) -> T:
        """The next item; waits for it. Raises what `fail` was given."""
        await anyio.lowlevel.checkpoint()
        while not self._items and self._error is None:
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        return self._items.popleft()


class Exchange:
    """One request: the client's end and the app's end of it. Owned by the transport.

    Attributes:
        number: 0 for the transport's first request.
        request: The client's.
        at_app: ``http.request`` messages that reached the app.
        at_client: ``http.response.*`` messages that reached the client.
        handler: The scope the app's call runs in; only a server that goes down cancels it.
        over: Set when the answer has been sent or the connection is gone: the app then reads ``http.disconnect``.
        began: The answer's first message has been sent.
        complete: The answer's last message has been sent.
        broken: The connection is gone.
        up_s: One-way delay of the request.
        down_s: One-way delay of the answer.
        request_lost: Nothing of the request arrives.
        answer_lost: Nothing of the answer arrives.
    """

    def __init__(self, number: int, request: httpx.Request) -> None:
        self.number = number
        self.request = request
        self.at_app: Inbox[Message] = Inbox()
        self.at_client: Inbox[Message] = Inbox()
        self.handler = anyio.CancelScope()
        self.over = anyio.Event()
        self.began = False
        self.complete = False
        self.broken = False
        self.up_s = 0.0
        self.down_s = 0.0
        self.request_lost = False
        self.answer_lost = False
        self._read = False

    def break_off(self, error: Exception) -> None:
        """The connection is gone: the client gets ``error``, the app a disconnect once it reads on."""
        self.broken = True
        self.over.set()
        self.at_client.fail(error)
        if not self._read:
            self.at_app.put({"type": "http.disconnect"})

    async def receive(self) -> Message:
        """The app's ``receive``."""
        if self._read:
            await self.over.wait()
            return {"type": "http.disconnect"}
        message = await self.at_app.get()
        self._read = not message.get("more_body", False)
        return message

    def scope(self) -> dict[str, Any]:
        """The ASGI scope: HTTP/2, as the worker's server makes it."""
        url = self.request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "method": self.request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self.request.headers.raw],
            "client": ("127.0.0.1", 50000),
            "server": (url.host, url.port or {"https": 443}.get(url.scheme, 80)),
            "extensions": {},
        }


class AnswerBody(httpx.AsyncByteStream):
    """The answer's body as it arrives.

    Args:
        next_message: Waits for the client's next message, within the request's read timeout.
        on_close: Called once the client has read all of it or lets go of it.
    """

    def __init__(self, next_message: Callable[[], Any], on_close: Callable[[], None]) -> None:
        self._next_message = next_message
        self._on_close = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, as they come."""
        more = True
        while more:
            message = await self._next_message()
            more = message.get("more_body", False)
            if body := message.get("body", b""):
                yield body

    async def aclose(self) -> None:
        """The client is done with it."""
        self._on_close()
