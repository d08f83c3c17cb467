"""The border to whoever serves the policy: four calls, and errors of `seqrt.errors` only.

`http.HttpLink` speaks to a worker over one HTTP/2 connection, `local.LocalLink` to a policy object in this process.
Both are handed messages prepared beforehand, so that a retry sends the very same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from seqrt.errors import LinkLost
from seqrt.wire.headers import MSGPACK
from seqrt.wire.messages import ActRequest, ActResponse, ObserveRequest, ObserveResponse, PolicyInfo

ACT_LOST: Final = "act_lost"
"""``details["reason"]`` of an act that is to be sent again at once: see `Link.act`."""

LEASE: Final = "lease"
"""``details["reason"]`` of a 401 that says that a lease is over, and of a 410 that says the same of an episode."""

M = TypeVar("M", ActRequest, ObserveRequest)
Moved: TypeAlias = Callable[[str, str], None]
"""Is handed host:port of the worker before, and of the one now."""


@dataclass(frozen=True)
class Outgoing(Generic[M]):
    """A message ready to be sent, any number of times.

    Attributes:
        message: What it says.
        body: Its bytes; empty where none travel.
        media: The form they are in.
    """

    message: M
    body: bytes = b""
    media: str = MSGPACK


@dataclass(frozen=True)
class Pinged:
    """A ping came back.

    Attributes:
        took_s: Its round trip.
        act: Where the act is that it asked after: "unknown", "waiting", "running", "answered"; None for none.
    """

    took_s: float
    act: str | None = None


@dataclass(frozen=True)
class LinkStatistics:
    """What the way up is doing, as a snapshot.

    Attributes:
        bytes_per_s: What it carries; None where nothing has shown a limit.
        needed: Posts that wait for their turn and that an act waits for.
        waiting: The other posts that wait for their turn.
        waiting_bytes: What is left of them all.
        unanswered_bytes: What was handed over and is not known to have arrived.
        held_s: How long posts have waited for their turns, in all.
        pieces: Pieces of posts handed over.
        protocol: What is spoken: "HTTP/2", "HTTP/1.1"; "" before an answer, and in this process.
    """

    bytes_per_s: float | None = None
    needed: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    unanswered_bytes: int = 0
    held_s: float = 0.0
    pieces: int = 0
    protocol: str = ""


NO_LINK: Final = LinkStatistics()
"""Of a way on which nothing goes."""


@dataclass(frozen=True)
class Urgency:
    """What hangs on a post.

    Attributes:
        needed: Whether an act that is out waits for it. Asked again and again: acts come and go while it waits.
        unwanted: Whether nobody reads any of it any more.
        begun: Called when its first bytes go.
    """

    needed: Callable[[], bool] = lambda: False
    unwanted: Callable[[], bool] = lambda: False
    begun: Callable[[], None] = lambda: None


class Unwanted(Exception):
    """Nobody reads what was to be posted any more, and none of it has gone."""


NO_HURRY: Final = Urgency()


class Link(Protocol):
    """One policy, wherever it is served."""

    @property
    def host(self) -> str:
        """host:port of whoever is asked now, "" in this process."""
        ...

    def on_move(self, moved: Moved | None) -> None:
        """Have ``moved`` called when another worker is asked from now on, which may have nothing of what was sent."""
        ...

    @property
    def post_bytes(self) -> int | None:
        """How much a post should hold at the most, one observation aside; None while nothing waits for its turn."""
        ...

    async def info(self) -> PolicyInfo:
        """What the policy declares and the worker grants."""
        ...

    async def prepare(self, message: M) -> Outgoing[M]:
        """Encode a message, off the event loop where it is large."""
        ...

    async def observe(self, post: Outgoing[ObserveRequest], urgency: Urgency = NO_HURRY) -> ObserveResponse:
        """Post observations; they wait for their turn where the way up is narrow.

        Raises:
            Unwanted: When their turn came nobody read them any more.
        """
        ...

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        """Ask for a chunk; the answer is there within ``deadline_s`` or the call raises.

        Raises:
            Unavailable: ``details["reason"]`` is "act_lost": the worker does not have the act, or has answered it and
                the answer was lost. To be sent again at once, under the same id.
            Conflict: ``details["reason"]`` is "redeclared": it was answered by a policy that declares something else.
        """
        ...

    async def tend(self, told: Callable[[Pinged | LinkLost], None]) -> None:
        """Look after the connection until cancelled: find out that it is gone, or that an act is, and say so."""
        ...

    async def end(self, episode_id: str) -> None:
        """End an episode."""
        ...

    def statistics(self) -> LinkStatistics:
        """What the way up is doing."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection."""
        ...
