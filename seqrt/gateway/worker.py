"""One worker of a policy, as a gateway asks it for acts that belong to no episode."""

from __future__ import annotations

import logging
from typing import Final

import anyio

from seqrt.errors import RemoteError, SeqrtError
from seqrt.gateway.upstream import is_to_be_repeated, told_operator
from seqrt.link.border import Link
from seqrt.watching.logline import line
from seqrt.wire.messages import ActRequest, ActResponse, PolicyInfo

logger = logging.getLogger(__name__)

_TIMES: Final = 3
"""How often one worker is asked for one act, under one id."""


class Worker:
    """One worker of a policy.

    Args:
        link: The way to it.
        info: What it declares, where that is known already.

    Attributes:
        link: The way to it.
        info: What it declares; None before it has said so.
        under_way: Acts it is asked for now.
        said: Why it could not be asked the last time; "" before.
    """

    def __init__(self, link: Link, info: PolicyInfo | None = None) -> None:
        self.link = link
        self.info = info
        self.under_way = 0
        self.said = ""

    async def look(self) -> None:
        """Read what it declares. What it said instead is logged, once."""
        try:
            self.info = await self.link.info()
        except SeqrtError as error:
            self.say(told_operator(error))

    def say(self, why: str) -> None:
        """Log why it cannot be asked, unless that was said the last time."""
        if self.said != why:
            self.said = why
            logger.warning("%s", line("worker.unreached", None, host=self.link.host).saying(why))

    async def act(self, request: ActRequest, request_id: str, until: float) -> ActResponse:
        """One act; asked again where the worker may not have heard of it.

        Raises:
            RemoteError: What the worker answered instead.
        """
        self.under_way += 1
        try:
            outgoing = await self.link.prepare(request)
            for _ in range(_TIMES - 1):
                try:
                    return await self.link.act(outgoing, request_id, _left(until))
                except RemoteError as error:
                    if error.details.get("reason") == "redeclared":
                        self.info = await self.link.info()
                    elif not is_to_be_repeated(error):
                        raise
            return await self.link.act(outgoing, request_id, _left(until))
        finally:
            self.under_way -= 1


def _left(until: float) -> float:
    return max(0.001, until - anyio.current_time())
