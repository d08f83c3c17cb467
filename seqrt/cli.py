"""The `seqrt` command: thin; each command is one call into the package that does it."""

from __future__ import annotations

import argparse
import errno
import json
import logging
import math
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrt.errors import SeqrtError
from seqrt.gateway.keycommand import KEYS, keys_arguments
from seqrt.policies.constructor import Weights

if TYPE_CHECKING:
    from seqrt.gateway.together import Together
    from seqrt.worker.tls import Certificate

_EXTRAS = {"hypercorn": "serve", "starlette": "serve", "rich": "demo", "gym_pusht": "demo", "pymunk": "demo"}
_PART = re.compile(r"([A-Za-z0-9_-]+)=(.+)", re.DOTALL)

_STEPS = """\
where to begin:
  seqrt demo                        watch a robot being driven; nothing of yours is needed
  seqrt check my_policy:MyPolicy    load your policy, act out its sample, say what is wrong
  seqrt serve my_policy:MyPolicy    serve it; the line it prints is what the robot's program says
  seqrt gateway --worker m=URL      one address and keys for robots, before one or more workers

seqrt COMMAND --help says more of each.
"""

_SERVE = """\
examples:
  seqrt serve my_policy:MyPolicy                        to robots on this machine
  seqrt serve my_policy:MyPolicy --host 0.0.0.0 --tls --secret-env SEQRT_KEY
                                                        to all that send the key in SEQRT_KEY, over TLS
  seqrt serve my_policy:MyPolicy --weights actor=a.pt --weights critic=c.pt
  seqrt serve my_policy:MyPolicy --gateway --keys keys  the JSON face on the same port, for keys of that file

The first Ctrl-C lets live episodes end, the second stops at once.
"""

_CHECK = """\
Its load and warmup are called and its sample is acted out, as a worker does before it says ready.
Exit code 0: a worker would start with it. 1: it would not; each problem is printed with its remedy.
"""

_GATEWAY = """\
examples:
  seqrt gateway --worker pi05-droid=http://gpu:8080     every robot that reaches it is served
  seqrt keys add arm-1 --keys keys                      makes a key, and the file
  seqrt gateway --worker pi05-droid=http://gpu:8080 --worker pi05-droid=http://gpu2:8080 \\
                --worker act-aloha=https://gpu3:8080#840240fd… --secret-env WORKER_KEY --keys keys
                                                        two models, one at two workers, one pinned by the
                                                        fingerprint its `seqrt serve --tls` prints

A robot names the model: pi05-droid, or accounts/sequences/models/pi05-droid, which is the same.
The first Ctrl-C lets acts under way end, the second stops at once.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Errors of seqrt print one line and exit with their code (see `seqrt.errors`); Ctrl-C exits with 130.
    """
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=[logging.WARNING, logging.INFO, logging.DEBUG][min(2, options.verbose)],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
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
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        print(f"seqrt: cannot listen there: {error.strerror}; choose another --port or --host", file=sys.stderr)
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
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more (-vv: every request)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve_arguments(_command(commands, "serve", "serve a policy to robots", _SERVE))
    _gateway_arguments(_command(commands, "gateway", "one address and keys for robots, before workers", _GATEWAY))
    keys_arguments(_command(commands, "keys", "make, list and revoke the keys of a gateway", KEYS))
    _check_arguments(_command(commands, "check", "look a policy through, without a robot", _CHECK))
    _schema_arguments(_command(commands, "schema", "print the JSON schema of what a policy may declare"))
    _demo_arguments(commands.add_parser("demo", help="push a T into place from pixels, worker and all"))
    return parser


def _command(commands: Any, name: str, what: str, more: str = "") -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=what, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    return made


def _policy_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "policy", metavar="module:Policy", help="a class, object or function; searched from the current folder first"
    )
    parser.add_argument(
        "--weights",
        action=_Weights,
        metavar="PATH",
        help="what {weights} stands for in the policy's args= and kwargs=; part=PATH, repeated, where it has several",
    )


class _Weights(argparse.Action):
    """Collects ``--weights`` into one path, or one a part."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before: Weights = getattr(namespace, self.dest)
        found = _PART.fullmatch(values)
        if found is not None and not isinstance(before, str) and found[1] not in (before or {}):
            setattr(namespace, self.dest, {**(before or {}), found[1]: found[2]})
        elif found is None and before is None:
            setattr(namespace, self.dest, values)
        else:
            raise argparse.ArgumentError(self, f"{values!r}: give one path, or part=PATH once for each part")


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serve one policy over HTTP/2. The robot's line is printed when it is ready."
    _policy_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; 0.0.0.0: every one (default %(default)s)")
    parser.add_argument("--port", type=_port, default=8080, help="port; 0 for a free one (default %(default)s)")
    parser.add_argument(
        "--secret-env", metavar="NAME", help="environment variable that holds the key robots must send (default: none)"
    )
    parser.add_argument(
        "--gateway", action="store_true", help="serve the gateway's JSON face too, on the same port under /v1"
    )
    _key_arguments(parser, "with --gateway: ")
    _tls_arguments(parser.add_argument_group("TLS"))
    parser.set_defaults(command=_serve)


def _tls_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tls",
        action="store_true",
        help="over TLS, with a certificate made here at the first start and kept; robots are given its fingerprint",
    )
    group.add_argument("--tls-dir", metavar="PATH", help="where that is kept (default: ~/.local/share/seqrt/tls)")
    group.add_argument("--tls-cert", metavar="PATH", help="your own certificate instead, in PEM, with its chain")
    group.add_argument("--tls-key", metavar="PATH", help="its key, where it is not in the same file")


def _certificate(options: argparse.Namespace) -> Certificate | None:
    from seqrt.worker.tls import Certificate, data_directory, self_signed

    if options.tls_cert is not None:
        return Certificate(Path(options.tls_cert), Path(options.tls_key) if options.tls_key is not None else None)
    if not (options.tls or options.tls_dir is not None):
        return None
    return self_signed(Path(options.tls_dir) if options.tls_dir is not None else data_directory(os.environ) / "tls")


def _serve(options: argparse.Namespace) -> int:
    import anyio

    from seqrt.worker.server import SWITCH_S, serve

    wrong = _tls_at_odds(options)
    if options.keys is not None and not options.gateway:
        wrong = "--keys are a gateway's: give --gateway too, or --secret-env for a key of the worker's own"
    if wrong:
        print(f"seqrt: {wrong}", file=sys.stderr)
        return 2
    certificate, secret = _certificate(options), _secret(options)

    async def run() -> None:
        async with _gateway_of(options, secret, certificate) as beside:
            await serve(
                options.policy,
                host=options.host,
                port=options.port,
                secret=beside.secret if beside is not None else secret,
                weights=options.weights,
                beside=beside,
                tls=certificate,
            )

    sys.setswitchinterval(SWITCH_S)  # the process is ours
    anyio.run(run)
    return 0


@asynccontextmanager
async def _gateway_of(
    options: argparse.Namespace, secret: str | None, certificate: Certificate | None
) -> AsyncIterator[Together | None]:
    if not options.gateway:
        yield None
        return
    from seqrt.gateway.together import together

    pinned = certificate.fingerprint if certificate is not None and certificate.pinned else None
    keys, spent = _key_files(options)
    async with together(keys=keys, spent=spent, secret=secret, fingerprint=pinned) as beside:
        yield beside


def _key_arguments(parser: argparse.ArgumentParser, where: str = "") -> None:
    parser.add_argument(
        "--keys", metavar="FILE", help=f"{where}the keys robots must send, see `seqrt keys` (default: none)"
    )
    parser.add_argument(
        "--spent", metavar="FILE", help=f"{where}where acts of keys with a budget are counted (default: KEYS.spent)"
    )


def _key_files(options: argparse.Namespace) -> tuple[Path | None, Path | None]:
    return Path(options.keys) if options.keys else None, Path(options.spent) if options.spent else None


def _tls_at_odds(options: argparse.Namespace) -> str:
    if options.tls_key is not None and options.tls_cert is None:
        return "--tls-key is the key of a --tls-cert"
    if options.tls_dir is not None and options.tls_cert is not None:
        return "--tls-dir keeps a certificate made here, --tls-cert is your own: give one of them"
    return ""


def _secret(options: argparse.Namespace) -> str | None:
    """The key in the environment variable named; None where none is named.

    Raises:
        SystemExit: The variable is empty.
    """
    if not options.secret_env:
        return None
    secret = os.environ.get(options.secret_env)
    if not secret:
        print(f"seqrt: the environment variable {options.secret_env} is empty", file=sys.stderr)
        raise SystemExit(2)
    return secret


def _gateway_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "One address for robots before one or more workers: HTTP/2 and HTTP/1.1, JSON, keys, budgets."
    parser.add_argument(
        "--worker",
        action="append",
        type=_worker,
        required=True,
        dest="workers",
        metavar="MODEL=URL",
        help="a model and its worker, again for each; the same model at several; URL#FINGERPRINT pins a certificate",
    )
    _key_arguments(parser)
    parser.add_argument(
        "--secret-env", metavar="NAME", help="environment variable with the key the workers ask for (default: none)"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="send that key over plain http to other machines, on a network of yours"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; 0.0.0.0: every one (default %(default)s)")
    parser.add_argument("--port", type=_port, default=8081, help="port; 0 for a free one (default %(default)s)")
    _tls_arguments(parser.add_argument_group("TLS"))
    parser.set_defaults(command=_gateway)


def _worker(text: str) -> tuple[str, str, str]:
    """Model, URL and fingerprint ("" for none) of ``MODEL=URL[#FINGERPRINT]``."""
    model, _, place = text.partition("=")
    url, _, fingerprint = place.partition("#")
    if not model or not url.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: say which model is where, as pi05-droid=http://gpu:8080")
    return model, url, fingerprint


def _gateway(options: argparse.Namespace) -> int:
    import anyio

    from seqrt.gateway.server import serve_gateway

    wrong = _tls_at_odds(options)
    if wrong:
        print(f"seqrt: {wrong}", file=sys.stderr)
        return 2
    workers: dict[str, list[str]] = {}
    for model, url, _ in options.workers:
        workers.setdefault(model, []).append(url)
    certificate, secret = _certificate(options), _secret(options)
    keys, spent = _key_files(options)
    try:
        anyio.run(
            lambda: serve_gateway(
                workers,
                host=options.host,
                port=options.port,
                keys=keys,
                spent=spent,
                secret=secret,
                fingerprints={url: fingerprint for _, url, fingerprint in options.workers if fingerprint},
                insecure=options.insecure,
                tls=certificate,
            )
        )
    except ValueError as wrong_value:
        if isinstance(wrong_value, SeqrtError):
            raise
        print(f"seqrt: {wrong_value}", file=sys.stderr)
        return 2
    return 0


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look a policy through offline: what it declares, how fast it infers, what is wrong."
    _policy_arguments(parser)
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    from seqrt.policies.checking import check

    report = check(options.policy, weights=options.weights)
    print(report)
    return 0 if report.ok else 1


def _schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the JSON schema of every declaration, by name; Policy is the whole of one."
    parser.set_defaults(command=_schema)


def _schema(options: argparse.Namespace) -> int:
    from seqrt.policies.schema import schemas

    print(json.dumps(schemas(), indent=2))
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: a whole number from 1")
    return int(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: a whole number from 0")
    return int(text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no latency: milliseconds from 0")
    return value


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "The PushT task from pixels, driven over HTTP/2 by a worker in a process of its own."
    parser.add_argument("--seed", type=_seed, default=0, help="where the T lies at the start (default %(default)s)")
    parser.add_argument("--actions", type=_count, default=300, help="actions at the most (default %(default)s)")
    parser.add_argument("--latency-ms", type=_milliseconds, default=0.0, help="round trip added to the network's")
    parser.add_argument("--no-prefetch", action="store_true", help="ask only when the chunk is played out")
    parser.add_argument("--no-prefix", action="store_true", help="do not send the committed rows along")
    parser.add_argument("--out", default="demo-out", help="folder for pictures and recording (default %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no live view")
    parser.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> int:
    from seqrt.demo.main import run_demo

    return run_demo(options)


if __name__ == "__main__":
    sys.exit(main())
