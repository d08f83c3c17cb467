"""What a gateway says to whoever starts it: where it is, what it stands before, and what to type on the robot."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Protocol

from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Model, Seat
from seqrt.worker.server import is_loopback, is_reachable
from seqrt.worker.tls import Certificate


class Place(Protocol):
    """A server that listens."""

    @property
    def host(self) -> str:
        """The address it is bound to."""

    @property
    def url(self) -> str:
        """What a robot connects to."""

    @property
    def tls(self) -> Certificate | None:
        """The certificate it shows."""

    def url_at(self, host: str) -> str:
        """The same by another name of this machine."""


def robots_line(place: Place, model: Model, gate: Gate) -> str:
    """What to type on a robot to be driven by a model."""
    name = model.id.rpartition("/")[2]
    url = place.url if is_reachable(place.host) else place.url_at(socket.gethostname())
    given = f'model="{name}", base_url="{url}"'
    pinned = f', fingerprint="{place.tls.fingerprint}"' if place.tls is not None and place.tls.pinned else ""
    said = f"on the robot: seqrt.connect({given}{pinned}{', api_key=...' if gate.is_keyed else ''})"
    if pinned or model.info is None or not model.info.embodiments:
        # sequence-ai trusts no certificate that it is only told of, and /v1/act is for robot-arm policies.
        return said
    which = "sequence-ai" if place.tls is not None else "sequence-ai 0.1.0"  # newer ones go to no worker without TLS
    key = "..." if gate.is_keyed else '"any"'  # it sends none of its requests without one
    return f"{said}; with {which}: sequence_ai.connect({given}, api_key={key})"


def introduction(place: Place, models: list[Model], gate: Gate) -> Iterator[str]:
    """The lines a gateway says when it listens."""
    yield f"seqrt: gateway at {place.url}"
    for model in models:
        yield from (f"seqrt:   {_told(model, seat)}" for seat in model.seats)
    if models:
        yield f"seqrt: {robots_line(place, models[0], gate)}"
    if place.tls is not None:
        yield f"seqrt: its certificate's sha256 fingerprint is {place.tls.fingerprint}"
    if not is_loopback(place.host) and not gate.is_keyed:
        yield f"seqrt: {place.host} is open to the network without keys; give --keys FILE to ask for one"
    elif not is_loopback(place.host) and place.tls is None:
        yield "seqrt: robots on other machines do not send a key over plain http; serve with --tls"


def _told(model: Model, seat: Seat) -> str:
    where = f"{model.id.rpartition('/')[2]} at {seat.link.host}"
    if seat.info is None:
        return f"{where}: not serving yet, asked again until it does: {seat.said or 'no answer so far'}"
    robots = ", ".join(seat.info.embodiments)
    return f"{where}: {f'drives {robots}' if robots else 'for seqrt.connect alone, it declares no robot-arm contract'}"
