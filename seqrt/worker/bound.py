"""Where a server listens, a worker or a gateway, and what robots are told of it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from seqrt.wire.hosts import is_reachable
from seqrt.worker.tls import Certificate


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A server that runs.

    Attributes:
        host: The address it is bound to.
        port: Its port; the one the system chose where 0 was asked for.
        tls: The certificate it shows; None: it speaks plain HTTP.
        metrics_port: Where it answers ``/metrics`` to this machine alone; None for nowhere.
    """

    host: str
    port: int
    tls: Certificate | None = None
    metrics_port: int | None = None

    @property
    def url(self) -> str:
        """What a robot connects to."""
        return self._url_at(f"[{self.host}]" if ":" in self.host else self.host)

    @property
    def told_url(self) -> str:
        """The same as a robot elsewhere can be told it: by this machine's name where it is bound to every address."""
        return self.url if is_reachable(self.host) else self._url_at(socket.gethostname())

    def _url_at(self, host: str) -> str:
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"
