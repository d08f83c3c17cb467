"""The handle a user holds: one policy, somewhere, and the calls that make a robot follow it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio

from seqrt.action.guard import Row
from seqrt.action.lagging import Stretch
from seqrt.action.player import check_playable
from seqrt.errors import AlreadyDriven, Gone
from seqrt.link.border import NO_LINK, Link, LinkStatistics
from seqrt.observation.cameras import cameras_of, encode_cameras
from seqrt.policies.offload import Offload
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.control import Cause, Control
from seqrt.runtime.declared import Declared
from seqrt.runtime.episode import Episode
from seqrt.runtime.options import Limits, Play
from seqrt.runtime.producer import first_observation
from seqrt.runtime.robot import gather
from seqrt.runtime.run import Run, Setting
from seqrt.runtime.stepping import Params, Stepping
from seqrt.runtime.telling import Record
from seqrt.runtime.waiting import WaitStatistics
from seqrt.runtime.wanted import Wanted, bounds_of, options_of
from seqrt.runtime.watch import before_motion
from seqrt.timeline.outcome import RunOutcome
from seqrt.wire.messages import PolicyInfo

OnLost: TypeAlias = Literal["stop", "restart"]
"""What becomes of a run whose worker no longer has its episode."""


@dataclass(frozen=True)
class Statistics:
    """What a handle is doing right now.

    Attributes:
        state: "idle" outside a run, "observing" before its first observation; then the run's own ("starting",
            "playing", "starved", "paused" …).
        rows_left: Rows that can be played before the plan is dry.
        epoch: The episode's count of runs, pauses and resumes; 0 outside an episode.
        outcome: The outcome so far of the run going on, or of the last one; None before the first.
        tick: What waiting for that run's ticks has been like; None before its first.
        link: What the way to the worker is doing, and what is spoken on it.
        host: host:port of the worker in use, "" for a policy in this process.
    """

    state: str
    rows_left: int
    epoch: int
    outcome: RunOutcome | None
    tick: WaitStatistics | None = None
    link: LinkStatistics = NO_LINK
    host: str = ""


class Policy:
    """A policy to drive a robot with. Made by `seqrt.connect`, one a control loop.

    Attributes:
        last_outcome: Outcome of the last run, however it ended; None before the first.
        control: The switch of the run going on, for faces over this one; None outside a run.
    """

    def __init__(
        self,
        link: Link,
        info: PolicyInfo,
        *,
        control_hz: float | None,
        timeout_s: float,
        offload: Offload,
        embodiment: str | None = None,
        on_lost: OnLost = "stop",
    ) -> None:
        if control_hz is not None and not (math.isfinite(control_hz) and 0 < control_hz <= 1000):
            raise ValueError(f"control_hz must be in (0, 1000], not {control_hz}")
        self._link = link
        self._info = info
        self._declared = Declared.of(info, host=link.host, embodiment=embodiment).on_grid(control_hz)
        self._control_hz, self._timeout_s, self._offload = control_hz, timeout_s, offload
        self._begins_anew = on_lost == "restart"
        self._episode: Episode | None = None
        self._stepping: Stepping | None = None
        self._run: Run | None = None
        self._busy = False
        self.control: Control | None = None
        self._last_waiting: WaitStatistics | None = None
        self.last_outcome: RunOutcome | None = None
        link.on_move(self._moved)

    @property
    def info(self) -> PolicyInfo:
        """What the policy declares and the worker grants, as `/policy` said when the handle connected."""
        return self._info

    async def run(
        self,
        robot: Any = None,
        *,
        observe: Callable[[], Any] | None = None,
        act: Callable[[Row], Any] | None = None,
        hold: Callable[[], Any] | None = None,
        validate: Callable[[Row], Any] | None = None,
        on_underrun: Callable[..., Any] | None = None,
        on_chunk: Callable[[ActionChunk], Any] | None = None,
        max_actions: int | None = None,
        max_seconds: float | None = None,
        until: Callable[[Any], Any] | None = None,
        play: Play | None = None,
        limits: Limits | None = None,
        record: Record = None,
        params: dict[str, Any] | None = None,
    ) -> RunOutcome:
        """Drive the robot until the bound that comes first, and say what was done.

        The first observation is checked against what the policy declares before anything moves. From then on one
        row a period reaches ``act``; when something fails, ``hold`` is called once and the failure is raised.

        Args:
            robot: An object with ``observe``, ``act``, ``hold`` and perhaps ``names``; or give the callbacks below.
            observe: Returns one observation (a dict of arrays, numbers, text), or None for nothing new. Sync ones
                run on the event loop and must be quick; wrap blocking drivers in `seqrt.robots.threaded`.
            act: Is handed one row, float64 `[A]`, its own to change. None: a dry run.
            hold: Makes the robot stand still safely; must bear being called twice.
            validate: Looks at each row before it is sent (each command, with substeps); a falsy answer ends the run.
            on_underrun: Called at each tick without a row, with the seconds starved if it needs an argument, in
                place of the underrun policy; returns True when it moved the arm.
            on_chunk: Handed each `ActionChunk` that is played.
            max_actions: End, cleanly, after so many rows.
            max_seconds: End, cleanly, after so many seconds.
            until: Handed each observation; a true answer ends the run cleanly.
            play: How chunks are asked for and played.
            limits: When to stop by itself.
            record: A path to write the run's events to, or a callable that is handed each.
            params: Values for the policy's declared parameters.

        Returns:
            The outcome; ``reason`` says how it ended.

        Raises:
            ValueError: No bound given, or one that means nothing; no rate known; ``play`` and ``limits`` ask for what
                cannot be had together, or not of this policy.
            ObservationError: The first observation is not what the policy declares, or not what ``play`` and ``limits``
                name.
            DeclarationError: ``play`` or ``limits`` ask for what the declared actions cannot have.
            AlreadyDriven: Another task drives this handle.
            SeqrtError: What ended the run, with its ``outcome``; a callback's own exception comes through as itself.
        """
        bounds = bounds_of(max_actions, max_seconds, until)
        callbacks = gather(
            robot,
            observe=observe,
            act=act,
            hold=hold,
            validate=validate,
            on_underrun=on_underrun,
            on_chunk=on_chunk,
            until=until,
            actions=self._declared.actions,
        )
        play, limits = options_of(play, limits, self._declared)
        wanted = Wanted(callbacks, bounds, play, limits, record, params)
        hz = self._declared.rate_hz(self._control_hz)
        stretch = isinstance(play.late, Stretch)
        check_playable(self._declared.actions, hz=hz, substeps=play.substeps, stretch=stretch)
        setting = Setting(self._link, self._declared, hz, self._timeout_s, self._offload, self._begins_anew)
        with self._driving():
            await self._make_room()
            return await self._driven(setting, wanted)

    async def _driven(self, setting: Setting, wanted: Wanted) -> RunOutcome:
        """Take the first observation, then run; `interrupt` and `pause` are heard from the beginning."""
        self.control = control = Control()
        began_at = anyio.current_time()
        try:
            first = await first_observation(wanted.callbacks, self._declared, 1 / setting.hz, control)
            if first is None:
                self.last_outcome = RunOutcome(0, 0, anyio.current_time() - began_at, "interrupted")
                return self.last_outcome
            declared = self._declared
            near = before_motion(
                wanted.play, wanted.limits, declared.actions, declared.observations, first.raw,
                reordered=wanted.callbacks.order is not None,
            )  # fmt: skip
            if cameras_of(declared.observations):
                # Encoded once for nothing: what is wrong with its pictures is said before anything moves.
                await self._offload(partial(encode_cameras, first.observation, declared.observations))
            episode = self._episode or self._new_episode(of_one_run=True)
            self._run = Run(setting, wanted, episode, control, first, near)
            return await self._run.drive()
        finally:
            if self._run is not None:
                self.last_outcome, self._last_waiting = self._run.telling.outcome(), self._run.waiting()
            self.control = self._run = None

    async def predict(self, observation: Any, *, seed: int | None = None, params: Params = None) -> ActionChunk:
        """Send one observation and get the whole chunk for it; it replaces the rows left for `next_action`."""
        with self._step_by_step() as stepping:
            return await stepping.predict(observation, seed=seed, params=params)

    async def next_action(self, observation: Any = None, *, seed: int | None = None, params: Params = None) -> Row:
        """The next row, float64 `[A]`; asks about ``observation`` when no row is left.

        Raises:
            ChunkExhausted: No row is left and no observation was given.
            ActionError: The answer holds no rows that can be played.
        """
        with self._step_by_step() as stepping:
            return await stepping.next_action(observation, seed=seed, params=params)

    async def observe(self, observation: Any) -> int:
        """Send one observation ahead of `next_chunk`; returns its number."""
        with self._step_by_step() as stepping:
            return await stepping.observe(observation)

    async def next_chunk(self, *, seed: int | None = None, params: Params = None) -> ActionChunk:
        """The chunk for the newest observation sent by `observe`."""
        with self._step_by_step() as stepping:
            return await stepping.next_chunk(seed=seed, params=params)

    def pause(self) -> None:
        """Hold, drop the plan, and leave the robot to the caller; observing goes on. From any thread or handler."""
        if self.control is not None:
            self.control.pause_soon(True)

    def resume(self) -> None:
        """Go on from new observations after `pause`. From any thread or signal handler."""
        if self.control is not None:
            self.control.pause_soon(False)

    def interrupt(self) -> None:
        """End the run with hold; `run` returns with reason "interrupted". From any thread or signal handler."""
        if self.control is not None:
            self.control.stop_soon(Cause("interrupted"))

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[str]:
        """One episode for all that is called inside: numbers and the policy's state go on, the plan never does.

        Yields:
            The episode's id; a run that begins it anew (``on_lost="restart"``) goes on under another one.
        """
        if self._episode is not None:
            raise AlreadyDriven("an episode is under way on this handle; leave it before the next one")
        await self._end_stepping()
        self._episode = self._new_episode()
        try:
            yield self._episode.id
        finally:
            episode, self._episode, self._stepping = self._episode, None, None
            await episode.end()

    def statistics(self) -> Statistics:
        """A snapshot of what the handle is doing."""
        run, episode, link, host = self._run, self._episode, self._link.statistics(), self._link.host
        epoch = episode.epoch if episode is not None else 0
        if run is not None:
            return Statistics(run.state, run.rows_left, run.epoch, run.telling.outcome(), run.waiting(), link, host)
        if self.control is not None:
            return Statistics("observing", 0, epoch, self.last_outcome, link=link, host=host)
        rows = self._stepping.rows_left if self._stepping is not None else 0
        return Statistics("idle", rows, epoch, self.last_outcome, self._last_waiting, link, host)

    async def aclose(self) -> None:
        """End what is open at the worker and let go of the connection."""
        await self._end_stepping()
        await self._link.aclose()

    def _new_episode(self, *, of_one_run: bool = False) -> Episode:
        return Episode(self._link, self._declared.observations, self._offload, of_one_run=of_one_run)

    def _moved(self, before: str, host: str) -> None:
        if self._run is not None:
            self._run.moved(before, host)
        elif self._stepping is not None:
            self._stepping.moved()

    @contextmanager
    def _step_by_step(self) -> Iterator[Stepping]:
        with self._driving():
            if self._stepping is None:
                episode = self._episode or self._new_episode()
                self._stepping = Stepping(self._link, self._declared, episode, begins_anew=self._begins_anew)
            try:
                yield self._stepping
            except Gone:
                if self._episode is None:  # nobody was promised that this episode goes on: the next call begins anew
                    self._stepping = None
                raise

    async def _make_room(self) -> None:
        """Before a run: what was asked for call by call is over. A worker of a policy with state serves one episode."""
        if self._episode is None:
            await self._end_stepping()
        elif self._stepping is not None:
            self._stepping.clear()

    async def _end_stepping(self) -> None:
        stepping, self._stepping = self._stepping, None
        if stepping is not None and self._episode is None:
            await stepping.end()

    @contextmanager
    def _driving(self) -> Iterator[None]:
        if self._busy:
            raise AlreadyDriven("this handle is already being driven: connect() once per control loop")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
