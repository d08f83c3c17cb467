"""Delays inside the worker that are independent of one another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from seqrt.observation import Observations, Stream
from seqrt.testing import Delayed, LinkTransport, Scripted
from seqrt.testing.connected import served
from seqrt.wire.codec import decode, encode
from seqrt.wire.headers import MSGPACK
from seqrt.wire.messages import ActRequest, ActResponse
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

INFER_S = 0.0503


@asynccontextmanager
async def worker(**delays: Any) -> AsyncIterator[httpx.AsyncClient]:
    host = served(Scripted(infer_s=INFER_S, observations=Observations(streams={"state": Stream(at=[0])})))
    await host.start()
    async with (
        LinkTransport(Delayed(app(host), **delays)) as link,
        httpx.AsyncClient(transport=link, base_url="http://worker.test") as client,
    ):
        yield client


async def asked(client: httpx.AsyncClient, *steps: int) -> list[tuple[int, float, bool]]:
    """The acts, a millisecond apart, in the order of their answers: step, when, and whether it was stale."""
    answers: list[tuple[int, float, bool]] = []
    began = anyio.current_time()

    async def one(step: int) -> None:
        body = encode(ActRequest(inputs={"state": 0.0}, seq=step, episode_id="e"))
        answer = await client.post("/act", content=body, headers={"content-type": MSGPACK, "accept": MSGPACK})
        response = decode(answer.content, ActResponse)
        assert response.plan is not None
        answers.append((step, anyio.current_time() - began, bool(response.plan.stale)))

    async with anyio.create_task_group() as tasks:
        for step in steps:
            tasks.start_soon(one, step)
            await anyio.sleep(0.001)
    return answers


async def test_answers_wait_side_by_side_and_hold_up_no_inference() -> None:
    async with worker(after_s=[0.4007, 0.1003]) as client:
        answers = await asked(client, 0, 1)
    assert [step for step, _, _ in answers] == [1, 0]
    assert [at_s for _, at_s, _ in answers] == pytest.approx([2 * INFER_S + 0.1003, INFER_S + 0.4007], abs=1e-4)
    assert not any(stale for _, _, stale in answers)


async def test_an_act_that_is_overtaken_on_its_way_to_the_policy_is_stale() -> None:
    async with worker(before_s=[0.0, 0.3007, 0.1003]) as client:
        answers = await asked(client, 0, 1, 2)
    assert [(step, stale) for step, _, stale in answers] == [(0, False), (2, False), (1, True)]


async def test_what_is_not_named_passes_at_once() -> None:
    async with worker(before_s=9.0, after_s=9.0) as client:
        began = anyio.current_time()
        assert (await client.get("/policy")).status_code == 200
        assert anyio.current_time() == pytest.approx(began, abs=1e-3)
