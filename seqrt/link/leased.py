"""Workers that a gateway names, one at a time, each under a lease.

Where `arriving.Listed` knows the workers beforehand, here there is one door more: the gateway's. Knocking there asks
it for a worker and knocks at that one. `seqrt.link.workers` does the rest, as between workers of a list: it stays
where the run is, looks for the next one when that one is lost, and tells the run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import anyio
from msgspec.structs import replace

from seqrt.errors import AuthError, LinkLost, RemoteError, Unavailable
from seqrt.link.arriving import KNOCK_S, Found, unreachable
from seqrt.link.border import LEASE
from seqrt.link.doors import Door, Seat, WorkerLink
from seqrt.link.empty import Empty
from seqrt.link.gateway import Gateway
from seqrt.link.losing import Trouble
from seqrt.link.term import Term
from seqrt.watching.logline import line
from seqrt.watching.seldom import Seldom
from seqrt.wire.leases import ConnectAnswer, SeatKept
from seqrt.wire.messages import PolicyInfo

logger = logging.getLogger(__name__)

_RENEW_S: Final = 1.0
"""How long a renewal may take that an act waits for."""
_LOST_S: Final = 0.5
"""The wait between two questions whether a worker that is lost is there at all."""
_EARLY_S: Final = 0.05
"""A gateway that said when to ask again is asked so much sooner at the earliest."""

_WAIT_MOST_S: Final = 30.0

Opens = Callable[[ConnectAnswer], tuple[str, Callable[[], WorkerLink]]]
"""How to get to a worker with its secret: its host:port, and what makes links there; nothing is sent yet."""


class LeasedDoor(Door):
    """The way to a worker under a lease.

    Args:
        gateway: Who granted it.
        answer: What it said.
        asked_at: When it was asked.
        open: Makes a link there.
    """

    def __init__(self, gateway: Gateway, answer: ConnectAnswer, asked_at: float, open: Opens) -> None:
        super().__init__(*open(answer))
        self.epoch, self.url = answer.lease.epoch, answer.worker_url
        self._gateway = gateway
        self._term = Term(asked_at, answer.lease.ttl_s, answer.keepalive.every_s)
        self._is_over = self._was_cut = False
        self._lost = anyio.Event()
        self._seldom = Seldom()

    async def ready(self, link: WorkerLink) -> None:
        """The gateway has looked."""

    def check(self, info: PolicyInfo, found: PolicyInfo, beside: str) -> None:
        """As `Door.check`; a gateway may have another name for the policy."""
        super().check(replace(info, model=found.model), found, beside)

    def over(self) -> RemoteError | None:
        """Why the lease holds no more."""
        if not self._is_over and not self._term.is_over(anyio.current_time()):
            return None
        why = "the gateway no longer has it" if self._is_over else "it was not renewed in time"
        return AuthError(
            f"the lease is over: {why}", code="unauthenticated", host=self.host, phase="lease",
            details={"reason": LEASE},
        )  # fmt: skip

    async def refresh(self) -> None:
        """Renew it before a request where nobody else could: step by step there may be no other moment."""
        if self._was_cut and self._term.is_due(anyio.current_time()):
            await self._renew(_RENEW_S)

    async def tend(self) -> None:
        """Renew it whenever that is due; ask after the worker while it is lost."""
        while self.over() is None:
            with anyio.move_on_after(max(0.0, self._term.renew_at - anyio.current_time())):
                await self._lost.wait()
                await self._ask_after_it()
                continue
            self._was_cut = True
            await self._renew(None)

    def lost(self) -> None:
        """Have the gateway asked whether the worker is there: where its process is no more, so is the lease."""
        self._lost.set()

    async def _ask_after_it(self) -> None:
        asked_at = anyio.current_time()
        try:
            self._take(await self._gateway.keep(self.epoch, KNOCK_S, lost=True), asked_at)
        except RemoteError as error:
            logger.debug("nobody knows whether %s is there: %s", self.host, error)
        await anyio.sleep(_LOST_S)
        self._lost = anyio.Event()

    async def _renew(self, within_s: float | None) -> None:
        asked_at = anyio.current_time()
        try:
            self._take(await self._gateway.keep(self.epoch, within_s), asked_at)
        except RemoteError as error:
            self._term.failed(anyio.current_time())
            self._say(error)
        self._was_cut = False

    def _say(self, error: RemoteError) -> None:
        left_s = max(0.0, self._term.until - anyio.current_time())
        more = self._seldom.due("", anyio.current_time())
        if more is not None:
            told = {"host": self.host, "left_s": round(left_s), "more": more or None, "error": error}
            logger.warning("%s", line("lease.unrenewed", error.request_id, **told))

    def _take(self, kept: SeatKept, asked_at: float) -> None:
        if kept.lease is None or not kept.held or kept.lease.epoch != self.epoch:
            self._is_over = True
        else:
            self._term = Term(asked_at, kept.lease.ttl_s, kept.every_s)


class GatewayDoor(Door):
    """The way to whichever worker the gateway names.

    Args:
        gateway: The gateway.
        open: Makes links to workers.

    Attributes:
        refusal: What it answered the last time instead of naming one; None where it did.
        instead_of: The worker in whose place another one is sought; None before the first.
    """

    def __init__(self, gateway: Gateway, open: Opens) -> None:
        super().__init__(gateway.http.host, lambda: Empty(gateway.http))
        self._gateway, self._open_worker = gateway, open
        self.refusal: RemoteError | None = None
        self.instead_of: Seat | None = None
        self._not_before = -math.inf

    async def knock(self, info: PolicyInfo, beside: str, within_s: float) -> Seat | None:
        """The worker the gateway names, when it serves the policy now; else `said` is why not."""
        if anyio.current_time() < self._not_before:
            return None
        with anyio.move_on_after(within_s):
            answer, asked_at = await self._named(), anyio.current_time()
            return await self._knocked(answer, asked_at, info, beside) if answer is not None else None
        self.said = f"no worker within {within_s:.1f} s"
        return None

    async def trouble(self, link: WorkerLink, info: PolicyInfo, beside: str, within_s: float) -> Trouble | None:
        """It serves nothing itself."""
        return Trouble.UNREADY

    async def _named(self) -> ConnectAnswer | None:
        seat, self.refusal = self.instead_of, None
        move = seat is not None and not seat.is_empty and seat.trouble is not Trouble.UNLEASED
        try:
            return await self._gateway.connect(move=move)
        except RemoteError as error:
            self.refusal, self.said = error, error.detail
            wait_s = min(error.retry_after_s or 0.0, _WAIT_MOST_S) - _EARLY_S
            self._not_before = anyio.current_time() + wait_s
            if seat is not None and not isinstance(error, LinkLost):
                seat.error = error  # it says more than what the worker said
            return None

    async def _knocked(self, answer: ConnectAnswer, asked_at: float, info: PolicyInfo, beside: str) -> Seat | None:
        door = LeasedDoor(self._gateway, answer, asked_at, self._open_worker)
        if self._is_the_same(door):
            self.said = f"{door.host} is the only one"
            return None
        seat = await door.knock(info, beside, math.inf)
        self.said = f"{door.host}: {door.said}"
        return seat

    def _is_the_same(self, door: LeasedDoor) -> bool:
        """Whether a worker is named that has said that it no longer has the episode."""
        if self.instead_of is None or self.instead_of.trouble is not Trouble.GONE:
            return False
        left = self.instead_of.door
        return isinstance(left, LeasedDoor) and (left.url, left.epoch) == (door.url, door.epoch)


class Leasing:
    """Which workers there are: the one the gateway names.

    Args:
        gateway: The gateway.
        info: What it says the policy declares.
        open: Makes links to workers.
    """

    def __init__(self, gateway: Gateway, info: PolicyInfo, open: Opens) -> None:
        self._gateway, self._info = gateway, info
        self._door = GatewayDoor(gateway, open)

    @property
    def host(self) -> str:
        """The gateway's."""
        return self._door.host

    async def first(self, timeout_s: float) -> Found:
        """The worker it names now; an empty seat where that is to be waited for, as a run does.

        Raises:
            LinkLost: Nobody answers.
            RemoteError: What the gateway answered, that waiting does not mend.
        """
        seat = await self._door.knock(self._info, self._door.host, timeout_s)
        if seat is not None:
            return Found(seat, self._info, ready=True)
        refusal = self._door.refusal
        if not isinstance(refusal, Unavailable) or isinstance(refusal, LinkLost):
            raise self.none(self.host)
        seat = Seat(self._door, Empty(self._gateway.http), is_empty=True)
        seat.note(Trouble.UNREADY, refusal)
        return Found(seat, self._info, ready=False)

    def others(self, seat: Seat, episode: str) -> list[Door]:
        """Whoever the gateway names next."""
        self._door.instead_of = seat
        return [self._door]

    def none(self, host: str) -> RemoteError:
        """What the gateway answered; where that was nothing, or it named a worker, what came of each."""
        refusal, seat = self._door.refusal, self._door.instead_of
        if refusal is not None and not isinstance(refusal, LinkLost):
            return refusal.again()
        return unreachable([self._door] if seat is None else [seat.door, self._door], host)

    async def aclose(self) -> None:
        """Give the seat back."""
        try:
            await self._gateway.release()
        finally:
            await self._gateway.http.aclose()
