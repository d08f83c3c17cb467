"""What needs no goal and no obstacle: 10^5 ticks of asking and splicing, for starved ticks, ages and motion.

On `seqrt.testing.grid`, the pure core with rows that say of which tick they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.lag.worlds import HZ
from seqrt.action.plan import Spliced
from seqrt.testing.grid import Delays, Grid, Result

TICKS: Final = 100_000
INFER_S: Final = 0.03
REFILL_S: Final = 0.79
REFILL_INFER_S: Final = 0.128
CHUNKS: Final = ((32, 15.0), (15, 15.0), (32, 50.0), (25, 50.0))
"""Rows and rate."""


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        what: The case.
        starved: Ticks without a row, of how many.
        ticks: How many.
        moving: Share of ticks with a row.
        acts_per_s: Requests a second.
        age_p50_s: Of the observation behind a row.
        age_p99_s: The same.
        reversals: Share of seams at which the command went back.
        lag_s: How late rows played at the end.
        misplaced: Rows that were not the one due.
    """

    what: str
    starved: int
    ticks: int
    moving: float
    acts_per_s: float
    age_p50_s: float
    age_p99_s: float
    reversals: float
    lag_s: float
    misplaced: int


def spiky(typical: float, spike: float, rng: random.Random) -> Callable[[], float]:
    """One in twenty at ``spike``, in ticks."""
    return lambda: spike if rng.random() < 0.05 else typical


def jittery(typical: float, rng: random.Random) -> Callable[[], float]:
    """σ 20 %, and one in twenty up to twice as late, in ticks."""
    return lambda: typical * rng.lognormvariate(0, 0.2) * (rng.uniform(1.5, 2.0) if rng.random() < 0.05 else 1.0)


def line(what: str, grid: Grid, hz: float, ticks: int = TICKS) -> Line:
    """Run one case."""
    result: Result = grid.run(ticks)
    seams = sum(isinstance(splice, Spliced) for splice in result.splices)
    return Line(
        what, result.starved, result.ticks, result.moving, result.acts_per_s(hz), result.age(0.5) / hz,
        result.age(0.99) / hz, result.reversals / max(1, seams), result.lag / hz, result.misplaced,
    )  # fmt: skip


def table(seed: int = 0) -> list[Line]:
    """All cases. Delays are of the whole way, inference in them: independent of one another unless order is kept."""
    lines = []
    for n, fresh_s, ordered in (
        (1, None, False), (2, None, False), (1, 0.25, False), (2, 0.25, False), (8, 0.25, False), (8, 0.25, True),
    ):  # fmt: skip
        late = spiky(0.1203 * HZ, 0.5703 * HZ, random.Random(seed))
        grid = Grid(
            50, Delays(late, ordered=ordered), in_flight=n, infer=INFER_S * HZ,
            fresh=None if fresh_s is None else fresh_s * HZ, period_s=1 / HZ,
        )  # fmt: skip
        how = f", fresh_s {fresh_s}" if fresh_s else ""
        lines.append(line(f"120 ms, spikes to 570 ms, n = {n}{how}{', in order' if ordered else ''}", grid, HZ))
    for rows, hz in CHUNKS:
        for jitter in (False, True):
            for most_s in (0.0, 1.0) if rows / hz < REFILL_S else (0.0,):
                lines.append(_refill(rows, hz, jitter, most_s, seed))
    return lines


def _refill(rows: int, hz: float, jitter: bool, most_s: float, seed: int) -> Line:
    """A chunk of the refill table, rows that go on from the arm's state, eight in flight."""
    late = REFILL_S * hz + 0.01
    grid = Grid(
        rows, Delays(jittery(late, random.Random(seed)) if jitter else late), in_flight=8, infer=REFILL_INFER_S * hz,
        most_lag=round(most_s * hz), from_state=True, period_s=1 / hz,
    )  # fmt: skip
    grid.last = 0.0  # where the arm stands before the first action
    how = f"{', jitter' if jitter else ''}{f', Lag({most_s})' if most_s else ''}"
    return line(f"{rows} rows at {hz:g} Hz ({rows / hz:.2f} s), 0.79 s{how}", grid, hz, TICKS // 10)


def markdown(lines: list[Line]) -> str:
    """The table."""
    head = (
        "| case | starved ticks | moving | acts/s | age p50 / p99 s | reversals at seams | lag s | misplaced |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    return "\n".join(
        [
            head,
            *(
                f"| {x.what} | {x.starved} of {x.ticks} | {100 * x.moving:.2f} % | {x.acts_per_s:.1f} | "
                f"{x.age_p50_s:.2f} / {x.age_p99_s:.2f} | {100 * x.reversals:.0f} % | {x.lag_s:.2f} | {x.misplaced} |"
                for x in lines
            ),
        ]
    )


if __name__ == "__main__":
    print(markdown(table()))
