"""What the tests of episodes share: a host in virtual time, and acts that carry their observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqrt.policies import Host, HostLimits
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, ActResponse, AskPlan

INFER_S = 0.1203
_ids = iter(range(10**9))


async def started(
    policy: object, *, duration_s: float | Sequence[float] = INFER_S, limits: HostLimits | None = None, **more: Any
) -> Host:
    host = Host(policy, offload=inline(duration_s), limits=limits or HostLimits(), **more)
    await host.start()
    return host


async def ask(
    host: Host, episode: str | None, number: int = 0, inputs: Any = None, *, request_id: str = "", **fields: Any
) -> ActResponse:
    plan = {name: fields.pop(name) for name in ("prefix", "d", "s", "previous") if name in fields}
    request = ActRequest(
        inputs={"x": number} if inputs is None else inputs,
        seq=number,
        episode_id=episode,
        plan=AskPlan(**plan) if plan else None,
        **fields,
    )
    return await host.act(request, request_id=request_id or f"r-{next(_ids):016x}")
