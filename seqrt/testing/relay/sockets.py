"""The relay's sockets: non-blocking ones of the kernel's own, so that nothing waits anywhere but in the kernel.

A stream of asyncio reads up to 256 KiB ahead and holds back writes of its own; what waits should wait in the relay's
queue, where it is counted, or in the sender.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
from typing import Final

import anyio
import anyio.lowlevel

from seqrt.testing.relay.window import SEGMENT_BYTES

logger = logging.getLogger(__name__)

BUFFER_S: Final = 0.003
LEAST_BUFFER_BYTES: Final = 4_096
MOST_BUFFER_BYTES: Final = 65_536

Address = tuple[socket.AddressFamily, tuple[str, int]]
"""Where to connect to or listen on: IPv4 or IPv6, and a numeric address with a port."""


def buffer_bytes(bytes_per_s: float | None) -> int:
    """The receive buffer to read a bottleneck's bytes from: about as much as the kernel hides from their sender.

    A few milliseconds of the rate. Less starves the relay where it is woken late (4 KiB carry 35 Mbit/s here, 8 KiB
    80); without a rate it does not matter what is hidden.
    """
    if bytes_per_s is None:
        return MOST_BUFFER_BYTES
    return min(MOST_BUFFER_BYTES, max(LEAST_BUFFER_BYTES, int(bytes_per_s * BUFFER_S)))


def set_buffer(connection: socket.socket, size_bytes: int) -> None:
    """Give it another receive buffer."""
    with contextlib.suppress(OSError):  # it is gone, which its reader finds
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)


async def resolved(host: str, port: int) -> Address:
    """The first address ``host`` has. OSError where it has none."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, sockaddr = found[0]
    return socket.AddressFamily(family), (sockaddr[0], sockaddr[1])


def bound(address: Address) -> socket.socket:
    """A socket that holds a port without listening: a connection to it is refused at once."""
    family, place = address
    keeper = _made(family)
    try:
        keeper.bind(place)
    except OSError:
        keeper.close()
        raise
    return keeper


def listening(address: Address, buffer: int) -> socket.socket:
    """A socket that listens; `bound` may hold its port meanwhile. Connections taken have that receive buffer."""
    listener = bound(address)
    set_buffer(listener, buffer)
    listener.listen(256)
    return listener


def unlisten(listener: socket.socket) -> None:
    """Refuse connections from now on, those too that wait to be taken; the caller closes it."""
    with contextlib.suppress(OSError):  # where the kernel does not do it, closing does
        listener.shutdown(socket.SHUT_RD)


async def accept(listener: socket.socket) -> socket.socket:
    """The next connection. OSError when it does not listen any more."""
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            await anyio.wait_readable(listener)
        else:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


async def connect(address: Address, buffer: int) -> socket.socket:
    """A connection with that receive buffer; it takes as long as the kernel tries. OSError where there is none."""
    family, place = address
    connection = _made(family)
    set_buffer(connection, buffer)
    try:
        with contextlib.suppress(BlockingIOError):
            connection.connect(place)
        await anyio.wait_writable(connection)
        if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
    except BaseException:
        connection.close()
        raise
    return connection


async def send_all(connection: socket.socket, data: bytes) -> None:
    """Hand all of it to the kernel, as it takes it. OSError when the other end is gone."""
    left = memoryview(data)
    while left:
        try:
            left = left[connection.send(left) :]
        except BlockingIOError:
            await anyio.wait_writable(connection)


def abort_on_close(connection: socket.socket) -> None:
    """Have it send RST, and drop what it still holds, when it is closed."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _made(family: socket.AddressFamily) -> socket.socket:
    """A socket with small segments, which connections taken from it inherit.

    Segments on loopback are of 64 KB, and Linux gives a sender a buffer of twenty of them to begin with: more than a
    narrow link carries in a second. They are cut to an Ethernet's, which also makes the sender's own buffer what it is
    on a network. That has to be settled before the handshake.
    """
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError, AttributeError):  # not everywhere before a connection is there
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    return made
