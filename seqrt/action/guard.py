"""What may reach a motor: finite, of the run's length, within the declared bounds and steps.

A chunk is held against it whole when it arrives, a row once more at its tick. Called by the requester (arrival),
the plan (seam) and the actuator (tick).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.action.rows import Rows
from seqrt.errors import ActionError

Row = npt.NDArray[np.float64]

_ROUNDING = 2.0**-23
"""Relative slack of every limit, the last bit of a float32: a policy that clips its float32 rows at a bound of 0.1
answers with 0.10000000149, which is the bound and not beyond it."""
_NOISE = 1e-9
"""Absolute slack of every bound, for one at 0."""


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth
class Guard:
    """The limits of one run.

    Attributes:
        dims: Columns of a row, A; None until the first chunk has set it.
        low: Lowest value a column `[A]`, or None.
        high: Highest value a column `[A]`, or None.
        max_delta: Largest step a column `[A]`, or None.
        steps_are_rows: In a delta space the row itself is the step; else the difference of two rows is.
        names: Column names for messages, or None.
        farthest_part: The last column that ``parts`` name; -1 for none.
    """

    dims: int | None = None
    low: Row | None = None
    high: Row | None = None
    max_delta: Row | None = None
    steps_are_rows: bool = False
    names: tuple[str, ...] | None = None
    farthest_part: int = -1

    @classmethod
    def of(cls, actions: Actions | None, *, columns: int | None = None) -> Guard:
        """The guard of a declaration; without one, finiteness and an unchanging length are all that is held.

        Args:
            actions: The declaration, or None.
            columns: How many columns the robot has, None where it does not say.
        """
        if actions is None:
            return cls(dims=columns)
        bounds = None if actions.bounds is None else np.asarray(actions.bounds, dtype=np.float64)
        delta = actions.max_delta
        return cls(
            dims=actions.dims or columns,
            low=None if bounds is None else bounds[:, 0],
            high=None if bounds is None else bounds[:, 1],
            max_delta=None if delta is None else np.atleast_1d(np.asarray(delta, dtype=np.float64)),
            steps_are_rows=actions.space == "delta",
            names=actions.names,
            farthest_part=-1 if actions.parts is None else actions.parts.farthest,
        )

    def check(self, rows: Rows) -> None:
        """Hold a whole chunk `[H, A]` against the limits.

        Raises:
            ActionError: With the row, the column, the value and the limit it broke.
        """
        if self.dims is not None and rows.shape[1] != self.dims:
            raise ActionError(f"rows of {rows.shape[1]} numbers, this run's have {self.dims}")
        if self.farthest_part >= rows.shape[1]:
            raise ActionError(
                f"rows of {rows.shape[1]} numbers, parts name column {self.farthest_part}: columns of Actions(parts=) "
                "are counted from 0"
            )
        if self._all_plainly_fit(rows):
            return
        self._within(rows)
        if self.max_delta is not None:
            if self.steps_are_rows:
                self._steps(None, rows, first=0)
            else:
                self._steps(rows[:-1], rows[1:], first=1)

    def check_seam(self, last: Row | None, first: Row, row: int) -> None:
        """Hold the step from the last executed row to the first row of a new chunk against ``max_delta``.

        Args:
            last: The row executed last `[A]`; None when nothing has been played: no step to check.
            first: The row that would follow it `[A]`.
            row: Its index in its chunk, for the message.

        Raises:
            ActionError: The step is larger than ``max_delta`` in some column.
        """
        if self.max_delta is None or self.steps_are_rows or last is None or self._plainly_fits(first, last):
            return
        self._steps(last[np.newaxis, :], first[np.newaxis, :], first=row)

    def check_row(self, row: Row, index: int, last: Row | None = None) -> None:
        """The tick's own last look at one row `[A]`: length, finite, bounds, ``max_delta``.

        Args:
            row: The row about to be sent.
            index: Its index in its chunk, for the message.
            last: The row executed right before it; None where it is not known: no step to check.

        Raises:
            ActionError: As `check`.
        """
        if self._plainly_fits(row, last):
            return
        self._one(row, index)
        if self.max_delta is not None:
            if self.steps_are_rows:
                self._steps(None, row[np.newaxis, :], first=index)
            else:
                self.check_seam(last, row, index)

    def check_command(self, command: Row) -> None:
        """Hold what an underrun policy would send `[A]` against length, finiteness and bounds.

        Raises:
            ActionError: It may not reach a motor; says what else could be sent.
        """
        try:
            self._one(command, 0)
        except ActionError as error:
            raise ActionError(
                f"the command of a starved tick may not be sent: {str(error).removeprefix('row 0, ')}; give run() "
                "on_underrun=, or another Play(underrun=)",
                column=error.column,
                value=error.value,
                limit=error.limit,
            ) from None

    def clipped(self, row: Row) -> Row:
        """The row `[A]` with each column drawn to its nearest bound, where bounds are declared; not-a-number stays."""
        if self.low is None or self.high is None:
            return row
        clipped: Row = np.clip(row, self.low, self.high)
        return clipped

    def _plainly_fits(self, row: Row, last: Row | None) -> bool:
        """Whether a row is within all limits without their slack, as nearly all are: cheap, for each tick.

        A not-a-number is on neither side of anything. In plain floats: of a row they take a fifth of numpy's time.
        """
        if row.shape[0] != self.dims:
            return False
        numbers: list[float] = row.tolist()
        before = numbers if last is None else last.tolist()
        if self.steps_are_rows:
            before = [0.0] * len(numbers)
        elif len(before) != self.dims:
            return False
        for number, was, (low, high, most) in zip(numbers, before, self._columns, strict=True):
            if not (low <= number <= high and abs(number - was) <= most):
                return False
        return True

    def _all_plainly_fit(self, rows: Rows) -> bool:
        """The same of a chunk's rows, by each column's extremes; only the finite have finite ones."""
        if self.dims is None or not len(rows):
            return False
        largest = [0.0] * self.dims
        if self.max_delta is not None and (self.steps_are_rows or len(rows) > 1):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite fits nowhere
                steps = np.abs(rows if self.steps_are_rows else rows[1:] - rows[:-1])
            largest = steps.max(axis=0).tolist()
        extremes = zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), largest, self._columns, strict=True)
        return all(
            low <= least and most <= high and step <= delta for least, most, step, (low, high, delta) in extremes
        )

    @cached_property
    def _columns(self) -> list[tuple[float, float, float]]:
        """Lowest and highest number and largest step of each column; where none is declared, a finite number's."""
        assert self.dims is not None
        finite = sys.float_info.max
        limits = (
            -finite if self.low is None else self.low,
            finite if self.high is None else self.high,
            math.inf if self.max_delta is None else self.max_delta,
        )
        low, high, most = (np.broadcast_to(limit, (self.dims,)).tolist() for limit in limits)
        return list(zip(low, high, most, strict=True))

    def _one(self, row: Row, index: int) -> None:
        if self.dims is not None and row.shape[0] != self.dims:
            raise ActionError(f"a row of {row.shape[0]} numbers, this run's have {self.dims}", row=index)
        lowest, highest = self._reach
        if lowest is not None and highest is not None and ((row >= lowest) & (row <= highest)).all():
            return  # the usual case in one go; what is not a number is within no bounds
        self._within(row[np.newaxis, :], first=index)

    def _within(self, rows: Rows, first: int = 0) -> None:
        finite = np.isfinite(rows)
        if not finite.all():
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            value = float(rows[row, column])
            raise ActionError(
                f"row {first + row}, {self._name(column)} is {value}: not finite",
                row=first + row,
                column=column,
                value=value,
            )
        lowest, highest = self._reach
        if lowest is not None and (outside := rows < lowest).any():
            self._refuse_bound(rows, outside, self.low, "below", first)
        if highest is not None and (outside := rows > highest).any():
            self._refuse_bound(rows, outside, self.high, "above", first)

    @cached_property
    def _reach(self) -> tuple[Row | None, Row | None]:
        """The bounds with their slack, computed once and not at each tick."""
        return (
            None if self.low is None else self.low - (_NOISE + _ROUNDING * np.abs(self.low)),
            None if self.high is None else self.high + (_NOISE + _ROUNDING * np.abs(self.high)),
        )

    def _steps(self, before: Rows | None, after: Rows, first: int) -> None:
        assert self.max_delta is not None
        with np.errstate(over="ignore"):  # a step past the largest float is inf, and inf is too large
            steps = after if before is None else after - before
            slack = _ROUNDING * (np.abs(after) + self.max_delta)  # each row is rounded where it is, not where 0 is
        too_large = np.abs(steps) > self.max_delta + slack
        if too_large.any():
            row, column = (int(i) for i in np.argwhere(too_large)[0])
            limit = float(self.max_delta[column if self.max_delta.size > 1 else 0])
            value = float(steps[row, column])
            raise ActionError(
                f"row {first + row}, {self._name(column)} is a step of {value:.9g}, max_delta is {limit:.9g}",
                row=first + row,
                column=column,
                value=value,
                limit=limit,
            )

    def _refuse_bound(
        self, rows: Rows, outside: npt.NDArray[np.bool_], limits: Row | None, word: str, first: int
    ) -> None:
        assert limits is not None
        row, column = (int(i) for i in np.argwhere(outside)[0])
        value, limit = float(rows[row, column]), float(limits[column])
        raise ActionError(
            f"row {first + row}, {self._name(column)} is {value:.9g}, {word} its bound {limit:.9g}",
            row=first + row,
            column=column,
            value=value,
            limit=limit,
        )

    def _name(self, column: int) -> str:
        return f"column {column}" + (f" ({self.names[column]})" if self.names else "")
