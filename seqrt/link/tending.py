"""Looks after a link's connection while a run or a call is on: pings, leaves what is gone, reads declarations anew.

`seqrt.link.liveness` decides. One task, in a task group of the caller's; between runs a link has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import anyio
import anyio.abc

from seqrt.errors import LinkLost, RemoteError
from seqrt.link.awake import keep_awake
from seqrt.link.border import Pinged
from seqrt.link.line import Line
from seqrt.link.liveness import Gone, Ping
from seqrt.wire.messages import Running

_TRY_S: Final = 1.0
"""How often a connection that cannot be opened is tried while nothing else tries."""


class Tended(Protocol):
    """What is looked after."""

    @property
    def line(self) -> Line:
        """The connection in use."""
        ...

    async def ping(self, line: Line, about: str | None) -> Running:
        """``GET /ping`` over ``line``; asks after the act ``about``."""
        ...

    async def check(self, line: Line) -> None:
        """Read what is declared at the other end of ``line``, if that was not done."""
        ...

    async def give_up(self, line: Line, silent_s: float) -> LinkLost:
        """Leave ``line``, on which nothing has come for so long."""
        ...


async def tend(link: Tended, told: Callable[[Pinged | LinkLost], None]) -> None:
    """Look after ``link``, until cancelled; ``told`` hears of pings and of connections given up."""
    while True:
        line = link.line
        line.tended = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_check, link, line)
                tasks.start_soon(_keep_awake, line)
                await _tend_line(link, line, tasks, told)
                tasks.cancel_scope.cancel()
        finally:
            line.tended = False
        if link.line is line:  # the link was closed
            await anyio.sleep_forever()


async def _tend_line(
    link: Tended, line: Line, tasks: anyio.abc.TaskGroup, told: Callable[[Pinged | LinkLost], None]
) -> None:
    while line.failure is None:
        line.look()
        step = line.liveness.decide(anyio.current_time())
        if isinstance(step, Ping):
            line.pinged(step)
            tasks.start_soon(_ping, link, line, step, told)
        elif isinstance(step, Gone):
            told(await link.give_up(line, step.silent_s))
        else:
            with anyio.move_on_after(step.until - anyio.current_time()):
                await line.stirred.wait()


async def _keep_awake(line: Line) -> None:
    """Keep what TCP has learnt of the link, connection by connection."""
    while True:
        if (raw := line.socket) is not None:
            await keep_awake(raw, line)
        while line.socket is raw:
            await line.stirred.wait()


async def _ping(link: Tended, line: Line, ping: Ping, told: Callable[[Pinged | LinkLost], None]) -> None:
    sent_at, said = anyio.current_time(), None
    try:
        said = await link.ping(line, ping.about)
    except RemoteError:
        pass  # the connection broke, which those who wait for answers on it are told; or it took longer than it may
    finally:
        took_s = anyio.current_time() - sent_at
        line.ping_over(ping, said, took_s)
    if said is not None:
        told(Pinged(took_s, said.state))


async def _check(link: Tended, line: Line) -> None:
    """Have the declarations there while an act is under way, so that its answer need not wait for them.

    A line is opened anew where its connection was closed while nothing was under way. Whoever needs one opens it: where
    none can be had, they know how often it is worth trying.
    """
    while True:
        if not line.is_opened:
            await line.used.wait()
        used = line.used
        try:
            await link.check(line)
        except RemoteError:  # whoever is answered there finds out, and says so
            with anyio.move_on_after(_TRY_S):
                await line.used.wait()
        else:
            await used.wait()
