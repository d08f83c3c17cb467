"""Arguments that several commands take, and what they may be."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrt.policies.constructor import Weights

if TYPE_CHECKING:
    from seqrt.worker.tls import Certificate

_PART = re.compile(r"([A-Za-z0-9_-]+)=(.+)", re.DOTALL)


def policy_arguments(parser: argparse.ArgumentParser) -> None:
    """The policy, and its weights."""
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


def metrics_argument(parser: argparse.ArgumentParser) -> None:
    """Where metrics are answered."""
    parser.add_argument(
        "--metrics-port",
        type=port,
        metavar="PORT",
        help="answer GET /metrics there, to this machine alone and without a key",
    )


def tls_arguments(group: argparse._ArgumentGroup) -> None:
    """Which certificate is shown."""
    group.add_argument(
        "--tls",
        action="store_true",
        help="over TLS, with a certificate made here at the first start and kept; robots are given its fingerprint",
    )
    group.add_argument("--tls-dir", metavar="PATH", help="where that is kept (default: ~/.local/share/seqrt/tls)")
    group.add_argument("--tls-cert", metavar="PATH", help="your own certificate instead, in PEM, with its chain")
    group.add_argument("--tls-key", metavar="PATH", help="its key, where it is not in the same file")


def certificate_of(options: argparse.Namespace) -> Certificate | None:
    """The certificate asked for, made here where none is given; None for plain HTTP."""
    from seqrt.worker.tls import Certificate, data_directory, self_signed

    if options.tls_cert is not None:
        return Certificate(Path(options.tls_cert), Path(options.tls_key) if options.tls_key is not None else None)
    if not (options.tls or options.tls_dir is not None):
        return None
    return self_signed(Path(options.tls_dir) if options.tls_dir is not None else data_directory(os.environ) / "tls")


def key_arguments(parser: argparse.ArgumentParser, where: str = "") -> None:
    """The files of a gateway's keys; ``where`` begins their help."""
    parser.add_argument(
        "--keys", metavar="FILE", help=f"{where}the keys robots must send, see `seqrt keys` (default: none)"
    )
    parser.add_argument(
        "--spent", metavar="FILE", help=f"{where}where acts of keys with a budget are counted (default: KEYS.spent)"
    )


def key_files(options: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """The file of keys, and that of what they spent; None where none is given."""
    return Path(options.keys) if options.keys else None, Path(options.spent) if options.spent else None


def tls_at_odds(options: argparse.Namespace) -> str:
    """What is wrong with the certificate asked for; "" for nothing."""
    if options.tls_key is not None and options.tls_cert is None:
        return "--tls-key is the key of a --tls-cert"
    if options.tls_dir is not None and options.tls_cert is not None:
        return "--tls-dir keeps a certificate made here, --tls-cert is your own: give one of them"
    return ""


def secret_of(options: argparse.Namespace) -> str | None:
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


def port(text: str) -> int:
    """A port, 0 for a free one."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to 65535")
    return int(text)


def count(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """A whole number from 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: a whole number from 0")
    return int(text)


def milliseconds(text: str) -> float:
    """A latency, in milliseconds."""
    return _duration(text, "is no latency: milliseconds from 0")


def seconds(text: str) -> float:
    """A duration, in seconds."""
    return _duration(text, "is no duration: seconds from 0")


def _duration(text: str, wrong: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} {wrong}")
    return value
