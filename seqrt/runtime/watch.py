"""Looks at each observation before anything else does: where the arm is, and whether its cameras still see.

Called by the producer. What it learns the actuator asks about (`Watch.first_step`), or ends the run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from seqrt.action.declaration import Actions
from seqrt.action.first_step import FirstStep
from seqrt.errors import ObservationError, StaleObservation
from seqrt.observation.cameras import cameras_of
from seqrt.observation.declaration import Observations
from seqrt.observation.frozen import Frozen, FrozenPictures, rows_in
from seqrt.runtime.options import FROZEN_SAID_S, Limits, Play
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev

logger = logging.getLogger(__name__)


class Watch:
    """One run's watch.

    Attributes:
        first_step: Where the arm was seen last, and how far from there a first row may lie.
    """

    def __init__(
        self,
        limits: Limits,
        first_step: FirstStep,
        observations: Observations | None,
        period_s: float,
        telling: Telling,
    ) -> None:
        said_s = FROZEN_SAID_S if limits.frozen_s is None else min(FROZEN_SAID_S, limits.frozen_s)
        self._pictures = FrozenPictures(cameras_of(observations), rows=rows_in(said_s, period_s))
        self._frozen_rows = None if limits.frozen_s is None else rows_in(limits.frozen_s, period_s)
        self._limits, self._period_s, self._telling = limits, period_s, telling
        self.first_step = first_step

    def look(self, step: int, observation: Any, raw: Any, moved: int) -> int:
        """Look at one observation.

        Args:
            step: Its number.
            observation: As the policy declared it.
            raw: As the robot gave it.
            moved: Rows that have moved the arm so far.

        Returns:
            How many of its pictures are the same again, beside those told in an event of their own.

        Raises:
            ObservationError: The vector that a first row is held against is missing.
            StaleObservation: A picture has stood still for too long.
        """
        self.first_step.see(raw)
        again = 0
        for frozen in self._pictures.see(observation, moved):
            if frozen.first:
                self._say(step, frozen)
            else:
                again += frozen.frames
            if self._frozen_rows is not None and frozen.rows >= self._frozen_rows:
                raise self._too_long(step, frozen)
        return again

    def _say(self, step: int, frozen: Frozen) -> None:
        for_s = frozen.rows * self._period_s
        self._telling.tell(
            ev.ObservationFrozen(
                at_s=self._telling.at_s(), step=step, key=frozen.key, for_s=for_s, frames=frozen.frames
            )
        )
        logger.warning(
            "%r shows the very same picture, and the arm has been moving for %.1f s: does the camera hang?",
            frozen.key, for_s,
        )  # fmt: skip

    def _too_long(self, step: int, frozen: Frozen) -> StaleObservation:
        for_s, limit_s = frozen.rows * self._period_s, self._limits.frozen_s or 0.0
        return StaleObservation(
            f"{frozen.key!r} has shown the very same picture while the arm moved for {for_s:.2f} s, Limits(frozen_s) "
            f"is {limit_s:g} s: look at the camera and its cable",
            age_s=for_s,
            limit_s=limit_s,
            key=frozen.key,
            step=step,
        )


def before_motion(
    play: Play,
    limits: Limits,
    actions: Actions | None,
    observations: Observations | None,
    raw: Any,
    *,
    reordered: bool,
) -> FirstStep:
    """Hold what the user asks for against the run's first observation.

    Args:
        play: How the run plays.
        limits: When it stops.
        actions: The declaration of the rows.
        observations: The declaration of what the policy reads.
        raw: The first observation, as the robot gave it.
        reordered: Whether the robot's columns stand in another order than the policy's.

    Returns:
        What the first row is held against.

    Raises:
        DeclarationError: A limit or a strategy means nothing for these actions.
        ObservationError: A key named in ``first_step`` or ``sensor_delay_s`` is not there, or does not fit.
    """
    if play.underrun is not None:
        play.underrun.check(actions)
    delays = play.sensor_delay_s if isinstance(play.sensor_delay_s, Mapping) else {}
    has = list(raw) if isinstance(raw, Mapping) else []
    for key in delays:
        if key not in has:
            raise ObservationError(
                f"Play(sensor_delay_s) names {key!r}, and the observation has no such key (it has: "
                f"{', '.join(map(repr, has)) or 'none'})",
                key=key,
                found=has,
            )
    streams = (observations.streams if observations is not None else None) or {}
    names = {key: stream.names for key, stream in streams.items()}
    nameless = [key for key in limits.first_step or () if names.get(key) is None]
    if nameless and reordered:
        raise ObservationError(
            f"Limits(first_step) names {nameless[0]!r}, and robot and policy order their columns differently: declare "
            "Stream(names=) for it, so that it is known which order it has",
            key=nameless[0],
        )
    first_step = FirstStep.of(limits.first_step, actions, names, raw)
    if first_step.unheld:
        logger.warning(
            "Limits(first_step): no observed vector of it has an entry named %s: the first row may be anywhere there",
            ", ".join(first_step.unheld),
        )
    return first_step
