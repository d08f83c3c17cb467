"""The line before a policy's code: episodes in order of arrival, one call at a time, several in one where declared.

Of an episode's acts the newest is served where answers depend on the request alone, and those it leaves behind are
passed by: what they would be answered is older than what the robot has by then. Else all are served, oldest first.
No task of its own: the act at the head leads, takes others along, and hands the lead on when its call is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqrt.errors import RemoteError, remote_error
from seqrt.policies.answers import Record
from seqrt.policies.session import Session
from seqrt.watching.passage import Passage
from seqrt.wire.messages import ActRequest, ActResponse, AnswerPlan

_RETRY_S = 1.0


@dataclass(eq=False)
class Job:
    """One act on its way through the line.

    Attributes:
        request: What was asked.
        session: Its episode.
        step: The act's step.
        previous: The step of the act before it.
        keywords: Reserved names and parameters ``infer`` is handed.
        alike: Acts share a call only where this is equal.
        record: Where its answer is kept; None for an act nobody can ask for again.
        passage: Its way through the worker, watched; None for an act of a sample.
        chosen: Its turn has come.
        leads: It is the one that makes the call.
        passed: A newer act of its episode was served in its place; it has neither response nor error.
        queued_at: When it came into the line, its observations being there; None before, and for an act of a sample.
        done: It has been served.
        response: Its answer; None where it failed.
        error: Why it failed.
        raised: The policy's own exception behind ``error``.
        plan: What the answer says about the plan.
    """

    request: ActRequest
    session: Session
    step: int
    previous: int
    keywords: dict[str, Any]
    alike: Any = None
    record: Record | None = None
    passage: Passage | None = None
    chosen: anyio.Event = field(default_factory=anyio.Event)
    leads: bool = False
    passed: bool = False
    queued_at: float | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    response: ActResponse | None = None
    error: RemoteError | None = None
    raised: BaseException | None = None
    plan: AnswerPlan | None = None


class Line:
    """Who is served next.

    Args:
        most: Acts in one call.
        rejects: An act that finds every place taken is refused at once.
        queue_s: How long one waits in the line at most.
        freshest: Of an episode's acts the newest is served and older ones are passed by; else all are, oldest first.
        clock: The time, in seconds.
    """

    def __init__(self, *, most: int, rejects: bool, queue_s: float, freshest: bool, clock: Callable[[], float]) -> None:
        self._most = most
        self._rejects = rejects
        self._queue_s = queue_s
        self._freshest = freshest
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._running = 0
        self._taken = False
        self._stirred = anyio.Event()

    async def pass_through(self, job: Job, until: float, serve: Callable[[list[Job]], Awaitable[None]]) -> None:
        """Wait for the turn of ``job`` and have it served; it has its response or error then, or was passed by.

        Cancelled while it waits, it has not run; once it runs it is waited for.

        Args:
            job: The act.
            until: When it is given up, in the clock's time.
            serve: Serves a batch; called for one batch at a time.

        Raises:
            Unavailable: Full (``busy``), or its time was over before its turn (``timeout``).
        """
        if self._rejects and self._running + len(self._waiting) >= self._most:
            raise remote_error("busy", "every place at the policy is taken", retry_after_s=_RETRY_S)
        now = job.queued_at = self._clock()
        self._waiting.append(job)
        self._choose()
        try:
            with anyio.move_on_after(min(until - now, self._queue_s)):
                await job.chosen.wait()
        except BaseException:  # cancelled
            await self._leave(job)
            raise
        if not job.chosen.is_set():
            self._waiting.remove(job)
            raise out_of_time("other acts are before it") if until - now <= self._queue_s else self._waited()
        if job.leads:
            await self._lead(job, serve)
        else:
            with anyio.CancelScope(shield=True):  # the leader serves it, and its call cannot be stopped
                await job.done.wait()

    async def between(self, pending: Callable[[], bool], work: Callable[[], Awaitable[None]], until: float) -> None:
        """Have ``work`` done while no act runs: here as soon as nobody is served, or by whoever leads next.

        Args:
            pending: Whether there is anything to do still; `stir` says that this may have changed.
            work: Does it.
            until: When it is left to whoever leads next, in the clock's time.
        """
        while pending() and (left_s := until - self._clock()) > 0:
            if not self._taken:
                self._taken = True
                try:
                    with anyio.CancelScope(shield=True):
                        await work()
                finally:
                    self._free()
                continue
            stirred = self._stirred
            with anyio.move_on_after(left_s):
                await stirred.wait()

    def stir(self) -> None:
        """Wake whoever waits in `between`."""
        self._stirred.set()
        self._stirred = anyio.Event()

    async def _lead(self, job: Job, serve: Callable[[list[Job]], Awaitable[None]]) -> None:
        batch = self._batch(job)
        self._pass_by(batch)
        self._running = len(batch)
        try:
            # Whoever asked may leave: the policy's code cannot be stopped, and what it answers is kept.
            with anyio.CancelScope(shield=True):
                await serve(batch)
        finally:
            for served in batch:
                if served.response is None and served.error is None:
                    served.error = remote_error("internal", "the act was not served")
                served.done.set()
            self._running = 0
            self._free()

    def _batch(self, first: Job) -> list[Job]:
        """The leader and those behind it that may share its call: at most one of an episode, whose turn it is."""
        batch = [first]
        for job in self._turns().values():
            if len(batch) >= self._most:
                break
            if job.session is not first.session and job.alike == first.alike:
                batch.append(job)
                self._waiting.remove(job)
                job.chosen.set()
        return batch

    def _turns(self) -> dict[Session, Job]:
        """Of each episode the act to be served next, at the place of the one of it that has waited longest.

        With a place of its own, the newest act of a robot that asks often would always stand at the end.
        """
        turns: dict[Session, Job] = {}
        for job in self._waiting:
            other = turns.get(job.session)
            if other is None or (job.step > other.step if self._freshest else job.step < other.step):
                turns[job.session] = job
        return turns

    def _pass_by(self, batch: list[Job]) -> None:
        """Let go of the acts that are older than the one of their episode in ``batch``."""
        if not self._freshest:
            return
        steps = {job.session: job.step for job in batch}
        for job in [job for job in self._waiting if job.step < steps.get(job.session, -1)]:
            self._waiting.remove(job)
            job.passed = True
            job.chosen.set()
            job.done.set()

    async def _leave(self, job: Job) -> None:
        if not job.chosen.is_set():
            self._waiting.remove(job)
        elif job.leads:
            self._free()  # its turn had come and it has not begun
        else:
            with anyio.CancelScope(shield=True):
                await job.done.wait()

    def _choose(self) -> None:
        if not self._taken and self._waiting:
            job = self._turns()[self._waiting[0].session]
            self._waiting.remove(job)
            self._taken = job.leads = True
            job.chosen.set()

    def _free(self) -> None:
        self._taken = False
        self._choose()
        self.stir()

    def _waited(self) -> RemoteError:
        return remote_error("busy", f"the act has waited {self._queue_s:g} s for its turn", retry_after_s=_RETRY_S)


def out_of_time(why: str) -> RemoteError:
    """The 504 of an act that has not run."""
    return remote_error("timeout", f"the act's time was over before it was served: {why}")
