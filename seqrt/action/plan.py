"""The plan: chunks on the axis of actions played, spliced as they arrive, popped a row a tick.

In come checked chunks from the requester, out go rows to the actuator. One object a run, owned by that run's loop;
no lock. The count of actions played lives here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from seqrt.action.blend import Crossing, Seam
from seqrt.action.chunk import Chunk, Dropped, Due, Spliced
from seqrt.action.declaration import Actions
from seqrt.action.guard import Guard, Row
from seqrt.action.parts import Mixing
from seqrt.action.rows import Rows
from seqrt.action.seam import Measure, seam_innovation, seam_jump
from seqrt.action.splice import Aligned, Placing, Splice
from seqrt.errors import ActionError

_KEPT_BEHIND: Final = 256
"""Rows behind the present one of which the plan still knows what was played, for a prefix and for the disagreement of
two plans: a camera, or an answer, may take that long, and rows are played meanwhile."""


class Plan:
    """Chunks in force and waiting, and how many of their rows have been played.

    Attributes:
        position: Rows played since the run began; the next row to play has this position.

    Args:
        splice: Where a new chunk is laid.
        guard: What its rows may be.
        seam: How its first rows are eased, None: not at all.
        actions: What the rows are: whether they may be mixed, and which columns are compared.
    """

    def __init__(
        self,
        splice: Splice | None = None,
        guard: Guard | None = None,
        seam: Seam | None = None,
        actions: Actions | None = None,
    ) -> None:
        self.position = 0
        self._last: Row | None = None
        self._before_last: Row | None = None
        self._part = 0.0
        self._splice = splice or Aligned()
        self._guard = guard or Guard()
        self._seam, self._mixing, self._measure = seam, Mixing.of(actions), Measure.of(actions)
        self._chunks: list[Chunk] = []
        self._playing: Chunk | None = None
        self._newest = -1

    @property
    def last(self) -> Row | None:
        """The row executed last `[A]`; None where it is not known.

        That is before the first, after `clear` and after `played_otherwise`. Who sends another row in its place (an
        underrun policy) sets it, once a tick.
        """
        return self._last

    @last.setter
    def last(self, row: Row | None) -> None:
        self._before_last = None if row is None else self._last
        self._last = row

    @property
    def newest(self) -> int:
        """Step of the newest observation spliced; -1 before the first."""
        return self._newest

    @property
    def end(self) -> int:
        """One past the last position planned; ``position`` when the plan is dry."""
        return max(self.position, self._chunks[-1].end) if self._chunks else self.position

    @property
    def rows_left(self) -> int:
        """Rows still to play."""
        return self.end - self.position

    def guarded_by(self, guard: Guard) -> None:
        """Hold later splices against ``guard`` (its length becomes known with the first chunk)."""
        self._guard = guard

    def splice(self, chunk: Chunk, observed_at: int, *, lag: int = 0, spacing: int | None = None) -> Spliced | Dropped:
        """Take ``chunk`` into the plan, freshest first.

        Args:
            chunk: Rows already held against the guard; its ``start`` is set here.
            observed_at: `position` as it was when the chunk's observation was taken.
            lag: Rows by which it is to play late. Beyond what was played since, it is not due at once: the plan
                before it plays until it is.
            spacing: s, ticks between two requests, for the seam strategy; None where it is not known.

        Raises:
            ActionError: The step from the row before the seam to its first row breaks ``max_delta``; the plan is
                as it was.
        """
        if chunk.observed <= self._newest:
            return Dropped(chunk, "older")
        placed = self._placed(chunk, observed_at, lag)
        if not placed.covers(placed.takeover):
            return Dropped(placed, "passed")
        behind, ahead = self._disagreement(chunk.rows, observed_at + lag)
        first = placed.takeover - placed.start
        joined, blended = self._joined(placed, first, spacing)
        self._newest = chunk.observed
        self._chunks = [*(c for c in self._chunks if c.takeover < placed.takeover), joined]
        return Spliced(
            joined,
            dropped=max(0, self.position - placed.start),
            first=first,
            blended=blended,
            disagreement=max((each for each in (behind, ahead) if each is not None), default=None),
            disagreement_passed=behind,
        )

    def pop(self) -> Due | None:
        """The row due now, counted as played; None when no row is due."""
        chunk = self._at(self.position)
        if chunk is None:
            return None
        index = self.position - chunk.start
        row, seam, jump, innovation = chunk.rows[index], chunk is not self._playing, None, None
        if seam:
            asked = chunk.asked(index)
            jump = seam_jump(self._last, asked)
            innovation = seam_innovation(self._before_last, self._last, asked, self._measure)
        self._playing = chunk
        self.position += 1
        self._part = 0.0
        while len(self._chunks) > 1 and self._chunks[1].takeover <= self.position - _KEPT_BEHIND:
            del self._chunks[0]
        self.last = row
        return Due(row.copy(), index, chunk, seam, jump, innovation)

    def played_otherwise(self, rows: float = 1.0, command: Row | None = None) -> int:
        """An underrun policy moved the arm for one period: the axis goes on.

        Args:
            rows: By how far, in rows of the last motion; parts add up, and the nearest whole row counts.
            command: Where to `[A]`, None where nobody knows.

        Returns:
            Whole rows gone.
        """
        self._part += rows
        whole = math.floor(self._part + 0.5)
        self._part -= whole
        self.position += whole
        self.last = command
        return whole

    def ahead(self, position: int, rows: int) -> Rows | None:
        """What is played from ``position`` on, as it is planned now: the prefix of a request.

        Args:
            position: The first position wanted: that of the first row not yet played when the observation was
                taken. Rows played since then are given as they were played.
            rows: How many at least; missing ones after the plan's end repeat its last row, never zeros.

        Returns:
            float64 `[n, A]`, n ≥ ``rows``; None when nothing is planned from ``position`` on.
        """
        return _padded([chunk.rows[i] for chunk, i in self._rows_from(position)], rows)

    def ahead_model(self, position: int, rows: int) -> Rows | None:
        """The same in the model's own space, float64 `[n, M]`; None unless every row of it is known there."""
        known = [(chunk.rows_model, i) for chunk, i in self._rows_from(position)]
        if len({None if model is None else model.shape[1] for model, _ in known}) != 1:
            return None
        return _padded([model[i] for model, i in known if model is not None], rows)

    def clear(self) -> int:
        """Forget every chunk and the last executed row (pause, take-over). Returns the rows forgotten."""
        left = self.rows_left
        self._chunks.clear()
        self._playing = None
        self.last = None
        self._part = 0.0
        return left

    def _placed(self, chunk: Chunk, observed_at: int, lag: int) -> Chunk:
        """The chunk with its place on the axis."""
        # A strategy sees the rows as late as they are to be: what has passed by then is what it may choose from.
        placing = Placing(observed_at + lag, self.position, self.end, chunk.rows, self._last, self._measure)
        # Never beyond the plan's end: the axis does not move while nothing plays, so a gap would never be crossed.
        start = min(self._splice.start(placing), self.end)
        takeover = max(self.position, min(start + chunk.committed, self.end))
        return replace(chunk, start=start, takeover=takeover)

    def _joined(self, placed: Chunk, first: int, spacing: int | None) -> tuple[Chunk, int]:
        """The chunk as it will be played, and how many of its rows were blended.

        What may be played decides: rows that a strategy has eased are held against the guard again, and where they
        break it the chunk's own rows are played, if these may be.
        """
        before = self._before(placed.takeover)
        eased = self._eased(placed, first, before, spacing)
        if eased is not None and len(eased):
            blended = first + len(eased)
            rows = np.concatenate((placed.rows[:first], eased, placed.rows[blended:]))
            try:
                rows.setflags(write=False)
                self._guard.check(rows[first : blended + 1])
                self._guard.check_seam(before, rows[first], first)
                return replace(placed, rows=rows, answered=placed.rows, rows_model=None), len(eased)
            except ActionError:
                pass
        self._guard.check_seam(before, placed.rows[first], first)
        return placed, 0

    def _eased(self, placed: Chunk, first: int, before: Row | None, spacing: int | None) -> Rows | None:
        """What the seam strategy makes of the rows from ``first`` on; None where they stay as they are."""
        if self._seam is None or self._mixing is None:
            return None
        if placed.committed and first <= placed.committed:
            return None  # the policy was told what comes before: this seam is the model's own
        rows = placed.rows[first:]
        planned = [part for _, part in self._planned(placed.takeover, placed.end) if part.shape[1] == rows.shape[1]]
        old = np.concatenate(planned) if planned else rows[:0]
        return self._seam.join(Crossing(rows, old, before, spacing, self._mixing, self._measure))

    def _disagreement(self, rows: Rows, observed_at: int) -> tuple[float | None, float | None]:
        """How far ``rows`` are from this plan where they were meant, behind the present position and ahead of it.

        Meant is row i for i actions after the observation, wherever the splice lays them: it is the plans that agree
        or do not.
        """
        behind: list[float] = []
        ahead: list[float] = []
        for position, planned in self._planned(observed_at, observed_at + len(rows)):
            new = rows[position - observed_at :][: len(planned)]
            if new.shape == planned.shape:
                apart = self._measure.apart(new, planned)
                passed = max(0, self.position - position)
                behind += apart[:passed].tolist()
                ahead += apart[passed:].tolist()
        return max(behind, default=None), max(ahead, default=None)

    def _planned(self, begin: int, end: int) -> list[tuple[int, Rows]]:
        """What was played, or will be, from ``begin`` to before ``end``: pieces `[n, A]`, each with its position.

        Positions of which nothing is known (rows forgotten, a period an underrun policy moved the arm for) are left
        out.
        """
        pieces: list[tuple[int, Rows]] = []
        for chunk in reversed(self._chunks):
            low, high = max(begin, chunk.takeover), min(end, chunk.end)
            if low < high:
                pieces.append((low, chunk.rows[low - chunk.start : high - chunk.start]))
            end = min(end, chunk.takeover)
            if end <= begin:
                break
        return pieces[::-1]

    def _at(self, position: int) -> Chunk | None:
        """The chunk whose row belongs to ``position``: of those that have taken over by then, the newest."""
        for chunk in reversed(self._chunks):
            if chunk.takeover <= position:
                return chunk if chunk.covers(position) else None
        return None

    def _rows_from(self, position: int) -> Iterator[tuple[Chunk, int]]:
        """What is played from ``position`` on, up to the first gap: each row's chunk, and its row in it."""
        for p in range(position, self.end):
            chunk = self._at(p)
            if chunk is None:
                return
            yield chunk, p - chunk.start

    def _before(self, position: int) -> Row | None:
        """The row executed, or to be executed, right before ``position``."""
        if position == self.position:
            return self.last
        chunk = self._at(position - 1)
        return None if chunk is None else chunk.rows[position - 1 - chunk.start]


def _padded(planned: list[Row], rows: int) -> Rows | None:
    """At least ``rows`` of them, the last one again and again; None of none."""
    if not planned:
        return None
    return np.stack(planned + [planned[-1]] * (rows - len(planned)))
