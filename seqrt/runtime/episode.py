"""One episode as the robot keeps it: its id, its numbers, its epoch, and its uplink."""

from __future__ import annotations

import logging
import secrets

import anyio

from seqrt.errors import Gone, RemoteError
from seqrt.link.border import Link
from seqrt.observation.declaration import Observations
from seqrt.policies.offload import Offload
from seqrt.runtime.options import END_BOUND_S
from seqrt.runtime.uplink import Uplink
from seqrt.watching.logline import line

logger = logging.getLogger(__name__)


class Episode:
    """One run of a task on one robot; several runs may share it.

    Attributes:
        id: 128 random bits.
        uplink: Its observations on their way to the worker; another one after `begin_anew`.
        restarts: How often it was begun anew since an answer was seen.
        next_number: The number the next observation gets, at the least.
        seed: Goes with its acts where the policy takes one and the user names none: successive plans agree.
        of_one_run: True when the run that began it also ends it.
    """

    def __init__(
        self, link: Link, observations: Observations | None, offload: Offload, *, of_one_run: bool = False
    ) -> None:
        self.id = secrets.token_hex(16)
        self.uplink = Uplink(link, self.id, observations, offload)
        self.next_number = 0
        self.of_one_run = of_one_run
        self.restarts = 0
        self._link, self._observations, self._offload = link, observations, offload
        self._epoch = 0
        self.seed = secrets.randbelow(2**31)

    @property
    def epoch(self) -> int:
        """The client's count: of runs, pauses and resumes."""
        return self._epoch

    def next_epoch(self) -> int:
        """Begin a new epoch: answers to what was asked before are not played."""
        self._epoch += 1
        return self._epoch

    def begin_anew(self, first: int) -> int:
        """The worker has lost it: go on under another id, from observation ``first`` on; its numbers go on.

        What is under way for the id before belongs to the uplink before.

        Returns:
            The epoch that begins.
        """
        self.restarts = 1 if self.uplink.begun else self.restarts + 1
        self.id = secrets.token_hex(16)
        self.uplink = Uplink(self._link, self.id, self._observations, self._offload, first=first)
        return self.next_epoch()

    async def end(self) -> None:
        """Tell the worker, for a second at most; it forgets an idle episode by itself."""
        with anyio.move_on_after(END_BOUND_S, shield=True):
            try:
                await self._link.end(self.id)
            except RemoteError as error:
                logger.debug("%s", line("end.unheard", error.request_id, episode=self.id, error=error))


def explained(error: Gone) -> Gone:
    """The worker no longer has an episode, with what can be done about it."""
    return error.again(
        hint="the episode's state went with it: begin a new one, or have connect(on_lost='restart') do so in mid-run"
    )


def as_gone(error: RemoteError) -> RemoteError:
    """What ends a run: `Gone` where a worker stayed away that alone had the episode's state, else ``error`` itself."""
    if error.details.get("reason") != "bound":
        return error
    return Gone(
        error.detail, code="gone", request_id=error.request_id, hint=error.hint, details=error.details,
        host=error.host, phase=error.phase,
    )  # fmt: skip
