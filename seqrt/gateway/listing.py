"""``GET /v1/models`` and ``GET /v1/health``: what is there, for whoever asks; no key is needed."""

from __future__ import annotations

from typing import Any, Final

from seqrt.errors import remote_error
from seqrt.gateway.asked import Asked, Gateway
from seqrt.gateway.models import listed

ENDPOINTS: Final = ("act", "chat", "perceive")


async def models(gateway: Gateway, call: Asked) -> Any:
    """The policies, those of one endpoint where one is named. There are none of "chat" and "perceive" here.

    Raises:
        InvalidRequest: There is no such endpoint.
    """
    wanted = (call.query.get("endpoint") or [None])[0]
    if wanted is not None and wanted not in ENDPOINTS:
        raise remote_error("invalid_request", f"endpoint is one of {', '.join(ENDPOINTS)}, not {wanted!r:.80}")
    lines = (listed(model) for model in gateway.models.all())
    return {"object": "list", "data": [said for said in lines if wanted in (None, said["endpoint"])]}


async def health(gateway: Gateway, call: Asked) -> Any:
    """Whether the gateway serves, and whether it checks keys. ``ok`` is of the gateway, not of its workers."""
    return {"ok": True, "backend": "seqrt", "auth": "keystore" if gateway.gate.is_keyed else "none"}
