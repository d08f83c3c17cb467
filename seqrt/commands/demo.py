"""`seqrt demo`: a robot being driven, with nothing of the caller's."""

from __future__ import annotations

import argparse

from seqrt.commands.arguments import count, milliseconds, seed


def demo_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = "The PushT task from pixels, driven over HTTP/2 by a worker in a process of its own."
    parser.add_argument("--seed", type=seed, default=0, help="where the T lies at the start (default %(default)s)")
    parser.add_argument("--actions", type=count, default=300, help="actions at the most (default %(default)s)")
    parser.add_argument("--latency-ms", type=milliseconds, default=0.0, help="round trip added to the network's")
    parser.add_argument("--no-prefetch", action="store_true", help="ask only when the chunk is played out")
    parser.add_argument("--no-prefix", action="store_true", help="do not send the committed rows along")
    parser.add_argument("--out", default="demo-out", help="folder for pictures and recording (default %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no live view")
    parser.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> int:
    from seqrt.demo.main import run_demo

    return run_demo(options)
