"""What is remembered of each observation until its answer has come: how many rows had been played, and when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqrt.action.staleness import Played


@dataclass(frozen=True)
class Moment:
    """One observation as the run saw it.

    Attributes:
        step: Its number.
        position: Rows played whose effect it can show: those sent when it was begun, less those of the delays.
        begun_at: When it was begun, on the loop's clock.
        epoch: The epoch it belongs to; answers to an older one are not played.
        captured_at: When the world was as it shows it: before ``begun_at`` by the sensor delay.
        short: How far short of ``position`` the robot was, in rows: 0 but with substeps or Stretch.
    """

    step: int
    position: int
    begun_at: float
    epoch: int
    captured_at: float
    short: float = 0.0


class Moments:
    """The moments of one run, by step; bounded by what is forgotten once answered.

    Args:
        seen_behind_s: How old an observation is when it is taken.
        moved_behind_s: How long before it is taken a row has to be sent for its effect to show.

    Attributes:
        played: When rows were sent.
        moved: Rows played so far that told the arm to move.
    """

    def __init__(self, seen_behind_s: float = 0.0, moved_behind_s: float = 0.0) -> None:
        self._by_step: dict[int, Moment] = {}
        self._newest: Moment | None = None
        self._seen_behind_s, self._moved_behind_s = seen_behind_s, moved_behind_s
        self._renewed_at = -math.inf
        self.played = Played(moved_behind_s)
        self.moved = 0

    @property
    def newest(self) -> Moment | None:
        """The newest one, None before the first."""
        return self._newest

    def begin(self, step: int, position: int, begun_at: float, epoch: int, short: float = 0.0) -> Moment:
        """The moment of an observation that is begun now.

        Args:
            step: Its number.
            position: Rows played by now.
            begun_at: Now.
            epoch: The epoch by now; what shows the world before a resume belongs to the one before.
            short: How far short of ``position`` the robot is.
        """
        captured_at = begun_at - self._seen_behind_s
        behind = self.played.behind(begun_at - self._moved_behind_s) if self._moved_behind_s else 0
        of_before = captured_at < self._renewed_at
        return Moment(step, position - behind, begun_at, epoch - of_before, captured_at, short)

    def renew(self, now: float) -> None:
        """A pause or a resume: what was captured before it is of the epoch before, and what was sent is called off."""
        self._renewed_at = now
        self.played.forget()

    def add(self, moment: Moment) -> None:
        """Remember one; steps only rise."""
        self._by_step[moment.step] = moment
        self._newest = moment

    def get(self, step: int) -> Moment | None:
        """The moment of ``step``; None where none was taken, or it is forgotten."""
        return self._by_step.get(step)

    def forget_below(self, step: int) -> None:
        """No answer to an older observation can come any more."""
        for old in [s for s in self._by_step if s < step]:
            del self._by_step[old]
