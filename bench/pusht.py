"""PushT from pixels: success and steps by strategy at 0, 200, 400, 600 and 800 ms added to each round trip.

The demo's robot, policy and worker over a scripted network, the whole runtime between them, in virtual time: an answer
takes 0.2 s of planning (a fixed number of rounds, so that a busy machine plans as well as an idle one) and the latency
added. Ten seeds each, at most 300 actions.

    python bench/pusht.py                 # needs the extra demo; about fifteen minutes on two cores
    python bench/pusht.py --seeds 3 --latency-ms 400 --only prefix aligned
"""

from __future__ import annotations

import argparse
import concurrent.futures
import logging
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import seqrt
from seqrt.demo.main import FRESH_S
from seqrt.demo.policy import PushTPolicy
from seqrt.demo.robot import PushTRobot
from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.timeline.outcome import RunOutcome

PLAN_S, ROUNDS, MOST_ACTIONS = 0.2, 5, 300

STRATEGIES: dict[str, Callable[[float], seqrt.Play]] = {
    "prefix": lambda fresh_s: seqrt.Play(fresh_s=fresh_s, in_flight=1),
    "aligned": lambda fresh_s: seqrt.Play(fresh_s=fresh_s, in_flight=1, continuity=None),
    "aligned, pipelined": lambda fresh_s: seqrt.Play(fresh_s=fresh_s, continuity=None),
    "nearest": lambda fresh_s: seqrt.Play(fresh_s=fresh_s, in_flight=1, continuity=None, splice=seqrt.Nearest()),
    "crossfade": lambda fresh_s: seqrt.Play(fresh_s=fresh_s, in_flight=1, continuity=None, seam=seqrt.Crossfade()),
    "sequential": lambda fresh_s: seqrt.Play(in_flight=1, continuity=None, splice=seqrt.Sequential()),
    "no prefetch": lambda fresh_s: seqrt.Play(prefetch=False, continuity=None),
}


@dataclass(frozen=True)
class Cell:
    """One episode."""

    strategy: str
    latency_ms: float
    seed: int


@dataclass(frozen=True)
class Ended:
    """How it ended."""

    cell: Cell
    solved: bool
    outcome: RunOutcome


def episode(cell: Cell) -> Ended:
    """Play one episode in virtual time."""
    logging.disable(logging.WARNING)
    robot, latency_s = PushTRobot(cell.seed), cell.latency_ms / 1000

    async def drive() -> RunOutcome:
        # Off the tick grid, as a network is.
        one_way_s = latency_s / 2 + 0.0013
        policy = PushTPolicy(rounds=ROUNDS)
        async with connected(policy, up_s=one_way_s, down_s=one_way_s, offload=inline(PLAN_S)) as there:
            return await there.policy.run(
                robot,
                max_actions=MOST_ACTIONS,
                until=lambda _: robot.success,
                validate=lambda row: True,
                play=STRATEGIES[cell.strategy](FRESH_S + latency_s),
            )

    outcome = virtual.run(drive)
    return Ended(cell, robot.success, outcome)


def line(ended: list[Ended]) -> str:
    """One line of the table."""
    cell = ended[0].cell
    solved = [one for one in ended if one.solved]
    steps = f"{statistics.median(one.outcome.actions for one in solved):.0f}" if solved else "-"
    stood = statistics.mean(one.outcome.underrun_s for one in ended)
    asked = statistics.mean(one.outcome.acts_per_s for one in ended)
    return (
        f"| {cell.latency_ms:.0f} ms | {cell.strategy} | {len(solved)} of {len(ended)} | {steps} "
        f"| {stood:.2f} s | {asked:.2f} |"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0, 200, 400, 600, 800])
    parser.add_argument("--only", nargs="+", choices=STRATEGIES, default=list(STRATEGIES), metavar="STRATEGY")
    options = parser.parse_args()
    print(
        "| added | strategy | solved | steps, median | arm stood, mean | acts/s |\n|---|---|---|---|---|---|",
        flush=True,
    )
    with concurrent.futures.ProcessPoolExecutor() as pool:
        try:
            for latency_ms in options.latency_ms:
                for strategy in options.only:
                    cells = [Cell(strategy, latency_ms, seed) for seed in range(options.seeds)]
                    print(line(list(pool.map(episode, cells))), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            sys.exit("stopped")


if __name__ == "__main__":
    main()
