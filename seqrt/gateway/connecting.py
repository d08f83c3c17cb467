"""``/v1/act/connect`` and what belongs to it: a robot is told its worker, keeps its seat, and gives it back.

From messages to messages: who is asking, and for which of the models, has been found out by the caller.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from msgspec.structs import replace

from seqrt.errors import RemoteError, Unavailable, remote_error
from seqrt.gateway.placing import Place, Placed, Robot
from seqrt.gateway.seats import ASK_AGAIN_S
from seqrt.wire.leases import (
    ConnectAnswer,
    ConnectRequest,
    Keepalive,
    LeaseTerms,
    Ready,
    Rotate,
    SeatKept,
    SeatRequest,
)
from seqrt.wire.messages import PolicyInfo

BEATS: Final = 3
"""How often a robot says that it is there while its lease lasts: two may be lost."""


async def described(place: Place, model: str) -> PolicyInfo:
    """``GET /policy`` at a gateway: what the policy declares, and that acts go elsewhere.

    Args:
        place: Places robots that want this model.
        model: Its name here.

    Raises:
        Unavailable: No worker of it answers.
    """
    return replace(await place.info(), model=model, gateway=True)


async def connect(place: Place, who: str, request: ConnectRequest) -> ConnectAnswer:
    """``POST /v1/act/connect``.

    Args:
        place: Places robots that want this model.
        who: Whose key it came with.
        request: What is asked.

    Raises:
        InvalidRequest: The policy declares no such robot.
        Unavailable: No worker takes a robot now: one loads (``warming``), the robot is in line
            (``details.queue_position``), or there is none.
    """
    info = await place.info()
    embodiment = _embodiment(info, request.embodiment)
    session = request.session if request.session is not None else secrets.token_hex(16)
    placed = await place.place(Robot(who, session), move=request.move)
    return ConnectAnswer(
        worker_url=placed.url,
        cert_fingerprint=placed.fingerprint,
        direct_secret=placed.secret,
        lease=_terms(placed),
        keepalive=Keepalive(every_s=placed.ttl_s / BEATS, seat_ttl_s=placed.ttl_s),
        request_timeout_s=info.timeouts.get("request"),
        embodiment=embodiment,
        observations=info.observations,
        actions=info.actions,
        rotate=Rotate() if placed.leaving else None,
    )


async def keep(place: Place, who: str, request: SeatRequest) -> SeatKept:
    """``POST /v1/act/keepalive``: the robot is there still.

    Raises:
        Unavailable: Its worker cannot be asked now; the lease holds until it is over.
    """
    placed = await place.keep(Robot(who, request.session), request.epoch, lost=request.lost)
    if placed is None:
        return SeatKept(held=False, every_s=0.0, seat_ttl_s=0.0)
    return SeatKept(
        held=True,
        every_s=placed.ttl_s / BEATS,
        seat_ttl_s=placed.ttl_s,
        lease=_terms(placed),
        rotate=Rotate() if placed.leaving else None,
    )


async def release(place: Place, who: str, request: SeatRequest) -> dict[str, Any]:
    """``POST /v1/act/release``: the robot is done."""
    await place.release(Robot(who, request.session))
    return {}


async def ready(place: Place, who: str, session: str | None) -> Ready:
    """``GET /v1/act/ready``: how a robot that connects now would fare; it takes no seat."""
    position = None if session is None else await place.position(Robot(who, session))
    if position is not None:
        return Ready(ready=False, status="queued", queue_position=position, retry_after_s=ASK_AGAIN_S)
    try:
        await place.ready()
    except Unavailable as error:
        return Ready(ready=False, status="starting" if error.warming else "unavailable", eta_s=_eta_s(error))
    return Ready(ready=True, status="ready")


def _embodiment(info: PolicyInfo, name: str | None) -> dict[str, Any] | None:
    """What is declared of the robot asked for."""
    if name is None:
        return None
    if name not in info.embodiments:
        known = ", ".join(sorted(info.embodiments)) or "none"
        raise remote_error("invalid_request", f"{info.model} declares no embodiment {name!r:.80}; it declares {known}")
    return info.embodiments[name]


def _terms(placed: Placed) -> LeaseTerms:
    ttl_s = placed.ttl_s
    return LeaseTerms(
        ttl_s=int(ttl_s) if ttl_s == int(ttl_s) else ttl_s, expires_at=placed.expires_at, epoch=placed.epoch
    )


def _eta_s(error: RemoteError) -> float | None:
    eta_s = error.details.get("eta_s")
    return float(eta_s) if isinstance(eta_s, int | float) else None
