"""What travels about leases: between gateway and worker, and between robot and gateway.

The two that carry a secret, `LeaseGranted` and `ConnectAnswer`, never show it in their ``repr``.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

Ttl = Annotated[float, Meta(gt=0, le=86_400)]
"""How long a lease lasts unless it is renewed, in seconds."""

Session = Annotated[str, Meta(min_length=1, max_length=256)]
"""What a robot calls itself when it connects, and again when it renews: its own, and random."""


class _Message(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, frozen=True):
    """What messages between our own ends share."""


class _Open(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """What messages of robots to a gateway share: newer clients say more, which is passed over."""


class LeaseRequest(_Message, frozen=True):
    """``POST /lease``, with the worker's root secret: grants a lease, or renews it.

    Attributes:
        lease: Its id, 1 to 64 characters of ``a-z 0-9 -``; None: a new one.
        ttl_s: How long it lasts; None: the worker's default.
        renew: Only if it lives: 410 where it does not.
    """

    lease: Annotated[str, Meta(pattern="^[a-z0-9-]{1,64}$")] | None = None
    ttl_s: Ttl | None = None
    renew: bool = False


class LeaseGranted(_Message, frozen=True):
    """What came of it.

    Attributes:
        lease: Its id.
        secret: What requests under it bring; the same as long as lease and worker are the same.
        epoch: The generation of worker and secret: another number once the worker was started anew.
        ttl_s: How long it lasts from now.
        expires_at: The same as a time of day, RFC 3339.
        draining: The worker begins no episodes any more.
        episodes: How many live episodes it has.
    """

    lease: str
    secret: str
    epoch: int
    ttl_s: float
    expires_at: str
    draining: bool = False
    episodes: int = 0

    def __repr__(self) -> str:
        """Without the secret."""
        return _without("secret", self)


class LeaseEnd(_Message, frozen=True):
    """``POST /lease/end``: the lease is over, and its episodes with it. No error where there is none."""

    lease: str


class ConnectRequest(_Open, frozen=True):
    """``POST /v1/act/connect``.

    Attributes:
        model: Which.
        session: The robot's name for itself; without one each connect is a robot of its own.
        embodiment: Which of the robots the policy declares this one is.
        move: It cannot go on where it is: another worker, if there is one.
    """

    model: str
    session: Session | None = None
    embodiment: str | None = None
    move: bool = False


class SeatRequest(_Open, frozen=True):
    """``POST /v1/act/keepalive`` and ``/v1/act/release``.

    Attributes:
        model: Which.
        session: Whose seat.
        epoch: The lease the robot goes by; others that the session holds still are ended.
        lost: The robot's own connection to its worker is lost: where nobody listens there any more, the seat is over.
    """

    model: str
    session: Session
    epoch: int | None = None
    lost: bool = False


class LeaseTerms(_Open, frozen=True, omit_defaults=False):
    """How long the coordinates hold.

    Attributes:
        ttl_s: From the answer on.
        expires_at: The same as a time of day, RFC 3339.
        epoch: Of worker and secret.
    """

    ttl_s: float
    expires_at: str
    epoch: int


class Keepalive(_Open, frozen=True, omit_defaults=False):
    """How a robot keeps its seat.

    Attributes:
        every_s: How often it says that it is there.
        seat_ttl_s: How long the seat is kept without.
    """

    every_s: float
    seat_ttl_s: float


class Rotate(_Open, frozen=True, omit_defaults=False):
    """The worker a robot is at is on its way out: another one is named between two episodes.

    Attributes:
        ready: Whether that can be now.
        reason: Why, in a word that clients know.
    """

    ready: bool = True
    reason: str = "rotate"


class ConnectAnswer(_Open, frozen=True, omit_defaults=False):
    """Where a robot's observations and acts go.

    Attributes:
        worker_url: There.
        cert_fingerprint: The sha256 of the only certificate to take there; None: one that authorities vouch for, or
            plain http.
        direct_secret: The key for that worker. The only secret that is ever sent to a robot.
        lease: How long.
        keepalive: How to keep it.
        params: What the session's acts set; nothing here.
        request_timeout_s: What the policy allows one act.
        embodiment: What is declared of the robot asked for; None where none was.
        observations: The declaration, as plain data.
        actions: The declaration, as plain data.
        rotate: Set where the worker drains and an episode of the robot is live there.
    """

    worker_url: str
    cert_fingerprint: str | None
    direct_secret: str
    lease: LeaseTerms
    keepalive: Keepalive
    params: dict[str, Any] = {}
    request_timeout_s: float | None = None
    embodiment: dict[str, Any] | None = None
    observations: dict[str, Any] | None = None
    actions: dict[str, Any] | None = None
    rotate: Rotate | None = None

    def __repr__(self) -> str:
        """Without the secret."""
        return _without("direct_secret", self)


class SeatKept(_Open, frozen=True, omit_defaults=False):
    """The answer to a keepalive.

    Attributes:
        held: Whether the seat is the robot's still; where not, it connects again.
        every_s: As `Keepalive`.
        seat_ttl_s: As `Keepalive`.
        lease: What the lease is renewed to; None where it is not held.
        rotate: As `ConnectAnswer`.
    """

    held: bool
    every_s: float
    seat_ttl_s: float
    lease: LeaseTerms | None = None
    rotate: Rotate | None = None


class Ready(_Open, frozen=True, omit_defaults=False):
    """``GET /v1/act/ready``: whether a robot that connects now is placed.

    Attributes:
        ready: Whether.
        status: "ready", "starting", "queued" or "unavailable".
        eta_s: When, where that is known.
        queue_position: 1 for the front of the line; None for a robot that is not in it.
        retry_after_s: When to ask again.
    """

    ready: bool
    status: str
    eta_s: float | None = None
    queue_position: int | None = None
    retry_after_s: float | None = None


def _without(secret: str, message: Struct) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in asdict(message).items() if name != secret)
    return f"{type(message).__name__}({shown}, {secret}=…)"
