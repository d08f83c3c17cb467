"""The leases of one worker: who may use it, until when. Pure: the time is an argument, and nothing is waited for.

A lease is an id with a time at which it is over. Its secret is the id and a code of it under a key that the worker
made when it started and tells nobody: nothing that could be read out of the table opens anything, a secret of the
process before is refused, and checking one takes the same steps however many leases there are.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

TTL_S: Final = 300.0
"""How long a lease lasts unless it is renewed: as long as an episode may be idle where a policy declares nothing."""

MOST: Final = 4096
"""Leases that live at once, at the most."""

_SECRET: Final = re.compile(rb"seqrt-lease\.(?P<id>[a-z0-9-]{1,64})\.(?P<code>[0-9a-f]{64})")
_NOBODY: Final = "-"
"""Checked in the place of an id that is not there, so that it takes as long."""


class Full(Exception):
    """As many leases live as there may be."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stands.

    Attributes:
        id: It; what it begins belongs to this name.
        expires_at: When it is over, on the clock that `Leases` is handed.
        ttl_s: How long it lasted when it was granted or renewed.
        secret: What requests under it bring.
    """

    id: str
    expires_at: float
    ttl_s: float
    secret: str = field(repr=False)


class Leases:
    """The table.

    Args:
        key: Random, of this process alone; 32 bytes.
        epoch: The generation, another number in each process: tells robots that their secret is of one that is gone.
        ttl_s: How long a lease lasts where nothing else is asked for.
        most: How many may live at once.

    Raises:
        ValueError: A key too short to be one.
    """

    def __init__(self, key: bytes, *, epoch: int, ttl_s: float = TTL_S, most: int = MOST) -> None:
        if len(key) < 32:
            raise ValueError(f"the key of the leases has {len(key)} bytes; it takes 32 random ones")
        self._key = key
        self._live: dict[str, Lease] = {}
        self.epoch, self.ttl_s, self.most = epoch, ttl_s, most

    def __len__(self) -> int:
        """Leases that have not been ended or found expired."""
        return len(self._live)

    def grant(self, lease: str, now: float, ttl_s: float | None = None) -> Lease:
        """Grant the lease, or renew it where it lives: its id and its secret stay as they are.

        Args:
            lease: Its id.
            now: The time.
            ttl_s: How long it lasts from now; None: the default.

        Raises:
            Full: It would be one more than may live.
        """
        if not self.lives(lease, now) and self._count(now) >= self.most:
            raise Full
        ttl_s = self.ttl_s if ttl_s is None else ttl_s
        granted = Lease(lease, now + ttl_s, ttl_s, f"seqrt-lease.{lease}.{self._code(lease)}")
        self._live[lease] = granted
        return granted

    def lives(self, lease: str, now: float) -> bool:
        """Whether it was granted and is not over."""
        held = self._live.get(lease)
        return held is not None and now < held.expires_at

    def owner(self, secret: bytes, now: float) -> str | None:
        """Whose secret it is: the id of a lease that lives; None for any other text."""
        found = _SECRET.fullmatch(secret)
        lease = found["id"].decode("ascii") if found is not None else _NOBODY
        code = found["code"] if found is not None else b""
        right = hmac.compare_digest(code, self._code(lease).encode("ascii"))
        return lease if right and self.lives(lease, now) else None

    def end(self, lease: str) -> bool:
        """It is over; whether there was one."""
        return self._live.pop(lease, None) is not None

    def expired(self, now: float) -> list[str]:
        """Forget those whose time is over; their ids."""
        over = [lease.id for lease in self._live.values() if now >= lease.expires_at]
        for lease in over:
            del self._live[lease]
        return over

    def next_expiry(self) -> float | None:
        """When the next one is over; None where there is none."""
        return min((lease.expires_at for lease in self._live.values()), default=None)

    def _count(self, now: float) -> int:
        return sum(1 for lease in self._live.values() if now < lease.expires_at)

    def _code(self, lease: str) -> str:
        return hmac.new(self._key, f"{self.epoch}.{lease}".encode(), hashlib.sha256).hexdigest()


def is_lease_secret(key: bytes) -> bool:
    """Whether a key has the form of a lease's secret, whoever's it is."""
    return key.startswith(b"seqrt-lease.")
