"""A worker as a gateway reaches it: over the network with its root secret, or in the same process."""

from __future__ import annotations

from seqrt.link.http import HttpLink
from seqrt.link.requests import Asked
from seqrt.policies.host import Host
from seqrt.wire import codec
from seqrt.wire.leases import LeaseEnd, LeaseGranted, LeaseRequest
from seqrt.wire.messages import PolicyInfo
from seqrt.worker.granting import Granting


class RemoteSite:
    """A worker somewhere else.

    Args:
        link: The way there, with the worker's root secret; the caller closes it.
        url: What robots connect to.
        fingerprint: Of the certificate they pin; None: one that authorities vouch for, or plain http.
    """

    def __init__(self, link: HttpLink, *, url: str, fingerprint: str | None = None) -> None:
        self.url, self.fingerprint = url, fingerprint
        self._link = link

    async def info(self) -> PolicyInfo:
        """``GET /policy``."""
        return await self._link.info()

    async def ready(self) -> None:
        """``GET /healthz``."""
        await self._link.ready()

    async def grant(self, request: LeaseRequest) -> LeaseGranted:
        """``POST /lease``."""
        body = await self._link.ask(Asked("POST", "/lease", "lease", codec.encode(request)))
        return self._link.read(lambda: codec.decode(body, LeaseGranted), "lease")

    async def end(self, lease: str) -> None:
        """``POST /lease/end``."""
        await self._link.ask(Asked("POST", "/lease/end", "lease_end", codec.encode(LeaseEnd(lease=lease))))


class LocalSite:
    """A worker in this process.

    Args:
        host: What serves.
        granting: Its leases.
        url: What robots connect to.
        fingerprint: Of its certificate.
    """

    def __init__(self, host: Host, granting: Granting, *, url: str, fingerprint: str | None = None) -> None:
        self.url, self.fingerprint = url, fingerprint
        self._host, self._granting = host, granting

    async def info(self) -> PolicyInfo:
        """What it declares."""
        return self._host.info()

    async def ready(self) -> None:
        """Whether it takes robots; raises as ``POST /lease`` would."""
        self._granting.must_take_robots()

    async def grant(self, request: LeaseRequest) -> LeaseGranted:
        """Grant or renew."""
        return await self._granting.grant(request)

    async def end(self, lease: str) -> None:
        """End one."""
        await self._granting.end(lease)
