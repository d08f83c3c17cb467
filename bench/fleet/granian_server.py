"""The worker's app behind granian, in a program's own loop: what `seqrt.worker.serving` is with hypercorn.

granian runs on asyncio alone and says neither its port nor when it listens, so the port is chosen here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP2Settings
from granian.server.embed import Server

from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.policies.offload import in_thread
from seqrt.worker.app import app
from seqrt.worker.h2 import CONNECTION_WINDOW, FRAME_BYTES, STREAM_WINDOW

WAIT_S = 10.0
CONNECTIONS = 4096


@asynccontextmanager
async def serving(policy: object, limits: HostLimits) -> AsyncIterator[tuple[int, Host]]:
    """Serve a policy on loopback; yields the port and what serves."""
    host, port = Host(policy, offload=in_thread(), limits=limits), _free_port()
    server = Server(
        app(host),
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.auto,
        websockets=False,
        backlog=CONNECTIONS,
        backpressure=CONNECTIONS,
        log_enabled=False,
        http2_settings=HTTP2Settings(
            initial_stream_window_size=STREAM_WINDOW,
            initial_connection_window_size=CONNECTION_WINDOW,
            max_frame_size=FRAME_BYTES,
            max_concurrent_streams=1000,
        ),
    )
    running = asyncio.create_task(server.serve())
    try:
        await _listens(port)
        await host.start()
        yield port, host
    finally:
        server.stop()
        await host.stop()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(running, WAIT_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _listens(port: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
