"""The demo over ten seeds, as it is and with what the runtime is for left out. Real time, a worker process each.

python bench/demo.py           # needs the extra demo; ten minutes or so, on a machine that does nothing else
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

import anyio

from seqrt.demo.main import Options, Played, play

CASES = {
    "`seqrt demo`": Options(live=False),
    "`--latency-ms 300`": Options(live=False, latency_ms=300),
    "`--latency-ms 300 --no-prefetch`": Options(live=False, latency_ms=300, prefetch=False),
    "`--latency-ms 300 --no-prefix`": Options(live=False, latency_ms=300, prefix=False),
}


def row(name: str, played: list[Played]) -> str:
    solved = [one for one in played if one.coverage > 0.95]
    dry = sum(one.outcome.underruns == 0 for one in played)
    actions = statistics.median(one.outcome.actions for one in played)
    stood = statistics.mean(one.outcome.underrun_s for one in played)
    latency = statistics.median(one.outcome.act_latency_s.p50 for one in played if one.outcome.act_latency_s)
    return (
        f"| {name} | {len(solved)} of {len(played)} | {dry} of {len(played)} | {stood:.2f} s | {actions:.0f} "
        f"| {latency * 1e3:.0f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| run | goal covered > 95 % | without an underrun | arm stood, mean | actions, median | act, p50 |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, options in CASES.items():
        played = []
        for seed in range(seeds):
            one = anyio.run(play, replace(options, seed=seed))
            print(f"{name} seed {seed}: {one.coverage:.3f} {one.outcome}", file=sys.stderr)
            played.append(one)
        print(row(name, played), flush=True)


if __name__ == "__main__":
    main()
