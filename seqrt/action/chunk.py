"""One answer's rows on the axis of actions played, and what became of them: placed, due, dropped. Values alone.

Made by the receiver and by the plan (`seqrt.action.plan`); read by the player and the actuator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from seqrt.action.guard import Row
from seqrt.action.rows import Rows


@dataclass(frozen=True, eq=False)  # two arrays do not compare to one truth: a chunk equals itself only
class Chunk:
    """One answer's rows, and where they belong.

    Attributes:
        rows: float64 `[H, A]`, as they are played. They never change.
        observed: Step of the newest observation they were made from.
        start: Position of row 0; set by the splice.
        committed: Leading rows the answer was conditioned on: the plan before it plays those positions, as far as
            it reaches.
        takeover: The first position at which it replaces the plan before it; set by the splice.
        taken_at: When that observation was taken, on the caller's clock.
        answered: The rows as they were answered, where a seam strategy changed some of ``rows``; else None.
        short: How far its last row lies short of a whole one (`Player.realigned`), in [0, 1).
        rows_model: The same rows in the model's own space `[H, M]`, before post-processing; None where the answer
            had none.
    """

    rows: Rows
    observed: int
    start: int = 0
    committed: int = 0
    takeover: int = 0
    taken_at: float = 0.0
    answered: Rows | None = None
    short: float = 0.0
    rows_model: Rows | None = None

    @property
    def end(self) -> int:
        """One past the last position it covers."""
        return self.start + len(self.rows)

    def covers(self, position: int) -> bool:
        """Whether it has a row for ``position``."""
        return 0 <= position - self.start < len(self.rows)

    def unpadded(self, known: int) -> Chunk:
        """The same without the committed rows from ``known`` on, which repeat the last one of a plan that ends there.

        They stand for an arm that stands, and it has stood while the answer was on its way.
        """
        if known >= self.committed:
            return self
        kept = [i for i in range(len(self.rows)) if not known <= i < self.committed]
        model = None if self.rows_model is None else self.rows_model[kept]
        return replace(self, rows=self.rows[kept], committed=known, rows_model=model)

    def asked(self, index: int) -> Row:
        """Row ``index`` as it was answered `[A]`, not the caller's to change."""
        asked: Row = (self.rows if self.answered is None else self.answered)[index]
        return asked


@dataclass(frozen=True, eq=False)
class Due:
    """The row due now.

    Attributes:
        row: float64 `[A]`, the caller's own copy.
        index: Its row in its chunk.
        chunk: The chunk.
        seam: True at the first row played of this chunk.
        jump: At a seam, the distance from the row executed last to this row as it was answered; else None.
        innovation: At a seam, the same with ordinary motion taken out (`seam_innovation`); else None.
    """

    row: Row
    index: int
    chunk: Chunk
    seam: bool
    jump: float | None = None
    innovation: float | None = None


@dataclass(frozen=True)
class Spliced:
    """A chunk was taken into the plan.

    Attributes:
        chunk: The chunk, placed.
        dropped: Its rows that had been passed already.
        first: Its row that is played first, at the seam.
        blended: Rows from ``first`` on that a seam strategy changed.
        disagreement: Largest distance of its rows, as answered and where they were meant, from those of the plan
            before it at the same positions: as played where they are behind, as planned where they are ahead. None
            where the two share no position.
        disagreement_passed: The same of the positions behind alone: rows dropped against rows played.
    """

    chunk: Chunk
    dropped: int
    first: int
    blended: int = 0
    disagreement: float | None = None
    disagreement_passed: float | None = None


@dataclass(frozen=True)
class Dropped:
    """A chunk was left out, the plan is as it was.

    Attributes:
        chunk: The chunk.
        why: "older" than what is planned, or "passed": no row of it is left to play, each was passed or belongs to
            the plan it is committed to.
    """

    chunk: Chunk
    why: Literal["older", "passed"]
