"""How many rows answers have: H, which a prefix may change. Numbers in, numbers out.

Fed by the receiver with every answer that is newer than the plan; asked by the pacing.
"""

from __future__ import annotations


class Lengths:
    """One run's H.

    A policy may answer as many rows whatever comes with an act, or as many as ever *behind* the committed ones: then an
    answer made from committed rows is longer.

    Attributes:
        newest: Rows of the newest answer, None before the first.
    """

    def __init__(self) -> None:
        self.newest: int | None = None
        self._plain: int | None = None
        self._conditioned: int | None = None
        self._committed = 0

    def take(self, rows: int, committed: int) -> None:
        """Take in an answer of ``rows``, made from ``committed`` rows that went along; 0 for none."""
        self.newest = rows
        if committed:
            self._conditioned, self._committed = rows, committed
        else:
            self._plain = rows

    @property
    def without_prefix(self) -> int | None:
        """H where nothing goes along: of two that differ the shorter, until one such answer is there. None at first."""
        known = [rows for rows in (self.newest, self._plain) if rows is not None]
        return min(known, default=None)

    @property
    def with_prefix(self) -> int | None:
        """H where committed rows go along: as long as none has, what the others have. None before any answer."""
        return self.newest if self._conditioned is None else self._conditioned

    def known(self, committed: int) -> bool:
        """Whether an answer made from as many committed rows or more has been seen: what it had decides."""
        return self._conditioned is not None and committed <= self._committed
