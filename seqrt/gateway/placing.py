"""Where a robot's episodes go: `Place` is the seam, and `seqrt.gateway.fixedworkers` one thing that stands behind it.

A single worker, two of them, and a cluster later all answer the same question: which worker, under which lease. What
travels afterwards goes straight to that worker.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Protocol

from seqrt.wire.leases import LeaseGranted, LeaseRequest
from seqrt.wire.messages import PolicyInfo


@dataclass(frozen=True, slots=True)
class Robot:
    """Who asks for a worker.

    Attributes:
        who: Whose key it came with; "" where none is asked for.
        session: The robot's own name for itself.
    """

    who: str
    session: str

    @property
    def lease(self) -> str:
        """The id of its lease: the same at each gateway, and after one was started anew; nobody else's."""
        return "r-" + hashlib.sha256(f"{len(self.who)}.{self.who}.{self.session}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where its observations and acts go.

    Attributes:
        url: The worker.
        fingerprint: The sha256 of its certificate, where robots pin it.
        lease: The lease's id.
        secret: What requests under it bring.
        epoch: The generation of worker and secret.
        ttl_s: How long it holds from now.
        expires_at: The same as a time of day.
        leaving: The worker drains: the robot's next episode goes elsewhere.
    """

    url: str
    fingerprint: str | None
    lease: str
    secret: str = field(repr=False)
    epoch: int
    ttl_s: float
    expires_at: str
    leaving: bool = False


class Place(Protocol):
    """Places robots that want one policy."""

    async def info(self) -> PolicyInfo:
        """What the policy declares.

        Raises:
            Unavailable: No worker can be asked.
        """
        ...

    async def place(self, robot: Robot, *, move: bool = False) -> Placed:
        """A worker for the robot: the one it has, where that lives and takes episodes; else another one.

        Args:
            robot: Who asks.
            move: It cannot go on where it is: another one, if there is another.

        Raises:
            Unavailable: None is free or ready. ``warming``: one will be; ``details.queue_position``: it is in line.
        """
        ...

    async def keep(self, robot: Robot, epoch: int | None = None, *, lost: bool = False) -> Placed | None:
        """Renew its lease; it is never moved.

        Args:
            robot: Who asks.
            epoch: Of the worker it is at, where it has said so: what it has elsewhere is given back.
            lost: It does not get there. Where nobody listens there any more the lease is over; a worker that is
                silent, or that there is no way to, has it still.

        Returns:
            None where it has none any more.

        Raises:
            Unavailable: Its worker cannot be asked now.
        """
        ...

    async def release(self, robot: Robot) -> None:
        """It is done: its lease ends, or its place in line."""
        ...

    async def position(self, robot: Robot) -> int | None:
        """Its place in line, 1 for the front; None for one that is not in it."""
        ...

    async def ready(self) -> None:
        """Return when a robot that comes now is placed; raises `Unavailable` as `place` would."""
        ...


class Site(Protocol):
    """One worker, as a gateway reaches it."""

    @property
    def url(self) -> str:
        """What robots connect to."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Of the certificate that robots pin."""
        ...

    async def info(self) -> PolicyInfo:
        """What it declares."""
        ...

    async def ready(self) -> None:
        """Return when it serves; raises `Unavailable` while it loads or drains."""
        ...

    async def grant(self, request: LeaseRequest) -> LeaseGranted:
        """Grant or renew a lease, as ``POST /lease`` does."""
        ...

    async def end(self, lease: str) -> None:
        """End one."""
        ...
