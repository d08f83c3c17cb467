"""The pure core on a grid of ticks: plan, estimates and the rule for asking together, without a loop, a link or time.

For tests and measurements of the rule itself: 10^5 ticks take seconds. The period is 1, an observation is taken a
quarter of it behind its tick, and rows say of which tick they are, so that each row played can be held against the
row that was due. Latencies should lie off the grid: on it, two orders are right.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from seqrt.action.asking import OBSERVE_PHASE, Flight, Spacing, Stagger, Standing, due, spacing, spare_of
from seqrt.action.chunk import Chunk, Spliced
from seqrt.action.lagging import LagInForce
from seqrt.action.latency import Cover, Latencies
from seqrt.action.plan import Plan


class Delays:
    """When answers come.

    Args:
        network: Ticks there and back, drawn for each request.
        serving: Ticks of inference, one act at a time.
        ordered: The connection keeps order: no answer overtakes another.
    """

    def __init__(
        self,
        network: float | Callable[[], float],
        serving: float = 0.0,
        *,
        ordered: bool = False,
    ) -> None:
        self._network = network if callable(network) else lambda: network
        self.serving, self._ordered = serving, ordered
        self._free_at = self._last_at = 0.0

    def answered_at(self, sent_at: float) -> tuple[float, float]:
        """When the answer to a request sent at ``sent_at`` comes, and how long it was at the worker."""
        network = self._network()
        arrives = sent_at + network / 2
        begins = max(arrives, self._free_at) if self.serving else arrives
        done = begins + self.serving
        if self.serving:
            self._free_at = done
        comes = done + network / 2
        if self._ordered:
            comes = self._last_at = max(comes, self._last_at)
        return comes, done - arrives


@dataclass
class Result:
    """What happened on the grid.

    Attributes:
        ticks: Ticks from the first row on.
        starved: Ticks without a row.
        played: Rows played.
        asked: Ticks at which a request went out.
        ages: Ticks from an observation to each row played of it.
        misplaced: Rows that were not the one due.
        reversals: Rows that lie behind the one before them.
        most_out: The most requests out at once.
        most_counted: The most of them of which some row could still play.
        too_soon: Requests less than f ticks after the one before, though the plan was not dry and nothing out.
        lag: The lag in force at the end.
        splices: Chunks taken in.
        dropped: Answers not used.
    """

    ticks: int = 0
    starved: int = 0
    played: int = 0
    asked: list[int] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    misplaced: int = 0
    reversals: int = 0
    most_out: int = 0
    most_counted: int = 0
    too_soon: int = 0
    lag: int = 0
    splices: list[Spliced] = field(default_factory=list)
    dropped: int = 0

    @property
    def moving(self) -> float:
        """Share of the ticks at which a row was played."""
        return self.played / self.ticks if self.ticks else 0.0

    def acts_per_s(self, hz: float) -> float:
        """Requests a second at ``hz`` ticks a second."""
        return len(self.asked) * hz / self.ticks if self.ticks else 0.0

    def age(self, q: float) -> float:
        """Quantile ``q`` of the ages, in ticks."""
        return float(np.quantile(self.ages, q))


@dataclass
class Grid:
    """One robot, one worker, no network but a number.

    Attributes:
        horizon: H.
        delays: When answers come.
        in_flight: n.
        fresh: Age wish, in ticks.
        prefetch: Ask while a chunk plays.
        prefix: Send committed rows along, at depth 1.
        most_lag: The most rows may play late; 0 for none.
        rows_wanted: Rows to play in all; None for no end.
        from_state: Rows follow where the arm is, not the clock.
        infer: Ticks of inference as `/policy` says; None where it does not.
        period_s: Seconds of a tick, for how long a lag that is too high stays.
    """

    horizon: int
    delays: Delays
    in_flight: int = 1
    fresh: float | None = None
    prefetch: bool = True
    prefix: bool = False
    most_lag: int = 0
    rows_wanted: int | None = None
    from_state: bool = False
    infer: float | None = None
    period_s: float = 1.0

    def __post_init__(self) -> None:
        """What a run begins with."""
        self.plan, self.latencies = Plan(), Latencies(self.infer)
        self.result = Result()
        self.lag = LagInForce(self.most_lag)
        self.spaced: Spacing | None = None
        self.last = -math.inf
        self._out: list[tuple[float, int, Flight, int, int, float, float]] = []
        self._stagger = Stagger.of(self.infer, period_s=1.0, in_flight=self.in_flight)
        self._next_tick, self._known, self._spaced_from = 0, -1, -1
        self._answered, self._first_at = False, math.inf
        self._last_sent: int | None = None

    def run(self, ticks: int) -> Result:
        """Play ``ticks`` ticks, from where it is."""
        result, first = self.result, self._next_tick
        for tick in range(first, first + ticks):
            self._next_tick = tick + 1
            self._receive(tick)
            self._play(tick)
            if self.rows_wanted is not None and result.played >= self.rows_wanted:
                break
            position = self.plan.position
            self._receive(tick + OBSERVE_PHASE)
            self._consider(Flight(tick, position))
        result.lag = self.lag.ticks
        return result

    def _play(self, tick: int) -> None:
        result, due_row = self.result, self.plan.pop()
        result.ticks += result.played > 0 or due_row is not None
        if due_row is None:
            result.starved += result.played > 0
            return
        result.played += 1
        value = float(due_row.row[0])
        # Row i of a chunk lies i rows behind the row that was next when its observation was taken, and its lag.
        result.misplaced += due_row.chunk.start + due_row.index != self.plan.position - 1
        result.reversals += value < self.last
        self.last = value
        result.ages.append(tick - due_row.chunk.taken_at)

    def _receive(self, now: float) -> None:
        while self._out and self._out[0][0] <= now:
            at, _, flight, committed, spaced_s, value, serving = heapq.heappop(self._out)
            rows = value + np.arange(1.0, self.horizon + 1)[:, None]
            before = self.plan.newest
            lag = self.lag.of_next()
            taken_at = flight.step + OBSERVE_PHASE
            placed = self.plan.splice(
                Chunk(rows, flight.step, committed=committed, taken_at=taken_at), flight.position, lag=lag
            )
            cold = taken_at < self._first_at
            self._first_at = min(self._first_at, at)
            self.latencies.add(at - taken_at, sent_at=taken_at, now=at, cold=cold)
            if serving:
                self.latencies.add_serving(self.delays.serving if cold else serving, cold=cold)
            self._answered = True
            if isinstance(placed, Spliced):
                self.result.splices.append(placed)
                self.lag.placed(placed.chunk.start - flight.position)
                if spaced_s and self._spaced_from < 0:
                    self._spaced_from = flight.step
                if spaced_s and before >= self._spaced_from:
                    self._add_cover(math.floor(now), before, flight.step, spaced_s)
            else:
                self.result.dropped += 1
        if self._answered and now != math.floor(now):
            self._space(now)

    def _add_cover(self, spliced: int, before: int, observed: int, spaced: int) -> None:
        spare = spare_of(self.in_flight)
        needed = Cover.of(spliced, before=before, observed=observed, spaced=spaced, spare=spare)
        self.latencies.add_cover(needed.ticks, needed.spared)

    def _space(self, now: float) -> None:
        if self._known != self.latencies.changes or self.spaced is None:
            self._known = self.latencies.changes
            spaced = spacing(
                self.latencies, period_s=1.0, horizon=self.horizon, in_flight=self.in_flight, fresh_s=self.fresh
            )
            self.spaced = spaced.with_prefix() if self.prefix and spaced.takes_prefix(self.horizon) else spaced
        if self.most_lag and self.latencies.typical:
            self.lag.measure(self.spaced.short_by, now * self.period_s)

    def _consider(self, flight: Flight) -> None:
        out = [entry[2] for entry in self._out]
        standing = Standing.of(
            out,
            tick=flight.step,
            last_sent=self._last_sent,
            planned=self.plan.newest,
            position=self.plan.position,
            rows_left=self.plan.rows_left,
            reach=self.horizon + self.lag.own if self._answered else None,
            rows_wanted=None if self.rows_wanted is None else self.rows_wanted - self.result.played,
            one_by_one=self.in_flight == 1,
        )
        if not due(standing, self.spaced or self._stagger, prefetch=self.prefetch):
            return
        self._note_if_too_soon(standing)
        self._last_sent = flight.step
        self.result.asked.append(flight.step)
        committed = self.spaced.d if self.prefix and self.spaced is not None else 0
        sent_at = flight.step + OBSERVE_PHASE
        at, serving = self.delays.answered_at(sent_at)
        value = max(self.last, 0.0) if self.from_state else float(flight.step)
        spaced_s = self.spaced.s if self.spaced is not None else 0
        heapq.heappush(self._out, (at, len(self.result.asked), flight, committed, spaced_s, value, serving))
        self.result.most_out = max(self.result.most_out, len(self._out))
        self.result.most_counted = max(self.result.most_counted, standing.in_flight + 1)

    def _note_if_too_soon(self, standing: Standing) -> None:
        f = self.spaced.f if self.spaced is not None else self._stagger.f
        dry = standing.rows_left == 0 and standing.out == 0
        soon = self._last_sent is not None and standing.tick - self._last_sent < f
        self.result.too_soon += soon and not dry
