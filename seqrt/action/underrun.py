"""What is sent at a tick at which no row is due: from the commands before it, a command or nothing. Pure.

`Starving` remembers what a strategy needs to know; the actuator tells it each row played and asks it for each command.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from seqrt.action.argument import above_zero
from seqrt.action.declaration import Actions, Space
from seqrt.action.guard import Guard, Row
from seqrt.action.parts import Mixing
from seqrt.errors import DeclarationError


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth
class Starved:
    """One starved tick, as a strategy sees it.

    Attributes:
        last: The row executed last before the plan ran dry `[A]`; None where it is not known.
        before: The row executed right before that one `[A]`, a period earlier; None where it is not known.
        tick: Starved ticks of this underrun, this one included: 1 at the first.
        period_s: Seconds of a tick.
        actions: The declaration of the rows, None for an undeclared policy.
        mixing: How two rows are averaged, None where they may not be.
        guard: The declared limits.
    """

    last: Row | None
    before: Row | None
    tick: int
    period_s: float
    actions: Actions | None = None
    mixing: Mixing | None = None
    guard: Guard = field(default_factory=Guard)


class Underrun(Protocol):
    """Gives the command of a starved tick. One object may serve many runs: it keeps nothing."""

    def row(self, starved: Starved) -> Row | None:
        """The command to send `[A]`, the caller's own; None for nothing. None before the first row, too."""
        ...

    def moves(self, starved: Starved) -> float:
        """How far that command moves the arm on, in rows of its last motion; 0 where it stands.

        The count of rows played rises by it: while the arm stands, nothing of any plan goes by.
        """
        return 0.0

    def check(self, actions: Actions | None) -> None:
        """Refuse, before any motion, actions it cannot be used with.

        Raises:
            DeclarationError: It has no meaning for these actions.
        """
        return None


class RepeatLast(Underrun):
    """Send the last row again: an absolute target held."""

    def row(self, starved: Starved) -> Row | None:
        """A copy of the last row."""
        return None if starved.last is None else starved.last.copy()


class Zeros(Underrun):
    """Send zeros: a velocity or a delta of none."""

    def row(self, starved: Starved) -> Row | None:
        """Zeros of the last row's length."""
        return None if starved.last is None else np.zeros_like(starved.last)


class Nothing(Underrun):
    """Send nothing: what an undeclared space allows."""

    def row(self, starved: Starved) -> Row | None:
        """Always None."""
        return None


@dataclass(frozen=True)
class Decay(Underrun):
    """Slow down evenly to a stand within ``stop_s``, from the last command, then hold position.

    The speed is that of the last two rows (absolute) or of the last row itself (delta, velocity). It falls by the same
    amount a tick, so an arm goes on for half of ``stop_s`` times that speed, and never past a declared bound. In an
    absolute space quaternions turn on; grippers stay as they were told last, in any space.

    As the arm moves meanwhile, this counts as playing: by the share of the last motion, so that a plan which comes
    in time goes on where the arm is.

    Attributes:
        stop_s: Seconds from the last row to the stand, above 0.
    """

    stop_s: float

    def __post_init__(self) -> None:
        """Refuse what is no duration."""
        above_zero("Decay(stop_s)", self.stop_s)

    def check(self, actions: Actions | None) -> None:
        """Refuse spaces in which a speed means nothing."""
        if actions is None or actions.space is None:
            raise DeclarationError(
                "Decay eases a speed to zero, and these actions declare no space",
                field="actions.space",
                fix='Declare Actions(space="absolute" | "delta" | "velocity"), or leave Play(underrun=) out.',
            )
        if actions.space == "absolute" and Mixing.of(actions) is None:
            raise DeclarationError(
                "Decay goes on along the last motion, and nothing says which columns may be averaged",
                field="actions.parts",
                fix="Declare Actions(parts=), or leave Play(underrun=) out.",
            )
        if actions.space != "absolute" and actions.parts is not None and actions.parts.quaternion:
            raise DeclarationError(
                f"Decay cannot shorten a quaternion of a {actions.space} space",
                field="actions.parts",
                fix="Leave Play(underrun=) out: zeros are sent.",
            )

    def row(self, starved: Starved) -> Row | None:
        """The next command on the way to the stand."""
        last, before, actions = starved.last, starved.before, starved.actions
        if last is None or actions is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is the guard's to refuse
            if actions.space != "absolute":
                row: Row = last * self.moves(starved)
                gripper = list(actions.parts.gripper) if actions.parts is not None else []
                row[gripper] = last[gripper]
                return row
            if before is None or starved.mixing is None:
                return RepeatLast().row(starved)
            onward = starved.mixing.mix(before[np.newaxis], last[np.newaxis], 1.0 + self._gone(starved))
            return starved.guard.clipped(onward[0])

    def moves(self, starved: Starved) -> float:
        """The share of the last speed that is left."""
        if starved.last is None:
            return 0.0
        if starved.before is None and (starved.actions is None or starved.actions.space == "absolute"):
            return 0.0  # no speed is known: it stands at once
        return max(0.0, 1.0 - starved.tick / self._ticks(starved))

    def _ticks(self, starved: Starved) -> int:
        return max(1, math.ceil(self.stop_s / starved.period_s - 1e-9))

    def _gone(self, starved: Starved) -> float:
        """Rows of the last motion gone since: the sum of the shares so far."""
        ticks = self._ticks(starved)
        so_far = min(starved.tick, ticks)
        return so_far - so_far * (so_far + 1) / (2 * ticks)


def underrun_for(space: Space | None) -> Underrun:
    """The policy of a space: absolute repeats, velocity and delta send zeros, undeclared sends nothing."""
    if space is None:
        return Nothing()
    return RepeatLast() if space == "absolute" else Zeros()


class Starving:
    """What one run's starved ticks are made of: the strategy, the last two rows, and how long it has been dry.

    Args:
        strategy: Gives the commands.
        actions: The declaration of the rows.
        period_s: Seconds of a tick.
    """

    def __init__(self, strategy: Underrun, actions: Actions | None, period_s: float) -> None:
        self._strategy, self._actions, self._period_s = strategy, actions, period_s
        self._mixing, self._guard = Mixing.of(actions), Guard.of(actions)
        self._last: Row | None = None
        self._before: Row | None = None
        self._tick = 0

    def played(self, row: Row) -> None:
        """A row `[A]` of the plan was played; the first one after an underrun is no speed to go on with."""
        self._before = None if self._tick else self._last
        self._last = row.copy()
        self._tick = 0

    def forget(self) -> None:
        """Somebody else has the arm: no row of before is known."""
        self._last = self._before = None
        self._tick = 0

    def command(self) -> tuple[Row | None, float]:
        """The command of the next starved tick, and how far it moves the arm (see `Underrun.moves`)."""
        self._tick += 1
        starved = Starved(
            self._last, self._before, self._tick, self._period_s, self._actions, self._mixing, self._guard
        )
        return self._strategy.row(starved), self._strategy.moves(starved)
