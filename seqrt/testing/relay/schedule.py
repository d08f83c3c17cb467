"""What is done to a relay when: a list of times and actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Action = Callable[[T], object]


def in_turn(spans: Iterable[tuple[float, float]], begin: Action[T], end: Action[T]) -> list[tuple[float, Action[T]]]:
    """A schedule with two steps for each ``(at_s, for_s)``."""
    return [step for at_s, for_s in spans for step in ((at_s, begin), (at_s + for_s, end))]


def checked_schedule(steps: Sequence[tuple[float, Action[T]]]) -> list[tuple[float, Action[T]]]:
    """``steps`` in order of time; those of one time in the order given.

    Raises:
        ValueError: A time that is negative or not finite.
    """
    for at_s, _ in steps:
        if not (math.isfinite(at_s) and at_s >= 0):
            raise ValueError(f"something scheduled at {at_s!r} s: finite and not negative, counted from entering")
    return sorted(steps, key=lambda step: step[0])
