"""What is sent at a tick: the plan's next row, or a command on the way to it.

Between the plan, which counts whole rows, and the actuator, which asks for one command a tick of the robot's. Without
substeps and without Stretch each command is a row. Else a row lasts several commands: it begins with the first of
them, when it is taken from the plan and counts as played, and with the last of them it is reached exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from seqrt.action.chunk import Due
from seqrt.action.declaration import Actions, Parts
from seqrt.action.guard import Row
from seqrt.action.parts import Mixing
from seqrt.action.plan import Plan
from seqrt.action.rows import Rows
from seqrt.errors import DeclarationError

MOST_SUBSTEPS: Final = 100
MOST_HZ: Final = 1000.0
"""Ticks a second above which no robot is driven: the same end as that of ``Actions.hz``."""
_ROUNDING: Final = 1e-9
"""Rows. What k shares of 1/k may come to beside 1."""


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth
class Command:
    """What is sent at one tick of the robot's.

    Attributes:
        row: float64 `[A]`, the caller's own.
        due: The row of the plan it is or leads to.
        begins: True at the first command of that row: it counts as played from here on.
    """

    row: Row
    due: Due
    begins: bool


class Player:
    """One run's commands, made from its plan.

    The command of substep j of row i lies the share (j + 1) / k of the way from the row executed last to row i: in an
    absolute space mixed (`Mixing`), in a velocity space row i itself, in a delta space its k-th part. Under Stretch a
    command goes on by the rate and may lead past a row into the next one. A row in hand is always finished: a chunk
    that arrives meanwhile takes over at the row behind it, so no step at a seam is larger than was asked for. Where
    the row before is not known (at the first of a run, after a pause) the row itself is sent at once.

    Args:
        plan: Where rows come from.
        actions: What they are.
        substeps: k, commands a period of the grid.
        rate: Rows to play a period, in (0, 1], asked for at each command; None: always 1. Only rows that may be mixed
            are played slower.
        aligned: Whether chunks are laid where their observation was taken, so that a part of a row matters.
    """

    def __init__(
        self,
        plan: Plan,
        actions: Actions | None = None,
        *,
        substeps: int = 1,
        rate: Callable[[], float] | None = None,
        aligned: bool = True,
    ) -> None:
        self._plan, self._substeps, self._aligned = plan, substeps, aligned
        self._mixing = Mixing.of(actions)
        self._rate = rate if self._mixing is not None else None
        self._splits = actions is not None and actions.space == "delta"
        self._whole_columns = list(actions.parts.gripper) if actions is not None and actions.parts is not None else []
        self._by_rows = substeps == 1 and self._rate is None
        self._due: Due | None = None
        self._before: Row | None = None
        # Rows from where the robot is to the plan's position: now, when the row in hand began, when it is reached.
        self._short, self._begin, self._end = 0.0, 0.0, 0.0
        self._idle = True

    @property
    def finished(self) -> bool:
        """Whether no row is on its way: the last one begun has been reached."""
        return self._short == self._end

    def next(self, *, tick: bool = True, more: bool = True) -> Command | None:
        """The command due now; None where there is none.

        Args:
            tick: Whether a period of the grid begins: where nothing is on its way, a row waits for that.
            more: Whether rows are wanted behind the one on its way.
        """
        if self._by_rows:
            due = self._plan.pop()
            return None if due is None else Command(due.row, due, begins=True)
        rate = self._present_rate()
        advance = rate / self._substeps
        if self._due is None or self.finished:
            begun = self._begun(advance) if tick or not self._idle else None
            self._idle = begun is None
            return begun
        beyond = self._end - (self._short - advance)
        # At the full rate a command ends at the row, so that after a stretch rows are played whole again.
        if beyond > _ROUNDING and rate < 1.0 and more and (command := self._begun(beyond)) is not None:
            return command
        self._go_on(advance)
        return Command(self._on_the_way(self._due), self._due, begins=False)

    def played(self, commands: int = 0) -> tuple[int, float]:
        """Where an observation belongs: rows played, rows begun and not finished counted by their part.

        Args:
            commands: How many are still to be sent before the period of the observation ends.

        Returns:
            The count as a whole number, and how far short of it the robot will be, in [0, 1): what `realigned` moves
            a chunk by. Rows that may not be mixed cannot be moved: the nearest whole number then, and 0.
        """
        position = self._plan.position
        if self._by_rows:
            return position, 0.0
        ahead = 0.0 if self._idle else self._present_rate() * commands / self._substeps
        at = min(position - self._short + ahead, float(self._plan.end))
        if self._mixing is None or not self._aligned:
            return math.floor(at + 0.5), 0.0
        whole = math.ceil(at - _ROUNDING)
        return whole, max(0.0, whole - at) if whole - at > _ROUNDING else 0.0

    def realigned(self, rows: Rows, short: float) -> Rows:
        """A chunk's rows where those of the plan lie, if its observation was taken ``short`` of one of them.

        Row i of the chunk was meant for i + 1 rows after its observation. Laid at whole numbers as it is, each chunk
        would throw the arm back by ``short``. The last row stays what it is, and is reached ``short`` of a whole one:
        `Chunk.short` tells it.
        """
        if not short or self._mixing is None:
            return rows
        moved = self._mixing.mix(rows, np.concatenate((rows[1:], rows[-1:])), short)
        moved.setflags(write=False)
        return moved

    def clear(self) -> int:
        """Forget the row on its way and the plan (pause). Returns the rows forgotten."""
        self._due, self._idle = None, True
        self._short = self._begin = self._end = 0.0
        return self._plan.clear()

    def _present_rate(self) -> float:
        return 1.0 if self._rate is None else min(1.0, self._rate())

    def _begun(self, advance: float) -> Command | None:
        """The first command of the next row, ``advance`` behind the row before it; None when the plan is dry."""
        before = self._plan.last
        due = self._plan.pop()
        if due is None:
            return None
        self._begin = 1.0 + (self._end if before is not None else 0.0)
        last = due.index == len(due.chunk.rows) - 1
        self._due, self._before, self._short, self._end = due, before, self._begin, due.chunk.short if last else 0.0
        self._go_on(advance)
        return Command(self._on_the_way(due), due, begins=True)

    def _go_on(self, advance: float) -> None:
        self._short -= advance
        if self._short < self._end + _ROUNDING:
            self._short = self._end

    def _on_the_way(self, due: Due) -> Row:
        row = due.row
        if self._splits:
            part: Row = row / self._substeps
            part[self._whole_columns] = row[self._whole_columns]
            return part
        before = self._before
        if self.finished or self._mixing is None or before is None or before.shape != row.shape:
            return np.array(row)
        return self._mixing.between(before, row, (self._begin - self._short) / (self._begin - self._end))


def check_playable(actions: Actions | None, *, hz: float, substeps: int = 1, stretch: bool = False) -> None:
    """Refuse, before any motion, what these rows cannot be played with.

    Args:
        actions: The declaration.
        hz: The grid's rate.
        substeps: k of ``Play(substeps=k)``.
        stretch: Whether rows are to be played slower than the grid.

    Raises:
        DeclarationError: The rows may not be mixed as this needs it.
        ValueError: The robot would be driven faster than `MOST_HZ`.
    """
    if substeps == 1 and not stretch:
        return
    if hz * substeps > MOST_HZ * (1 + _ROUNDING):
        driven = f"{substeps} substeps of {hz:g} Hz are {hz * substeps:g} Hz"
        raise ValueError(f"{driven}; no robot is driven faster than at {MOST_HZ:g}")
    asks = "Play(late=Stretch())" if stretch else f"Play(substeps={substeps})"
    leave = f"or leave {asks} out"
    if actions is None or actions.space is None:
        raise _refused(
            asks, "the policy declares no space for its rows", "actions.space",
            f'Declare Actions(space="absolute", "delta" or "velocity"), {leave}.',
        )  # fmt: skip
    if stretch and actions.space != "absolute":
        why = f"rows of a {actions.space} space cannot be played slower"
        raise _refused(asks, why, "actions.space", f"Leave {asks} out.")
    parts = actions.parts or Parts()
    if actions.space == "delta" and parts.quaternion:
        raise _refused(asks, "a quaternion of a delta space cannot be split", "actions.parts", f"Leave {asks} out.")
    if actions.space == "absolute" and not actions.mixes:
        raise _refused(
            asks, "these rows may not be mixed (mixable=False)", "actions.mixable",
            f"Declare Actions(parts=) with the columns that turn, {leave}.",
        )  # fmt: skip
    if actions.space == "absolute" and actions.bounds is not None:
        _check_turns(actions.bounds, parts, asks)


def _check_turns(bounds: Sequence[tuple[float, float]], parts: Parts, asks: str) -> None:
    """A turn from one quaternion to another leaves the box both lie in; only one that holds all of them is kept."""
    for column in parts.quaternion:
        low, high = bounds[column]
        if low > -1 or high < 1:
            raise _refused(
                asks, f"two quaternions within [{low:g}, {high:g}] in column {column} have others between them",
                "actions.bounds", f"Declare bounds of [-1, 1] for quaternions, or leave {asks} out.",
            )  # fmt: skip


def _refused(asks: str, why: str, field: str, fix: str) -> DeclarationError:
    return DeclarationError(f"{asks} sends commands between two rows, and {why}", field=field, fix=fix)
