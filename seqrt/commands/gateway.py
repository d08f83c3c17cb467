"""`seqrt gateway`: one address and keys for robots, before workers."""

from __future__ import annotations

import argparse
import sys

from seqrt.commands.arguments import (
    certificate_of,
    key_arguments,
    key_files,
    metrics_argument,
    port,
    secret_of,
    tls_arguments,
    tls_at_odds,
)
from seqrt.errors import SeqrtError

GATEWAY = """\
examples:
  seqrt gateway --worker pi05-droid=http://gpu:8080     every robot that reaches it is served
  seqrt keys add arm-1 --keys keys                      makes a key, and the file
  seqrt gateway --worker pi05-droid=http://gpu:8080 --worker pi05-droid=http://gpu2:8080 \\
                --worker act-aloha=https://gpu3:8080#840240fd… --secret-env WORKER_KEY --keys keys
                                                        two models, one at two workers, one pinned by the
                                                        fingerprint its `seqrt serve --tls` prints

A robot names the model: pi05-droid, or accounts/sequences/models/pi05-droid, which is the same.
`seqrt -v gateway …` says more, `seqrt --log json gateway …` logs one JSON object a line.
The first Ctrl-C lets acts under way end, the second stops at once.
"""


def gateway_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
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
    key_arguments(parser)
    parser.add_argument(
        "--secret-env", metavar="NAME", help="environment variable with the key the workers ask for (default: none)"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="send that key over plain http to other machines, on a network of yours"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; 0.0.0.0: every one (default %(default)s)")
    parser.add_argument("--port", type=port, default=8081, help="port; 0 for a free one (default %(default)s)")
    metrics_argument(parser)
    tls_arguments(parser.add_argument_group("TLS"))
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

    wrong = tls_at_odds(options)
    if wrong:
        print(f"seqrt: {wrong}", file=sys.stderr)
        return 2
    workers: dict[str, list[str]] = {}
    for model, url, _ in options.workers:
        workers.setdefault(model, []).append(url)
    certificate, secret = certificate_of(options), secret_of(options)
    keys, spent = key_files(options)
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
                metrics_port=options.metrics_port,
            )
        )
    except ValueError as wrong_value:
        if isinstance(wrong_value, SeqrtError):
            raise
        print(f"seqrt: {wrong_value}", file=sys.stderr)
        return 2
    return 0
