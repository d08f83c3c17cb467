"""What a user wants of one run, checked before anything is sent: callbacks, bounds, how to play, when to stop."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

from seqrt.action.splice import Aligned, Nearest
from seqrt.runtime.declared import Declared
from seqrt.runtime.options import Limits, Play
from seqrt.runtime.robot import Callbacks
from seqrt.runtime.telling import Record

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bounds:
    """When a run ends well.

    Attributes:
        max_actions: Rows to play, None for no end.
        max_seconds: Seconds from the first observation, None for no end.
    """

    max_actions: int | None
    max_seconds: float | None


@dataclass(frozen=True)
class Wanted:
    """What a user wants of one run, checked."""

    callbacks: Callbacks
    bounds: Bounds
    play: Play
    limits: Limits
    record: Record
    params: dict[str, Any] | None


def bounds_of(max_actions: int | None, max_seconds: float | None, until: object) -> Bounds:
    """When the run ends well.

    Raises:
        ValueError: No bound is given, or one that means nothing.
    """
    if max_actions is None and max_seconds is None and until is None:
        raise ValueError("run() needs an end: max_actions=, max_seconds= or until=")
    if max_actions is not None and (
        isinstance(max_actions, bool) or max_actions < 1 or max_actions != int(max_actions)
    ):
        raise ValueError(f"max_actions must be a whole number above 0, not {max_actions!r}")
    if max_seconds is not None and not (math.isfinite(max_seconds) and max_seconds > 0):
        raise ValueError(f"max_seconds must be a finite number above 0, not {max_seconds!r}")
    return Bounds(max_actions, max_seconds)


def options_of(play: Play | None, limits: Limits | None, declared: Declared) -> tuple[Play, Limits]:
    """How to play and when to stop, the defaults where nothing is said; what has no effect is logged.

    Raises:
        TypeError: They are something else.
        ValueError: They ask for what cannot be had together, or not of this policy.
    """
    play, limits = Play() if play is None else play, Limits() if limits is None else limits
    if not isinstance(play, Play):
        raise TypeError(f"play= takes seqrt.Play(…), not {play!r}")
    if not isinstance(limits, Limits):
        raise TypeError(f"limits= takes seqrt.Limits(…), not {limits!r}")
    limits.check(play)
    return _play(play, declared), limits


def _play(play: Play, declared: Declared) -> Play:
    space = declared.space or "undeclared"
    if isinstance(play.splice, Nearest) and space != "absolute":
        raise ValueError(
            f"splice=Nearest() is for a space declared absolute, this one is {space}: a delta row played again moves "
            "the arm twice, and velocities have no place; use Aligned()"
        )
    if play.seam is not None and not (declared.actions is not None and declared.actions.mixes):
        rows = "rows declared mixable=False" if space == "absolute" else f"rows of a space that is {space}"
        logger.warning("seam=%r has no effect: %s are not mixed", play.seam, rows)
    if play.continuity != "server":
        return play
    if not declared.takes_prefix:
        raise ValueError("continuity='server' needs a policy whose infer takes prefix=; this one does not")
    if not (play.prefetch and isinstance(play.splice, Aligned)):
        raise ValueError("continuity='server' needs prefetch=True and splice=Aligned()")
    return play
