"""One episode's side of the robot: the runtime's own plan, windows, spacing, lag and guard, without its tasks.

`bench.lag.core` calls it tick by tick; what it does at each is what `seqrt.runtime`'s requester and receiver do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bench.lag.strategies import Strategy
from bench.lag.worlds import PERIOD_S, Reals
from seqrt.action import asking
from seqrt.action.declaration import Actions
from seqrt.action.guard import Guard
from seqrt.action.lagging import Lag, LagInForce, Stretch
from seqrt.action.latency import Cover, Latencies
from seqrt.action.plan import Chunk, Dropped, Plan
from seqrt.action.player import Player
from seqrt.action.splice import Aligned, Sequential
from seqrt.action.underrun import Starving, underrun_for


@dataclass(eq=False)
class Request:
    """One request that is out; its answer is made when it is sent."""

    flight: asking.Flight
    short: float
    begun_s: float
    arrives_s: float
    spacing: int | None
    committed: int
    rows: Reals


class Seat:
    """One episode's side of the robot: what `seqrt.runtime` keeps for a run, without the tasks."""

    def __init__(
        self, strategy: Strategy, dims: int, *, in_order: bool, horizon: int, behind: int, infer_s: float
    ) -> None:
        actions = Actions(bounds=((-10.0, 10.0),) * dims, space="absolute")
        self.strategy = strategy
        self.guard = Guard.of(actions)
        self.plan = Plan(strategy.splice, self.guard, strategy.seam, actions)
        self.latencies, self._infer_s = Latencies(infer_s), infer_s
        self.starving = Starving(underrun_for("absolute"), actions, PERIOD_S)
        self.player = Player(
            self.plan, actions, rate=self._rate if isinstance(strategy.late, Stretch) else None,
            aligned=isinstance(strategy.splice, Aligned),
        )  # fmt: skip
        most = round(strategy.late.max_s / PERIOD_S) if isinstance(strategy.late, Lag) else 0
        self._lag, self._lags = LagInForce(most), most > 0
        self.out: list[Request] = []
        self.next_s = math.inf
        self.asked = self.dropped = self.useless = 0
        self._horizon, self._behind = horizon, behind if strategy.told_behind else 0
        self._in_order, self._newest_s = in_order, 0.0
        self._last_sent: int | None = None
        self._spaced: asking.Spacing | None = None
        self._stagger = asking.Stagger.of(infer_s, period_s=PERIOD_S, in_flight=strategy.in_flight)
        self._cold, self._look_at = True, 0.0

    def receive(self, now_s: float) -> None:
        """Take in every answer that has come by ``now_s``."""
        while self.next_s <= now_s:
            request = min(self.out, key=lambda r: r.arrives_s)
            self.out.remove(request)
            self.next_s = min((r.arrives_s for r in self.out), default=math.inf)
            self._take(request)

    def _take(self, request: Request) -> None:
        self.guard.check(request.rows)
        now_s, before = request.arrives_s, self.plan.newest
        self.latencies.add(now_s - request.begun_s, sent_at=request.begun_s, now=now_s, cold=self._cold)
        self.latencies.add_serving(self._infer_s)
        rows = self.player.realigned(request.rows, request.short)
        flight = request.flight
        chunk = Chunk(rows, flight.step, committed=request.committed, taken_at=request.begun_s)
        at = max(0, flight.position - self._behind)
        lag = self._lag.of_next() if self._lags else 0
        result = self.plan.splice(chunk, at, spacing=request.spacing, lag=lag)
        if isinstance(result, Dropped):
            self.useless += 1
        else:
            self.dropped += result.dropped
            if self._lags:
                self._lag.placed(min(lag, result.chunk.start - at))
            if before >= 0 and request.spacing is not None and not self._cold:
                tick, spare = math.floor(now_s / PERIOD_S + 1e-6), asking.spare_of(self.strategy.in_flight)
                needed = Cover.of(tick, before=before, observed=flight.step, spaced=request.spacing, spare=spare)
                self.latencies.add_cover(needed.ticks, needed.spared)
        self._cold, self._look_at = False, 0.0
        self._spaced = self._spacing()
        if self._lags and self.latencies.typical:
            self._lag.measure(self._spaced.short_by, now_s)

    def _rate(self) -> float:
        late = self.strategy.late
        return late.rate(self._spaced) if isinstance(late, Stretch) else 1.0

    def _spacing(self) -> asking.Spacing:
        wanted = self.strategy
        spaced = asking.spacing(
            self.latencies, period_s=PERIOD_S, horizon=self._horizon, in_flight=wanted.in_flight, fresh_s=wanted.fresh_s
        )
        if wanted.spaced is not None:
            spaced = replace(spaced, s=max(spaced.f, min(spaced.s, wanted.spaced)))
        if wanted.prefix and spaced.takes_prefix(self._horizon):
            spaced = spaced.with_prefix()
        return spaced

    def wants(self, tick: int) -> bool:
        """Whether to ask about the observation of ``tick``."""
        if tick < self._look_at:
            return False
        wanted = self._due(tick)
        if not wanted:
            self._look_at = self._next_look(tick)
        return wanted

    def _due(self, tick: int) -> bool:
        spaced, plan = self._spaced, self.plan
        if spaced is not None and self._appends:
            return not self.out and plan.rows_left <= _lead(spaced)
        standing = asking.Standing.of(
            [request.flight for request in self.out], tick=tick, last_sent=self._last_sent, planned=plan.newest,
            position=plan.position, rows_left=plan.rows_left, reach=self._reach,
            one_by_one=self.strategy.in_flight == 1,
        )  # fmt: skip
        return asking.due(standing, spaced or self._stagger, prefetch=self.strategy.prefetch)

    def _next_look(self, tick: int) -> float:
        """The first tick at which `_due` may say otherwise, if no answer comes and nothing is sent before.

        Nine tenths of a run's ticks are none of them, and asking at each took a third of the time.
        """
        spaced, left, reach = self._spaced, self.plan.rows_left, self._reach
        if self.out and (self.strategy.in_flight == 1 or self._appends):
            return math.inf
        if spaced is None or reach is None or not left:
            return tick + 1
        dry = tick + left
        if self._appends:
            return max(tick + 1, dry - _lead(spaced))
        if not self.strategy.prefetch:
            return dry
        hoped = [r.flight for r in self.out if r.flight.step > self.plan.newest]
        newest = max((flight.step for flight in hoped), default=self.plan.newest)
        passed = min((tick + f.position + reach - self.plan.position for f in hoped), default=math.inf)
        last = -math.inf if self._last_sent is None else self._last_sent
        return max(tick + 1, min(dry, passed, max(last + spaced.f, newest + spaced.s)))

    @property
    def _reach(self) -> int | None:
        return None if self._spaced is None else self._horizon + self._lag.own

    @property
    def _appends(self) -> bool:
        return self.strategy.prefetch and isinstance(self.strategy.splice, Sequential)

    def prefix(self) -> tuple[Reals | None, int, int]:
        """The rows that go along, d and s; none, 0 and 0 where none do."""
        spaced = self._spaced
        if spaced is None or not self.strategy.prefix or spaced.d == 0 or not spaced.takes_prefix(self._horizon):
            return None, 0, 0
        rows = self.plan.ahead(self.plan.position, spaced.d)
        return (None, 0, 0) if rows is None else (rows, spaced.d, spaced.s)

    def ask(self, tick: int, latency_s: float, rows: Reals, committed: int) -> None:
        """Send a request; its answer ``rows`` comes ``latency_s`` later."""
        begun_s = (tick + asking.OBSERVE_PHASE) * PERIOD_S
        arrives_s = begun_s + latency_s
        if self._in_order:
            arrives_s = self._newest_s = max(arrives_s, self._newest_s)
        spacing = None if self._spaced is None else self._spaced.s
        position, short = self.player.played()
        flight = asking.Flight(tick, position)
        self.out.append(Request(flight, short, begun_s, arrives_s, spacing, committed, rows[: self._horizon]))
        self.next_s = min(self.next_s, arrives_s)
        self._last_sent, self._look_at = tick, 0.0
        self.asked += 1


def _lead(spaced: asking.Spacing) -> int:
    """Rows left at which chunks that are played whole ask for the next, as the runtime's requester does."""
    return spaced.d + max(1, spaced.d // 4)
