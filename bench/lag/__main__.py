"""``python -m bench.lag``: see ``--help``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Any

ABOUT = """\
Success, smoothness and age against how late answers are.

A point, or an arm of seven joints, has 3.2 s to reach a moving goal around a disc, 50 commands a second, kicked once
on its way. Its policy starts from the observed state, answers 50 rows, late, and takes the obstacle left or right,
anew at each request until it has committed itself. What happens between the answer and the motor is seqrt.action's
own plan, spacing, splice and seam; the strategies compared differ in nothing else. All meet the same episodes, the
same kicks, the same delays (a request that leaves at tick 40 of episode 7 is as late for each of them).

  python -m bench.lag --grid smoke --episodes 200     # a look, ten seconds or so
  python -m bench.lag                                 # the reduced grid, minutes
  python -m bench.lag --through loopback              # a few cells over real HTTP/2, in real time
  python -m bench.lag --grid full --out lag           # all distributions and plants; lag.md, lag.json, lag-*.png
"""


def parser() -> argparse.ArgumentParser:
    """What can be said on the command line."""
    told = argparse.ArgumentParser(
        prog="python -m bench.lag", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    told.add_argument("--grid", choices=("smoke", "reduced", "full"), default="reduced", help="which cells (reduced)")
    told.add_argument(
        "--through", choices=("core", "virtual", "loopback"), default="core",
        help="the pure core; or the whole runtime and worker, at 120 ms alone, in virtual time or over HTTP/2 (core)",
    )  # fmt: skip
    told.add_argument("--at-once", type=int, default=8, help="robots side by side, with --through (8)")
    told.add_argument("--episodes", type=int, default=None, help="a cell, the same in each (1000; whole stack 100)")
    told.add_argument("--only", default="", metavar="TEXT", help='places whose title holds it, e.g. "spikes, 120 ms"')
    told.add_argument("--join", type=Path, nargs="+", default=[], metavar="JSON", help="only show these files")
    told.add_argument("--seed", type=int, default=0, help="another seed, other episodes (0)")
    told.add_argument("--processes", type=int, default=2, help="cells driven at once (2)")
    told.add_argument("--out", type=Path, default=None, help="write OUT.md, OUT.json and OUT-*.png (extra bench)")
    return told


def main() -> int:
    """Run what was asked for."""
    args = parser().parse_args()
    if args.episodes is None:
        args.episodes = 1000 if args.through == "core" else 100
    if min(args.episodes, args.processes, args.at_once) < 1:
        print("--episodes, --processes and --at-once are counts: 1 or more", file=sys.stderr)
        return 2
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # the arrays are small: more threads only get in each other's way
    from bench.lag import grid, tables

    found: tables.Found = {}
    for path in args.join:
        found |= tables.read_json(path)
    wanted, status = grid.cells(args.grid), 0
    if args.through != "core":
        from bench.lag import whole  # needs the extra serve

        wanted = whole.cells(args.through)
    if args.only:
        wanted = [cell for cell in wanted if args.only in tables.titled(cell) or cell.distribution == "none"]
    try:
        if args.through != "core":
            logging.disable(logging.WARNING)
            whole.run(wanted, found, args.through, episodes=args.episodes, seed=args.seed, at_once=args.at_once)
        elif not args.join:
            grid.run(wanted, found, episodes=args.episodes, seed=args.seed, processes=args.processes)
    except KeyboardInterrupt:
        print(f"\nstopped after {len(found)} of {len(wanted)} cells", file=sys.stderr)
        status = 130
    found = {cell: found[cell] for cell in grid.cells("reduced") + wanted if cell in found}
    if args.out is not None:
        written(found, args.out, seed=args.seed, episodes=args.episodes, grid=args.grid)
    print(tables.markdown(found))
    return status


def written(found: Any, out: Path, **about: Any) -> None:
    """Write the table, the numbers and the pictures."""
    from bench.lag import plots, tables

    out.with_suffix(".md").write_text(tables.markdown(found))
    tables.write_json(found, out.with_suffix(".json"), **about)
    for path in plots.draw(found, out):
        print(path, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
