"""Which cells are driven, and driving them: two processes, one line of progress, clean on Ctrl-C."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.lag import latency, worlds
from bench.lag.core import INFER_S, Driven
from bench.lag.measures import Measured, measured
from bench.lag.strategies import FLOW, ORACLE, ROWS, SHORT, STRATEGIES, Strategy, by_name, told

TYPICAL_S: Final = (0.06, 0.12, 0.22)
"""d = 3, 6 and 11 at 50 Hz."""
_ASIDE: Final = {
    "aligned + crossfade, no gate", "aligned + ramp", "aligned + prefix, one seed", "aligned + crossfade, one seed",
    "sync, whole chunks",
}  # fmt: skip
"""Driven for the point at a constant 120 ms alone."""
_TOLD: Final = ("aligned", "aligned, one seed", "aligned + crossfade", "fresh, one seed")


REFILL_S: Final = 0.79
REFILL_INFER_S: Final = 0.128
REFILL_TICKS: Final = 500
LATE: Final = ("constant", "spikes")
Place = tuple[str, int, str, bool, float, int]


@dataclass(frozen=True)
class Cell:
    """One combination.

    Attributes:
        body: "point" or "arm".
        behind: Ticks from a command to its effect.
        distribution: Of the latency; "none" for the oracle.
        in_order: Whether answers keep their order.
        typical_s: Latency in seconds.
        strategy: Its name, ", told" behind it where the runtime knows ``behind``.
        rows: H; below `ROWS` they are the chunks of the refill table, with its inference and more time.
    """

    body: str
    behind: int
    distribution: str
    in_order: bool
    typical_s: float
    strategy: str
    rows: int = ROWS

    @property
    def place(self) -> Place:
        """What it has in common with the cells it is compared to."""
        return self.body, self.behind, self.distribution, self.in_order, self.typical_s, self.rows


def cells(which: str) -> list[Cell]:
    """The cells of a grid: "smoke", "reduced" or "full".

    Raises:
        ValueError: Another name.
    """
    if which == "smoke":
        places = [("point", 0, "constant", False, 0.12)]
    elif which == "reduced":
        places = [("point", 0, "constant", False, t) for t in (0.12, 0.22, 0.06)]
        places += [("point", 0, "spikes", False, t) for t in TYPICAL_S[1:]]
        places += [("point", 0, "spikes", True, 0.12), ("point", 3, "constant", False, 0.12)]
        places += [("arm", 0, "constant", False, 0.12)]
    elif which == "full":
        places = [("point", 0, d, False, t) for d in latency.DISTRIBUTIONS for t in TYPICAL_S]
        places += [("point", 0, d, True, 0.12) for d in latency.DISTRIBUTIONS if d != "constant"]
        places += [("point", 3, d, False, t) for d in ("constant", "spikes") for t in TYPICAL_S]
        places += [("arm", behind, d, False, 0.12) for behind in (0, 3) for d in ("constant", "spikes")]
    else:
        raise ValueError(f"grid is {which!r}: smoke, reduced or full")
    late = [Cell("point", 0, d, False, REFILL_S, s.name, rows) for rows in (32, 25) for d in LATE for s in SHORT]
    flow = [Cell("point", 0, "constant", False, t, s.name) for t in TYPICAL_S[1:] for s in FLOW]
    late += flow if which == "full" else flow[: len(FLOW)]
    return [*_of(places), *(late if which != "smoke" else [])]


def _of(places: Iterable[tuple[str, int, str, bool, float]]) -> Iterator[Cell]:
    plants = set()
    for place in places:
        body, behind = place[:2]
        if (body, behind) not in plants:
            plants.add((body, behind))
            yield Cell(body, behind, "none", False, 0.0, ORACLE.name)
        names = [strategy.name for strategy in STRATEGIES if strategy is not ORACLE]
        if place != ("point", 0, "constant", False, 0.12):
            names = [name for name in names if name not in _ASIDE]
        if place[3]:  # with one request in flight, order is kept in any case
            names = [name for name in names if name == "aligned" or by_name(name).in_flight > 1]
        names += [told(by_name(name)).name for name in _TOLD] if behind else []
        for name in names:
            yield Cell(*place, name)


def strategy_of(cell: Cell) -> Strategy:
    """The strategy a cell names."""
    name, comma, rest = cell.strategy.rpartition(", ")
    return told(by_name(name)) if comma and rest == "told" else by_name(cell.strategy)


def driven(cell: Cell, episodes: int, seed: int) -> Measured:
    """Drive one cell."""
    body = body_of(cell.body)
    short = cell.rows < ROWS
    ticks, infer_s = (REFILL_TICKS, REFILL_INFER_S) if short else (worlds.TICKS, INFER_S)
    delays = latency.drawn(
        "constant" if cell.distribution == "none" else cell.distribution,
        cell.typical_s, episodes=episodes, ticks=ticks, period_s=worlds.PERIOD_S, seed=seed,
    )  # fmt: skip
    how = Driven(
        strategy_of(cell), body, _chances(cell.body, episodes, seed, ticks), delays,
        in_order=cell.in_order, behind=cell.behind, rows=cell.rows, infer_s=infer_s,
    )  # fmt: skip
    return measured(how.run(), body, infer_s)


def body_of(name: str) -> worlds.Body:
    """The body called "point" or "arm"."""
    return worlds.Arm() if name == "arm" else worlds.Point()


@cache
def _chances(body: str, episodes: int, seed: int, ticks: int) -> worlds.Chances:
    return worlds.chances(body_of(body), episodes, seed, ticks)


def _driven(job: tuple[Cell, int, int]) -> tuple[Cell, Measured]:
    return job[0], driven(*job)


def run(wanted: list[Cell], found: dict[Cell, Measured], *, episodes: int, seed: int, processes: int) -> None:
    """Drive all of them into ``found``, in any order.

    Raises:
        KeyboardInterrupt: Ctrl-C; the processes are ended first, and what was found is in ``found``.
    """
    begun = time.monotonic()
    jobs = [(cell, episodes, seed) for cell in wanted]
    with multiprocessing.get_context("spawn").Pool(processes, _ignore_interrupts) as pool:
        for cell, numbers in pool.imap_unordered(_driven, jobs):
            found[cell] = numbers
            _progress(len(found), len(jobs), begun, f"{cell.strategy}, {cell.distribution}")
    print(file=sys.stderr)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _progress(done: int, of: int, begun: float, what: str) -> None:
    took = time.monotonic() - begun
    left = took / done * (of - done)
    print(f"\r{done}/{of} cells, {took:.0f} s, {left:.0f} s left  ({what})\033[K", end="", file=sys.stderr, flush=True)
