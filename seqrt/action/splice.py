"""Where a new chunk lies on the axis of actions played: small strategies with one method.

Positions count the rows of chunks that were played since the run began. A chunk's ``start`` is the position its row
0 belongs to; the row due at position p is row ``p - start``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from seqrt.action.guard import Row
from seqrt.action.rows import Rows
from seqrt.action.seam import Measure


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth
class Placing:
    """What is known where a new chunk has to be laid.

    Attributes:
        observed_at: Rows that had been played when the chunk's observation was taken, and a lag where one is in force.
        position: Rows played by now (the next row to play has this position).
        plan_end: One past the last position the present plan reaches; ``position`` when it is dry.
        rows: The chunk's rows, float64 `[H, A]`.
        last: The row executed last `[A]`; None where it is not known.
        measure: How far apart two rows are.
    """

    observed_at: int
    position: int
    plan_end: int
    rows: Rows
    last: Row | None = None
    measure: Measure = field(default_factory=Measure)


class Splice(Protocol):
    """Says where a new chunk starts."""

    def start(self, placing: Placing) -> int:
        """The position of the chunk's row 0."""
        ...


@dataclass(frozen=True)
class Aligned:
    """Row i is the action meant for i actions after the observation: rows passed meanwhile are dropped.

    What was played is counted, never guessed from latency, so it holds for the first chunk (the arm stood: row 0),
    for a stall and for the return from one. It presumes that successive plans agree (`RunOutcome.disagreement_passed`
    says how far they do); where they do not, send the committed rows along (``Play(continuity="auto")`` does, for a
    policy that takes ``prefix``).
    """

    def start(self, placing: Placing) -> int:
        """Where the arm was when it looked."""
        return placing.observed_at


@dataclass(frozen=True)
class Nearest:
    """Of the rows passed meanwhile, the one closest to the last command is taken for it: the row behind it is next.

    For a black box whose plans differ from one another. `Aligned` drops every row passed, also where the arm went
    another way than they say; this drops those up to the one the arm has got to, and none that was not passed. Where
    plans agree that is the last row passed and the two are the same. The price: rows kept are that much later than
    the policy meant them, so it is of no use for targets that depend on the clock. Distance is the largest difference
    of any column, grippers left out; of rows equally near the latest counts.

    For spaces declared absolute alone (`run` refuses others): rows of a delta space that are played again move the arm
    twice, and the distance of two velocities is none between two places.
    """

    def start(self, placing: Placing) -> int:
        """Such that the row behind the nearest one is due now; aligned where nothing has passed or last is unknown."""
        passed = placing.rows[: max(0, placing.position - placing.observed_at)]
        if not len(passed) or placing.last is None or placing.last.shape != passed[0].shape:
            return placing.observed_at
        apart = placing.measure.apart(passed, placing.last[np.newaxis, :])
        nearest = len(passed) - 1 - int(np.argmin(apart[::-1]))
        return placing.position - (nearest + 1)


@dataclass(frozen=True)
class Sequential:
    """Play every row: a new chunk begins at row 0 when the plan before it is played out.

    Nothing is dropped and everything is late by a round trip; what `sequence-ai` 0.1.0 does.
    """

    def start(self, placing: Placing) -> int:
        """Behind all that is already planned."""
        return max(placing.position, placing.plan_end)
