"""Which workers there are. Here: a list of them; the first that answers is taken, and the others are looked at."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from seqrt.errors import LinkLost, RemoteError, SeqrtError, Unavailable
from seqrt.link.doors import Door, Seat, WorkerLink, close
from seqrt.wire.messages import PolicyInfo

logger = logging.getLogger(__name__)

KNOCK_S: Final = 2.0
"""How long a worker may take to answer before the next one is tried."""


@dataclass(frozen=True)
class Found:
    """A worker that answered.

    Attributes:
        seat: It, with a connection that is open.
        info: What it declares.
        ready: Whether it serves now.
    """

    seat: Seat
    info: PolicyInfo
    ready: bool


class Around(Protocol):
    """Which workers there are, and who is asked where one is lost."""

    @property
    def host(self) -> str:
        """host:port of all there may be, as errors name them."""
        ...

    async def first(self, timeout_s: float) -> Found:
        """The one to begin with; raises where there is none."""
        ...

    def others(self, seat: Seat, episode: str) -> list[Door]:
        """Who may be asked in the place of who sits there, in this order."""
        ...

    def none(self, host: str) -> RemoteError:
        """Why nobody could be asked in the place of ``host``."""
        ...

    async def aclose(self) -> None:
        """Nobody is asked any more."""
        ...


class Listed:
    """Workers that are known beforehand.

    Args:
        doors: The ways to them, in the order they are tried in; two or more.
    """

    def __init__(self, doors: Sequence[Door]) -> None:
        self._doors = list(doors)

    @property
    def host(self) -> str:
        """All of them."""
        return ", ".join(door.host for door in self._doors)

    async def first(self, timeout_s: float) -> Found:
        """The first that answers and is ready, else the first that answers; the others are looked at.

        Raises:
            LinkLost: None answers; names them all.
            DeclarationError: One of them serves something else.
            RemoteError: What one of them answered instead, that waiting does not mend.
        """
        found = await first_of(self._doors, timeout_s)
        beside = found.seat.door
        try:
            await look_at([door for door in self._doors if door is not beside], found.info, beside.host)
        except BaseException:
            await close(found.seat.link)
            raise
        return found

    def others(self, seat: Seat, episode: str) -> list[Door]:
        """Those that may be used, in the order behind it."""
        at = self._doors.index(seat.door)
        behind = [*self._doors[at + 1 :], *self._doors[:at]]
        return [other for other in behind if other.unfit is None and not (episode and other.gone_for == episode)]

    def none(self, host: str) -> RemoteError:
        """What came of each."""
        return unreachable(self._doors, host)

    async def aclose(self) -> None:
        """None is held open."""


async def first_of(doors: Sequence[Door], timeout_s: float) -> Found:
    """The first worker that answers and is ready, else the first that answers.

    Each is given a moment at first, so that one that is silent does not stand before one that is there; where none
    answers so soon, each is given all the time there is.

    Raises:
        LinkLost: None answers.
        RemoteError: What one of them answered, that waiting does not mend: a wrong key, no such model.
    """
    for within_s in (min(KNOCK_S, timeout_s), timeout_s):
        unready: Found | None = None
        for door in doors:
            found = await _asked(door, within_s)
            if found is not None and (found.ready or unready is None):
                if unready is not None:
                    await close(unready.seat.link)
                if found.ready:
                    return found
                unready = found
            elif found is not None:
                await close(found.seat.link)
        if unready is not None:
            return unready
    raise unreachable(doors)


def unreachable(doors: Sequence[Door], host: str = "") -> LinkLost:
    """The error that names every worker, and what came of each.

    Args:
        doors: The workers.
        host: The one in use.
    """
    each = "; ".join(f"{door.host}: {door.unfit or door.said or 'not tried'}" for door in doors)
    return LinkLost(
        f"no worker can be asked ({each})",
        code="unavailable",
        host=host or ", ".join(door.host for door in doors),
        phase="connect",
        details={"hosts": [door.host for door in doors]},
    )


async def look_at(doors: Sequence[Door], info: PolicyInfo, beside: str) -> None:
    """Look whether ``doors`` would do in the place of ``beside``; they are not held open.

    One that does not answer now may do so later, and is said.

    Raises:
        DeclarationError: One of them serves something else.
        RemoteError: One of them refuses for good, e.g. the key.
    """
    wrong: list[SeqrtError] = []

    async def look(door: Door) -> None:
        try:
            found = await _asked(door, KNOCK_S)
            if found is not None:
                await close(found.seat.link)
                door.check(info, found.info, beside)
                return
            logger.warning("%s does not answer now (%s): tried again when %s is lost", door.host, door.said, beside)
        except SeqrtError as error:
            wrong.append(error)

    async with anyio.create_task_group() as tasks:
        for door in doors:
            tasks.start_soon(look, door)
    if wrong:
        raise wrong[0]


async def _asked(door: Door, within_s: float) -> Found | None:
    """What a worker declares, and whether it is ready; None when it does not answer."""
    link = door.open()
    try:
        with anyio.move_on_after(within_s):
            info = await link.info()
            return Found(Seat(door, link), info, await _is_ready(door, link))
        door.said = f"no answer within {within_s:g} s"
    except Unavailable as error:
        door.said = error.detail
    except BaseException:
        await close(link)
        raise
    await close(link)
    return None


async def _is_ready(door: Door, link: WorkerLink) -> bool:
    try:
        await door.ready(link)
    except RemoteError as error:
        door.said = error.detail
        return False
    return True
