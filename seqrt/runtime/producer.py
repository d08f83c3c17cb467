"""Takes an observation a step, a fixed phase behind the tick's action, and numbers it by that step.

In: the robot's ``observe``. Out: observations kept in the uplink, their moments, and a word to the requester for
each. Calls never overlap: while one lasts, the steps it covers are missed, counted and never made up for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from seqrt.action.asking import OBSERVE_PHASE
from seqrt.action.schedule import TickSchedule
from seqrt.errors import CallbackTooSlow, ObservationError
from seqrt.observation.check import check, unread
from seqrt.runtime.control import Cause, Control, ungrouped
from seqrt.runtime.declared import Declared
from seqrt.runtime.episode import Episode
from seqrt.runtime.moments import Moment, Moments
from seqrt.runtime.options import SYNC_SHARE, Limits
from seqrt.runtime.robot import Callbacks, Observation, called
from seqrt.runtime.telling import Telling
from seqrt.runtime.watch import Watch
from seqrt.timeline import events as ev

logger = logging.getLogger(__name__)

_TRIES = 3
"""How often a slow synchronous first observation is tried before it is refused."""


@dataclass(frozen=True)
class First:
    """The observation a run begins with.

    Attributes:
        observation: As the policy declared it.
        begun_at: When it was begun, on the loop's clock.
        raw: As the robot gave it.
    """

    observation: Observation
    begun_at: float
    raw: Any


async def first_observation(
    callbacks: Callbacks, declared: Declared, period_s: float, control: Control
) -> First | None:
    """Take and check the observation a run begins with, and time it, before any motion.

    Returns:
        The observation; None when ``control`` was told to stop before there was one.

    Raises:
        ObservationError: It is not what the policy declares, or there is none.
        CallbackTooSlow: A synchronous ``observe`` holds the event loop for more than a quarter of the period.
    """
    first: First | None = None
    with ungrouped():
        async with anyio.create_task_group() as tasks:

            async def give_up() -> None:
                await control.stopped()
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up)
            first = await _timed(callbacks, declared, period_s)
            tasks.cancel_scope.cancel()
    return first


async def _timed(callbacks: Callbacks, declared: Declared, period_s: float) -> First:
    allowed_s, fastest_s = SYNC_SHARE * period_s, float("inf")
    for _ in range(_TRIES):
        begun = anyio.current_time()
        pending = callbacks.observe()
        inline_s = anyio.current_time() - begun
        observation = await called(lambda p=pending: p)
        fastest_s = min(fastest_s, inline_s)
        if fastest_s <= allowed_s:
            took_s = anyio.current_time() - begun
            if took_s > period_s:
                logger.warning(
                    "observe() took %.0f ms: there will be an observation every %d periods of %.0f ms at the most",
                    took_s * 1e3, -(-took_s // period_s), period_s * 1e3,
                )  # fmt: skip
            checked = _checked(observation, declared)
            _say_what_may_surprise(observation, declared, period_s)
            return First(checked, begun, observation)
    raise CallbackTooSlow(
        f"observe() holds the event loop for {fastest_s * 1e3:.1f} ms; of a {period_s * 1e3:.0f} ms period it may take "
        f"{allowed_s * 1e3:.1f} ms. Make it async, or wrap a blocking driver: run(seqrt.robots.threaded(robot), …)",
        callback="observe",
        took_s=fastest_s,
        allowed_s=allowed_s,
    )


def _say_what_may_surprise(observation: Any, declared: Declared, period_s: float) -> None:
    """What fits, and may still not be what was meant: keys nobody reads, an inference longer than its chunk."""
    extra = unread(observation, declared.observations)
    if extra:
        logger.warning(
            "the policy reads none of these keys of the observation, they are not sent: %s", ", ".join(extra)
        )
    covers_s = None if declared.horizon is None else declared.horizon * period_s
    if covers_s is not None and declared.infer_s is not None and declared.infer_s > covers_s:
        logger.warning(
            "an inference takes %.2f s and its chunk covers %.2f s (%d rows): see Play(late=…)",
            declared.infer_s, covers_s, declared.horizon,
        )  # fmt: skip


def _checked(observation: Any, declared: Declared) -> Observation:
    if observation is None:
        raise ObservationError("observe() gave None where the run's first observation was due", found=None)
    checked: Observation = check(observation, declared.observations)
    return checked


class Producer:
    """One run's observing.

    Args:
        on_moment: Told of each observation, in order, at once: the requester's decision. Where a step has none, it is
            told the newest one again, and the step.
        played: The rows played where an observation of a step belongs, see `Player.played`.
    """

    def __init__(
        self,
        *,
        callbacks: Callbacks,
        declared: Declared,
        episode: Episode,
        played: Callable[[int], tuple[int, float]],
        moments: Moments,
        schedule: TickSchedule,
        limits: Limits,
        control: Control,
        telling: Telling,
        watch: Watch,
        epoch: Callable[[], int],
        on_moment: Callable[[Moment, int], None],
    ) -> None:
        self._callbacks, self._declared, self._episode, self._played = callbacks, declared, episode, played
        self._moments, self._schedule, self._limits = moments, schedule, limits
        self._control, self._telling, self._watch = control, telling, watch
        self._epoch, self._on_moment = epoch, on_moment
        self._errors_in_a_row = 0
        self._begun = anyio.Event()

    async def take(self, observation: Observation, raw: Any, moment: Moment) -> None:
        """Take in one checked observation; ``raw`` is what the robot gave."""
        took_s = anyio.current_time() - moment.begun_at
        frozen = self._watch.look(moment.step, observation, raw, self._moments.moved)
        self._telling.tell(
            ev.Observed(at_s=self._telling.since(moment.begun_at), step=moment.step, took_s=took_s, frozen=frozen)
        )
        self._moments.add(moment)
        self._episode.uplink.keep(moment.step, observation)
        if self._callbacks.until is not None and await called(self._callbacks.until, observation):
            self._control.stop(Cause("completed"))
            return
        self._begun.set()
        if moment.epoch == self._epoch():  # else of before a resume: its answer may not be played
            self._on_moment(moment, moment.step)

    async def run(self) -> None:
        """Observe until cancelled, once the first observation has been taken in."""
        await self._begun.wait()
        step, phase_s = self._schedule.first, OBSERVE_PHASE * self._schedule.period_s
        while True:
            step, missed = self._schedule.after(step, anyio.current_time())
            if missed:
                self._miss(step - 1, missed)
            await anyio.sleep_until(self._schedule.deadline(step) + phase_s)
            await self._observe(step)

    async def _observe(self, step: int) -> None:
        position, short = self._played(step)
        moment = self._moments.begin(step, position, anyio.current_time(), self._epoch(), short)
        try:
            observation = await called(self._callbacks.observe)
        except Exception as error:
            self._errors_in_a_row += 1
            if self._errors_in_a_row > self._limits.observe_errors:
                raise
            self._telling.tell(ev.CallbackRaised(at_s=self._telling.at_s(), callback="observe", error=repr(error)))
            self._without(step)
            return
        self._errors_in_a_row = 0
        if observation is None:
            self._without(step)
            return
        await self.take(_checked(observation, self._declared), observation, moment)

    def _without(self, step: int) -> None:
        """A step that will have no observation: what is due then is asked about the newest there is."""
        self._miss(step, 1)
        newest = self._moments.newest
        if newest is not None and newest.epoch == self._epoch():
            self._on_moment(newest, step)

    def _miss(self, step: int, steps: int) -> None:
        self._telling.tell(ev.ObservationMissed(at_s=self._telling.at_s(), step=step, steps=steps))
