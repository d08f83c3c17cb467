"""The worker's leases at work: granted to whoever has the root secret, ended with all that was begun under them."""

from __future__ import annotations

import datetime
import math
import secrets
from typing import Final

import anyio

from seqrt.errors import remote_error
from seqrt.policies.host import Host
from seqrt.wire.leases import LeaseGranted, LeaseRequest
from seqrt.wire.limits import RETRY_S
from seqrt.worker.leases import Full, Leases

_LEAST_S: Final = 1.0
_MOST_S: Final = 30.0
"""Leases that are over are looked for so often, least and most: one granted meanwhile may be a short one."""


def leases_for(host: Host) -> Leases:
    """A table of this process: as many leases as its policy has room for episodes, each as long as one may be idle."""
    return Leases(
        secrets.token_bytes(32),
        epoch=secrets.randbits(48),
        ttl_s=host.declaration.timeouts.episode_idle,
        most=host.room,
    )


class Granting:
    """Grants the leases of one worker, and ends them.

    Args:
        host: What serves.
        leases: The table.
    """

    def __init__(self, host: Host, leases: Leases) -> None:
        self._host, self._leases = host, leases
        self._tended = False

    @property
    def count(self) -> int:
        """Leases that have not been ended or found expired."""
        return len(self._leases)

    def owner(self, secret: bytes) -> str | None:
        """The lease that lives and whose secret it is; None for any other text."""
        return self._leases.owner(secret, anyio.current_time())

    async def grant(self, request: LeaseRequest) -> LeaseGranted:
        """Grant or renew.

        Raises:
            Unavailable: Not ready (``warming``), draining (503), or no room (429, ``details.reason`` "full").
            Gone: It was to be renewed, and is over or was never granted here.
        """
        if not self._tended:
            await self._sweep()
        lease = request.lease or f"l-{secrets.token_hex(12)}"
        if not self._leases.lives(lease, anyio.current_time()):
            if request.renew:
                raise remote_error(
                    "gone", "there is no such lease here", hint="connect again", details={"reason": "lease"}
                )
            self.must_take_robots()
        try:
            granted = self._leases.grant(lease, anyio.current_time(), request.ttl_s)
        except Full:
            raise remote_error(
                "busy",
                f"{self._leases.most} robot(s) have a lease of this worker, and there is no room for more",
                retry_after_s=RETRY_S,
                details={"reason": "full", "most": self._leases.most},
            ) from None
        return LeaseGranted(
            lease=lease,
            secret=granted.secret,
            epoch=self._leases.epoch,
            ttl_s=granted.ttl_s,
            expires_at=time_of_day(granted.ttl_s),
            draining=self._host.stage == "draining",
            episodes=self._host.episodes_of(lease),
        )

    def must_take_robots(self) -> None:
        """Return when a new robot may come.

        Raises:
            Unavailable: The policy loads (``warming``), has failed to, or the worker drains.
        """
        stage = self._host.stage
        if stage == "ready":
            return
        details = {"stage": stage}
        if stage == "draining":
            details["reason"] = "draining"
            raise remote_error("unavailable", "the worker is draining and takes no new robots", details=details)
        if stage == "error":
            raise remote_error("unavailable", f"the policy failed to load: {self._host.failure}", details=details)
        raise remote_error("warming", "the policy is being loaded", retry_after_s=RETRY_S, details=details)

    async def end(self, lease: str) -> None:
        """A lease is over, and so are its episodes; nothing happens where there is none."""
        if self._leases.end(lease):
            await self._host.end_of(lease)

    async def tend(self) -> None:
        """End what was begun under leases whose time is over. Runs until cancelled.

        Their secrets are refused at once without it, and their episodes end with the next lease that is granted.
        """
        self._tended = True
        try:
            while True:
                over_at = self._leases.next_expiry()
                wait_s = self._leases.ttl_s if over_at is None else over_at - anyio.current_time()
                await anyio.sleep(min(max(_LEAST_S, wait_s), _MOST_S))
                await self._sweep()
        finally:
            self._tended = False

    async def _sweep(self) -> None:
        for lease in self._leases.expired(anyio.current_time()):
            await self._host.end_of(lease, for_good=False)  # its robot may be granted it again, and go on


def time_of_day(in_s: float) -> str:
    """The time of day after so many seconds, RFC 3339 in UTC."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=math.floor(in_s))
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
