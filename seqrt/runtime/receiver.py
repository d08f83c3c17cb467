"""Takes an answer into the plan: which observation it is of, whether it may be played, where it lies.

Called by the requester with each answer. Nothing that is not whole, finite and within bounds gets past here.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import anyio

from seqrt.action.chunk import Chunk, Dropped
from seqrt.action.guard import Guard
from seqrt.action.lagging import LagInForce
from seqrt.action.latency import Cover, Latencies
from seqrt.action.lengths import Lengths
from seqrt.action.plan import Plan
from seqrt.action.player import Player
from seqrt.action.rows import Rows, model_rows_of, rows_of
from seqrt.action.schedule import TickSchedule
from seqrt.action.staleness import Staleness
from seqrt.errors import ActionError, InternalError, SeqrtError, StaleObservation
from seqrt.runtime.asked import Asking, Out, Trouble
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.control import Cause, Control
from seqrt.runtime.declared import Declared
from seqrt.runtime.moments import Moment, Moments
from seqrt.runtime.robot import Callbacks, called
from seqrt.runtime.serving import Served, Serving
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev
from seqrt.wire.messages import AnswerPlan

logger = logging.getLogger(__name__)


class Receiver:
    """One run's answers.

    Attributes:
        lengths: H, with committed rows and without.
        served: Step of the newest observation answered, -1 before the first.
        epoch: The run's present epoch; answers of another are dropped.
        lag: How late rows play.
        guard: The limits in force; the first chunk sets the length of a row.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        player: Player,
        guard: Guard,
        moments: Moments,
        schedule: TickSchedule,
        declared: Declared,
        callbacks: Callbacks,
        serving: Serving,
        control: Control,
        telling: Telling,
        latencies: Latencies,
        trouble: Trouble,
        epoch: int,
        out: Out,
        lag: LagInForce,
        staleness: Staleness,
    ) -> None:
        self._plan, self._player, self._moments, self._schedule = plan, player, moments, schedule
        self.guard = guard
        self._declared, self._callbacks, self._serving = declared, callbacks, serving
        self._control, self._telling, self._latencies, self._trouble = control, telling, latencies, trouble
        self._staleness = staleness
        self.lengths = Lengths()
        self.served = -1
        self.epoch = epoch
        self.lag = lag
        self._out = out
        self._first_at: float | None = None
        self._spaced_from: int | None = None

    def renew(self, epoch: int) -> None:
        """A new epoch begins: the plan was dropped, and answers of earlier ones will be."""
        self.epoch = epoch
        self.lag.restart()
        self._spaced_from = None

    async def receive(self, asked: Asking, served: Served) -> None:
        """Take in one answer."""
        if served.answer.plan is not None and served.answer.plan.stale:
            self._drop(asked, "stale")  # unserved: it says nothing of how long an answer takes
            return
        now, answer = anyio.current_time(), served.answer
        plan = answer.plan or AnswerPlan()
        observed = asked.moment.step if plan.t is None else plan.t
        moment = self._moments.get(observed)
        infer_s = _seconds(answer.perf, "inference_ms")
        why = self._useless(asked, plan, moment)
        if why is not None or moment is None:
            self._answered(asked, observed, None, now - asked.moment.begun_at, infer_s, plan.queue_s)
            if why is None:
                self._refuse(asked, self._unknown(observed))
            else:
                self._drop(asked, why)
            return
        chunk = ActionChunk(
            answer.outputs,
            observed,
            now - moment.begun_at,
            infer_s,
            asked.request_id,
            tuple(answer.warnings),
            self._declared.actions,
            self._declared.form,
        )
        rows = self._checked(asked, chunk)
        count = None if rows is None else len(rows)
        self._answered(asked, observed, count, chunk.latency_s, infer_s, plan.queue_s)
        self.served = max(self.served, observed)
        smooth = self._learn(asked, served, now, infer_s, plan.queue_s or 0.0)
        if rows is not None and self._in_time(asked, moment):
            await self._splice(asked, moment, rows, chunk, model_rows_of(plan.rows_model, len(rows)), smooth)
        oldest = self._out.oldest()
        self._moments.forget_below(min(self.served, asked.moment.step, self.served if oldest is None else oldest))

    def _learn(self, asked: Asking, served: Served, now: float, infer_s: float | None, queue_s: float) -> bool:
        """Take in how long an answer took; False when that says nothing of the next one."""
        # Sent before there was an answer, it waited for whatever the first one waited for.
        cold = self._first_at is None or asked.sent_at < self._first_at
        if self._first_at is None:
            self._first_at = now
        smooth = served.smooth and not (asked.behind or cold)
        if infer_s is not None:
            self._latencies.add_serving(infer_s if cold else infer_s + queue_s, cold=cold)
        if smooth or cold:
            # Of the request, not of the observation the policy was handed: that one may be an older one it still had.
            self._latencies.add(now - asked.moment.begun_at, sent_at=asked.sent_at, now=now, cold=cold)
        return smooth

    def _useless(self, asked: Asking, plan: AnswerPlan, moment: Moment | None) -> str | None:
        """Why an answer cannot be used though nobody is at fault; None when it can, or somebody is."""
        if asked.moment.epoch != self.epoch or (moment is not None and moment.epoch != self.epoch):
            return "epoch"
        return "older" if moment is None and plan.t is not None and 0 <= plan.t < self.served else None

    def _unknown(self, observed: int) -> InternalError:
        return InternalError(
            f"the answer is to observation {observed}, which was never taken", host=self._serving.host, phase="act"
        )

    def _checked(self, asked: Asking, chunk: ActionChunk) -> Rows | None:
        """The rows, held against the guard; None when they may not be played."""
        try:
            rows = rows_of(chunk.outputs, self._declared.actions, self._declared.form)
            self.guard.check(rows)
        except ActionError as error:
            if self._plan.position == 0 and error.row is None:
                self._refused(asked, error)
                self._control.stop(Cause.raised(error))  # no later answer of this policy will be of another kind
            else:
                self._refuse(asked, error)
            return None
        if self.guard.dims is None:
            self.guard = replace(self.guard, dims=rows.shape[1])
            self._plan.guarded_by(self.guard)
        if chunk.observed > self._plan.newest:  # an older answer says nothing of those to come
            if self.lengths.newest is not None and len(rows) != self.lengths.newest:
                logger.info("chunks have %d rows now, %d before", len(rows), self.lengths.newest)
            self.lengths.take(len(rows), asked.committed)
            self._serving.replay_s = len(rows) * self._schedule.period_s
        return rows

    def _in_time(self, asked: Asking, moment: Moment) -> bool:
        """Whether the next tick may still go by this observation; an answer that comes too late is refused.

        Not one that a newer one has overtaken: nothing will go by it, and that is no fault.
        """
        if moment.step <= self._plan.newest:
            return True
        tick = self._schedule.step_at(anyio.current_time()) + 1
        try:
            self._staleness.check(self._schedule.deadline(tick) - moment.captured_at, moment.step)
        except StaleObservation as error:
            self._refused(asked, error)
            self._serving.late(asked, error)
            return False
        return True

    async def _splice(
        self, asked: Asking, moment: Moment, rows: Rows, chunk: ActionChunk, model: Rows | None, smooth: bool
    ) -> None:
        before = self._plan.newest
        try:
            committed = max(0, asked.moment.position + asked.committed - moment.position) if asked.committed else 0
            # Rows made to go on from committed ones lie where those do.
            short = 0.0 if asked.committed else moment.short
            made = Chunk(
                self._player.realigned(rows, short), moment.step, committed=committed, taken_at=moment.captured_at,
                short=short, rows_model=None if short else model,
            )  # fmt: skip
            if moment is asked.moment:
                made = made.unpadded(asked.known)
            lag = self.lag.of_next()
            result = self._plan.splice(made, moment.position, lag=lag, spacing=asked.spacing_ticks)
        except ActionError as error:
            self._refuse(asked, error)
            return
        self._trouble.answered()
        if isinstance(result, Dropped):
            self._drop(asked, result.why)
            return
        if smooth:
            self._learn_cover(asked, before)
        if self.lag.ticks or self.lag.own:
            self.lag.placed(min(lag, max(0, result.chunk.start - moment.position)))
        self._telling.tell(
            ev.Spliced(
                at_s=self._telling.at_s(),
                request_id=asked.request_id,
                observed=moment.step,
                row=result.first,
                rows=len(rows),
                dropped=result.dropped,
                position=self._plan.position,
                blended=result.blended,
                disagreement=result.disagreement,
                disagreement_passed=result.disagreement_passed,
                lag=self.lag.own,
            )
        )
        if self._callbacks.on_chunk is not None:
            try:
                await called(self._callbacks.on_chunk, chunk)
            except (KeyboardInterrupt, SystemExit) as error:  # out of a task of its own, asyncio would leave the loop
                self._control.stop(Cause.raised(error))

    def _learn_cover(self, asked: Asking, before: int) -> None:
        """Take in what a splice needed, where the chunk before it was asked for by a spacing too.

        Else there is what passed before the first answer, or a pause, in it.
        """
        if asked.spacing_ticks is None:
            return
        if self._spaced_from is None:
            self._spaced_from = asked.moment.step
        if before < self._spaced_from:
            return
        needed = Cover.of(
            self._schedule.step_at(anyio.current_time()),
            before=before,
            observed=asked.moment.step,
            spaced=asked.spacing_ticks,
            spare=asked.spare,
        )
        self._latencies.add_cover(needed.ticks, needed.spared)

    def _refuse(self, asked: Asking, error: SeqrtError) -> None:
        self._refused(asked, error)
        self._serving.refuse(error)

    def _refused(self, asked: Asking, error: SeqrtError) -> None:
        row = error.row if isinstance(error, ActionError) else None
        column = error.column if isinstance(error, ActionError) else None
        self._telling.tell(
            ev.ChunkRefused(
                at_s=self._telling.at_s(), request_id=asked.request_id, error=str(error), row=row, column=column
            )
        )

    def _drop(self, asked: Asking, why: str) -> None:
        self._telling.tell(ev.AnswerDropped(at_s=self._telling.at_s(), request_id=asked.request_id, why=why))

    def _answered(
        self,
        asked: Asking,
        observed: int,
        rows: int | None,
        latency_s: float,
        infer_s: float | None,
        queue_s: float | None,
    ) -> None:
        self._telling.tell(
            ev.Answered(
                at_s=self._telling.at_s(),
                request_id=asked.request_id,
                observed=observed,
                rows=rows,
                latency_s=latency_s,
                infer_s=infer_s,
                queue_s=queue_s,
            )
        )


def _seconds(perf: dict[str, object] | None, key: str) -> float | None:
    value = (perf or {}).get(key)
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else None
