"""One direction of a network: what is handed over comes out later, at the other end, in order.

First the bottleneck, where bytes queue and flow off at a rate; then the distance, a delay line on which things are
on their way side by side. `seqrt.testing.transport` has one each way.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import anyio

from seqrt.testing.bottleneck import Bottleneck

GAP_S: Final = 1e-6
"""Between two deliveries for different streams. Trio wakes the tasks of one instant in any order; apart by this, the
first to be delivered is the first to run."""


@dataclass(frozen=True)
class _Item:
    deliver: Callable[[], None]
    stream: Hashable
    delay_s: float
    end: int  # its position at the bottleneck


class Line:
    """Things on their way in one direction. One task runs `run`; the others hand over by `carry`.

    Args:
        in_order: Nothing overtakes anything, as on one TCP connection. Otherwise only what belongs to one stream
            keeps its order, once it is through the bottleneck.
        bytes_per_s: How fast the bottleneck is; None: no limit.

    Attributes:
        open: False while a cable is out: what arrives meanwhile is lost (and counted in ``lost``).
        lost: How many things were lost.
    """

    def __init__(self, *, in_order: bool, bytes_per_s: float | None = None) -> None:
        self.open = True
        self.lost = 0
        self._in_order = in_order
        self._bottleneck = Bottleneck(bytes_per_s)
        self._queued: deque[_Item] = deque()
        self._stalled = False
        self._on_the_way: list[tuple[float, int, Hashable, Callable[[], None]]] = []
        self._number = itertools.count()
        self._newest_s: dict[Hashable, float] = {}
        self._delivered: tuple[float, Hashable] = (-math.inf, None)
        self._changed = anyio.Event()

    @property
    def bytes_per_s(self) -> float | None:
        """How fast the bottleneck is; None: no limit."""
        return self._bottleneck.bytes_per_s

    def carry(self, deliver: Callable[[], None], *, stream: Hashable, delay_s: float, size_bytes: int = 0) -> None:
        """Have ``deliver`` called ``delay_s`` after its bytes are through the bottleneck, or later for the order."""
        now_s = self._let_through()
        self._queued.append(_Item(deliver, stream, delay_s, self._bottleneck.hand_over(now_s, size_bytes)))
        self._let_through()
        self._wake()

    async def room(self, most_bytes: int) -> None:
        """Wait until no more than ``most_bytes`` are ahead of the bottleneck: at once where it has no rate."""
        while anyio.current_time() < (room_at_s := self._bottleneck.room_at_s(most_bytes)):
            with anyio.CancelScope(deadline=room_at_s):
                await self._changed.wait()

    def set_rate(self, bytes_per_s: float | None) -> None:
        """Go on at another rate, for what is queued too."""
        self._bottleneck.set_rate(self._let_through(), bytes_per_s)
        self._hold_or_release()

    def stall(self) -> None:
        """Deliver nothing, and let nothing through a bottleneck that has a rate, until `resume`."""
        self._stalled = True
        self._hold_or_release()

    def resume(self) -> None:
        """Go on: what had passed the bottleneck comes at once, in order."""
        self._stalled = False
        self._hold_or_release()

    def clear(self) -> None:
        """Lose all that is on its way: the connection is gone, and the next one owes it no order."""
        self.lost += len(self._queued) + len(self._on_the_way)
        self._queued.clear()
        self._bottleneck.clear()
        self._on_the_way.clear()
        self._newest_s.clear()
        self._wake()

    def forget(self, stream: Hashable) -> None:
        """No more will come for this stream."""
        self._newest_s.pop(stream, None)

    async def run(self) -> None:
        """Deliver, until cancelled."""
        while True:
            now_s = self._let_through()
            due_s = self._due_s()
            if now_s < due_s:
                with anyio.CancelScope(deadline=due_s):
                    await self._changed.wait()
            else:
                self._deliver_next()

    def _deliver_next(self) -> None:
        _, _, stream, deliver = heapq.heappop(self._on_the_way)
        self._delivered = (anyio.current_time(), stream)
        if self.open:
            deliver()
        else:
            self.lost += 1

    def _hold_or_release(self) -> None:
        now_s = self._let_through()
        if self._stalled and self.bytes_per_s is not None:
            self._bottleneck.hold(now_s)
        else:
            self._bottleneck.release(now_s)
        self._let_through()
        self._wake()

    def _let_through(self) -> float:
        """Send off what is through the bottleneck by now; the time."""
        now_s = anyio.current_time()
        while self._queued and (through_s := self._bottleneck.through_at_s(self._queued[0].end)) <= now_s:
            item = self._queued.popleft()
            order = None if self._in_order else item.stream
            at_s = max(through_s + item.delay_s, self._newest_s.get(order, -math.inf))
            self._newest_s[order] = at_s
            heapq.heappush(self._on_the_way, (at_s, next(self._number), item.stream, item.deliver))
        return now_s

    def _due_s(self) -> float:
        """When there is something to do."""
        through_s = self._bottleneck.through_at_s(self._queued[0].end) if self._queued else math.inf
        if self._stalled or not self._on_the_way:
            return through_s
        at_s, _, stream, _ = self._on_the_way[0]
        before_s, before = self._delivered
        return min(through_s, max(at_s, before_s + GAP_S if stream != before else -math.inf))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
