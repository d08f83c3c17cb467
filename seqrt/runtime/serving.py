"""Gets one act served: resends what the worker lacks, replays under the same id, waits out what passes.

Called by the requester, one call an act. Returns the answer, or None when the act is given up and the next
observation shall be asked about instead; ends the run for what cannot be mended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from seqrt.action.plan import Plan
from seqrt.errors import Conflict, Gone, LinkLost, PolicyError, RemoteError, SeqrtError, Unavailable
from seqrt.link.border import ACT_LOST, Link, Outgoing, Pinged
from seqrt.runtime.asked import Asking, Out, Trouble, asked_later
from seqrt.runtime.contact import Contact
from seqrt.runtime.control import Cause, Control
from seqrt.runtime.declared import Declared
from seqrt.runtime.options import IN_A_ROW, Limits
from seqrt.runtime.retrying import next_wait_s, reconnect_wait_s
from seqrt.runtime.telling import Telling
from seqrt.runtime.tries import Tries
from seqrt.runtime.uplink import Uplink, gap_of
from seqrt.timeline import events as ev
from seqrt.watching.spans import robot_act
from seqrt.wire.messages import ActRequest, ActResponse

_WARM_WAIT_S = 5.0
_STANDING_S = 2.0
"""How long an act is worth replaying before there is a chunk: the arm stands, and may have been moved by hand."""


@dataclass(frozen=True)
class Served:
    """An act's answer.

    Attributes:
        answer: It.
        smooth: False when it took more than one try: how long that lasted says nothing of the next one.
    """

    answer: ActResponse
    smooth: bool


class Serving:
    """One run's acts, each until it is answered or not worth it any more.

    Args:
        link_timeout_s: How long observations that a worker lacks are waited for, before the act itself asks again.
        lost_episode: Told that the worker no longer has an act's episode; None ends the run with it.
        is_over: Whether another episode was begun since: nobody plays what an act of that one is answered.

    Attributes:
        replay_s: How long an act is worth replaying: what a chunk covers. None before the first chunk.
    """

    def __init__(
        self,
        *,
        link: Link,
        declared: Declared,
        control: Control,
        telling: Telling,
        trouble: Trouble,
        limits: Limits,
        link_timeout_s: float,
        plan: Plan,
        out: Out,
        lost_episode: Callable[[Uplink, Gone], None] | None = None,
        is_over: Callable[[Uplink], bool] = lambda uplink: False,
    ) -> None:
        self._link, self._declared = link, declared
        self._control, self._telling, self._trouble, self._limits = control, telling, trouble, limits
        self._link_timeout_s = link_timeout_s
        self._warming_since: float | None = None
        self._contact = Contact(telling)
        self._plan, self._out = plan, out
        self._lost_episode = lost_episode or (lambda uplink, error: self._control.stop(Cause.raised(error)))
        self._is_over = is_over
        self._warming = 0
        self.replay_s: float | None = None

    @property
    def host(self) -> str:
        """The worker's host:port."""
        return self._link.host

    @property
    def waiting(self) -> bool:
        """Whether an act waits for a worker that warms up, or for one to be reached before anything has moved.

        Another one would wait beside it, and try to connect beside it.
        """
        return self._warming > 0 or (self._trouble.link is not None and not self._moving)

    @property
    def _moving(self) -> bool:
        """Whether anything has been played yet: before that, a failure is better said than waited out."""
        return self._plan.position > 0

    async def serve(self, asked: Asking, message: ActRequest, uplink: Uplink) -> Served | None:
        """The answer to one act; None when it was given up (said in the timeline, and in the run's cause if fatal).

        Args:
            asked: The act.
            message: What is asked.
            uplink: Of its episode.
        """
        try:
            ask = await self._link.prepare(message)
            self._tell_asked(asked, ask)
            with robot_act(asked.request_id):
                return await self._until_served(asked, ask, uplink)
        except RemoteError as error:
            self._tell_failed(asked, error, retrying=False)
            if not self._is_over(uplink):
                self._failed(asked, error, uplink)
        return None

    def _failed(self, asked: Asking, error: RemoteError, uplink: Uplink) -> None:
        if isinstance(error, PolicyError):
            self.refuse(error)
        elif isinstance(error, Gone):
            self._back()
            self._lost_episode(uplink, error)
        elif error.code == "timeout" and self._moving:
            self.late(asked, error)
        else:
            self._control.stop(Cause.raised(error))

    def refuse(self, error: SeqrtError) -> None:
        """Count an answer that cannot be played; too many in a row end the run with it."""
        self._trouble.refuse(error)
        self._stop_if_too_many(error)

    def late(self, asked: Asking, error: SeqrtError) -> None:
        """The same of one that came too late or not at all: those of one stall count as one."""
        self._trouble.late(error, sent_at=asked.sent_at, now=anyio.current_time())
        self._stop_if_too_many(error)

    def _stop_if_too_many(self, error: SeqrtError) -> None:
        if self._trouble.refused_in_a_row >= IN_A_ROW:
            self._control.stop(Cause.raised(error))

    async def _until_served(self, asked: Asking, ask: Outgoing[ActRequest], uplink: Uplink) -> Served | None:
        deadline_s = self._declared.request_s if uplink.begun else self._declared.startup_s
        message = ask.message
        tries = Tries(asked, uplink, deadline_s)
        while True:
            if (left_s := tries.left_s) <= 0:
                raise self._overdue(asked, deadline_s)
            try:
                answer = await self._link.act(ask, asked.request_id, left_s)
            except Conflict as conflict:
                await self._resend(tries, conflict)
            except Unavailable as error:
                if not await self._to_be_tried_again(tries, error):
                    return None
                later_s = anyio.current_time() - asked.sent_at
                ask = await self._link.prepare(asked_later(message, later_s))
            else:
                self._back()
                self._tell_repeated(asked, tries.ran_at)
                uplink.begun = True
                return Served(answer, tries.smooth)

    async def _resend(self, tries: Tries, conflict: Conflict) -> None:
        """Send what the worker says it lacks, and wait for it to land; raises ``conflict`` where that is no remedy."""
        gap = gap_of(conflict)
        self._back()
        coming = tries.uplink.queue_again(gap) if gap is not None and gap != tries.lacked else ()
        if not coming:
            raise conflict  # what it lacks was sent already, or never was
        self._tell_failed(tries.asked, conflict, retrying=True)
        tries.failed()
        patience_s = min(self._link_timeout_s, tries.left_s / 2)
        with anyio.move_on_after(patience_s):  # then the act itself finds out what the link is worth
            await tries.uplink.landed(coming)
            tries.lacked = gap

    async def _to_be_tried_again(self, tries: Tries, error: Unavailable) -> bool:
        """Wait for the next try of an act that nobody answered; False when it is given up for a newer one.

        Raises:
            RemoteError: It has been tried for as long as it may be.
        """
        asked, uplink = tries.asked, tries.uplink
        if error.warming and not self._moving:
            await self._warm_up(error, uplink)
            return False
        if error.code == "timeout":
            raise error
        self._no_answer(error)
        now = anyio.current_time()
        if not self._moving and now - self._trouble.link_since >= tries.deadline_s:
            raise self._trouble.tried(error, now) from error
        # Superseded: the newer act is the better question, and when the link is back one is sent and not all at once.
        superseded = self._out.is_superseded(asked) or self._is_over(uplink)
        given_up = superseded or self._given_up(asked)
        self._tell_failed(asked, error, retrying=not given_up)
        if given_up:
            if not superseded:
                await anyio.sleep(tries.wait_s)
            return False
        tries.failed(error)
        if error.details.get("reason") == ACT_LOST:
            return True  # the link is well: at once
        if isinstance(error, LinkLost) and not uplink.begun:
            uplink.queue_again(0)  # whoever answers next may never have heard of the episode
        # A lost link is tried often while the arm may stand for it; older acts were given up for this one.
        often = isinstance(error, LinkLost) and self._moving
        down_s = now - self._trouble.link_since
        wait_s = reconnect_wait_s(down_s) if often else max(tries.wait_s, error.retry_after_s or 0.0)
        await anyio.sleep(min(wait_s, max(0.0, tries.left_s)))
        tries.wait_s = next_wait_s(tries.wait_s, error)
        # A busy worker may have asked for a wait in which all rows pass that this act could still be answered.
        return not (error.code == "busy" and self._moving and self._given_up(asked))

    def _overdue(self, asked: Asking, deadline_s: float) -> RemoteError:
        """The act's time is over after several tries; before any motion it is told what was in the way."""
        link = self._trouble.link
        if link is not None and not self._moving:
            return self._trouble.tried(link, anyio.current_time())
        return Unavailable(
            f"no answer within {deadline_s:g} s", code="timeout", host=self.host, phase="act",
            request_id=asked.request_id,
        )  # fmt: skip

    async def _warm_up(self, error: Unavailable, uplink: Uplink) -> None:
        """Wait as the worker asks, then let a new observation be asked about; give up when the budget would pass."""
        now = anyio.current_time()
        if self._warming_since is None:
            self._warming_since = now
        wait_s = max(1.0, error.retry_after_s or _WARM_WAIT_S)
        if now + wait_s - self._warming_since > self._limits.startup_timeout_s:
            raise error
        eta = error.details.get("eta_s")
        eta_s = float(eta) if isinstance(eta, int | float) else None
        self._telling.tell(ev.Warming(at_s=self._telling.at_s(), wait_s=wait_s, eta_s=eta_s))
        uplink.rest()  # nothing moves, and the next act is about what is seen then
        self._warming += 1
        try:
            await anyio.sleep(wait_s)
        finally:
            self._warming -= 1

    def hear(self, news: Pinged | LinkLost) -> None:
        """What was found out about the link beside the acts."""
        self._contact.hear(news)

    def _no_answer(self, error: Unavailable) -> None:
        """Note that no answer is to be had."""
        self._trouble.no_answer(error, anyio.current_time())
        if isinstance(error, LinkLost):
            self._contact.lost(error)
        else:
            self._contact.answered()

    def _given_up(self, asked: Asking) -> bool:
        """Whether the observation is so old that a new one is the better question."""
        worth_s = self.replay_s if self.replay_s is not None else _STANDING_S
        return anyio.current_time() - asked.moment.begun_at > worth_s

    def _back(self) -> None:
        self._contact.answered()
        self._trouble.link = None

    def _tell_repeated(self, asked: Asking, before: str | None) -> None:
        host = self._link.host
        if before is not None and before != host:
            self._telling.tell(
                ev.ActRepeated(at_s=self._telling.at_s(), request_id=asked.request_id, before=before, host=host)
            )

    def _tell_asked(self, asked: Asking, ask: Outgoing[ActRequest]) -> None:
        plan = ask.message.plan
        assert plan is not None
        self._telling.tell(
            ev.Asked(
                at_s=self._telling.since(asked.sent_at),
                request_id=asked.request_id,
                step=asked.moment.step,
                d=plan.d,
                s=plan.s,
                rows_left=plan.steps_left or 0,
                prefix=0 if plan.prefix is None else len(plan.prefix),
                bytes=len(ask.body),
            )
        )

    def _tell_failed(self, asked: Asking, error: RemoteError, *, retrying: bool) -> None:
        self._telling.tell(
            ev.ActFailed(
                at_s=self._telling.at_s(),
                request_id=asked.request_id,
                code=error.code,
                error=str(error),
                retrying=retrying,
            )
        )
