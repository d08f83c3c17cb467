"""How far apart a run's requests are, how many may be out, and whether committed rows go along.

Asked by the requester at each tick; reads the latency windows and what the receiver knows of chunks. What it decides
anew is said in the timeline.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

from seqrt.action import asking
from seqrt.action.lagging import Lag, Stretch, stretch_rate
from seqrt.action.latency import Latencies
from seqrt.action.splice import Aligned, Sequential
from seqrt.runtime.declared import Declared
from seqrt.runtime.options import Play
from seqrt.runtime.receiver import Receiver
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev

logger = logging.getLogger(__name__)

_TELLING_SAMPLES: Final = 5


class Pacing:
    """One run's spacing.

    Args:
        behind: Rows that the sensors' and the motors' delays have passed when an observation is taken.

    Attributes:
        most: n, the most requests out at once.
        mode: What was said last: "prefix", "pipelined" or "aligned"; None where no prefix may go along.
    """

    def __init__(
        self,
        *,
        receiver: Receiver,
        declared: Declared,
        telling: Telling,
        latencies: Latencies,
        play: Play,
        period_s: float,
        behind: int = 0,
    ) -> None:
        self._receiver, self._declared, self._telling = receiver, declared, telling
        self._latencies, self._play, self._period_s, self._behind = latencies, play, period_s, behind
        self.most = declared.in_flight(play.in_flight) if play.prefetch and not self.appends else 1
        self.mode: str | None = None
        self._spaced: asking.Spacing | None = None
        self._overlaps = (
            bool(getattr(play.seam, "overlaps", False)) and declared.actions is not None and declared.actions.mixes
        )
        self._changes: int | None = None
        self._reckonings: dict[tuple[int, int, bool], asking.Spacing] = {}
        self._said_too_slow = False

    @property
    def rate(self) -> float:
        """Rows to play a tick: below 1 where ``Stretch`` makes a chunk last until the next one is there."""
        return self._play.late.rate(self._spaced) if isinstance(self._play.late, Stretch) else 1.0

    @property
    def appends(self) -> bool:
        """Whether chunks follow one another whole, and each is asked for while the one before plays."""
        return self._play.prefetch and isinstance(self._play.splice, Sequential)

    @property
    def may_take_prefix(self) -> bool:
        """Whether committed rows may go along with acts of this run."""
        return (
            self._declared.takes_prefix
            and self._play.continuity is not None
            and isinstance(self._play.splice, Aligned)
            and self._play.prefetch
        )

    def stagger(self) -> asking.Stagger | None:
        """How requests follow one another before the first answer; one at a time where a prefix may go along."""
        if self.most == 1 or self.may_take_prefix:
            return None
        return asking.Stagger.of(
            self._latencies.serving_s(),
            period_s=self._period_s,
            in_flight=self.most,
            acts_per_s=self._declared.acts_per_s,
        )

    def spacing(self) -> asking.Spacing | None:
        """What the present estimates say, looked at in every tick; None before the first answer."""
        rows = self._receiver.lengths.without_prefix
        if rows is None:
            return None
        # Until it is known how long an act keeps the worker, more would only stand in its line.
        spaced = self._spaced_with(rows, self.most if self._latencies.serving_s() is not None else min(2, self.most))
        tried = False
        if self.may_take_prefix:
            lag = self._receiver.lag
            prefixed = None if lag.ticks or lag.own else self._prefixed()
            tried = prefixed is None and not (lag.ticks or lag.own) and (prefixed := self._tried(rows)) is not None
            if prefixed is not None:
                spaced = prefixed
                self._choose("prefix", spaced)
            else:
                spaced = self._spaced_with(rows, 1) if self._play.continuity == "server" else spaced
                self._choose("aligned" if spaced.in_flight == 1 else "pipelined", spaced)
        if not tried:  # else how many rows a chunk will have is not known
            if self._latencies.typical and not self.appends:
                self._receiver.lag.measure(spaced.short_by, anyio.current_time())
            self._say_if_too_slow(spaced)
        self._spaced = spaced
        return spaced

    def _prefixed(self) -> asking.Spacing | None:
        """The spacing with a prefix, where it fits into the rows answered; None where it does not."""
        rows = self._receiver.lengths.with_prefix
        if rows is None:
            return None
        alone = self._spaced_with(rows, 1, overlapping=False)
        return alone.with_prefix() if alone.takes_prefix(rows - self._behind) else None

    def _tried(self, rows: int) -> asking.Spacing | None:
        """The same for an act that finds out how many rows are answered to a prefix so long; None where none may be.

        A policy that answers as many rows as ever behind the committed ones has room for more of them than its answers
        without a prefix say: up to the horizon it declares. The act has to be sent while rows are left to commit.
        """
        most = self._declared.horizon
        alone = self._spaced_with(rows, 1, overlapping=False)
        spaced = alone.with_prefix()
        if most is None or most <= rows or self._receiver.lengths.known(spaced.d + self._behind):
            return None
        return spaced if spaced.s < alone.horizon and alone.takes_prefix(most - self._behind) else None

    def _spaced_with(self, rows: int, in_flight: int, *, overlapping: bool | None = None) -> asking.Spacing:
        """The spacing for a depth, reckoned anew when an answer has come: this is looked at in every tick."""
        if self._latencies.changes != self._changes:
            self._changes, self._reckonings = self._latencies.changes, {}
        key = (rows, in_flight, self._overlaps if overlapping is None else overlapping)
        if key not in self._reckonings:
            self._reckonings[key] = self._reckoned(*key)
        return self._reckonings[key]

    def _reckoned(self, rows: int, in_flight: int, overlapping: bool) -> asking.Spacing:
        return asking.spacing(
            self._latencies,
            period_s=self._period_s,
            horizon=max(1, rows - self._behind),
            in_flight=in_flight,
            acts_per_s=self._declared.acts_per_s,
            fresh_s=None if self._play.fresh_s is None else self._play.fresh_s - self._play.seen_behind_s,
            overlapping=overlapping,
        )

    def _choose(self, mode: str, spaced: asking.Spacing) -> None:
        """Say whether committed rows go along, when that changes."""
        if mode == self.mode:
            return
        self.mode = mode
        d, rows = spaced.d + self._behind, self._receiver.lengths.newest or 0
        self._telling.tell(ev.ContinuityChosen(at_s=self._telling.at_s(), mode=mode, d=d, s=spaced.s, rows=rows))
        logger.info("continuity: %s (d %d, s %d, %d rows a chunk)", mode, d, spaced.s, rows)

    def _say_if_too_slow(self, spaced: asking.Spacing) -> None:
        latency_s = self._latencies.high_s()
        fits = spaced.horizon >= spaced.d if self.appends else spaced.fits
        # Several at once wait for one another while the worker's time is being learnt: that is no finding yet.
        enough = 1 if spaced.in_flight == 1 else _TELLING_SAMPLES
        if self._said_too_slow or fits or latency_s is None or self._latencies.count < enough:
            return
        self._said_too_slow = True
        covers_s = spaced.horizon * self._period_s
        self._telling.tell(ev.LatencyExceedsChunk(at_s=self._telling.at_s(), latency_s=latency_s, covers_s=covers_s))
        logger.warning(
            "latency exceeds the chunk: an answer takes %.2f s, asking every %.2f s, and a chunk covers %.2f s: %s",
            latency_s, spaced.s * self._period_s, covers_s, self._consequence(spaced),
        )  # fmt: skip

    def _consequence(self, spaced: asking.Spacing) -> str:
        late = self._play.late
        if isinstance(late, Stretch):
            return f"the arm will move at {stretch_rate(spaced):.2f} of its speed"
        if not isinstance(late, Lag):
            slower = self._declared.actions is not None and self._declared.actions.mixes
            return "the arm will stop and go. Longer chunks or a faster policy would help" + (
                ", or Play(late=Stretch()), which plays them slower" if slower else ""
            )
        said = f"rows will play up to {min(late.max_s, spaced.short_by * self._period_s):.2f} s late"
        if self._declared.actions is None or not self._declared.actions.open_loop:
            said += (
                ", and a policy that starts from where the arm is will be thrown back by it: use Stretch() for one, or "
                "declare Actions(open_loop=True) where rows depend on the clock alone"
            )
        return said
