"""Ticks at which no row was due, and the underruns they make up. A pure fold, for all who count them."""

from __future__ import annotations

from seqrt.timeline.events import Ticked


class Starved:
    """Counts both.

    Attributes:
        ticks: Ticks without a row, after the first action; those that were skipped within an underrun too.
        underruns: Runs of them.
    """

    __slots__ = ("_at", "_on", "ticks", "underruns")

    def __init__(self) -> None:
        self.ticks = self.underruns = 0
        self._on, self._at = False, 0

    def tick(self, event: Ticked) -> None:
        """Take in a tick."""
        if event.kind == "starved":
            self.ticks += event.step - self._at if self._on else 1
            self.underruns += not self._on
            self._at = event.step
        if event.kind != "between":
            self._on = event.kind == "starved"

    def interrupt(self) -> None:
        """The next tick is of no underrun that was: the run was paused, or is another one."""
        self._on = False
