"""One worker of several: the way to it, what is known of it, and the requests under way there."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import anyio

from seqrt.errors import DeclarationError, LinkLost, NotFound, RemoteError
from seqrt.link.border import Link
from seqrt.link.losing import Trouble, trouble_of
from seqrt.link.redeclared import must_be_alike
from seqrt.wire.messages import PolicyInfo

logger = logging.getLogger(__name__)
T = TypeVar("T")

_CLOSE_S: Final = 0.05
"""How long closing a connection that is left may take: the arm may be waiting."""


class WorkerLink(Link, Protocol):
    """A link whose worker can be asked whether it is ready."""

    async def ready(self) -> None:
        """Return when it serves; raises `Unavailable` while it loads or drains."""
        ...


class Door:
    """The way to one worker. Anybody may ask there at any time: kinds that need more say so.

    Args:
        host: Its host:port.
        open: Makes a link to it; nothing is sent before the first request.

    Attributes:
        unfit: Why it is never used: it serves something else.
        gone_for: The episode it has said to be gone.
        said: What came of the last try, in a sentence.
    """

    def __init__(self, host: str, open: Callable[[], WorkerLink]) -> None:
        self.host, self.open = host, open
        self.unfit: DeclarationError | None = None
        self.gone_for: str | None = None
        self.said = ""

    async def knock(self, info: PolicyInfo, beside: str, within_s: float) -> Seat | None:
        """The worker, when it serves the policy now, with a connection that is open; else `said` is why not.

        Args:
            info: What it has to declare.
            beside: The worker that declared it.
            within_s: How long it may take.
        """
        link = self.open()
        try:
            if await self.trouble(link, info, beside, within_s) is None:
                return Seat(self, link)
        except BaseException:
            await close(link)
            raise
        await close(link)
        return None

    async def trouble(self, link: WorkerLink, info: PolicyInfo, beside: str, within_s: float) -> Trouble | None:
        """Why it does not serve the policy now, over a link there is; None when it does."""
        try:
            with anyio.move_on_after(within_s):
                self.check(info, await link.info(), beside)
                await self.ready(link)
                return None
            self.said = f"no answer within {within_s:.1f} s"
            return Trouble.BROKEN
        except RemoteError as error:
            self.said = error.detail
            return trouble_of(error) or Trouble.UNREADY
        except DeclarationError as error:
            self.said = str(error)
            return Trouble.UNREADY

    async def ready(self, link: WorkerLink) -> None:
        """Return when it serves; what has no such endpoint is taken at its word.

        Raises:
            Unavailable: It loads, or drains.
        """
        with contextlib.suppress(NotFound):
            await link.ready()

    async def refresh(self) -> None:
        """Called before each request: what has to be done first to be let in."""

    async def tend(self) -> None:
        """Called while the connection is looked after, and cancelled with it: what keeps it open."""

    def lost(self) -> None:
        """Called when a request of an episode that cannot go elsewhere met no connection: whoever knows is asked."""

    def over(self) -> RemoteError | None:
        """Why nobody is let in any more; None where one has to ask to know."""
        return None

    def check(self, info: PolicyInfo, found: PolicyInfo, beside: str) -> None:
        """Never use it when it serves something else.

        Raises:
            DeclarationError: It does.
        """
        try:
            must_be_alike(info, found, (beside, self.host))
        except DeclarationError as error:
            self.unfit = error
            raise


class Seat:
    """The worker in use, and the requests under way there.

    Attributes:
        door: Which one it is.
        link: The link to it.
        trouble: Why it cannot be asked; None while it is well.
        error: What said so.
        lost_since: When that began, on the loop's clock: until a request is served.
        is_empty: Nobody sits there yet: the first worker has still to be found.
    """

    def __init__(self, door: Door, link: WorkerLink, *, is_empty: bool = False) -> None:
        self.door, self.link, self.is_empty = door, link, is_empty
        self.trouble: Trouble | None = None
        self.error: RemoteError | None = None
        self.lost_since: float | None = None
        self._under_way: set[anyio.CancelScope] = set()

    async def ask(self, request: Callable[[WorkerLink], Awaitable[T]]) -> T:
        """The answer; what is under way when the worker is left ends with `LinkLost`."""
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                answer = await request(self.link)
            except RemoteError:
                if not scope.cancel_called:
                    raise  # else it failed because it was left: closed sockets make requests fail in ways of their own
            else:
                self.trouble = self.lost_since = None
                return answer
            finally:
                self._under_way.discard(scope)
        raise LinkLost("the worker was left for another one", code="unavailable", host=self.door.host, phase="act")

    def note(self, trouble: Trouble, error: RemoteError) -> None:
        """It could not be asked."""
        self.trouble, self.error, self.door.said = trouble, error, error.detail
        if self.lost_since is None:
            self.lost_since = anyio.current_time()

    async def leave(self) -> None:
        """End what is under way, and close the connection."""
        for scope in self._under_way:
            scope.cancel()
        await close(self.link)


async def close(link: WorkerLink) -> None:
    """Let go of a connection, within a moment."""
    with anyio.move_on_after(_CLOSE_S, shield=True):
        await link.aclose()
