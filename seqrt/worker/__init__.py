"""Serves one policy over HTTP: the app, and the server it runs in. Needs the ``serve`` extra."""

from __future__ import annotations

from seqrt.worker.app import app
from seqrt.worker.server import Server, serve, serving
from seqrt.worker.tls import Certificate, self_signed

__all__ = ["Certificate", "Server", "app", "self_signed", "serve", "serving"]
