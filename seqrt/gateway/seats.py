"""Who sits at which worker, and who is in line for a seat. Pure: the time is an argument, and nobody is woken.

Robots ask again by themselves, as often as they were told to; who does not ask any more has left the line.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

from seqrt.errors import RemoteError, remote_error

OnFull = Literal["queue", "reject"]

ASK_AGAIN_S: Final = 1.0
"""How often a robot in line should ask."""
GONE_S: Final = 10.0
"""Who has not asked for so long has left the line."""
MOST_IN_LINE: Final = 1024


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a robot without a seat stands.

    Attributes:
        may_sit: Nobody is before it: it gets the next free seat.
        position: In line, 1 for the front; None: it is not in it.
        waited_s: How long it has stood there.
        most_s: How long it may.
    """

    may_sit: bool
    position: int | None = None
    waited_s: float = 0.0
    most_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it has stood there for too long."""
        return self.position is not None and self.waited_s > self.most_s


@dataclass(frozen=True, slots=True)
class _Seat:
    until: float
    epoch: int


@dataclass(slots=True)
class _Waiting:
    since: float
    asked_at: float


class Seats:
    """The seats of a few workers.

    Args:
        workers: How many workers.
        on_full: Whether a robot that finds no seat gets in line, or is sent away.
        queue_timeout_s: How long it may stand there.
    """

    def __init__(self, workers: int, *, on_full: OnFull = "queue", queue_timeout_s: float = 120.0) -> None:
        self._workers, self._on_full, self._queue_timeout_s = workers, on_full, queue_timeout_s
        self._seats: dict[str, OrderedDict[int, _Seat]] = {}  # by lease, the seat in use last
        self._line: OrderedDict[str, _Waiting] = OrderedDict()

    # Seats.

    def of(self, lease: str, now: float, epoch: int | None = None) -> int | None:
        """The worker it sits at; with an epoch, the one of its workers that is of that epoch."""
        for number, seat in reversed(self._seats.get(lease, OrderedDict[int, _Seat]()).items()):
            if now < seat.until and epoch in (None, seat.epoch):
                return number
        return None

    def sit(self, lease: str, number: int, *, until: float, epoch: int) -> None:
        """It sits there from now on; what it has elsewhere it has still, until that is over or given back."""
        held = self._seats.setdefault(lease, OrderedDict())
        held[number] = _Seat(until, epoch)
        held.move_to_end(number)
        self._line.pop(lease, None)

    def others_of(self, lease: str) -> list[int]:
        """The workers it has left, which are forgotten."""
        held = self._seats.get(lease, OrderedDict())
        left = list(held)[:-1]
        for number in left:
            del held[number]
        return left

    def all_of(self, lease: str) -> list[int]:
        """Every worker it may have a lease at."""
        return list(self._seats.get(lease, ()))

    def leave(self, lease: str) -> None:
        """It has no seat any more, nor a place in line."""
        self._seats.pop(lease, None)
        self._line.pop(lease, None)

    def taken(self, now: float) -> list[int]:
        """How many robots sit at each worker. Forgets those whose lease is over."""
        counts = [0] * self._workers
        for lease, held in list(self._seats.items()):
            for number in [number for number, seat in held.items() if now >= seat.until]:
                del held[number]
            if not held:
                del self._seats[lease]
            for number in held:
                counts[number] += 1
        return counts

    # The line.

    def ask(self, lease: str, now: float) -> Standing:
        """A robot without a seat asks: whether it may take one that is free."""
        self._let_go(now)
        waiting = self._line.get(lease)
        if waiting is None:
            return Standing(may_sit=not self._line)
        waiting.asked_at = now
        return self._standing(lease, waiting, now)

    def wait(self, lease: str, now: float) -> Standing:
        """It found none free: it stays in line, or gets in; with ``position`` None it is sent away."""
        waiting = self._line.get(lease)
        if waiting is None:
            if self._on_full == "reject" or len(self._line) >= MOST_IN_LINE:
                return Standing(may_sit=False)
            waiting = self._line[lease] = _Waiting(now, now)
        standing = self._standing(lease, waiting, now)
        if standing.is_over:
            del self._line[lease]
        return standing

    def position(self, lease: str, now: float) -> int | None:
        """Its place in line; None: it is not in it."""
        self._let_go(now)
        waiting = self._line.get(lease)
        return None if waiting is None else self._standing(lease, waiting, now).position

    def _standing(self, lease: str, waiting: _Waiting, now: float) -> Standing:
        position = 1 + list(self._line).index(lease)
        return Standing(position == 1, position, now - waiting.since, self._queue_timeout_s)

    def _let_go(self, now: float) -> None:
        for lease in [lease for lease, waiting in self._line.items() if now - waiting.asked_at > GONE_S]:
            del self._line[lease]


def full(standing: Standing) -> RemoteError:
    """What a robot is told that finds every seat taken."""
    if standing.position is None:
        return remote_error(
            "busy", "every seat at the workers is taken", retry_after_s=ASK_AGAIN_S, details={"reason": "full"}
        )
    waited_s = round(standing.waited_s, 1)
    if standing.is_over:
        return remote_error(
            "timeout",
            f"no seat was free in {waited_s:g} s",
            hint="more workers, or connect again",
            details={"reason": "queue_timeout", "waited_s": waited_s},
        )
    return remote_error(
        "unavailable",
        f"every seat at the workers is taken; this robot is number {standing.position} in line",
        retry_after_s=ASK_AGAIN_S,
        details={
            "reason": "in_line",
            "queue_position": standing.position,
            "queued_s": waited_s,
            "queue_timeout_s": standing.most_s,
        },
    )
