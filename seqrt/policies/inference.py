"""Batches of acts served: copies pinned, the code run, episodes moved on, answers settled.

In: the jobs whose turn has come, from `seqrt.policies.line`. Out: a response or an error in each. Also what is owed
between them: ``on_episode`` of episodes that are over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from seqrt.errors import RemoteError
from seqrt.policies.answering import checked, plan_of, response_of, stale_of
from seqrt.policies.answers import Answers
from seqrt.policies.arm_limits import Held, hold_observation
from seqrt.policies.call import embodiment_of, handed
from seqrt.policies.code import Ask, Code
from seqrt.policies.continuity import UNREAD, is_unread
from seqrt.policies.copies import Copies
from seqrt.policies.declaration import Declaration
from seqrt.policies.episode import Episode, answered
from seqrt.policies.episodes import Episodes, gone
from seqrt.policies.failures import policy_error
from seqrt.policies.job import Job
from seqrt.policies.lifecycle import Hook
from seqrt.policies.offload import Offload
from seqrt.policies.running import Outcome, run_one, run_together
from seqrt.policies.session import Session
from seqrt.watching.logline import line
from seqrt.watching.passage import Watch
from seqrt.wire.messages import ActResponse

logger = logging.getLogger(__name__)


class Inference:
    """Serves batches of one policy. One batch at a time: the line sees to that.

    Args:
        declaration: What the policy declares.
        copies: Its copies.
        offload: Runs its code off the loop.
        episodes: Its episodes.
        answers: Where answers are kept.
        clock: The time, in seconds.
        watch: Told of each call of the code.

    Attributes:
        count: Acts of robots inferred so far.
        stale: Acts answered ``stale`` so far: not served, since a newer one of their episode was there.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        copies: Copies,
        offload: Offload,
        episodes: Episodes,
        answers: Answers,
        clock: Callable[[], float],
        watch: Watch,
    ) -> None:
        self._declaration = declaration
        self._copies = copies
        self._offload = offload
        self._episodes = episodes
        self._answers = answers
        self._clock = clock
        self._watch = watch
        concurrency = declaration.written.concurrency
        self._together = concurrency is not None
        self._size = concurrency.max_concurrent if concurrency is not None and not concurrency.dynamic else None
        self.count = 0
        self.stale = 0

    async def serve(self, batch: list[Job]) -> None:
        """Serve a batch: each job has its response or its error then."""
        await self.settle_ends()
        asks: dict[Job, tuple[Ask, Held]] = {}
        begins = self._clock()
        for job in batch:
            prepared = self._prepared(job, begins)
            if prepared is not None:
                asks[job] = prepared
        if not asks:
            return
        begins = self._clock()
        with self._watch.call([job.passage for job in asks if job.passage is not None]):
            outcomes = await self._outcomes(list(asks), [ask for ask, _ in asks.values()])
        ended = self._clock()
        for (job, (ask, held)), outcome in zip(asks.items(), outcomes, strict=True):
            self._finish(job, ask, held, outcome, begins, ended)

    async def settle_ends(self) -> None:
        """Call ``on_episode`` for the episodes that ended, and take their copies back."""
        while self._episodes.over:
            session = self._episodes.over.popleft()
            copy, session.copy = session.copy, None
            if copy is not None and session.episode is not None:
                if Hook.ON_EPISODE in self._declaration.hooks:
                    await self._offload(partial(_ended, copy, session.episode))
                self._copies.give_back(copy)
            session.episode = None

    def owe(self, session: Session) -> None:
        """An episode that is none of `Episodes` is over: `settle_ends` tells the policy."""
        self._episodes.over.append(session)

    def is_passed(self, session: Session, step: int, previous: int) -> bool:
        """Whether the act at ``step`` is no longer served: a newer one of its episode was, or is being served."""
        if self._declaration.independent:
            return step < session.taken
        if self._declaration.stateful and step < session.last_step:
            return True  # its state has seen what came after
        return session.is_passed(step, previous)

    def pass_by(self, job: Job) -> ActResponse:
        """Answer an act that a newer one of its episode overtook: ``stale``, nothing is inferred."""
        now = self._clock()
        response = stale_of(job, now)
        self.stale += 1
        self._settle(job, response, now)
        return response

    def _prepared(self, job: Job, now: float) -> tuple[Ask, Held] | None:
        """What the job asks of the code; None when it is served already: ended, passed by, or refused."""
        session, record = job.session, job.record
        if session.ended:
            job.error = gone("this episode has ended", "ended")
            return None
        if self.is_passed(session, job.step, job.previous):
            self.pass_by(job)
            return None
        try:
            held = Held(embodiment_of(self._declaration, job.request))
            if is_unread(self._declaration, job.request.plan):
                held.warnings.append(UNREAD)
            window = session.window(job.step, job.previous)
            given = hold_observation(held, handed(self._declaration, window))
        except RemoteError as refused:
            job.error = refused
            return None
        if session.episode is None:
            session.episode = Episode(session.id)
        session.take(job.step)
        job.plan = plan_of(job, now, t=window.steps[-1])
        if record is not None:
            record.state, record.since = "running", now
        unobserved = session.unobserved(job.step) if Hook.OBSERVE in self._declaration.hooks else []
        return Ask(given, job.keywords, session.episode, session.fresh, unobserved), held

    async def _outcomes(self, jobs: list[Job], asks: list[Ask]) -> list[Outcome]:
        if self._together:
            for job in jobs:
                job.session.copy = self._copies.first
            return await self._offload(partial(run_together, self._copies.first, asks, self._size))
        copy = await self._copy(jobs[0].session)
        if not isinstance(copy, Code):
            return [copy]
        return [await self._offload(partial(run_one, copy, asks[0]))]

    async def _copy(self, session: Session) -> Code | Outcome:
        """The copy the episode has; pinned here at its first act, made where none is free."""
        if session.copy is None:
            session.copy = self._copies.take()
        if session.copy is None:
            made = await self._offload(partial(_made, self._copies))
            if isinstance(made, Outcome):
                return made
            session.copy = made
        return session.copy

    def _finish(self, job: Job, ask: Ask, held: Held, outcome: Outcome, begins: float, ended: float) -> None:
        session = job.session
        if not outcome.ran:  # neither kept nor counted: its id is free, and its episode stands where it stood
            job.error, job.raised = outcome.error, outcome.raised
            session.taken = session.last_step
            self._take_back(session)
            return
        self.count += job.record is not None
        session.served(job.step)
        session.fresh = ask.fresh
        if Hook.OBSERVE in self._declaration.hooks and not ask.unobserved:
            session.observed = max(session.observed, job.step)
        outcome = checked(self._declaration, held, outcome)
        if outcome.error is not None:
            job.error, job.raised = outcome.error, outcome.raised
            if not outcome.error.retryable and job.record is not None:
                self._answers.settle(job.record, outcome.error, ended)
            if outcome.ends:
                self._episodes.end(session.id, session.owner, ended)
            return
        if session.episode is not None:
            answered(session.episode)
        self._settle(job, response_of(job, held, outcome, ended - begins), ended)

    def _take_back(self, session: Session) -> None:
        """Leave an episode unbegun whose first act was refused: the policy was never told of it."""
        if session.last_step >= 0:
            return
        copy, session.copy, session.episode = session.copy, None, None
        if copy is not None:
            self._copies.give_back(copy)

    def _settle(self, job: Job, response: ActResponse, now: float) -> None:
        job.response = response
        if job.record is not None:
            self._answers.settle(job.record, response, now)


def _made(copies: Copies) -> Code | Outcome:
    try:
        return copies.make()
    except RemoteError as refused:
        return Outcome(error=refused, raised=refused)
    except (Exception, SystemExit) as raised:
        return Outcome(error=policy_error(raised), raised=raised)


def _ended(copy: Code, episode: Any) -> None:
    """The robot is told nothing of what ``on_episode`` raises: for it the episode is over either way."""
    try:
        copy.end(episode)
    except (Exception, SystemExit):
        logger.exception("%s", line("on_episode.failed", None, episode=episode.id))
