"""The kernel's side of a connection: how its socket is set, and what it knows. No waiting, nothing is read or sent."""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import httpcore

KEEP_ALIVE_S: Final = 10
"""The kernel asks an idle peer for a sign of life after so long: one segment of 52 bytes, and no task of ours."""
PEER_GONE_S: Final = 30
"""A peer that has acknowledged nothing for so long is gone; a link that stands still for 5 s is not."""
_PROBE_S: Final = 5

_OPTIONS: Final = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_NODELAY", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", KEEP_ALIVE_S),
    ("IPPROTO_TCP", "TCP_KEEPALIVE", KEEP_ALIVE_S),  # what macOS calls TCP_KEEPIDLE
    ("IPPROTO_TCP", "TCP_KEEPINTVL", _PROBE_S),
    ("IPPROTO_TCP", "TCP_KEEPCNT", (PEER_GONE_S - KEEP_ALIVE_S) // _PROBE_S),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", PEER_GONE_S * 1000),
)


def configure(raw: Any, more: Iterable[httpcore.SOCKET_OPTION] = ()) -> None:
    """Set a socket up: small writes go at once, and a peer that is gone is found without a task."""
    for level, name, value in _OPTIONS:
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):  # sandboxes and old kernels lack some; none of them is needed
                raw.setsockopt(getattr(socket, level), option, value)
    for option in more:
        raw.setsockopt(*option)


_QUICK_ACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


def acknowledge_at_once(raw: Any) -> None:
    """Have the kernel acknowledge the next segment without waiting for one to carry it; it forgets each time.

    A server that writes an answer's head and body apart, and leaves Nagle's algorithm on, waits for that
    acknowledgement with the body: 40 ms an answer.
    """
    if _QUICK_ACK is not None and raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


class TcpInfo(NamedTuple):
    """What Linux knows of a connection.

    Attributes:
        rtt_s: Its smoothed round trip, to the next end of TCP: a relay's or a proxy's.
        cwnd: Segments it may have under way.
        mss_bytes: The size of one.
        unacked: Segments under way.
        retransmits: Segments sent again since it was opened.
        quiet_s: How long ago data was sent last.
    """

    rtt_s: float
    cwnd: int
    mss_bytes: int
    unacked: int
    retransmits: int
    quiet_s: float


_TCP_INFO: Final = struct.Struct("=8B24I")
"""The beginning of ``struct tcp_info`` (linux/tcp.h), which only ever grew at its end."""
_TAKEN: Final = struct.Struct("=120xQ")
"""The same as far as ``tcpi_bytes_acked``, which younger kernels have."""


def tcp_info(raw: Any) -> TcpInfo | None:
    """What the kernel knows of a connection, by its socket; None where it does not say."""
    if (found := _read_info(raw, _TCP_INFO)) is None:
        return None
    _, _, mss, _, unacked, *_ = words = found[8:]
    return TcpInfo(words[15] / 1e6, words[18], mss, unacked, words[23], words[9] / 1e3)


def taken_bytes(raw: Any) -> int | None:
    """How many bytes the next end of TCP has acknowledged so far; None where the kernel does not say."""
    found = _read_info(raw, _TAKEN)
    return None if found is None else int(found[0])


def _read_info(raw: Any, layout: struct.Struct) -> tuple[Any, ...] | None:
    if raw is None or sys.platform != "linux":
        return None
    try:
        return layout.unpack(raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, layout.size))
    except (OSError, struct.error):  # closed, or no TCP; or a kernel that knows less
        return None


def waiting_bytes(raw: Any) -> int:
    """How many bytes handed over the next end of TCP has not acknowledged; 0 where the kernel does not say."""
    if raw is None or sys.platform != "linux":
        return 0
    import fcntl
    import termios

    try:
        return int(struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))[0])
    except (OSError, ValueError):  # closed
        return 0


def congestion_control(raw: Any) -> str:
    """The algorithm that decides how much a connection sends at once, "cubic" or "bbr"; "" where nobody says."""
    if raw is None or sys.platform != "linux":
        return ""
    try:
        name: bytes = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    except OSError:
        return ""
    return name.rstrip(b"\0").decode("ascii", "replace")


def is_over(raw: Any) -> bool:
    """Whether the other end has closed its side, or the connection failed; what came before that may wait unread."""
    if not hasattr(select, "poll"):  # Windows
        return False
    waiting = select.poll()
    try:
        waiting.register(raw.fileno(), getattr(select, "POLLRDHUP", 0))  # errors and hang-ups are always told
    except (OSError, ValueError):  # closed by us: it has no number any more
        return True
    return bool(waiting.poll(0))
