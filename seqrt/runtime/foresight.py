"""Which keys of a step an act expected later will read: what is uploaded as it is taken, ahead of that act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seqrt.action.asking import Spacing, Standing, will_read
from seqrt.observation.declaration import Observations, Stream

NOTHING: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class NextAsk:
    """When the next acts are expected.

    Attributes:
        step: Step of the next one, None where nothing tells.
        spacing: Steps from each to the one after it, None where they follow no spacing.
    """

    step: int | None = None
    spacing: int | None = None


def next_ask(standing: Standing, spaced: Spacing | None, *, by_spacing: bool) -> NextAsk:
    """When the acts after the one just decided against are expected.

    Args:
        standing: Where the run stands.
        spaced: The spacing in force, None before the first answer.
        by_spacing: Whether acts are asked for by spacing; else when the plan runs dry.
    """
    if spaced is None:
        return NextAsk()
    if by_spacing and standing.newest is not None and (spaced.in_flight > 1 or spaced.horizon > spaced.d):
        return NextAsk(standing.newest + spaced.s, spaced.s)
    return NextAsk(standing.tick + standing.rows_left if standing.rows_left else None)


def keys_foreseen(observations: Observations | None, step: int, ask: NextAsk) -> frozenset[Any] | None:
    """The keys of ``step`` that an act after it will read, as far as can be told; None is the whole observation.

    A key fed every step is always read. What is not foreseen goes with the act that reads it.

    Args:
        observations: The declaration, in steps.
        step: A step no act is asked about.
        ask: When acts are expected.
    """
    if observations is None:
        return NOTHING
    if observations.every is not None:
        return None if _is_fed_at(step, observations.every, ask) else NOTHING
    return frozenset(key for key, stream in (observations.streams or {}).items() if _reads(stream, step, ask))


def _reads(stream: Stream, step: int, ask: NextAsk) -> bool:
    if stream.at is None:
        return _is_fed_at(step, stream.every or 1, ask)
    if ask.step is None or ask.spacing is None:
        return False
    offsets = [int(offset) for offset in stream.at]
    return will_read(step, newest=ask.step - ask.spacing, spacing=ask.spacing, offsets=offsets)


def _is_fed_at(step: int, every: float, ask: NextAsk) -> bool:
    return every == 1 or (ask.step is not None and (max(ask.step, step + 1) - step) % every == 0)
