"""`SenderWindow`: a model of how much a TCP sender dares to have on its way. Pure: no waiting, no sockets.

TCP to the relay never sees the distance, so its own window opens in microseconds. With the model the relay reads from
the sender no more than a sender so far away would have sent: what lies beyond waits in the sender's kernel.

After Linux (net/ipv4/tcp_output.c and tcp_input.c, RFC 6928, RFC 7661): the initial window; slow start while at least
half of the window was used; a window halved for each retransmission timeout that nothing was sent, and brought half-way
to what was used after each such time in which it was not filled. Left out: congestion avoidance (it doubles for ever),
pacing, losses and their recovery, the receiver's window.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

SEGMENT_BYTES: Final = 1448
INITIAL_BYTES: Final = 10 * SEGMENT_BYTES
MOST_BYTES: Final = 4 * 2**20
"""As far as it opens: Linux's default for the most a socket's send buffer grows to (tcp_wmem)."""
LEAST_TIMEOUT_S: Final = 0.2
"""Linux's least, which it adds to the round trip."""


class SenderWindow:
    """One sender's window. Bytes are acknowledged in the order they were sent.

    Attributes:
        size_bytes: How much may be on its way.
        in_flight_bytes: How much is: sent and not acknowledged.
    """

    def __init__(self) -> None:
        self.size_bytes = INITIAL_BYTES
        self.in_flight_bytes = 0
        self._sent_at: deque[tuple[float, int]] = deque()  # (when, how many of it are not delivered)
        self._acks: deque[tuple[float, float, int]] = deque()  # (when it arrives, when that was sent, bytes)
        self._last_sent_s = math.inf
        self._round_trip_s = 0.0
        # How much of the window the last round trip's worth of bytes used.
        self._most_in_flight = self._acked = self._round_ends = 0
        # How much was used at most since the window was last filled, or cut.
        self._used, self._filled_s = 0, math.inf

    def room_bytes(self, now_s: float) -> int:
        """How much a sender that has something to send may send now."""
        self._read_acks(now_s)
        if not self.in_flight_bytes:
            self._forget_in_a_pause(now_s)
        return max(0, self.size_bytes - self.in_flight_bytes)

    def room_at_s(self) -> float:
        """When the next acknowledgement comes that is on its way; ``math.inf`` where none is."""
        return self._acks[0][0] if self._acks else math.inf

    def sent(self, now_s: float, size_bytes: int) -> None:
        """The sender sent this much."""
        self.in_flight_bytes += size_bytes
        self._sent_at.append((now_s, size_bytes))
        self._last_sent_s = now_s
        self._note_use(now_s)

    def delivered(self, size_bytes: int, ack_at_s: float) -> None:
        """The next ``size_bytes`` of what was sent arrived; the sender hears of it at ``ack_at_s``."""
        while size_bytes:
            sent_s, left = self._sent_at.popleft()
            taken = min(left, size_bytes)
            if left > taken:
                self._sent_at.appendleft((sent_s, left - taken))
            self._acks.append((ack_at_s, sent_s, taken))
            size_bytes -= taken

    def _read_acks(self, now_s: float) -> None:
        while self._acks and self._acks[0][0] <= now_s:
            ack_at_s, sent_s, size_bytes = self._acks.popleft()
            self._round_trip_s = ack_at_s - sent_s
            self.in_flight_bytes -= size_bytes
            self._acked += size_bytes
            if 2 * self._most_in_flight > self.size_bytes:  # tcp_is_cwnd_limited, in slow start
                self.size_bytes = min(MOST_BYTES, self.size_bytes + size_bytes)

    def _timeout_s(self) -> float:
        return LEAST_TIMEOUT_S + self._round_trip_s

    def _forget_in_a_pause(self, now_s: float) -> None:  # tcp_cwnd_restart
        idle_s = now_s - self._last_sent_s
        while idle_s > self._timeout_s():
            idle_s -= self._timeout_s()
            self.size_bytes = max(INITIAL_BYTES, self.size_bytes // 2)
            self._last_sent_s, self._used, self._filled_s = now_s - idle_s, 0, now_s

    def _note_use(self, now_s: float) -> None:  # tcp_cwnd_validate
        if self._acked >= self._round_ends or self.in_flight_bytes > self._most_in_flight:
            self._most_in_flight = self.in_flight_bytes
            self._round_ends = self._acked + self.in_flight_bytes
        if 2 * self._most_in_flight > self.size_bytes:
            self._used, self._filled_s = 0, now_s
            return
        self._used = max(self._used, self.in_flight_bytes)
        if now_s - self._filled_s >= self._timeout_s():  # tcp_cwnd_application_limited
            used = max(self._used, INITIAL_BYTES)
            if used < self.size_bytes:
                self.size_bytes = (self.size_bytes + used) // 2
            self._used, self._filled_s = 0, now_s
