"""A `Place` whose workers are known beforehand: which of them a robot gets, and what it is told when none is free."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

from seqrt.errors import Gone, LinkLost, RemoteError, Unavailable, remote_error
from seqrt.gateway.placing import Placed, Robot, Site
from seqrt.gateway.seats import Seats, Standing, full
from seqrt.gateway.upstream import told_operator
from seqrt.link.losing import is_refused
from seqrt.watching.logline import line
from seqrt.wire.leases import LeaseGranted, LeaseRequest
from seqrt.wire.limits import RETRY_S
from seqrt.wire.messages import PolicyInfo

logger = logging.getLogger(__name__)
T = TypeVar("T")

ASK_S: Final = 1.0
"""How long a worker may take to grant a lease before the next one is asked: the robot waits, and gives two seconds."""
_DOWN_S: Final = 2.0
"""A worker that did not answer is asked after the others for so long."""


class FixedWorkers:
    """A few workers that serve one policy, known beforehand: the one with the fewest robots gets the next.

    A robot stays where it is as long as that worker lives; one that drains keeps the robots whose episodes are live,
    and gets no new ones. There is no scheduler here: who needs more has a cluster do it, behind the same `Place`.

    Args:
        sites: The workers.
        seats: Who sits where, and who is in line.
        ttl_s: How long a lease lasts; None: as each worker says.
        clock: The time, in seconds.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        *,
        seats: Seats | None = None,
        ttl_s: float | None = None,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        if not sites:
            raise ValueError("a gateway needs a worker")
        self._sites = list(sites)
        self._seats = seats if seats is not None else Seats(len(sites))
        self._ttl_s, self._clock = ttl_s, clock
        self._down_until = [0.0] * len(sites)
        self._coming = [0] * len(sites)  # robots that a worker has been asked for, and has not answered
        self._epochs: list[int | None] = [None] * len(sites)
        self._info: PolicyInfo | None = None
        self._begun_at: float | None = None

    async def info(self) -> PolicyInfo:
        """What the first worker that answers declares."""
        if self._info is None:
            self._info = await self._first(lambda site: site.info())
        return self._info

    async def ready(self) -> None:
        """Return when one of them is."""
        await self._first(lambda site: site.ready())

    async def place(self, robot: Robot, *, move: bool = False) -> Placed:
        """As `Place.place`."""
        now = self._clock()
        held = await self._perhaps_held(robot, now)
        if held is not None and not move:
            kept = await self._kept(robot, held)
            if kept is not None:
                return kept
        standing = self._seats.ask(robot.lease, now)
        refusals = list[RemoteError]()
        for number in self._order(now, last=held if move else None):
            if not standing.may_sit:
                break
            granted = await self._granted(number, robot, refusals)
            if granted is not None:
                self._seats.sit(robot.lease, number, until=now + granted.ttl_s, epoch=granted.epoch)
                return self._placed(number, granted)
        raise self._refused(robot, standing, refusals)

    async def keep(self, robot: Robot, epoch: int | None = None, *, lost: bool = False) -> Placed | None:
        """As `Place.keep`."""
        now = self._clock()
        held = self._seats.of(robot.lease, now, epoch)
        if held is None:
            held = await self._granted_by_another(robot, now, epoch, lost=lost)
        if held is None:
            return None
        granted = await self._renewed(held, robot, lost=lost)
        if granted is None:
            self._seats.leave(robot.lease)
            return None
        self._seats.sit(robot.lease, held, until=now + granted.ttl_s, epoch=granted.epoch)
        if epoch is not None:
            await self._end(robot, self._seats.others_of(robot.lease))
        return self._placed(held, granted)

    async def release(self, robot: Robot) -> None:
        """As `Place.release`."""
        here = self._seats.all_of(robot.lease)
        await self._end(robot, here or range(len(self._sites)))  # another gateway may have granted it
        self._seats.leave(robot.lease)

    async def position(self, robot: Robot) -> int | None:
        """As `Place.position`."""
        return self._seats.position(robot.lease, self._clock())

    # Where the robot is.

    async def _perhaps_held(self, robot: Robot, now: float) -> int | None:
        """The worker it sits at, as far as that can be found out: most that ask here are new, and wait for it."""
        if self._begun_at is None:
            self._begun_at = now
        held = self._seats.of(robot.lease, now)
        if held is not None or not self._may_be_from_before(now):
            return held
        try:
            return await self._granted_by_another(robot, now, None, lost=False)
        except Unavailable:
            return None

    async def _granted_by_another(self, robot: Robot, now: float, epoch: int | None, *, lost: bool) -> int | None:
        """The worker where it has a lease of a gateway before this one, or beside it; None where it has none.

        Raises:
            Unavailable: It may have one where nobody can be asked now.
        """
        unknown: RemoteError | None = None
        for number in self._order(now, last=None):
            if self._down_until[number] > now and not lost:
                unknown = unknown or remote_error("unavailable", "a worker cannot be asked", retry_after_s=RETRY_S)
                continue
            try:
                granted = await self._renewed(number, robot, lost=lost)
            except Unavailable as error:
                unknown = error
                continue
            if granted is not None and epoch in (None, granted.epoch):
                self._seats.sit(robot.lease, number, until=now + granted.ttl_s, epoch=granted.epoch)
                return number
        if unknown is not None:
            raise unknown
        return None

    def _may_be_from_before(self, now: float) -> bool:
        idle_s = 300.0 if self._info is None else self._info.timeouts.get("episode_idle", 300.0)
        begun_at = now if self._begun_at is None else self._begun_at
        return now - begun_at <= (self._ttl_s or idle_s)

    async def _kept(self, robot: Robot, held: int) -> Placed | None:
        """The worker it has, where that takes its next episode or has one of it that is live."""
        try:
            granted = await self._renewed(held, robot)
        except Unavailable:
            return None
        if granted is None or (granted.draining and not granted.episodes):
            return None
        self._seats.sit(robot.lease, held, until=self._clock() + granted.ttl_s, epoch=granted.epoch)
        return self._placed(held, granted)

    async def _renewed(self, number: int, robot: Robot, *, lost: bool = False) -> LeaseGranted | None:
        """Its lease there, renewed; None where there is none: with ``lost``, where there is nobody to have one."""
        try:
            return await self._asked(number, LeaseRequest(lease=robot.lease, ttl_s=self._ttl_s, renew=True))
        except Gone:
            return None
        except LinkLost as error:
            if lost and is_refused(error):
                return None
            raise

    async def _end(self, robot: Robot, numbers: Sequence[int]) -> None:
        """End its leases there, within a moment: they end by themselves too."""
        for number in numbers:
            with anyio.move_on_after(ASK_S):
                try:
                    await self._sites[number].end(robot.lease)
                except RemoteError as error:
                    told = line("lease.unended", error.request_id, worker=self._sites[number].url, error=error)
                    logger.debug("%s", told)

    # Where the next one goes.

    def _order(self, now: float, last: int | None) -> list[int]:
        """The workers, in the order they are asked in: those that answered, the emptiest first; ``last`` at the end."""
        taken = [sat + coming for sat, coming in zip(self._seats.taken(now), self._coming, strict=True)]
        return sorted(
            range(len(self._sites)),
            key=lambda number: (number == last, self._down_until[number] > now, taken[number], number),
        )

    async def _granted(self, number: int, robot: Robot, refusals: list[RemoteError]) -> LeaseGranted | None:
        self._coming[number] += 1
        try:
            granted = await self._asked(number, LeaseRequest(lease=robot.lease, ttl_s=self._ttl_s))
        except Unavailable as error:
            refusals.append(error)
            return None
        finally:
            self._coming[number] -= 1
        return None if granted.draining and not granted.episodes else granted

    async def _asked(self, number: int, request: LeaseRequest) -> LeaseGranted:
        try:
            with anyio.fail_after(ASK_S):
                granted = await self._sites[number].grant(request)
        except TimeoutError as error:
            self._lost(number, f"no answer within {ASK_S:g} s")
            raise remote_error("unavailable", f"a worker did not answer within {ASK_S:g} s") from error
        except LinkLost as error:
            self._lost(number, error)
            raise
        except (Unavailable, Gone):
            raise
        except RemoteError as error:  # between gateway and worker: none of the robot's doing
            url = self._sites[number].url
            logger.error("%s", line("lease.refused", None, worker=url).saying(told_operator(error)))
            raise remote_error("upstream_error", "a worker grants no lease to this gateway") from error
        self._found(number)
        if self._epochs[number] != granted.epoch:  # it was started anew, and may serve something else by now
            self._epochs[number], self._info = granted.epoch, None
        return granted

    def _lost(self, number: int, why: object) -> None:
        """Ask it after the others for a while. It is said once, when it is noticed."""
        if not self._down_until[number]:
            logger.warning("%s", line("worker.lost", None, worker=self._sites[number].url).saying(str(why)))
        self._down_until[number] = self._clock() + _DOWN_S

    def _found(self, number: int) -> None:
        if self._down_until[number]:
            logger.info("%s", line("worker.found", None, worker=self._sites[number].url))
        self._down_until[number] = 0.0

    def _refused(self, robot: Robot, standing: Standing, refusals: Sequence[RemoteError]) -> RemoteError:
        """Why the robot cannot sit down: all is full, or what there is loads, or nothing is there."""
        for error in refusals:
            if isinstance(error, Unavailable) and error.warming:
                self._seats.leave(robot.lease)
                return error.again()
        is_full = any(error.code == "busy" for error in refusals)
        if not is_full and standing.may_sit:
            self._seats.leave(robot.lease)
            why = "; ".join(error.detail for error in refusals) or "all of them drain"
            return remote_error("unavailable", f"no worker takes a robot now ({why})", retry_after_s=RETRY_S)
        return full(self._seats.wait(robot.lease, self._clock()))

    def _placed(self, number: int, granted: LeaseGranted) -> Placed:
        site = self._sites[number]
        return Placed(
            url=site.url,
            fingerprint=site.fingerprint,
            lease=granted.lease,
            secret=granted.secret,
            epoch=granted.epoch,
            ttl_s=granted.ttl_s,
            expires_at=granted.expires_at,
            leaving=granted.draining,
        )

    async def _first(self, ask: Callable[[Site], Awaitable[T]]) -> T:
        """What the first worker answers that answers; else what the last one said."""
        refused: RemoteError | None = None
        for number in self._order(self._clock(), last=None):
            try:
                with anyio.fail_after(ASK_S):
                    return await ask(self._sites[number])
            except RemoteError as error:
                if refused is None or not refused.retryable or error.code == "warming":
                    refused = error
            except TimeoutError:
                self._lost(number, f"no answer within {ASK_S:g} s")
        if refused is None or isinstance(refused, LinkLost):
            why = "" if refused is None else f": {refused.detail}"
            raise remote_error("unavailable", f"no worker answers{why}", retry_after_s=RETRY_S)
        raise refused.again()
