"""What a pause costs: TCP forgets how much it may send at once, and 24 KB then take a round trip more.

Measured on the real connection, by whoever asks what a link is like. Nothing of a run calls this: an act without data
fits into the ten segments TCP always begins with, so no pause slows it; the first picture after one pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from seqrt.link.http import HttpLink
from seqrt.link.tcp import tcp_info

PAUSES_S: Final = (0.0, 0.3, 1.0, 3.0)
BODY_BYTES: Final = 24_000
"""17 segments: a picture, and more than the ten a sender begins with (RFC 6928)."""
_OPENING: Final = 4
"""Bodies one after another that open the window before each pause."""
_ROUND_TRIPS: Final = 5


@dataclass(frozen=True)
class AfterPause:
    """One body sent after a pause.

    Attributes:
        pause_s: How long nothing was sent before it.
        took_s: From its first byte to the answer.
        round_trips: The same in round trips.
        cwnd_before: Segments the system would have sent at once before the pause; None where it does not say.
        cwnd_after: And once the body was answered.
    """

    pause_s: float
    took_s: float
    round_trips: float
    cwnd_before: int | None
    cwnd_after: int | None


@dataclass(frozen=True)
class PauseCost:
    """What pauses cost on one connection.

    Attributes:
        round_trip_s: Of a request that weighs nothing, the least of several.
        body_bytes: What was sent after each pause.
        pauses: What came of it, in the order they were made.
    """

    round_trip_s: float
    body_bytes: int
    pauses: tuple[AfterPause, ...]

    @property
    def forgets(self) -> bool:
        """Whether a pause costs a round trip or more, over a link far enough away to tell."""
        least = min(pause.round_trips for pause in self.pauses)
        return any(pause.round_trips - least > 0.7 for pause in self.pauses)


async def measure_pause(
    link: HttpLink, *, pauses_s: Sequence[float] = PAUSES_S, body_bytes: int = BODY_BYTES
) -> PauseCost:
    """Send a body after pauses of several lengths; takes as long as they do, and a dozen round trips.

    Raises:
        RemoteError: The connection broke, or the worker refused.
    """
    round_trip_s = min([await link.weigh(b"") for _ in range(_ROUND_TRIPS)])
    body = bytes(body_bytes)
    found = []
    for pause_s in pauses_s:
        for _ in range(_OPENING):
            await link.weigh(body)
        before = _window(link)
        await anyio.sleep(pause_s)
        took_s = await link.weigh(body)
        found.append(AfterPause(pause_s, took_s, took_s / round_trip_s, before, _window(link)))
    return PauseCost(round_trip_s, body_bytes, tuple(found))


def _window(link: HttpLink) -> int | None:
    known = tcp_info(link.line.socket)
    return known.cwnd if known is not None else None
