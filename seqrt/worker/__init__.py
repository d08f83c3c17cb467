"""Serves one policy over HTTP: the app, and the server it runs in. Needs the ``serve`` extra."""

from __future__ import annotations

from seqrt.errors import ExtraMissing

try:
    from seqrt.worker.app import app
    from seqrt.worker.server import Server, serve, serving
    from seqrt.worker.tls import Certificate, self_signed
except ModuleNotFoundError as missing:
    package = (missing.name or "").partition(".")[0]
    if package not in ("starlette", "hypercorn"):
        raise
    raise ExtraMissing("serving a policy", package=package, extra="serve") from missing

__all__ = ["Certificate", "Server", "app", "self_signed", "serve", "serving"]
