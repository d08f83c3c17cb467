"""`seqrt serve`: one policy, to robots."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from seqrt.commands.arguments import (
    certificate_of,
    key_arguments,
    key_files,
    metrics_argument,
    policy_arguments,
    port,
    seconds,
    secret_of,
    tls_arguments,
    tls_at_odds,
)

if TYPE_CHECKING:
    from seqrt.gateway.together import Together
    from seqrt.worker.tls import Certificate

SERVE = """\
examples:
  seqrt serve my_policy:MyPolicy                        to robots on this machine
  seqrt serve my_policy:MyPolicy --host 0.0.0.0 --tls --secret-env SEQRT_KEY
                                                        to all that send the key in SEQRT_KEY, over TLS
  seqrt serve my_policy:MyPolicy --weights actor=a.pt --weights critic=c.pt
  seqrt serve my_policy:MyPolicy --gateway --keys keys  the JSON face on the same port, for keys of that file

The first Ctrl-C lets live episodes end, the second stops at once.
"""


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = "Serve one policy over HTTP/2. The robot's line is printed when it is ready."
    policy_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; 0.0.0.0: every one (default %(default)s)")
    parser.add_argument("--port", type=port, default=8080, help="port; 0 for a free one (default %(default)s)")
    parser.add_argument(
        "--secret-env", metavar="NAME", help="environment variable that holds the key robots must send (default: none)"
    )
    metrics_argument(parser)
    parser.add_argument(
        "--gateway", action="store_true", help="serve the gateway's JSON face too, on the same port under /v1"
    )
    key_arguments(parser, "with --gateway: ")
    parser.add_argument(
        "--drain-s",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long live episodes may go on after the first signal, or POST /drain (default %(default)g)",
    )
    tls_arguments(parser.add_argument_group("TLS"))
    parser.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    import anyio

    from seqrt.worker.server import SWITCH_S, serve

    wrong = tls_at_odds(options)
    if options.keys is not None and not options.gateway:
        wrong = "--keys are a gateway's: give --gateway too, or --secret-env for a key of the worker's own"
    if wrong:
        print(f"seqrt: {wrong}", file=sys.stderr)
        return 2
    certificate, secret = certificate_of(options), secret_of(options)

    async def run() -> None:
        async with _gateway_of(options, secret, certificate) as beside:
            await serve(
                options.policy,
                host=options.host,
                port=options.port,
                secret=beside.secret if beside is not None else secret,
                weights=options.weights,
                drain_s=options.drain_s,
                beside=beside,
                tls=certificate,
                metrics_port=options.metrics_port,
            )

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)  # the process is ours for as long as it serves
    try:
        anyio.run(run)
    finally:
        sys.setswitchinterval(before)
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
    keys, spent = key_files(options)
    async with together(keys=keys, spent=spent, secret=secret, fingerprint=pinned) as beside:
        yield beside
