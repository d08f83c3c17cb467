"""A listening socket and the connections it takes: any ASGI app, over TLS or not, on asyncio and trio."""

from __future__ import annotations

import errno
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from anyio.streams.stapled import MultiListener
from hypercorn.config import Config

from seqrt.watching.logline import line
from seqrt.watching.seldom import Seldom
from seqrt.worker.connection import App, Connection, Context
from seqrt.worker.h2 import FRAME_BYTES
from seqrt.worker.tls import secured

_log = logging.getLogger(__name__)

GRACE_S = 5.0
"""How long requests under way may take to end when a server stops."""

_PASSING = frozenset({errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@asynccontextmanager
async def listening(
    app: App, *, host: str, port: int, grace_s: float = GRACE_S, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve any ASGI app (no lifespan); yields the port. An exception of the body comes out unchanged.

    Raises:
        OSError: The address cannot be bound.
    """
    config, context = _config(), Context()
    connections: set[Connection] = set()
    failure: Exception | None = None

    async def welcome(stream: anyio.abc.SocketStream) -> None:
        agreed = await secured(stream, tls) if tls is not None else stream
        if agreed is not None:
            clients.start_soon(serve, agreed)

    async def serve(stream: anyio.abc.ByteStream) -> None:
        connection = Connection(app, config, context, stream)
        connections.add(connection)
        try:
            await connection.run()
        finally:
            connections.discard(connection)

    listener = await _bound(host, port)
    async with listener, anyio.create_task_group() as clients, anyio.create_task_group() as accepting:
        for one in listener.listeners:
            accepting.start_soon(_accept, one, welcome, accepting)
        try:
            yield listener.extra(anyio.abc.SocketAttribute.local_port)
        except Exception as raised:
            failure = raised
        accepting.cancel_scope.cancel()
        # Requests under way end; nothing new begins. Connections close as soon as they are idle.
        clients.cancel_scope.deadline = anyio.current_time() + grace_s
        await context.terminated.set()
        for connection in connections:
            connection.nudge()
    if failure is not None:
        raise failure


async def _bound(host: str, port: int) -> MultiListener[anyio.abc.SocketStream]:
    """A listener there; an error names the place, since a server may listen at two."""
    try:
        return await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, f"{host}:{port}") from error


@asynccontextmanager
async def listening_here(app: App, port: int | None) -> AsyncIterator[int | None]:
    """Serve an app to this machine alone, over plain HTTP; yields the port. Nothing where there is none.

    Raises:
        OSError: The port is taken.
    """
    if port is None:
        yield None
        return
    async with listening(app, host="127.0.0.1", port=port, grace_s=0.0) as bound:
        yield bound


async def _accept(
    listener: anyio.abc.Listener[anyio.abc.SocketStream],
    welcome: Callable[[anyio.abc.SocketStream], Coroutine[Any, Any, None]],
    tasks: anyio.abc.TaskGroup,
) -> None:
    seldom = Seldom()
    while True:
        try:
            stream = await listener.accept()  # type: ignore[attr-defined]  # a SocketListener, which anyio does not say
        except OSError as refused:
            # A connection that broke while it waited, or no file descriptors left: neither ends the server.
            if refused.errno not in _PASSING:
                raise
            told = errno.errorcode.get(refused.errno, refused.errno)
            more = seldom.due(told, anyio.current_time())
            if more is not None:
                _log.warning("%s", line("accept.failed", None, more=more or None, error=told))
            await anyio.sleep(0.0 if refused.errno == errno.ECONNABORTED else 0.1)
        else:
            tasks.start_soon(welcome, stream)


def _config() -> Config:
    """Hypercorn's own settings that bite at a robot's rates, each with its reason."""
    config = Config()
    config.keep_alive_max_requests = sys.maxsize  # it counts HTTP/2 streams: 1000 would end a 30 Hz robot after 33 s
    config.keep_alive_timeout = 120.0
    config.h2_max_concurrent_streams = 1000
    config.h2_max_inbound_frame_size = FRAME_BYTES
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = _log  # or it would put handlers on loggers of its own
    return config
