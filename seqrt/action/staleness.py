"""How old what an arm goes by may be, and how far the world is behind what is seen. Numbers in, a decision out.

Called by the receiver (an answer in hand), the actuator (a row due, a starved tick) and the producer (an observation).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from seqrt.action.asking import OBSERVE_PHASE
from seqrt.action.guard import Row
from seqrt.errors import StaleObservation

SAID_AT_S: Final = 2.0
"""Without a limit, a row whose observation is older than this is said, once a run."""
_FRESH_SHARE: Final = 0.75
"""Of ``max_age_s``: what is aimed for where the user names no age to aim for. The rest is for jitter."""
_ROUNDING: Final = 1e-9


class Staleness:
    """One run's limit of age.

    Args:
        max_age_s: The oldest an observation may be when a command that goes by it is sent; None for no limit.
        fresh_s: The age the user aims for; None for none.
    """

    def __init__(self, max_age_s: float | None, fresh_s: float | None = None) -> None:
        self._max_age_s = max_age_s
        self._newer_beyond_s = min(max_age_s or math.inf, fresh_s or math.inf)
        self._said = False

    def allows(self, age_s: float) -> bool:
        """Whether an observation may be so old when a command that goes by it is sent."""
        return self._max_age_s is None or age_s <= self._max_age_s + _ROUNDING

    def suffices(self, age_s: float) -> bool:
        """Whether an observation will do though it will be so old: neither the limit nor the wish asks for a newer."""
        return age_s <= self._newer_beyond_s + _ROUNDING

    def check(self, age_s: float, step: int) -> None:
        """Hold the observation behind a command about to be sent against the limit.

        Args:
            age_s: Its age when the command is sent, from when it was captured.
            step: Its number.

        Raises:
            StaleObservation: It is too old: the command may not be sent.
        """
        if self._max_age_s is not None and not self.allows(age_s):
            raise StaleObservation(
                f"observation {step} would be {age_s:.2f} s old when the arm goes by it, Limits(max_age_s) is "
                f"{self._max_age_s:g} s: nothing newer came from observe(), the link or the policy in time. Ask more "
                "often with Play(fresh_s=…), or allow more",
                age_s=age_s,
                limit_s=self._max_age_s,
                step=step,
            )

    def says(self, age_s: float) -> bool:
        """Whether the age of a row about to be played is to be said: beyond `SAID_AT_S`, the first time."""
        if self._said or age_s <= SAID_AT_S:
            return False
        self._said = True
        return True


def fresh_within(fresh_s: float | None, max_age_s: float | None) -> float | None:
    """The age to aim for: as asked, else well within the limit; None where there is neither."""
    if fresh_s is not None or max_age_s is None:
        return fresh_s
    return _FRESH_SHARE * max_age_s


def rows_behind(delay_s: float, period_s: float) -> int:
    """Rows a moving arm is sent between the moment an observation shows and the moment it is taken.

    An observation is taken a fixed phase behind its tick's row, so the row of that tick is the first to fall inside.

    Args:
        delay_s: Sensor and actuator delay together.
        period_s: Seconds of a tick.
    """
    return max(0, math.ceil(delay_s / period_s - OBSERVE_PHASE - _ROUNDING))


def told_to_move(row: Row, last: Row | None, space: str | None) -> bool:
    """Whether a row tells the arm to move: another target than before, or a delta or velocity that is not 0.

    Args:
        row: The row `[A]`.
        last: The one before it, None where it is not known.
        space: The declared space; an undeclared one is read as targets.
    """
    if space in ("delta", "velocity"):
        return any(row.tolist())
    return last is None or row.tolist() != last.tolist()  # a third of what numpy's comparison takes


class Played:
    """When the count of rows played rose: how many had been sent by a moment that has passed.

    Args:
        keep_s: How long ago that moment can be.
    """

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._rises: deque[tuple[float, int]] = deque()

    def rose(self, at: float, by: int = 1) -> None:
        """The count rose ``by`` rows at ``at``; times only rise."""
        self._rises.append((at, by))
        while self._rises[0][0] < at - self._keep_s:
            self._rises.popleft()

    def forget(self) -> None:
        """What was sent before was called off: the arm was told to hold."""
        self._rises.clear()

    def behind(self, moment: float) -> int:
        """Rows sent after ``moment``."""
        return sum(by for at, by in self._rises if at > moment + _ROUNDING)
