"""A server that sends back what it reads, and what a test does with it through a relay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from seqrt.testing.relay import Relay

HANG_S = 60.0
"""After so long a test hangs; no machine is so slow."""
GONE = (anyio.EndOfStream, anyio.BrokenResourceError)


class Echo:
    """A server that sends back what it reads, and notes how its connections end."""

    def __init__(self) -> None:
        self.port = 0
        self.ends: list[str] = []
        self.received = bytearray()

    async def __call__(self, stream: SocketStream) -> None:
        async with stream:
            try:
                while True:
                    data = await stream.receive()
                    self.received += data
                    await stream.send(data)
            except GONE as end:
                self.ends.append(type(end).__name__)


@asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    echo = Echo()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        echo.port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, echo)
        yield echo
        tasks.cancel_scope.cancel()


async def connect(relay: Relay) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", relay.port)


async def receive_all(stream: SocketStream, size: int) -> bytes:
    body = bytearray()
    with anyio.fail_after(HANG_S):
        while len(body) < size:
            body += await stream.receive()
    return bytes(body)


async def until(true: Callable[[], bool]) -> None:
    """Wait until ``true()``; for what no event tells."""
    with anyio.fail_after(HANG_S):
        while not true():  # noqa: ASYNC110
            await anyio.sleep(0.001)
