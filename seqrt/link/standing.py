"""Answers that came late one after another, and what they say of the queue they stood in. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_STALL: Final = 0.4
"""A silence that makes up so much of the time between them."""


@dataclass(frozen=True)
class Stood:
    """An answer.

    Attributes:
        position: Bytes handed over up to the end of what it answers.
        at_s: When it came.
        excess_s: How much later than it should have.
    """

    position: int
    at_s: float
    excess_s: float


def least_s(run: Sequence[Stood]) -> float:
    """How long all but the first stood at the least."""
    return min(stood.excess_s for stood in run[1:])


def growth_s(run: Sequence[Stood]) -> float:
    """By how much longer those of the second half stood, at the least, than those of the first."""
    half = len(run) // 2
    return min(stood.excess_s for stood in run[half:]) - min(stood.excess_s for stood in run[:half])


def measured(run: Sequence[Stood]) -> float:
    """Bytes a second of what was answered.

    A silence that makes up much of it is no sign of a rate: everything stood still, the worker's loop perhaps, and what
    came right after had long been there.
    """
    gaps = [(after.at_s - before.at_s, after.position - before.position) for before, after in pairwise(run)]
    span, size = run[-1].at_s - run[0].at_s, run[-1].position - run[0].position
    longest, beside = max(gaps)
    if len(gaps) > 2 and longest > _STALL * span:
        span, size = span - longest, size - beside
    return size / max(span, 1e-6)
