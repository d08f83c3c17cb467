"""One run: ties producer, requester and actuator together, and ends in one order whatever the reason.

`drive` is called by the handle. The tasks live in one task group, below a shielded child task, so that the caller's
cancellation of any kind (a cancel scope's, a task's, a timeout's, a second Ctrl-C) is a word to stop and never cuts
the hold short.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import anyio

from seqrt.action.first_step import FirstStep
from seqrt.action.guard import Guard
from seqrt.action.lagging import Stretch, lag_in_force
from seqrt.action.latency import Latencies
from seqrt.action.plan import Plan
from seqrt.action.player import Player
from seqrt.action.schedule import TickSchedule
from seqrt.action.splice import Aligned
from seqrt.action.staleness import Staleness, fresh_within
from seqrt.action.underrun import Starving, underrun_for
from seqrt.errors import Gone
from seqrt.link.border import Link
from seqrt.policies.offload import Offload
from seqrt.runtime.actuator import Actuator
from seqrt.runtime.asked import Out, Trouble
from seqrt.runtime.control import Cause, Control, leaf, ungrouped
from seqrt.runtime.declared import Declared
from seqrt.runtime.ending import attach
from seqrt.runtime.episode import Episode, explained
from seqrt.runtime.moments import Moments
from seqrt.runtime.options import IN_A_ROW
from seqrt.runtime.producer import First, Producer
from seqrt.runtime.receiver import Receiver
from seqrt.runtime.requester import Requester
from seqrt.runtime.serving import Serving
from seqrt.runtime.stalling import Stalling
from seqrt.runtime.telling import Telling
from seqrt.runtime.uplink import Uplink
from seqrt.runtime.waiting import WaitStatistics
from seqrt.runtime.wanted import Wanted
from seqrt.runtime.watch import Watch
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import RunOutcome
from seqrt.watching.logline import line

logger = logging.getLogger(__name__)

_TOLD = ("reason", "actions", "chunks", "elapsed_s", "underruns", "starved_ticks", "retries", "reconnects")
"""What the log says of an outcome."""


@dataclass(frozen=True)
class Setting:
    """Where the run happens: the link, what is served there, the grid's rate, and what becomes of a lost episode."""

    link: Link
    declared: Declared
    hz: float
    timeout_s: float
    offload: Offload
    begins_anew: bool = False


class Run:
    """One run, from its first observation to its hold.

    Attributes:
        control: Its switch: stop, pause, resume.
        telling: Its events and outcome.
    """

    def __init__(
        self,
        setting: Setting,
        wanted: Wanted,
        episode: Episode,
        control: Control,
        first: First,
        near: FirstStep,
    ) -> None:
        declared, play, period_s, begun_at = setting.declared, wanted.play, 1 / setting.hz, first.begun_at
        self._setting, self._episode, self._wanted, self._first = setting, episode, wanted, first
        self._id = secrets.token_hex(8)
        self.control = control
        self.telling = Telling(begun_at, wanted.record, setting.offload, failed=self._failed)
        schedule = TickSchedule(begun_at, period_s, episode.next_number)
        self._guard = Guard.of(declared.actions, columns=wanted.callbacks.columns)
        self._plan = Plan(play.splice, self._guard, play.seam, declared.actions)
        self._player = Player(
            self._plan, declared.actions, substeps=play.substeps, aligned=isinstance(play.splice, Aligned),
            rate=(lambda: self._requester.rate) if isinstance(play.late, Stretch) else None,
        )  # fmt: skip
        self._moments, self._trouble = Moments(play.seen_behind_s, play.moved_behind_s), Trouble()
        staleness = Staleness(wanted.limits.max_age_s, play.fresh_s)
        watch = Watch(wanted.limits, near, declared.observations, period_s, self.telling)
        starving = Starving(play.underrun or underrun_for(declared.space), declared.actions, period_s)
        latencies, out = Latencies(declared.infer_s), Out()
        self._epoch, self._sending = episode.next_epoch(), anyio.CancelScope()
        self._serving = serving = Serving(
            link=setting.link, declared=declared, control=self.control, telling=self.telling,
            trouble=self._trouble, limits=wanted.limits, link_timeout_s=setting.timeout_s, plan=self._plan,
            out=out, lost_episode=self._lost_episode, is_over=lambda uplink: uplink is not episode.uplink,
        )  # fmt: skip
        self._receiver = Receiver(
            plan=self._plan, player=self._player, guard=self._guard, moments=self._moments, schedule=schedule,
            declared=declared, callbacks=wanted.callbacks, serving=serving, control=self.control,
            telling=self.telling, latencies=latencies, trouble=self._trouble, epoch=self._epoch, out=out,
            lag=lag_in_force(play.late, setting.hz), staleness=staleness,
        )  # fmt: skip
        stalling = Stalling(
            wanted.limits, declared.space, period_s, trouble=self._trouble, moments=self._moments,
            host=lambda: setting.link.host,
        )  # fmt: skip
        self._actuator = Actuator(
            plan=self._plan, player=self._player, guard=lambda: self._receiver.guard, schedule=schedule,
            substeps=play.substeps, callbacks=wanted.callbacks, starving=starving, bounds=wanted.bounds,
            limits=wanted.limits, space=declared.space, control=self.control, telling=self.telling,
            trouble=self._trouble, moments=self._moments, stalling=stalling, renewed=self._renew,
            staleness=staleness, first_step=watch.first_step, tick_by=play.tick,
        )  # fmt: skip
        self._requester = Requester(
            serving=serving, receiver=self._receiver, episode=episode, plan=self._plan, declared=declared,
            control=self.control, telling=self.telling, latencies=latencies, hz=setting.hz,
            play=replace(play, fresh_s=fresh_within(play.fresh_s, wanted.limits.max_age_s)),
            session=self._id, rows_wanted=lambda: self._actuator.rows_wanted, params=wanted.params, out=out,
            seed=play.seed if play.seed is not None or not declared.takes_seed else episode.seed,
        )  # fmt: skip
        self._producer = Producer(
            callbacks=wanted.callbacks, declared=declared, episode=episode, played=self._actuator.played_by,
            moments=self._moments, schedule=schedule, limits=wanted.limits, control=self.control,
            telling=self.telling, watch=watch, epoch=lambda: self._receiver.epoch,
            on_moment=self._requester.consider,
        )  # fmt: skip

    @property
    def state(self) -> str:
        """The run's state, in a word."""
        return self._actuator.state.value

    @property
    def rows_left(self) -> int:
        """Rows that can be played before the plan is dry."""
        return self._plan.rows_left

    def waiting(self) -> WaitStatistics | None:
        """What waiting for ticks has been like; None before the first."""
        return self._actuator.waiting()

    @property
    def epoch(self) -> int:
        """The episode's count of runs, pauses and resumes."""
        return self._epoch

    async def drive(self) -> RunOutcome:
        """Run to the end.

        Returns:
            The outcome of a run that ended by itself, by validate, until or interrupt.

        Raises:
            BaseException: The first cause of any other end, as itself; it carries the outcome as ``outcome``.
        """
        finished = anyio.Event()
        try:
            with ungrouped():  # a KeyboardInterrupt that finds the task which waits here
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._shielded, finished)
                    await self._waited(finished)
        except BaseException as error:
            attach(error, self.telling.outcome(), self._actuator.hold.error)
            raise
        return self._ended()

    async def _waited(self, finished: anyio.Event) -> None:
        """Wait for the end; whatever cuts the wait short is the caller's, and a word to stop."""
        try:
            await finished.wait()
        except BaseException as error:
            self._failed(error)
            raise

    async def _shielded(self, finished: anyio.Event) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._all()
                self._conclude()
                if self._episode.of_one_run:
                    await self._episode.end()
                await self.telling.close()
            finally:
                finished.set()

    async def _all(self) -> None:
        """All that runs, until the robot holds. Never raises."""
        declared = self._setting.declared
        self.telling.tell(
            ev.RunStarted(
                at_s=0.0, run=self._id, hz=self._setting.hz, first_step=self._episode.next_number,
                model=declared.model, host=self._setting.link.host, space=declared.space,
                dry=self._wanted.callbacks.act is None, substeps=self._wanted.play.substeps,
                parts=self._wanted.callbacks.part_columns(declared.actions),
            )
        )  # fmt: skip
        try:
            async with anyio.create_task_group() as tasks:
                for task in (
                    self._requester.run, self._producer.run, self.telling.write, self._serve_uplink, self._tend_link,
                ):  # fmt: skip
                    tasks.start_soon(self._guarded, task)
                await anyio.lowlevel.checkpoint()
                await self._guarded(self._begin)
                await self._actuator.run()
                tasks.cancel_scope.cancel()
        except BaseException as error:  # a fault of ours: still one error, still with the outcome
            self._failed(error)

    async def _begin(self) -> None:
        """The first observation, taken before, becomes the first step."""
        await self._requester.ready.wait()
        first = self._first
        moment = self._moments.begin(self._episode.next_number, 0, first.begun_at, self._epoch)
        await self._producer.take(first.observation, first.raw, moment)

    async def _serve_uplink(self) -> None:
        """Send what the episode has to send, and when another one is begun, what that one has."""
        horizon = self._setting.declared.horizon
        covers_s = None if horizon is None else horizon / self._setting.hz
        while self.control.cause is None:
            uplink = self._episode.uplink
            try:
                with ungrouped(), anyio.CancelScope() as self._sending:
                    await uplink.serve(self.telling, covers_s)
            except Gone as error:
                self._lost_episode(uplink, error)

    def moved(self, before: str, host: str) -> None:
        """Another worker is asked from now on: it is sent what waiting acts read, or a new episode is begun there."""
        self.telling.tell(ev.WorkerChanged(at_s=self.telling.at_s(), before=before, host=host))
        if self._setting.declared.stateful and self._episode.uplink.begun and self._setting.begins_anew:
            self._begin_anew(before, "its worker is lost, and with it the policy's state")
        else:
            self._episode.uplink.move()

    def _lost_episode(self, uplink: Uplink, error: Gone) -> None:
        """The worker no longer has an episode: the run ends with it, or goes on in a new one."""
        if uplink is not self._episode.uplink:
            return
        if not self._setting.begins_anew or self._episode.restarts >= IN_A_ROW:
            self._failed(explained(error))
        else:
            self._begin_anew(error.host, error.detail)

    def _begin_anew(self, host: str, error: str) -> None:
        """Go on in a new episode, from the next observation on.

        The plan plays on meanwhile: its rows are as good as they were, and without them the arm would stand. The first
        row of the new episode is held against where the arm is by then.
        """
        newest = self._moments.newest
        first = (newest.step if newest is not None else self._episode.next_number) + 1
        self._epoch = self._episode.begin_anew(first)
        self._receiver.renew(self._epoch)
        self._requester.begin_anew()
        self._actuator.first_step_from(first)
        self.telling.tell(
            ev.EpisodeRestarted(
                at_s=self.telling.at_s(), episode=self._episode.id, epoch=self._epoch, host=host,
                error=error, rows_left=self._plan.rows_left,
            )
        )  # fmt: skip
        self._sending.cancel()

    async def _tend_link(self) -> None:
        await self._setting.link.tend(self._serving.hear)

    async def _guarded(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run one task of the group; its failure is a word to stop, not the end of the others."""
        try:
            await task()
        except anyio.get_cancelled_exc_class() as error:
            self._failed(error)  # too early to be the end of the run: somebody else's, e.g. of a loop that closes
            raise
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.control.stop(Cause.raised(leaf(error)))

    def _renew(self) -> int:
        self._moments.renew(anyio.current_time())
        self._epoch = self._episode.next_epoch()
        self._receiver.renew(self._epoch)
        return self._epoch

    def _conclude(self) -> None:
        newest = self._moments.newest
        self._episode.next_number = (newest.step if newest is not None else self._episode.next_number) + 1
        cause = self.control.cause or Cause("completed")
        error = None if cause.error is None else str(cause.error)
        self.telling.tell(ev.RunEnded(at_s=self.telling.at_s(), reason=cause.reason, error=error))
        self._say_ended(error)

    def _say_ended(self, error: str | None) -> None:
        """The one line a run has in the log; its episode's id is in the worker's too."""
        if logger.isEnabledFor(logging.INFO):
            outcome = self.telling.outcome()
            told = {name: getattr(outcome, name) for name in _TOLD}
            logger.info("%s", line("run.ended", None, run=self._id, episode=self._episode.id, **told, error=error))

    def _ended(self) -> RunOutcome:
        outcome, cause, hold_error = self.telling.outcome(), self.control.cause, self._actuator.hold.error
        causes = (cause.error if cause is not None else None, hold_error, self.telling.fault)
        error = next((each for each in causes if each is not None), None)
        if error is None:
            return outcome
        attach(error, outcome, hold_error if hold_error is not error else None)
        raise error
