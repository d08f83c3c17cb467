"""``python -m bench.link <part>``: what the link costs and what it makes of a network.

    pip install -e '.[serve,bench]'
    python -m bench.link cost                              # an act on loopback; peers are skipped without --peers
    python -m bench.link cost --peers PYTHON --lerobot PYTHON
    python -m bench.link handshake                         # opening, pauses, acknowledgements: in round trips
    python -m bench.link upload --seq51 PYTHON             # observations over a narrow link
    python -m bench.link overtake                          # a bare act beside them: handed over as they come, and paced
    python -m bench.link faults                            # what breaks while a run goes on

--peers names an interpreter that has the peers: pip install sequence-ai==0.1.0 openpi-client typing_extensions pyzmq.
--lerobot names one that has lerobot[async]==0.4.4, --seq51 one that has sequence-ai==0.51.5.
"""

from __future__ import annotations

import argparse
import sys

import anyio

from bench.link import cost, faults, handshake, overtake, upload


def options() -> argparse.Namespace:
    """What the command was called with."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.link", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    of_cost = parts.add_parser("cost", help="an act on loopback, beside the peers")
    of_cost.add_argument("--only", nargs="+", metavar="NAME", help="lines whose names begin so")
    of_cost.add_argument("--peers", metavar="PYTHON")
    of_cost.add_argument("--lerobot", metavar="PYTHON")
    of_cost.add_argument("--rounds", type=int, default=20)
    of_cost.add_argument("--calls", type=int, default=25, help="in a block (default: %(default)s)")
    of_handshake = parts.add_parser("handshake", help="connections with and without TLS; acknowledgements; windows")
    of_handshake.add_argument("--rtt-ms", type=float, nargs="+", default=[40.0, 101.0])
    of_handshake.add_argument("--calls", type=int, default=15, help="of each kind (default: %(default)s)")
    of_upload = parts.add_parser("upload", help="observations over a narrow link")
    of_upload.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="tables whose titles have one of these"
    )
    of_upload.add_argument("--seq51", metavar="PYTHON")
    of_upload.add_argument("--seconds", type=float, default=10.0, help="a line (default: %(default)s)")
    of_overtake = parts.add_parser("overtake", help="a bare act beside frames that want more than the link carries")
    of_overtake.add_argument("--mbit", type=float, nargs="+", default=[20.0])
    of_overtake.add_argument("--rtt-ms", type=float, nargs="+", default=[40.0])
    of_overtake.add_argument("--seconds", type=float, default=10.0, help="a line (default: %(default)s)")
    of_faults = parts.add_parser("faults", help="what breaks while a run goes on")
    of_faults.add_argument("--only", nargs="+", metavar="WORD", help="lines that have one of these")
    return parser.parse_args()


def run(options: argparse.Namespace) -> None:
    """One part."""
    if options.part == "cost":
        cost.run(
            only=options.only,
            peers=options.peers,
            lerobot=options.lerobot,
            rounds=options.rounds,
            calls=options.calls,
        )
    elif options.part == "overtake":
        overtake.run(options.mbit, options.rtt_ms, options.seconds)
    elif options.part == "handshake":
        handshake.run(rtts_ms=options.rtt_ms, calls=options.calls)
    elif options.part == "upload":
        anyio.run(upload.tables, options.only, options.seconds, options.seq51)
    else:
        faults.table(options.only)


def main() -> int:
    """The command."""
    try:
        run(options())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
