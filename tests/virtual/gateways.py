"""A gateway before one arm's policy in this process, behind a scripted network."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from seqrt.gateway.app import app
from seqrt.gateway.asked import Gateway
from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Model, Models, full_id
from seqrt.gateway.spending import Spending
from seqrt.link.local import LocalLink
from seqrt.observation.codecs import encode_picture
from seqrt.policies import Host, policy
from seqrt.policies.robot_arm import ActionContract
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport

ARM = ActionContract(robot="arm", action_space="joint_absolute", action_dim=2, control_frequency_hz=10)
PICTURE = base64.b64encode(encode_picture(np.zeros((6, 8, 3), np.uint8), "png")).decode()
INFER_S = 0.1203


@policy(action_contract=ARM)
class Arm:
    """Answers two rows."""

    def infer(self, obs: Any) -> Any:
        return [[0.0, 0.5], [0.1, 0.5]]


@dataclass(frozen=True)
class Stood:
    """A gateway and the way to it.

    Attributes:
        client: Sends to it.
        gateway: It.
    """

    client: httpx.AsyncClient
    gateway: Gateway

    async def act(self, model: str = "arm", **headers: str) -> httpx.Response:
        """One act of a robot that speaks JSON."""
        seen = {"images": [{"view": "wrist", "data": PICTURE}], "proprioception": {}, "instruction": "push"}
        return await self.client.post("/v1/act", json={"model": model, "observation": seen}, headers=headers)


@asynccontextmanager
async def gateway() -> AsyncIterator[Stood]:
    """Without keys; the policy takes `INFER_S`."""
    host = Host(Arm(), offload=inline(INFER_S))
    await host.start()
    models = Models([Model(full_id("arm"), [LocalLink(host)])])
    made = Gateway(models, Gate(None, Spending()), offload=inline(), wall=lambda: 1_800_000_000.5)
    await models.look()
    async with (
        LinkTransport(app(made), up_s=0.0203, down_s=0.0203) as link,
        httpx.AsyncClient(transport=link, base_url="http://gateway", timeout=None) as client,
    ):
        yield Stood(client, made)
        assert link.app_errors == []
