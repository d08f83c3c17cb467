"""One client's connection: bytes of an anyio stream to hypercorn's protocols and back, on asyncio and trio alike.

hypercorn has a server for each of the two, and neither takes another HTTP/2 protocol than its own; its protocols do
not care who carries their bytes. A connection never raises: what a client sends ends at most its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio
import anyio.abc
from anyio.streams.tls import TLSAttribute
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError, H11Protocol

from seqrt.watching.logline import line
from seqrt.worker.asgi import App
from seqrt.worker.h2 import WorkerH2

READ_BYTES: Final = 256 * 2**10
SEND_STALL_S: Final = 60.0
"""A client that takes nothing of an answer for this long is let go."""

logger = logging.getLogger(__name__)

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class Event:
    """hypercorn's event over anyio's: it can be cleared, and says so with coroutines."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def set(self) -> None:
        """Set it."""
        self._event.set()

    async def clear(self) -> None:
        """Clear it."""
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()


class Context:
    """What hypercorn's protocols ask of their server."""

    event_class = Event

    def __init__(self) -> None:
        self.terminate = Event()
        self.terminated = Event()

    async def mark_request(self) -> None:
        """A request came in; hypercorn counts them to restart workers, we do not."""

    @staticmethod
    async def sleep(wait: float) -> None:
        """As anyio's."""
        await anyio.sleep(wait)

    @staticmethod
    def time() -> float:
        """The loop's clock."""
        return anyio.current_time()


class _Inbox:
    """One request's messages to the app.

    Without a bound: one request's unread body must not hold up the others of its connection. The app reads bodies at
    once and within its own limits; what comes after its answer is dropped with the inbox.
    """

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._arrived: anyio.Event | None = None

    def put(self, message: Any) -> None:
        """A message arrived."""
        self._messages.append(message)
        if self._arrived is not None:
            self._arrived.set()

    async def receive(self) -> Any:
        """The next message; what is there is handed out without giving the loop a turn."""
        while not self._messages:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._messages.popleft()


class Tasks:
    """hypercorn's task group over anyio's."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group

    def spawn(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task of the connection."""
        self._group.start_soon(function, *args)

    async def spawn_app(
        self, app: App, config: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Start the app for one request; returns where its messages are put."""
        inbox = _Inbox()

        async def put(message: Any) -> None:
            inbox.put(message)

        self._group.start_soon(self._run, app, scope, inbox.receive, send)
        return put

    async def _run(self, app: App, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            logger.exception("%s", line("app.failed", None))
        finally:
            with anyio.move_on_after(SEND_STALL_S, shield=True):
                await send(None)


class Connection:
    """One accepted connection.

    Args:
        app: The ASGI app.
        config: hypercorn's, for its protocols.
        context: Shared by all connections of a server.
        stream: The connection's bytes, as they are over TLS once its handshake is done.
    """

    def __init__(self, app: App, config: Config, context: Context, stream: anyio.abc.ByteStream) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._stream = stream
        self._lock = anyio.Lock(fast_acquire=True)
        self._protocol: H11Protocol | WorkerH2
        self._idle = True
        self._used_at = 0.0
        self._closed = False
        self._changed = anyio.Event()

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self._idle

    def nudge(self) -> None:
        """Look again whether it should close: the server is stopping."""
        self._changed.set()
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Serve it until it closes; requests under way run to their end."""
        try:
            async with self._stream, anyio.create_task_group() as group:
                tasks = Tasks(group)
                address = self._stream.extra(anyio.abc.SocketAttribute.remote_address, ("", 0))
                client = (str(address[0]), int(address[1])) if isinstance(address, tuple) else None
                agreed = self._stream.extra(TLSAttribute.alpn_protocol, None)
                secure = self._stream.extra(TLSAttribute.tls_version, None) is not None
                made: tuple[Any, ...] = (
                    self._app,
                    self._config,
                    self._context,
                    tasks,
                    {},
                    secure,
                    client,
                    None,
                    self._send,
                )
                # Agreed on in the handshake: the settings, and the windows in them, go before the client asks.
                self._protocol = WorkerH2(*made) if agreed == "h2" else H11Protocol(*made)
                await self._protocol.initiate()
                self._used_at = anyio.current_time()
                group.start_soon(self._close_when_idle)
                await self._read(made)
                await self._lost()
        except Exception as raised:
            # Whatever a client makes hypercorn or h2 raise ends its own connection, never the server.
            logger.debug("%s", line("connection.failed", None, error=repr(raised)))

    async def _read(self, made: tuple[Any, ...]) -> None:
        while not self._closed:
            try:
                data = await self._stream.receive(READ_BYTES)
            except _GONE:
                return
            try:
                await self._protocol.handle(RawData(data))
            except H2ProtocolAssumedError as assumed:
                await self._become_h2(made, assumed.data)
            except H2CProtocolRequiredError as required:
                await self._become_h2(made, required.data, required.headers, required.settings)

    async def _become_h2(self, made: tuple[Any, ...], data: bytes, *upgrade: Any) -> None:
        self._protocol = WorkerH2(*made)
        await self._protocol.initiate(*upgrade)
        if data:
            await self._protocol.handle(RawData(data))

    async def _send(self, event: Any) -> None:
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._lost()
        elif isinstance(event, Updated):
            self._idle = event.idle
            self._used_at = anyio.current_time()
            if self._context.terminated.is_set():
                self.nudge()

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            try:
                # Shielded: half a frame would break every other stream of the connection.
                with anyio.move_on_after(SEND_STALL_S, shield=True) as scope:
                    await self._stream.send(data)
            except _GONE:
                scope.cancel()
        if scope.cancel_called:
            await self._lost()

    async def _lost(self) -> None:
        """The connection is over: wake everything that waits on it."""
        if not self._closed:
            self._closed = True
            await self._protocol.handle(Closed())
            self.nudge()

    def _unused_s(self) -> float:
        """How long nothing has been asked here."""
        return anyio.current_time() - self._used_at if self._idle else 0.0

    async def _close_when_idle(self) -> None:
        while not self._closed and not (self._idle and self._context.terminated.is_set()):
            changed = self._changed
            # Looked at when its time might be over, not woken by every request.
            with anyio.move_on_after(self._config.keep_alive_timeout - self._unused_s()):
                await changed.wait()
            if self._unused_s() >= self._config.keep_alive_timeout:
                break
        if not self._closed and isinstance(self._protocol, WorkerH2):
            await self._protocol.goodbye()
        await self._lost()
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()
