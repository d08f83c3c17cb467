"""``python -m bench.fleet <part>``: what one worker carries, and what its robots notice when it has too many or goes.

    pip install -e '.[serve,images,bench]' granian openpi-client typing_extensions
    python -m bench.fleet most                             # the most robots, server by server
    python -m bench.fleet growth                           # what each costs as they double
    python -m bench.fleet overload --peak 32               # twice as many as it carries
    python -m bench.fleet leaving                          # one of two workers is drained, or killed
    python -m bench.fleet hour                             # comings and goings of an hour, and what is left of them

The server has the first core for itself and the load the second; nothing else should run. Linux alone.
"""

from __future__ import annotations

import argparse
import sys

from bench.fleet import hour, leaving, most, overload


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    of_most = parts.add_parser("most", help="the most robots, server by server")
    of_growth = parts.add_parser("growth", help="what each costs as they double")
    for part, default in ((of_most, ["hypercorn", "granian"]), (of_growth, ["hypercorn"])):
        part.add_argument("--only", nargs="+", choices=most.KINDS, default=default)
        part.add_argument("--seconds", type=float, default=8.0, help="a run (default: %(default)s)")
    of_most.add_argument("--start", type=int, default=most.START, help="robots of the first run (default: %(default)s)")
    of_growth.add_argument("--robots", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    of_overload = parts.add_parser("overload", help="twice as many as it carries")
    of_overload.add_argument("--peak", type=int, required=True, help="what `most` found")
    of_overload.add_argument("--seconds", type=float, default=15.0, help="a line (default: %(default)s)")
    of_leaving = parts.add_parser("leaving", help="one of two workers is drained, or killed")
    of_leaving.add_argument("--robots", type=int, default=32)
    of_leaving.add_argument("--processes", type=int, default=2, help="they are in (default: %(default)s)")
    of_leaving.add_argument("--seconds", type=float, default=15.0, help="a run (default: %(default)s)")
    of_leaving.add_argument("--direct", action="store_true", help="robots know both workers; no gateway")
    of_hour = parts.add_parser("hour", help="comings and goings of an hour, and what is left of them")
    of_hour.add_argument("--episodes", type=int, default=hour.EPISODES)
    options = parser.parse_args()
    if options.part == "most":
        most.table(options.only, options.seconds, options.start)
    elif options.part == "growth":
        most.growth(options.only, options.seconds, options.robots)
    elif options.part == "overload":
        overload.table(options.peak, options.seconds)
    elif options.part == "leaving":
        leaving.table(options.robots, options.seconds, direct=options.direct, processes=options.processes)
    else:
        hour.table(options.episodes)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
