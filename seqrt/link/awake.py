"""Keeps what TCP has learnt of a link between two acts: a ping of HTTP/2, 17 bytes, while nothing else is sent.

Linux halves a connection's window for each retransmission timeout (a round trip and 200 ms) in which it sent nothing,
down to ten segments: the picture of an act half a second after the last one would take a round trip more, each time.
What counts is when something was sent last, not how much (net/ipv4/tcp_output.c, tcp_event_data_sent; measured by
``python -m bench.link handshake``).
"""

from __future__ import annotations

from typing import Final, Protocol

import anyio
import httpcore

from seqrt.link.tcp import TcpInfo, congestion_control, tcp_info

EVERY_S: Final = 0.15
"""Below the least timeout, by a turn of a busy loop."""
_BEGINNING: Final = 10
"""Segments a connection begins with (RFC 6928), and falls back to."""


class Nudged(Protocol):
    """A connection that can be nudged."""

    async def nudge(self) -> None:
        """Send a few bytes that mean nothing, unless something is being sent."""
        ...


def is_worth_it(known: TcpInfo, control: str) -> bool:
    """Whether there is something to keep, and nothing else keeps it.

    bbr does not forget in a pause, and takes small pings for what the link carries.
    """
    return (
        known.cwnd > _BEGINNING and not known.unacked and known.quiet_s >= EVERY_S / 2 and not control.startswith("bbr")
    )


async def keep_awake(raw: object, connection: Nudged) -> None:
    """Nudge ``connection``, whose socket is ``raw``, whenever it is worth it; until cancelled, or it broke."""
    control = congestion_control(raw)
    while (known := tcp_info(raw)) is not None:
        if is_worth_it(known, control):
            try:
                await connection.nudge()
            except (httpcore.NetworkError, httpcore.ProtocolError):
                return  # those who wait for answers on it are told
        await anyio.sleep(EVERY_S)
