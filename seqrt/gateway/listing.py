"""``GET /v1/models`` and ``GET /v1/health``: what is there, for whoever asks; no key is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from seqrt.errors import remote_error
from seqrt.gateway.asked import Asked, Gateway
from seqrt.gateway.models import Model
from seqrt.wire.messages import PolicyInfo

ENDPOINTS: Final = ("act", "chat", "perceive")


async def models(gateway: Gateway, call: Asked) -> Any:
    """The policies, those of one endpoint where one is named. There are none of "chat" and "perceive" here.

    Raises:
        InvalidRequest: There is no such endpoint.
    """
    wanted = (call.query.get("endpoint") or [None])[0]
    if wanted is not None and wanted not in ENDPOINTS:
        raise remote_error("invalid_request", f"endpoint is one of {', '.join(ENDPOINTS)}, not {wanted!r:.80}")
    lines = (_listed(model) for model in gateway.models.all())
    return {"object": "list", "data": [said for said in lines if wanted in (None, said["endpoint"])]}


async def health(gateway: Gateway, call: Asked) -> Any:
    """Whether the gateway serves, and whether it checks keys. ``ok`` is of the gateway, not of its workers."""
    return {"ok": True, "backend": "seqrt", "auth": "keystore" if gateway.gate.is_keyed else "none"}


def _listed(model: Model) -> dict[str, Any]:
    """One line of ``GET /v1/models``; null where the policy does not say, or no worker has answered yet."""
    info = model.info
    robot = next(iter(info.embodiments.values()), {}) if info is not None else {}
    action = robot.get("action", {})
    actions = (info.actions if info is not None else None) or {}
    return {
        "id": model.id,
        "endpoint": "act",
        "architecture": info.model if info is not None else "",
        "robot": action.get("robot"),
        "action_dim": action.get("action_dim"),
        "action_horizon": actions.get("open_loop_horizon"),
        "control_hz": action.get("control_frequency_hz", actions.get("hz")),
        "camera_views": list(views_of(info)),
    }


def views_of(info: PolicyInfo | None, robot: str | None = None) -> Mapping[str, Any]:
    """The cameras a policy declares, by view: those of one robot, of its only or first one, or of its streams."""
    if info is None:
        return {}
    embodiment = info.embodiments.get(robot) if robot is not None else next(iter(info.embodiments.values()), None)
    if embodiment is not None:
        return dict((embodiment.get("observation") or {}).get("cameras") or {})
    streams = (info.observations or {}).get("streams") or {}
    return {key: stream["camera"] for key, stream in streams.items() if stream.get("camera")}
