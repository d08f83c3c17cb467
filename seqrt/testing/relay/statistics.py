"""`RelayStatistics`: what went through a relay, as a snapshot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RelayStatistics:
    """What went through so far.

    Attributes:
        connections: Connections taken.
        open: Connections that are open now.
        bytes_up: Bytes delivered to the target.
        bytes_down: Bytes delivered to the clients.
        resets: Connections broken by the relay, by either end, or because the target took none.
        swallowed_bytes: Bytes that arrived half open, nowhere.
        bursts: How often a direction stood still by ``bursts_every_s``.
        most_queued_up_bytes: The most that waited at the bottleneck to the target.
        most_queued_down_bytes: The most that waited at the bottleneck to the clients.
    """

    connections: int
    open: int
    bytes_up: int
    bytes_down: int
    resets: int
    swallowed_bytes: int
    bursts: int
    most_queued_up_bytes: int
    most_queued_down_bytes: int
