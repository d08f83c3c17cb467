"""The `seqrt` command: thin; each command is one call into the package that does it."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from seqrt.commands.demo import demo_arguments
from seqrt.commands.gateway import GATEWAY, gateway_arguments
from seqrt.commands.look import CHECK, check_arguments, schema_arguments
from seqrt.commands.serve import SERVE, serve_arguments
from seqrt.errors import SeqrtError
from seqrt.gateway.keycommand import KEYS, keys_arguments
from seqrt.watching.logs import log_to

_EXTRAS = {"hypercorn": "serve", "starlette": "serve", "rich": "demo", "gym_pusht": "demo", "pymunk": "demo"}

_UNBOUND = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)

_STEPS = """\
where to begin:
  seqrt demo                        watch a robot being driven; nothing of yours is needed
  seqrt check my_policy:MyPolicy    load your policy, act out its sample, say what is wrong
  seqrt serve my_policy:MyPolicy    serve it; the line it prints is what the robot's program says
  seqrt gateway --worker m=URL      one address and keys for robots, before one or more workers

seqrt COMMAND --help says more of each.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Errors of seqrt print one line and exit with their code (see `seqrt.errors`); Ctrl-C exits with 130.
    """
    options = _parser().parse_args(argv)
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(2, options.verbose)]
    log_to(sys.stderr, level=level, json=options.log == "json")
    try:
        code: int = options.command(options)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f'seqrt: {missing.name} is not installed; run: pip install "seqrt[{extra}]"', file=sys.stderr)
        return 1
    except SeqrtError as error:
        print(f"seqrt: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the output has had enough (`seqrt schema | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        listens = isinstance(error, socket.gaierror) or error.errno in _UNBOUND
        if not (listens and error.filename):
            raise
        where = f"seqrt: cannot listen at {error.filename}: {error.strerror}"
        print(f"{where}; choose another --host, --port or --metrics-port", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seqrt",
        description="Drive a robot from a policy that runs on another machine.",
        epilog=_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="say more (-v: every episode, -vv: every request)"
    )
    parser.add_argument(
        "--log", choices=("text", "json"), default="text", help="how: text, or one JSON object a line (default text)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve_arguments(_command(commands, "serve", "serve a policy to robots", SERVE))
    gateway_arguments(_command(commands, "gateway", "one address and keys for robots, before workers", GATEWAY))
    keys_arguments(_command(commands, "keys", "make, list and revoke the keys of a gateway", KEYS))
    check_arguments(_command(commands, "check", "look a policy through, without a robot", CHECK))
    schema_arguments(_command(commands, "schema", "print the JSON schema of what a policy may declare"))
    demo_arguments(commands.add_parser("demo", help="push a T into place from pixels, worker and all"))
    return parser


def _command(commands: Any, name: str, what: str, more: str = "") -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=what, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
