"""Several acts of one episode in flight over one real connection."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import numpy as np
import pytest
from echoing import HANG_S

from seqrt.observation import Observations, Stream
from seqrt.policies import policy
from seqrt.testing import Delayed
from seqrt.worker import serving

pytestmark = pytest.mark.anyio


@policy(observations=Observations(streams={"x": Stream(at=[0])}))
class Waits:
    """Its first act takes until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def infer(self, obs: Any) -> Any:
        assert self.let_go.wait(60)
        return np.zeros((4, 2))


async def act(client: httpx.AsyncClient, step: int, answers: dict[int, Any]) -> None:
    body = {"inputs": {"x": step}, "seq": step, "episode_id": "e"}
    answer = await client.post("/act", json=body)
    assert answer.http_version == "HTTP/2"
    answers[step] = answer.json()["plan"]


async def test_the_newest_act_is_served_when_the_policy_is_free_and_the_older_ones_are_told() -> None:
    waits, answers = Waits(), dict[int, Any]()
    async with (
        serving(waits) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60, http1=False, http2=True) as client,
        anyio.create_task_group() as tasks,
    ):
        for step in range(4):
            tasks.start_soon(act, client, step, answers)
            with anyio.fail_after(HANG_S):
                while server.policy.statistics()["acts"] <= step:
                    await anyio.lowlevel.checkpoint()
        waits.let_go.set()
    assert [bool(answers[step].get("stale")) for step in range(4)] == [False, True, True, False]
    assert answers[3]["t"] == 3


async def test_answers_delayed_inside_the_worker_overtake_one_another_on_one_connection() -> None:
    waits, answers = Waits(), dict[int, Any]()
    waits.let_go.set()
    async with (
        serving(waits, wrap=lambda app: Delayed(app, after_s=[0.3, 0.0])) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60, http1=False, http2=True) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(act, client, 0, answers)
        with anyio.fail_after(HANG_S):
            while not server.policy.statistics()["inferred"]:
                await anyio.lowlevel.checkpoint()
        await act(client, 1, answers)
        assert list(answers) == [1]
    assert list(answers) == [1, 0]
    assert not answers[0].get("stale")
