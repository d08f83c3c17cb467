"""`Shaping`: one direction of the relay's link as decisions: how much to read, and what is due when. Pure: no waiting.

All connections share the direction's bottleneck; each has a `Way` through it, on which order is kept:

    sender's kernel → [how much may be read] → queue → bottleneck → distance → [what is due] → receiver's kernel

`seqrt.testing.relay.connection` reads, waits and writes by it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from seqrt.testing.bottleneck import Bottleneck
from seqrt.testing.relay.window import SEGMENT_BYTES, SenderWindow

READ_BYTES: Final = 65_536
MOST_ON_THE_WAY_BYTES: Final = 64 * 2**20
"""Of one way: 20 ms at 25 Gbit/s. Reached where the receiver does not read; the sender then waits."""
PIECE_S: Final = 0.001
"""What is read at once passes the bottleneck in pieces of this long, or of a segment: timers are no finer."""

End = Literal["closed", "reset"]
"""How a direction of a connection ends: with FIN or with RST."""


@dataclass
class Segment:
    """Bytes on their way.

    Attributes:
        data: The bytes; empty where the end alone is on its way.
        end: What comes after them.
        delay_s: Of the distance.
        position: Their end's, at the bottleneck.
        due_s: When they arrive; ``math.inf`` while they are not through the bottleneck.
    """

    data: bytes
    end: End | None
    delay_s: float
    position: int
    due_s: float = math.inf


class Shaping:
    """One direction of the link.

    Args:
        draw: Gives the delay of what is read at once, in seconds.
        bytes_per_s: The bottleneck's rate; None: no limit.
        queue_bytes: The most that waits at the bottleneck, of all connections together. Nothing is dropped: a full
            queue stops reading.

    Attributes:
        draw: As given; may be assigned.
        most_queued_bytes: The most that waited so far.

    Raises:
        ValueError: A rate that makes no sense, a queue that holds nothing.
    """

    def __init__(self, draw: Callable[[], float], bytes_per_s: float | None, queue_bytes: int) -> None:
        if queue_bytes <= 0:
            raise ValueError(f"a queue of {queue_bytes} bytes: it has to hold at least one")
        self.draw = draw
        self.most_queued_bytes = 0
        self._queue_bytes = queue_bytes
        self._bottleneck = Bottleneck(bytes_per_s)
        self._queued: deque[tuple[Segment, Way]] = deque()
        self._stalled = self._in_burst = False

    @property
    def bytes_per_s(self) -> float | None:
        """The bottleneck's rate; None: no limit."""
        return self._bottleneck.bytes_per_s

    @property
    def still(self) -> bool:
        """Nothing arrives at present."""
        return self._stalled or self._in_burst

    def set_rate(self, now_s: float, bytes_per_s: float | None) -> None:
        """Go on at another rate, for what waits too."""
        self.let_through(now_s)
        self._bottleneck.set_rate(now_s, bytes_per_s)

    def stall(self, now_s: float) -> None:
        """Let nothing through the bottleneck, and nothing arrive."""
        self._stalled = True
        self.let_through(now_s)
        self._bottleneck.hold(now_s)

    def resume(self, now_s: float) -> None:
        """Go on after `stall`."""
        self._stalled = False
        self._bottleneck.release(now_s)

    def begin_burst(self) -> None:
        """A segment was lost: what comes behind it arrives, and is not handed out before it is sent again."""
        self._in_burst = True

    def end_burst(self) -> None:
        """It was sent again."""
        self._in_burst = False

    def room_bytes(self, now_s: float) -> int:
        """How much may be queued now."""
        self.let_through(now_s)
        return self._queue_bytes - math.ceil(self._bottleneck.waiting_bytes(now_s))

    def room_at_s(self) -> float:
        """When there is room for a piece, if nothing changes."""
        return self._bottleneck.room_at_s(self._queue_bytes - min(self._piece_bytes(), self._queue_bytes))

    def hand_over(self, now_s: float, way: Way, data: bytes, end: End | None) -> None:
        """Queue ``data`` for one way, in pieces."""
        delay_s = self.draw()
        size = self._piece_bytes()
        pieces = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
        for piece in pieces:
            position = self._bottleneck.hand_over(now_s, len(piece))
            segment = Segment(piece, end if piece is pieces[-1] else None, delay_s, position)
            self._queued.append((segment, way))
            way.queued.append(segment)
        self.most_queued_bytes = max(self.most_queued_bytes, math.ceil(self._bottleneck.waiting_bytes(now_s)))
        self.let_through(now_s)

    def let_through(self, now_s: float) -> None:
        """Send off what is through the bottleneck by now."""
        while self._queued and (through_s := self.through_at_s(self._queued[0][0])) <= now_s:
            segment, way = self._queued.popleft()
            segment.due_s = way.newest_s = max(through_s + segment.delay_s, way.newest_s)
            way.arriving.append(way.queued.popleft())

    def through_at_s(self, segment: Segment) -> float:
        """When a segment that is queued is through, if nothing changes."""
        return self._bottleneck.through_at_s(segment.position)

    def _piece_bytes(self) -> int:
        rate = self._bottleneck.bytes_per_s
        return READ_BYTES if rate is None else min(READ_BYTES, max(SEGMENT_BYTES, int(rate * PIECE_S)))


class Way:
    """One connection's way through a direction.

    Args:
        shaping: The direction.
        window: The model of its sender's window; None: TCP's own to the relay.

    Attributes:
        queued: Segments at the bottleneck.
        arriving: Segments that are through it.
        newest_s: When the last of those arrives.
        hole: Something was swallowed: nothing that comes after it arrives.
    """

    def __init__(self, shaping: Shaping, window: SenderWindow | None) -> None:
        self.queued: deque[Segment] = deque()
        self.arriving: deque[Segment] = deque()
        self.newest_s = -math.inf
        self.hole = False
        self._shaping = shaping
        self._window = window
        self._on_the_way_bytes = 0

    def room_bytes(self, now_s: float) -> int:
        """How much may be read from the sender now; none while there is room for less than a piece."""
        if now_s < self._shaping.room_at_s():
            return 0
        rooms = [READ_BYTES, MOST_ON_THE_WAY_BYTES - self._on_the_way_bytes, self._shaping.room_bytes(now_s)]
        if self._window is not None:
            rooms.append(self._window.room_bytes(now_s))
        return max(0, min(rooms))

    def room_at_s(self, now_s: float) -> float:
        """When to ask for room again, if nothing changes."""
        if now_s < (room_at_s := self._shaping.room_at_s()):
            return room_at_s
        return math.inf if self._window is None else self._window.room_at_s()

    def hand_over(self, now_s: float, data: bytes, end: End | None = None) -> None:
        """Queue what was read."""
        self._on_the_way_bytes += len(data)
        if self._window is not None and data:
            self._window.sent(now_s, len(data))
        self._shaping.hand_over(now_s, self, data, end)

    def due_s(self) -> float:
        """When something arrives, or may, if nothing changes."""
        if self._shaping.still:
            return math.inf
        if self.arriving:
            return self.arriving[0].due_s
        return self._shaping.through_at_s(self.queued[0]) if self.queued else math.inf

    def take(self, now_s: float) -> tuple[bytes, End | None]:
        """What has arrived: bytes, and whether that was all."""
        self._shaping.let_through(now_s)
        arrived: list[Segment] = []
        while self.arriving and not self._shaping.still and self.arriving[0].due_s <= now_s:
            arrived.append(self.arriving.popleft())
        data = b"".join(segment.data for segment in arrived)
        return data, arrived[-1].end if arrived else None

    def delivered(self, size_bytes: int, ack_at_s: float) -> None:
        """So much was handed to the receiver; the sender hears of it at ``ack_at_s``."""
        self._on_the_way_bytes -= size_bytes
        if self._window is not None:
            self._window.delivered(size_bytes, ack_at_s)

    def dropped(self, size_bytes: int) -> None:
        """So much was swallowed: the sender never hears of it."""
        self._on_the_way_bytes -= size_bytes
