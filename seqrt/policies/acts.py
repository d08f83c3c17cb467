"""One policy's acts from arrival to the line: known by their id, their observations there, their turn waited for."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import anyio
from msgspec import UNSET

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.policies.answers import Answers, Record
from seqrt.policies.call import embodiment_of, keywords_of
from seqrt.policies.declaration import Declaration
from seqrt.policies.episodes import Episodes, gone
from seqrt.policies.inference import Inference
from seqrt.policies.job import Job
from seqrt.policies.limits import HostLimits
from seqrt.policies.line import Line, out_of_time
from seqrt.policies.movement import Movement
from seqrt.policies.session import Session, frames_missing
from seqrt.policies.turns import dry_in_s
from seqrt.watching.passage import Passage
from seqrt.wire.codec import encode, require_one_of
from seqrt.wire.limits import RETRY_S
from seqrt.wire.messages import ActRequest, ActResponse, AskPlan, Frame


class Acts:
    """Serves the acts of one policy.

    Args:
        declaration: What the policy declares.
        inference: Serves them once their turn has come.
        line: Where they wait for it.
        answers: The acts by id.
        episodes: The episodes acts belong to.
        limits: What is held, and how long.
        clock: The time, in seconds.

    Attributes:
        movement: When bytes last arrived.
        count: Acts waiting or running.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        inference: Inference,
        line: Line,
        answers: Answers,
        episodes: Episodes,
        limits: HostLimits,
        clock: Callable[[], float],
    ) -> None:
        self._declaration = declaration
        self._inference = inference
        self._line = line
        self._answers = answers
        self._episodes = episodes
        self._limits = limits
        self._clock = clock
        self.movement = Movement()
        self.count = 0

    async def act(self, request: ActRequest, *, passage: Passage, owner: str, until: float, source: str) -> ActResponse:
        """As `Host.act`; ``until`` is when it is given up if it has not run."""
        request_id = passage.request_id
        episode, fingerprint = request.episode_id or "", _fingerprint(request)
        while (known := self._answers.find(owner, episode, request_id, self._clock())) is not None:
            passage.enter("repeat")
            answer = await self._answer_of(known, fingerprint, until)
            if answer is not None:
                return answer
            # It was refused before infer: the id is free, and this request takes its place.
        if self.count >= self._limits.acts:
            raise remote_error("busy", f"{self.count} acts are waiting", retry_after_s=RETRY_S)
        record = self._answers.open(owner, episode, request_id, fingerprint, self._clock())
        self.count += 1
        try:
            return await self._served(record, request, passage, until, source)
        finally:
            self.count -= 1
            if record.state != "answered":
                self._answers.refuse(record)

    async def _answer_of(self, record: Record, fingerprint: int | None, until: float) -> ActResponse | None:
        """What the act of this id is answered, waited for while it runs; None when it was refused."""
        if None not in (fingerprint, record.fingerprint) and fingerprint != record.fingerprint:
            raise remote_error(
                "conflict",
                f"request id {record.request_id} was used for another act",
                hint="give each act an id of its own",
                details={"reason": "request_id_reused"},
            )
        with anyio.move_on_after(until - self._clock()):
            await record.done.wait()
        if isinstance(record.answer, RemoteError):
            raise record.answer.again()
        if record.answer is None and not record.done.is_set():
            raise out_of_time("the act of this id is still running")
        return record.answer

    async def _served(
        self, record: Record, request: ActRequest, passage: Passage, until: float, source: str
    ) -> ActResponse:
        try:
            require_one_of(request)
        except WireError as wrong:
            raise remote_error("invalid_request", str(wrong), details={"reason": wrong.reason}) from wrong
        keywords = keywords_of(self._declaration, request)
        embodiment_of(self._declaration, request)
        previous = request.plan.previous if request.plan is not None else None
        session, step = await self._enter(request, record.owner, until)
        dry_at = record.since + dry_in_s(request.plan, first=bool(session.id) and session.taken < 0)
        if session.acts >= self._limits.acts_an_episode:
            raise remote_error("busy", f"{session.acts} acts of this episode are waiting", retry_after_s=RETRY_S)
        session.acts += 1
        try:
            session.on_grid(request.plan.hz if request.plan is not None else None)
            session.rebuild(previous)
            before = session.last_step if previous is None else previous
            passage.enter("frames")
            await self._wait_for_frames(session, step, before, until, source)
            alike = (request.embodiment, {name: keywords[name] for name in self._declaration.params})
            job = Job(
                request, session, step, before, keywords, alike=alike, record=record, dry_at=dry_at, passage=passage
            )
            job.passed = self._inference.is_passed(session, step, before)
            if not job.passed:
                passage.enter("queue")
                await self._line.pass_through(job, until, self._inference.serve)
            if job.passed:
                return self._inference.pass_by(job)
            if job.response is None:
                assert job.error is not None
                raise job.error.again()
            return job.response
        finally:
            session.acts -= 1
            self._episodes.touch(session, self._clock())
            if request.episode_id is None:
                self._episodes.release(session)

    async def _enter(self, request: ActRequest, owner: str, until: float) -> tuple[Session, int]:
        """As `_entered`, once there is a place for a new episode, where there are so many and no more."""
        episodes, places, key = self._episodes, self._episodes.places, (owner, request.episode_id or "")
        lost = request.plan is not None and request.plan.begun
        if lost or not (request.episode_id and places.wait_s and episodes.waits(key)):
            return self._entered(request, owner)
        until = min(until, self._clock() + places.wait_s)
        with places.waiting(key):
            while episodes.waits(key) and (left_s := until - self._clock()) > 0:
                with anyio.move_on_after(left_s):
                    await places.news()
            return self._entered(request, owner)

    def _entered(self, request: ActRequest, owner: str) -> tuple[Session, int]:
        """The act's episode, with the observation it carries stored there, and its step."""
        carried = request.inputs is not UNSET
        if request.episode_id is None:
            return self._alone(request, owner)
        session = self._episodes.enter(
            request.episode_id,
            owner,
            self._clock(),
            names_zero=request.seq in (None, 0) if carried else request.seq == 1,
            begun=request.plan is not None and bool(request.plan.begun),
        )
        step = session.step_of(request)
        if carried:
            try:
                session.keep([Frame(seq=step, inputs=request.inputs)], (), self._episodes.spare_bytes)
            finally:
                self._episodes.touch(session, self._clock())
        return session, step

    def _alone(self, request: ActRequest, owner: str) -> tuple[Session, int]:
        """An act without an episode: its own inputs are all there is."""
        if self._declaration.stateful:
            raise remote_error("invalid_request", "this policy has state: an act needs an episode_id")
        self._episodes.must_be_open()
        session = Session("", owner, self._declaration.observations, self._limits, self._clock())
        session.begun = True
        step = request.seq or 0
        session.keep([Frame(seq=step, inputs=request.inputs)], (), self._episodes.spare_bytes)
        session.frames.skip_runs([(0, step)])
        self._episodes.touch(session, self._clock())
        return session, step

    async def _wait_for_frames(self, session: Session, step: int, previous: int, until: float, source: str) -> None:
        with self.movement.watched(source, self._clock()):
            while not session.ended:
                missing = session.missing(step, previous)
                if missing is None or self._inference.is_passed(session, step, previous):
                    return
                if session.lost:
                    # Nothing is on its way that would come in time: the robot is told what to send again.
                    session.lost = False
                    raise frames_missing(missing)
                now = self._clock()
                waited_until = self.movement.last(source) + self._limits.stream_wait_s
                if now >= until:
                    raise out_of_time("observations are still missing")
                if now >= waited_until:
                    if self._declaration.stateful and not session.begun:
                        raise gone("the worker has no beginning of this episode, and its policy has state", "lost")
                    raise frames_missing(missing)
                with anyio.move_on_after(min(until, waited_until) - now):
                    await session.news()
        raise gone("this episode has ended", "ended")


def _fingerprint(request: ActRequest) -> int | None:
    """What tells one act from another under the same id. The plan's clocks may differ when an act is sent again."""
    told = (request.seq, request.seed, request.embodiment, request.params)
    plan = request.plan if request.plan is not None else AskPlan()
    planned = (plan.previous, plan.d, plan.s, plan.epoch, plan.prefix, plan.prefix_space, plan.predicted_state)
    inputs = None if request.inputs is UNSET else request.inputs
    try:
        return zlib.crc32(encode([told, planned, request.call is UNSET, inputs]))
    except (WireError, TypeError):
        return None  # in one process inputs may be anything
