"""What goes up one connection, and when: acts at once, then what acts wait for, then the rest, piece by piece.

A request asks here before it hands bytes to the connection, because what is in the socket cannot be overtaken. `Rate`
says how many bytes may go and when; here is who goes first. No task of its own: the requests wait for themselves.
"""

from __future__ import annotations

import math
from typing import Final

import anyio

from seqrt.link.border import LinkStatistics, Unwanted, Urgency
from seqrt.link.rate import Rate

_HEAD_BYTES: Final = 120
"""What a request's head takes, about."""


class Post:
    """One post's place in the sender.

    Args:
        size: Bytes of its body.
        number: Of its newest observation.
        urgency: What hangs on it.

    Attributes:
        left: Bytes not handed over yet.
        woken: Set when it may be its turn.
    """

    def __init__(self, size: int, number: int, urgency: Urgency) -> None:
        self.size = self.left = size
        self.woken = anyio.Event()
        self._number, self._urgency = number, urgency

    @property
    def needed(self) -> bool:
        """Whether an act that is out waits for it now."""
        return self._urgency.needed()

    @property
    def begun(self) -> bool:
        """Whether some of it has gone."""
        return self.left < self.size

    def rank(self) -> tuple[bool, bool, int]:
        """Its place: what acts need first, the newest before others; then the rest, the oldest before others.

        What is begun is ended before another of its kind begins: on a link on which acts come faster than what they
        need, each would be overtaken by the next, and none would ever arrive.
        """
        return (False, not self.begun, -self._number) if self.needed else (True, not self.begun, self._number)

    def take(self, size: int) -> None:
        """``size`` bytes of it go.

        Raises:
            Unwanted: None has gone, and none needs to.
        """
        if not self.begun:
            if self._urgency.unwanted():
                raise Unwanted
            self._urgency.begun()
        self.left -= size

    def wake(self) -> None:
        """Have it look again whether it is its turn."""
        self.woken.set()
        self.woken = anyio.Event()


class Sender:
    """One connection's way up.

    Args:
        bytes_per_s: What it carries, where that is known.
    """

    def __init__(self, bytes_per_s: float | None = None) -> None:
        self._rate = Rate(bytes_per_s)
        self._waiting: list[Post] = []
        self._held_s = 0.0
        self._pieces = 0

    def renew(self) -> None:
        """The connection is a new one: what was under way is gone, the rate a guess."""
        self._rate = Rate(self._rate.bytes_per_s)
        self._wake_first()

    def control(self, size: int) -> None:
        """A request that never waits has been handed over: an act, or anything small."""
        self._rate.handed(size + _HEAD_BYTES, anyio.current_time())
        self._wake_first()

    async def turn(self, post: Post) -> int:
        """Wait for a post's turn; how many bytes of it are to go now.

        Raises:
            Unwanted: Nobody reads it any more, and none of it has gone.
        """
        now = begun_s = anyio.current_time()
        if self._waiting or now < self._due(post, now):
            now = await self._its_turn(post)
        size, head = self._rate.take(post.left, now), 0 if post.begun else _HEAD_BYTES
        post.take(size)
        self._rate.handed(size + head, now)
        if post.left == 0:
            self._rate.ended(post, now)
        self._held_s += now - begun_s
        self._pieces += 1
        self._wake_first()
        return size

    def answered(self, post: Post) -> None:
        """A post was answered."""
        self._rate.answered(post, anyio.current_time())
        self._wake_first()

    def lost(self, post: Post) -> None:
        """No answer to a post will come."""
        self._rate.lost(post)
        self._wake_first()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way up."""
        return self._rate.is_idle(anyio.current_time())

    def round_trip(self, began_s: float) -> None:
        """A request that takes the worker no time, begun when the way up was idle, was answered."""
        self._rate.round_trip(began_s, anyio.current_time())

    @property
    def post_bytes(self) -> int | None:
        """How much a post should hold at the most; None while nothing waits for its turn and nothing has to."""
        return self._rate.piece if self._waiting or self._rate.bytes_per_s is not None else None

    def statistics(self) -> LinkStatistics:
        """What the way up is doing."""
        needed = sum(post.needed for post in self._waiting)
        return LinkStatistics(
            bytes_per_s=self._rate.bytes_per_s,
            needed=needed,
            waiting=len(self._waiting) - needed,
            waiting_bytes=sum(post.left for post in self._waiting),
            unanswered_bytes=self._rate.unanswered,
            held_s=self._held_s,
            pieces=self._pieces,
        )

    async def _its_turn(self, post: Post) -> float:
        self._waiting.append(post)
        try:
            while True:
                first = min(self._waiting, key=Post.rank)
                due_s = math.inf
                if first is post:
                    now = anyio.current_time()
                    due_s = self._due(post, now)
                    if due_s <= now:
                        return now
                else:
                    first.wake()
                with anyio.CancelScope(deadline=due_s):
                    await post.woken.wait()
        finally:
            self._waiting.remove(post)
            self._wake_first()

    def _due(self, post: Post, now: float) -> float:
        return self._rate.due(post.left, now, needed=post.needed)

    def _wake_first(self) -> None:
        if self._waiting:
            min(self._waiting, key=Post.rank).wake()
