"""What a gateway says to whoever starts it: where it is, what it stands before, and what to type on the robot."""

from __future__ import annotations

from collections.abc import Iterator

from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Model
from seqrt.gateway.worker import Worker
from seqrt.worker.bound import Bound
from seqrt.worker.saying import what_is_open


def robots_line(bound: Bound, model: Model, gate: Gate) -> str:
    """What to type on a robot to be driven by a model."""
    name = model.id.rpartition("/")[2]
    given = f'model="{name}", base_url="{bound.told_url}"'
    pinned = f', fingerprint="{bound.tls.fingerprint}"' if bound.tls is not None and bound.tls.pinned else ""
    said = f"on the robot: seqrt.connect({given}{pinned}{', api_key=...' if gate.is_keyed else ''})"
    if pinned or model.info is None or not model.info.embodiments:
        # sequence-ai trusts no certificate that it is only told of, and /v1/act is for robot-arm policies.
        return said
    which = "sequence-ai" if bound.tls is not None else "sequence-ai 0.1.0"  # newer ones go to no worker without TLS
    key = "..." if gate.is_keyed else '"any"'  # it sends none of its requests without one
    return f"{said}; with {which}: sequence_ai.connect({given}, api_key={key})"


def introduction(bound: Bound, models: list[Model], gate: Gate) -> Iterator[str]:
    """The lines a gateway says when it listens."""
    yield f"seqrt: gateway at {bound.url}"
    for model in models:
        yield from (f"seqrt:   {_told(model, worker)}" for worker in model.workers)
    if models:
        yield f"seqrt: {robots_line(bound, models[0], gate)}"
    if bound.tls is not None:
        yield f"seqrt: its certificate's sha256 fingerprint is {bound.tls.fingerprint}"
    yield from what_is_open(bound, is_keyed=gate.is_keyed, without="keys; give --keys FILE to ask for one")


def _told(model: Model, worker: Worker) -> str:
    where = f"{model.id.rpartition('/')[2]} at {worker.link.host}"
    if worker.info is None:
        return f"{where}: not serving yet, asked again until it does: {worker.said or 'no answer so far'}"
    robots = ", ".join(worker.info.embodiments)
    return f"{where}: {f'drives {robots}' if robots else 'for seqrt.connect alone, it declares no robot-arm contract'}"
