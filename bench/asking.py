"""The rule for asking, through the pure core: what starves, how often it asks, how old rows are when they play.

    python bench/asking.py                 all tables, 10^5 ticks each (minutes); --ticks 10000 for a look
    python bench/asking.py spikes chunks ages stack

No loop, no link, no clock: `seqrt.testing.grid`; ``stack`` is the whole runtime and worker in virtual time.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from itertools import pairwise

from seqrt.testing.grid import Delays, Grid, Result

HZ = 50.0


def spiky(seed: int, usual: float = 5.99, late: float = 28.49, chance: float = 0.05) -> Callable[[], float]:
    """Ticks at 50 Hz: 120 ms, and 570 ms one time in twenty; a hair off the grid."""
    rng = random.Random(seed)
    return lambda: late if rng.random() < chance else usual


def jittery(seed: int, median: float, late: float, sigma: float = 0.2, chance: float = 0.05) -> Callable[[], float]:
    """Lognormal, and ``late`` times as long one time in twenty."""
    rng = random.Random(seed)
    return lambda: median * (late if rng.random() < chance else 1.0) * math.exp(rng.gauss(0.0, sigma))


def spikes(ticks: int) -> None:
    """H=50 at 50 Hz, 120 ms with 5 % spikes to 570 ms."""
    print("\nspikes | n | delays | starved in", ticks, "| acts/s | age p50/p99 ms")
    for n in (1, 2, 4):
        for ordered in (False, True):
            result = Grid(50, Delays(spiky(1), ordered=ordered), in_flight=n).run(ticks)
            _row("", n, _kind(ordered), result.starved, f"{result.acts_per_s(HZ):.2f}", _ages(result))


def chunks(ticks: int) -> None:
    """The four published chunk lengths at a refill of 0.79 s, of which 0.128 s is inference, one act at a time."""
    print("\nchunk s | late | delays | moving % | lag s | acts/s | most out | reversals")
    for covers, hz, rows in ((2.13, 15, 32), (1.00, 15, 15), (0.64, 50, 32), (0.50, 50, 25)):
        # A hair more than 0.79 s: on the grid, two orders are right.
        network, infer = 0.6623 * hz, 0.128 * hz
        for name, delay in (("constant", network), ("σ 20 %, 5 % × 2", jittery(3, network, 2.0))):
            for most_s in (0.0, 1.5):
                grid = Grid(
                    rows, Delays(delay, infer), in_flight=8, most_lag=int(most_s * hz), infer=infer, period_s=1 / hz
                )
                result = grid.run(ticks)
                late = f"Lag({most_s})" if most_s else "StopAndGo()"
                moving, lag = f"{100 * result.moving:.3f}", f"{result.lag / hz:.2f}"
                acts = f"{result.acts_per_s(hz):.2f}"
                _row(covers, late, name, moving, lag, acts, result.most_counted, result.reversals)


def ages(ticks: int) -> None:
    """Observation age at execution, 120 ms with 5 % spikes to 570 ms, ``fresh_s`` 0.25."""
    print("\nages | n | delays | acts/s | age p50/p99 ms | starved")
    for n in (1, 2, 4, 8):
        for ordered in (False, True):
            result = Grid(50, Delays(spiky(1), ordered=ordered), in_flight=n, fresh=0.25 * HZ).run(ticks)
            _row("", n, _kind(ordered), f"{result.acts_per_s(HZ):.2f}", _ages(result), result.starved)


def stack(ticks: int) -> None:
    """The whole runtime and worker over a scripted link, in virtual time."""
    from seqrt import Play
    from seqrt.testing import virtual
    from seqrt.testing.connected import connected
    from seqrt.testing.durations import spiky as spiky_s
    from seqrt.testing.policies import Scripted
    from seqrt.testing.robots import FakeArm

    async def run() -> None:
        policy = Scripted(rows=50, hz=HZ, infer_s=0.01013, by="state")
        down_s = spiky_s(0.0997, 0.5497, chance=0.05, seed=1)
        async with connected(policy, down_s=down_s, in_order=False) as there:
            arm = FakeArm(3)
            outcome = await there.policy.run(arm, max_actions=ticks, validate=lambda row: True, play=Play())
        values = [float(row[0]) for row in arm.rows]
        off = sum(later - sooner != 1.0 for sooner, later in pairwise(values))
        print(f"\nstack | {outcome} | {outcome.acts_per_s:.2f} acts/s, {outcome.answers_dropped} dropped")
        bursts = sum(later.at_s - sooner.at_s < (1 - 1e-6) / HZ for sooner, later in pairwise(arm.acts))
        print(f"rows out of place {off}, bursts {bursts}, underruns {outcome.underruns}, jump {outcome.max_seam_jump}")
        print(f"starved {outcome.starved_ticks}, overruns {outcome.overruns}, age {outcome.observation_age_s}")

    virtual.run(run)


def _kind(ordered: bool) -> str:
    return "in order" if ordered else "independent"


def _ages(result: Result) -> str:
    return f"{result.age(0.5) / HZ * 1e3:.0f}/{result.age(0.99) / HZ * 1e3:.0f}"


def _row(*cells: object) -> None:
    print(" | ".join(str(cell) for cell in cells), flush=True)


TABLES = {"spikes": spikes, "chunks": chunks, "ages": ages, "stack": stack}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[])
    parser.add_argument("--ticks", type=int, default=100_000)
    args = parser.parse_args()
    for name in args.tables or TABLES:
        TABLES[name](args.ticks)


if __name__ == "__main__":
    main()
