"""When to ask for the next chunk: by spacing, not by level. Numbers in, a decision out.

All in ticks of the grid. The names are realtime.md's: H usable rows a chunk, d rows played between an observation
and its answer, s ticks between two requests, f the least spacing that is of use, e what a splice needs to be in
time, n the most requests in flight.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from seqrt.action.latency import Latencies

OBSERVE_PHASE = 0.25
"""Share of a period by which an observation follows its tick's action."""
_REFILL_MARGIN = 1.25
"""What a refill is taken to last of what refills lasted: late ones are later than early ones are early."""
_BUSY = 0.8
"""Share of its time a worker is kept busy by one robot at the most, where spacing can help it."""


@dataclass(frozen=True)
class Spacing:
    """What the present estimates say.

    Attributes:
        d: Rows that will be played between an observation and the arrival of its answer (p90).
        s: Ticks between the observations of two requests.
        f: Fewest ticks between two requests.
        e: Ticks of plan a splice needs to be in time, where the spare request is counted.
        horizon: H the others were computed for.
        in_flight: n.
        alone: The same without a spare, e where it is not given.
        spare: R, requests that a chunk reaches to.
        frozen: Rows to commit where a prefix goes along, d where it is not given.
    """

    d: int
    s: int
    f: int
    e: int
    horizon: int
    in_flight: int
    alone: int = 0
    spare: int = 1
    frozen: int | None = None

    @property
    def fits(self) -> bool:
        """Whether chunks of this length can follow one another without a gap (H ≥ d + s)."""
        return self.horizon >= self.d + self.s

    @property
    def short_by(self) -> int:
        """L: how many ticks late rows would have to play for no gap, losses of the recent past included."""
        return max(0, max(self.d, self.e, self.alone) + self.s - self.horizon)

    def takes_prefix(self, rows: int) -> bool:
        """Whether committed rows can be sent along: d ≤ s ≤ rows - d, s being raised to d where it is less."""
        prefixed = self.with_prefix()
        return prefixed.s <= rows - prefixed.d

    def with_prefix(self) -> Spacing:
        """The same with the d of a prefix, and s at least that: no answer may replace a row committed before it."""
        d = self.d if self.frozen is None else self.frozen
        return replace(self, d=d, s=max(self.s, d))


def rows_during(latency_s: float, period_s: float) -> int:
    """Rows played from an observation to the first tick its answer can be used at, the arm moving all the while.

    An observation begins a fixed phase behind its own tick; an answer can be used from the next tick on.
    """
    return max(0, math.ceil(OBSERVE_PHASE + latency_s / period_s - 1e-9) - 1)


def spare_of(in_flight: int, *, overlapping: bool = False) -> int:
    """R: requests a chunk has to reach to, one more than the next where a late answer may be made up for by it.

    Args:
        in_flight: n, the most requests in flight.
        overlapping: Rows of the plan before are wanted beside the new ones, with one request in flight too.
    """
    return 2 if in_flight > 1 or overlapping else 1


def spacing(
    latencies: Latencies,
    *,
    period_s: float,
    horizon: int,
    in_flight: int = 1,
    acts_per_s: float | None = None,
    fresh_s: float | None = None,
    overlapping: bool = False,
) -> Spacing:
    """How far apart requests should be.

    Args:
        latencies: The windows so far.
        period_s: Seconds of a tick.
        horizon: H, usable rows of a chunk.
        in_flight: n, the most requests in flight.
        acts_per_s: The most acts a second the worker wants, None for no wish.
        fresh_s: Age of an observation at execution the user asks for; None asks for the fewest requests.
        overlapping: See `spare_of`.
    """
    high, median = latencies.high_s() or 0.0, latencies.median_s() or 0.0
    d, d50 = rows_during(high, period_s), rows_during(median, period_s)
    frozen = rows_during(latencies.frozen_s() or 0.0, period_s)
    g = (latencies.serving_s() or 0.0) / period_s
    f = max(
        1,
        math.ceil(g - 1e-9),
        min(math.ceil(g / _BUSY - 1e-9), horizon - 1),
        # Not d50 / n: an answer that comes between a decision and the next tick has played d rows, but the request
        # after it goes out one tick later. Without this `fits` promises what starves a tick a chunk.
        math.ceil(median / period_s / in_flight - 1e-9),
        math.ceil(1 / (period_s * acts_per_s) - 1e-9) if acts_per_s else 0,
    )
    alone, spared = latencies.covers() or (0, 0)
    e, spare = max(d, spared), spare_of(in_flight, overlapping=overlapping)
    wanted = min((horizon - e) // spare, horizon - 1)
    if fresh_s is not None:
        wanted = min(wanted, math.floor((fresh_s / period_s - d50) / spare_of(in_flight) + 1e-9))
    return Spacing(
        d=d, s=max(f, wanted), f=f, e=e, horizon=horizon, in_flight=in_flight, alone=max(d, alone), spare=spare,
        frozen=frozen,
    )  # fmt: skip


@dataclass(frozen=True)
class Flight:
    """One request that is out.

    Attributes:
        step: Its observation.
        position: Rows played when that was taken.
    """

    step: int
    position: int


def hopeful(flights: Iterable[Flight], *, newest: int, position: int, reach: int | None) -> list[Flight]:
    """Those of ``flights`` of which some row could still play: newer than the plan, and not passed whole.

    Args:
        flights: The requests that are out.
        newest: The newest observation in the plan, -1 for none.
        position: Rows played by now.
        reach: Rows from a flight's position to the end of its chunk, lag included; None while nothing is known of H.
    """
    return [f for f in flights if f.step > newest and (reach is None or f.position + reach > position)]


@dataclass(frozen=True)
class Standing:
    """Where the run stands at one tick.

    Attributes:
        tick: The tick whose observation is in hand.
        in_flight: Requests out, of which some row could still play.
        last_sent: Tick of the last request; None before the first.
        newest: Newest observation in the plan or in flight; None before the first.
        rows_left: Rows still to play.
        rows_wanted: Rows the run will still play at the most; None for no end.
        out: Requests out, the hopeless ones too.
        rows_coming: Rows still to play up to where the chunks of the requests in flight reach, 0 where that is not
            known.
    """

    tick: int
    in_flight: int
    last_sent: int | None
    newest: int | None
    rows_left: int
    rows_wanted: int | None = None
    out: int = 0
    rows_coming: int = 0

    @classmethod
    def of(
        cls,
        flights: Collection[Flight],
        *,
        tick: int,
        last_sent: int | None,
        planned: int,
        position: int,
        rows_left: int,
        reach: int | None,
        rows_wanted: int | None = None,
        one_by_one: bool = False,
    ) -> Standing:
        """Where a run stands.

        Args:
            flights: The requests that are out.
            tick: The tick whose observation is in hand.
            last_sent: Tick of the last request; None before the first.
            planned: The newest observation in the plan, -1 for none.
            position: Rows played by now.
            rows_left: Rows still to play.
            reach: See `hopeful`.
            rows_wanted: Rows the run will still play at the most; None for no end.
            one_by_one: At depth 1 a request is in flight until it is over, whatever its rows are worth.
        """
        hoped = list(flights) if one_by_one else hopeful(flights, newest=planned, position=position, reach=reach)
        newest = max([*(flight.step for flight in hoped), *([planned] if planned >= 0 else [])], default=None)
        coming = max((f.position + (reach or 0) - position for f in hoped), default=0)
        return cls(tick, len(hoped), last_sent, newest, rows_left, rows_wanted, len(flights), max(0, coming))


@dataclass(frozen=True)
class Stagger:
    """How requests follow one another before the first answer, while nothing is known of H.

    Attributes:
        f: Fewest ticks between two of them.
        in_flight: The most at once.
    """

    f: int = 1
    in_flight: int = 1

    @classmethod
    def of(
        cls, infer_s: float | None, *, period_s: float, in_flight: int = 1, acts_per_s: float | None = None
    ) -> Stagger:
        """By what `/policy` says.

        Args:
            infer_s: Time an act spends at the worker; None where it is not known: then two are out at the most.
            period_s: Seconds of a tick.
            in_flight: n, the most requests in flight.
            acts_per_s: The most acts a second the worker wants, None for no wish.
        """
        g = (infer_s or 0.0) / period_s
        slowest = math.ceil(1 / (period_s * acts_per_s) - 1e-9) if acts_per_s else 0
        return cls(
            f=max(1, math.ceil(g / _BUSY - 1e-9), slowest),
            in_flight=in_flight if infer_s is not None else min(2, in_flight),
        )


def due(
    standing: Standing, spaced: Spacing | Stagger | None, *, prefetch: bool = True, stretched: bool = False
) -> bool:
    """Whether to ask now.

    Args:
        standing: Where the run stands.
        spaced: The spacing; before the first answer how requests are staggered, None for one at a time.
        prefetch: False asks only when the plan is dry, as a synchronous loop does.
        stretched: Rows play slower where chunks are too short: then some are left whatever the latency.
    """
    if standing.rows_wanted is not None and standing.rows_left >= standing.rows_wanted:
        return False  # what is planned is all that will be played
    if not prefetch:
        return standing.in_flight == 0 and standing.rows_left == 0
    if spaced is None:
        return standing.in_flight == 0
    if standing.in_flight >= spaced.in_flight or standing.out >= 2 * spaced.in_flight > 2:
        return False
    wanted = math.inf if standing.rows_wanted is None else standing.rows_wanted
    if isinstance(spaced, Spacing) and standing.rows_left and wanted <= min(spaced.d, standing.rows_coming):
        return False  # what is on its way is enough: while the arm moves, this answer would find no row left
    since_sent = math.inf if standing.last_sent is None else standing.tick - standing.last_sent
    if isinstance(spaced, Stagger):
        return since_sent >= spaced.f
    if standing.rows_left == 0 and standing.in_flight == 0:
        # Dry and nothing on its way: no spacing is worth a standing arm, unless others wait for the worker.
        return standing.out == 0 or since_sent >= spaced.f
    if spaced.in_flight == 1 and spaced.horizon <= spaced.d and not stretched:
        # Asked while the arm moves, an answer finds its rows passed: it moves H / 2d of the time, asked when the plan
        # is dry H / (H + d), which is more wherever H < d.
        return False
    since_newest = math.inf if standing.newest is None else standing.tick - standing.newest
    return since_sent >= spaced.f and since_newest >= spaced.s


def refill_due(rows_left: int, refill_s: float, *, period_s: float) -> bool:
    """Whether it is time for the next chunk where every row of every chunk is played.

    Asked for by spacing, such chunks would pile up faster than they play out. The lead is what `sequence-ai` 0.1.0
    promises: a quarter more than a refill takes, and one period.

    Args:
        rows_left: Rows still to play.
        refill_s: Seconds from an observation to its answer, averaged.
        period_s: Seconds of a tick.
    """
    return rows_left * period_s <= _REFILL_MARGIN * refill_s + period_s


def will_read(step: int, *, newest: int, spacing: int, offsets: Iterable[int]) -> bool:
    """Whether a request expected at ``newest`` + j · ``spacing`` (j ≥ 1) reads ``step`` at one of ``offsets`` (≤ 0)."""
    ahead = (step - offset - newest for offset in offsets)
    return any(distance > 0 and distance % spacing == 0 for distance in ahead)
