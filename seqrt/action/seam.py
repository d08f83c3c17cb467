"""What a seam is like, measured on the rows as they were answered, before anything changes them.

Called by the plan: the jump and the innovation where a chunk's first row is popped, the disagreement of two plans
where a chunk is spliced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.action.guard import Row
from seqrt.action.rows import Rows


@dataclass(frozen=True)
class Measure:
    """How far apart two rows are: the largest difference of any column.

    A gripper's columns are left out: it is open or closed, in units of its own, and one that closes would outdo all
    else. A quaternion and its negative are one attitude.

    Attributes:
        gripper: Columns left out.
        quaternions: Columns of each quaternion, four a piece.
    """

    gripper: tuple[int, ...] = ()
    quaternions: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, actions: Actions | None) -> Measure:
        """The measure of a declaration's rows, whatever their space."""
        if actions is None or actions.parts is None:
            return cls()
        turns = actions.parts.quaternion
        return cls(actions.parts.gripper, tuple(turns[i : i + 4] for i in range(0, len(turns), 4)))

    def apart(self, rows: Rows, others: Rows) -> npt.NDArray[np.float64]:
        """The distance of each row `[n, A]` from the other `[n, A]` or `[1, A]`: `[n]`, 0 where a row has no column."""
        with np.errstate(over="ignore"):  # a distance past the largest float is inf
            differences = np.abs(rows - others)
            if self.quaternions:
                turns = self._turns
                one, other = rows[:, turns], others[:, turns]
                opposite = np.sum(one * other, axis=2, keepdims=True) < 0.0
                differences[:, turns] = np.where(opposite, np.abs(one + other), differences[:, turns])
        if self.gripper:
            differences[:, self._left_out] = 0.0
        farthest: npt.NDArray[np.float64] = differences.max(axis=1, initial=0.0)
        return farthest

    def between(self, row: Sequence[float], other: Sequence[float]) -> float:
        """What `apart` says of two rows, a tenth of its cost inside a tick."""
        differences = [abs(one - two) for one, two in zip(row, other, strict=True)]
        for turn in self.quaternions:
            if sum(row[c] * other[c] for c in turn) < 0.0:
                for c in turn:
                    differences[c] = abs(row[c] + other[c])
        for c in self.gripper:
            differences[c] = 0.0
        return max(differences, default=0.0)

    @cached_property
    def _turns(self) -> npt.NDArray[np.intp]:
        return np.array(self.quaternions, dtype=np.intp)

    @cached_property
    def _left_out(self) -> npt.NDArray[np.intp]:
        return np.array(self.gripper, dtype=np.intp)


def seam_jump(last: Row | None, first: Row) -> float | None:
    """Largest distance in any column, grippers too, from the row executed last to the first row of a new chunk.

    None where there is nothing to compare: before the first row, or across a change of length.
    """
    if last is None or last.shape != first.shape or not first.size:
        return None
    # Plain floats: for a row that is ten times quicker than numpy, and a jump past the largest float is inf, unwarned.
    return float(max(abs(new - old) for new, old in zip(first.tolist(), last.tolist(), strict=True)))


def seam_innovation(
    before_last: Row | None, last: Row | None, first: Row, measure: Measure | None = None
) -> float | None:
    """|u_c − (2u_{c−1} − u_{c−2})|: how far the first row of a new chunk lies from where the motion was going.

    The jump with ordinary motion taken out: 0 where the arm goes straight on at its pace, however fast that is. None
    where the two rows executed last are not known, or are of another length.
    """
    if before_last is None or last is None or not first.shape == last.shape == before_last.shape or not first.size:
        return None
    going = [2.0 * now - before for now, before in zip(last.tolist(), before_last.tolist(), strict=True)]
    return (measure or Measure()).between(first.tolist(), going)
