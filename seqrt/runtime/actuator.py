"""Sends one command a tick at t0 + n · period. Nothing else calls act or hold, and nothing is waited for in a tick.

In: the player. Out: commands to the robot, one event each; with substeps the robot has k ticks a step of the grid. It
is told to stop by `control`, and what it does then is the same whatever the reason: an act in progress gets a moment,
then hold, once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import numpy as np

from seqrt.action.chunk import Chunk, Due
from seqrt.action.first_step import FirstStep
from seqrt.action.guard import Guard, Row
from seqrt.action.machine import Signal, State, move
from seqrt.action.plan import Plan
from seqrt.action.player import Player
from seqrt.action.schedule import TickSchedule
from seqrt.action.staleness import Staleness, told_to_move
from seqrt.action.underrun import Starving
from seqrt.errors import StaleObservation
from seqrt.policies.clock import loop_clock
from seqrt.runtime.acting import Acting
from seqrt.runtime.asked import Trouble
from seqrt.runtime.control import Cause, Control, leaf
from seqrt.runtime.hold import Hold
from seqrt.runtime.moments import Moments
from seqrt.runtime.options import Limits
from seqrt.runtime.robot import Callbacks, called
from seqrt.runtime.stalling import Stalling
from seqrt.runtime.telling import Telling
from seqrt.runtime.waiting import Tick, Waiter, WaitStatistics, waiter
from seqrt.runtime.wanted import Bounds
from seqrt.timeline import events as ev

logger = logging.getLogger(__name__)


class Actuator:
    """One run's motion.

    Attributes:
        state: Where the run is.
        hold: Calls the robot's ``hold``; knows what went wrong with it.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        player: Player,
        guard: Callable[[], Guard],
        schedule: TickSchedule,
        substeps: int,
        callbacks: Callbacks,
        starving: Starving,
        bounds: Bounds,
        limits: Limits,
        space: str | None,
        control: Control,
        telling: Telling,
        trouble: Trouble,
        moments: Moments,
        stalling: Stalling,
        renewed: Callable[[], int],
        staleness: Staleness,
        first_step: FirstStep,
        tick_by: Tick,
    ) -> None:
        self._plan, self._player, self._guard, self._callbacks = plan, player, guard, callbacks
        self._schedule, self._substeps, self._ticks = schedule, substeps, schedule.divided(substeps)
        self._starving, self._bounds, self._limits, self._space = starving, bounds, limits, space
        self._control, self._telling, self._trouble, self._moments = control, telling, trouble, moments
        self._stalling, self._renewed, self._tick_by = stalling, renewed, tick_by
        self._staleness, self._first_step = staleness, first_step
        self._tick = self._ticks.first
        self._behind: Chunk | None = None
        self._waiter: Waiter | None = None
        self._now = loop_clock()
        self._actions = self._under_way = 0
        self._again: Row | None = None
        self._acting = Acting(
            callbacks.act, limits=limits, period_s=self._ticks.period_s, control=control, telling=telling
        )
        self._starved_since: float | None = None
        self._pauses = 0
        self._first_from: int | None = None
        self.state = State.IDLE
        self.hold = Hold(callbacks.hold if callbacks.act is not None else None, telling)

    async def run(self) -> None:
        """Play until told to stop, then hold. Returns; the cause is in `control`."""
        self.state = move(self.state, Signal.BEGIN)
        # Shielded from the run's own task group too: what else fails there is a word to stop, it never cuts a hold.
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._acting.hurry_on_stop)
                    with waiter(self._tick_by) as self._waiter:
                        await self._play(self._waiter)
                    tasks.cancel_scope.cancel()
            except BaseException as error:
                self._control.stop(Cause.raised(leaf(error)))
            self.state = move(self.state, Signal.STOP)
            if self._must_hold():
                await self.hold()
            self.state = move(self.state, Signal.HELD)

    @property
    def rows_wanted(self) -> int | None:
        """Rows still to be played, None for no end: or where a row before the end would be older than is wished for."""
        if self._bounds.max_actions is None:
            return None
        left = self._bounds.max_actions - self._actions - self._under_way
        taken_at = self._behind.taken_at if self._behind is not None else None
        if taken_at is None:
            return left
        oldest_s = self._schedule.period_s * left + anyio.current_time() - taken_at
        return left if self._staleness.suffices(oldest_s) else None

    @property
    def _wants_more(self) -> bool:
        return self._bounds.max_actions is None or self._actions < self._bounds.max_actions

    def played_by(self, step: int) -> tuple[int, float]:
        """Rows played where an observation of ``step``, begun now, belongs (see `Player.played`)."""
        if self._substeps == 1:
            return self._player.played()
        # One tick that is due may be on its way just now; those before it were skipped, and moved nothing.
        end = (step + 1) * self._substeps
        coming = min(end - 1 - self._tick, end - self._ticks.step_at(anyio.current_time()))
        return self._player.played(max(0, coming))

    def first_step_from(self, step: int) -> None:
        """Another episode begins: the first row made of an observation from ``step`` on is held against the arm."""
        self._first_from = step

    def _begins_anew(self, chunk: Chunk) -> bool:
        if self._first_from is None or chunk.observed < self._first_from:
            return False
        self._first_from = None
        return True

    def waiting(self) -> WaitStatistics | None:
        """What waiting for ticks has been like; None before the first."""
        return None if self._waiter is None else self._waiter.statistics()

    async def _play(self, waiter: Waiter) -> None:
        first = (self._schedule.first + 1) * self._substeps
        tick, skipped = self._ticks.after(first - 1, anyio.current_time())[0], 0
        while self._control.cause is None:
            if self._asked_otherwise:
                await self._pause_or_resume()
                # What hold took is no overrun: the grid goes on from where it is now.
                tick, skipped = self._ticks.after(tick - 1, anyio.current_time())[0], 0
                continue
            deadline = self._ticks.deadline(tick)
            if await self._control.wait_until(deadline, waiter):
                continue  # told something: look again
            if self._bounds.max_seconds is not None and self._telling.at_s() >= self._bounds.max_seconds:
                return self._control.stop(Cause("completed"))
            begins = tick // self._substeps > self._tick // self._substeps
            self._tick = tick
            await self._send(tick // self._substeps, begins, waiter.now() - deadline, skipped)
            if not self._wants_more and self._player.finished:
                return self._control.stop(Cause("completed"))
            tick, skipped = self._ticks.after(tick, anyio.current_time())
        return None

    async def _send(self, step: int, begins: bool, late_s: float, skipped: int) -> None:
        """Serve one tick of the robot's; ``begins``: the first of its step."""
        if self.state is State.PAUSED:
            if begins:
                self._tell(step, late_s, "paused", skipped)
            return None
        last = self._plan.last
        command = self._player.next(tick=begins, more=self._wants_more)
        if command is None:
            starve = self._starve if begins or self.state is State.PLAYING else self._starve_on
            return await starve(step, late_s, skipped)
        due, self._under_way = command.due, int(command.begins)  # out of the plan, and not yet counted
        self._guard().check_row(command.row, due.index, last if command.begins else None)
        if self.state is State.STARTING or self._begins_anew(due.chunk):
            self._first_step.check(due.row, due.index)
        age_s = self._age_s(due.chunk)
        row = self._callbacks.to_robot(command.row)
        if self._callbacks.validate is not None and not await called(self._callbacks.validate, row.copy()):
            self._control.stop(Cause("validate"))
        if self._control.cause is not None:  # validate itself may have interrupted
            return None
        if self.state is not State.PLAYING:
            self.state = move(self.state, Signal.ROW)
        self._starved_since, self._behind = None, due.chunk
        if command.begins:
            self._count(due.row, last)
            self._say_if_old(step, age_s)
        sent = row.tolist()
        took_s = await self._acting.send(row)
        if not command.begins:
            self._tell(step, late_s, "between", skipped, sent=sent, act_s=took_s)
            return None
        self._actions, self._under_way = self._actions + 1, 0
        self._tell(step, late_s, "played", skipped, sent=sent, age_s=age_s, due=due, act_s=took_s)
        return None

    async def _starve(self, step: int, late_s: float, skipped: int) -> None:
        self.state = move(self.state, Signal.STARVE)
        if self.state is State.STARTING and not self._actions:
            self._tell(step, late_s, "waiting", skipped)
            return
        if self._starved_since is None:
            self._starved_since = self._schedule.deadline(step)
        starved_s = anyio.current_time() - self._starved_since
        if (cause := self._stalling.cause(starved_s, held=self.state is State.STARTING)) is not None:
            self._control.stop(cause)
        if self.state is State.STARTING:  # since a resume: the arm was told to hold, nothing is sent until a row is due
            self._tell(step, late_s, "waiting", skipped)
            return
        sent, took_s, self._again = None, None, None
        if self._control.cause is None:
            if self._behind is not None:
                self._age_s(self._behind)
            if self._callbacks.on_underrun is not None:
                if await self._acting.bounded(lambda: self._callbacks.underrun(starved_s), "on_underrun"):
                    self._moments.played.rose(self._now(), self._plan.played_otherwise())
            elif (command := self._underrun_command()) is not None:
                row = self._callbacks.to_robot(command)
                self._again = np.zeros_like(row) if self._space == "delta" else row.copy()
                sent = row.tolist()
                took_s = await self._acting.send(row)
        self._tell(step, late_s, "starved", skipped, sent=sent, act_s=took_s)

    async def _starve_on(self, step: int, late_s: float, skipped: int) -> None:
        """A starved step's further ticks: its command again, which counts once; of a delta nothing is left to do."""
        if self.state is not State.STARVED or self._control.cause is not None:
            return
        row = self._again
        took_s = None if row is None else await self._acting.send(row.copy())
        self._tell(step, late_s, "between", skipped, sent=None if row is None else row.tolist(), act_s=took_s)

    def _underrun_command(self) -> Row | None:
        """What is sent at a starved tick, held against the limits as every row is; None for nothing."""
        command, rows = self._starving.command()
        if command is None:
            return None
        self._guard().check_command(command)
        self._moments.played.rose(self._now(), self._plan.played_otherwise(rows, command))
        return command

    def _age_s(self, chunk: Chunk) -> float:
        """Age of the observation behind what is about to be sent; too old a one ends the run before it is sent."""
        age_s = self._now() - chunk.taken_at
        try:
            self._staleness.check(age_s, chunk.observed)
        except StaleObservation as error:
            raise error from (self._trouble.link or self._trouble.refused)
        return age_s

    def _count(self, row: Row, last: Row | None) -> None:
        """A row is about to be sent: what others have to know of it."""
        self._starving.played(row)
        self._moments.played.rose(self._now())
        if self._callbacks.act is not None:  # in a dry run the arm stands, and so does what its cameras see
            self._moments.moved += told_to_move(row, last, self._space)

    def _say_if_old(self, step: int, age_s: float) -> None:
        if self._limits.max_age_s is None and self._staleness.says(age_s):
            self._telling.tell(ev.ObservationOld(at_s=self._telling.at_s(), step=step, age_s=age_s))
            logger.warning(
                "the arm goes by an observation that is %.1f s old; Limits(max_age_s=…) would end the run", age_s
            )

    @property
    def _asked_otherwise(self) -> bool:
        """Whether a pause or a resume was asked for that has not been made yet."""
        return self._control.paused != (self.state is State.PAUSED) or self._control.pauses != self._pauses

    async def _pause_or_resume(self) -> None:
        if self._control.pauses == self._pauses and not self._control.paused:
            self.state = move(self.state, Signal.RESUME)
            self._telling.tell(ev.PauseEnded(at_s=self._telling.at_s(), epoch=self._renewed()))
            return
        self._pauses = self._control.pauses
        self.state = move(self.state, Signal.PAUSE)
        self._starved_since = self._behind = None
        self._starving.forget()
        self._renewed()
        forgotten = self._player.clear()
        self._telling.tell(ev.PauseBegan(at_s=self._telling.at_s(), rows_forgotten=forgotten))
        await self.hold()
        if self.hold.error is not None:
            self._control.stop(Cause.raised(self.hold.error))

    def _must_hold(self) -> bool:
        """Hold on every end that is not a clean completion, and on a clean one where the arm would go on moving."""
        clean = self._control.cause is not None and self._control.cause.reason == "completed"
        return not clean or self._space in ("velocity", None)

    def _tell(
        self,
        step: int,
        late_s: float,
        kind: str,
        skipped: int,
        *,
        sent: list[float] | None = None,
        age_s: float | None = None,
        due: Due | None = None,
        act_s: float | None = None,
    ) -> None:
        self._telling.tell(
            ev.Ticked(
                at_s=self._telling.at_s(),
                step=step,
                late_s=late_s,
                kind=kind,
                rows_left=self._plan.rows_left,
                age_s=age_s,
                seam_jump=None if due is None else due.jump,
                seam_innovation=None if due is None else due.innovation,
                skipped=skipped,
                act_s=act_s,
                row=sent,
            )
        )
