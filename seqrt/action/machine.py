"""The states of a run and the only ways from one to another.

One enum, pure transitions, tested by table. The actuator is the one that moves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """Where a run is."""

    IDLE = "idle"
    """Nothing has begun."""
    STARTING = "starting"
    """Waiting for the first row since the start, or since a resume; nothing is sent."""
    PLAYING = "playing"
    """A row was due at the last tick."""
    STARVED = "starved"
    """No row was due at the last tick; the underrun policy speaks."""
    PAUSED = "paused"
    """Hold was called; neither act nor an underrun policy is."""
    STOPPING = "stopping"
    """Told to stop: no act begins any more."""
    HELD = "held"
    """Hold has returned, or none was due."""
    ENDED = "ended"
    """Over."""


class Signal(Enum):
    """What moves a run from one state to another."""

    BEGIN = "begin"
    ROW = "row"
    STARVE = "starve"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    HELD = "held"
    END = "end"


_MOVING: Final = (State.STARTING, State.PLAYING, State.STARVED)

TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.IDLE, Signal.BEGIN): State.STARTING,
    (State.IDLE, Signal.END): State.ENDED,
    (State.STARTING, Signal.STARVE): State.STARTING,
    (State.PLAYING, Signal.STARVE): State.STARVED,
    (State.STARVED, Signal.STARVE): State.STARVED,
    **{(state, Signal.ROW): State.PLAYING for state in _MOVING},
    **{(state, Signal.PAUSE): State.PAUSED for state in (*_MOVING, State.PAUSED)},
    (State.PAUSED, Signal.RESUME): State.STARTING,
    **{(state, Signal.STOP): State.STOPPING for state in (*_MOVING, State.PAUSED, State.STOPPING)},
    (State.STOPPING, Signal.HELD): State.HELD,
    (State.HELD, Signal.STOP): State.HELD,
    (State.HELD, Signal.END): State.ENDED,
}
"""Every legal move. What is not here is a fault of ours and raises."""


def move(state: State, signal: Signal) -> State:
    """The state after ``signal``.

    Raises:
        RuntimeError: There is no such move: the caller would have acted after a stop, or ended without a hold.
    """
    try:
        return TRANSITIONS[state, signal]
    except KeyError:
        raise RuntimeError(f"a run that is {state.value} cannot take {signal.value!r}") from None
