from __future__ import annotations

from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from driven import drive

from seqrt import (
    Gone,
    LinkLost,
    Observations,
    PolicyError,
    Stream,
)
from seqrt.testing.connected import HOST, connected, served
from seqrt.testing.policies import Scripted
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio


def seen(value: float = 0.0) -> dict[str, Any]:
    return {"state": np.full(3, value, np.float32)}


def by_state(**changes: Any) -> Scripted:
    return Scripted(**{"rows": 5, "hz": 20, "infer_s": 0.0803, "by": "state", **changes})


def windowed(*at: int) -> Observations:
    return Observations(streams={"state": Stream(at=list(at), shape=[3], dtype="float32")})


# Errors, and the next call.


async def test_after_an_error_of_the_policy_the_next_call_works() -> None:
    async with connected(by_state(raise_on={0, 2})) as there:
        with pytest.raises(PolicyError, match="illegal memory access"):
            await there.policy.predict(seen(1.0))
        assert (await there.policy.predict(seen(2.0))).rows[0, 0] == 3.0
        with pytest.raises(PolicyError):
            await there.policy.predict(seen(3.0))
        assert (await there.policy.predict(seen(4.0))).rows[0, 0] == 5.0
        assert there.policy.statistics().state == "idle"


@pytest.mark.parametrize("observations", [None, windowed(0), windowed(-2, 0)])
@pytest.mark.parametrize("kind", ["refused", "reset"])
async def test_after_a_lost_link_the_next_call_works_and_waits_for_nothing(
    observations: Observations | None, kind: Any
) -> None:
    policy = by_state(observations=observations)
    async with connected(policy) as there:
        await there.policy.predict(seen(1.0))
        there.link.begin_outage(kind)
        with pytest.raises(LinkLost) as lost:
            await there.policy.predict(seen(2.0))
        assert lost.value.host == HOST
        assert lost.value.phase in (("connect",) if kind == "refused" else ("observe", "act"))
        there.link.end_outage()
        before = anyio.current_time()
        chunk = await there.policy.predict(seen(3.0))
        assert anyio.current_time() - before < 0.2
        assert chunk.rows[0, 0] == 4.0
    assert policy.calls[-1].observation["state"][0] == 3.0


async def test_an_answer_lost_on_its_way_costs_its_call_and_not_the_next() -> None:
    def lose(request: httpx.Request) -> bool:
        if request.url.path == "/act" and len(policy.calls) == 1:
            there.link.begin_outage("reset")
            there.link.end_outage()
        return False

    policy = by_state()
    async with connected(policy, lose_answer=lose) as there:
        with pytest.raises(LinkLost) as lost:
            await there.policy.predict(seen(1.0))
        assert lost.value.phase == "act"
        assert (await there.policy.predict(seen(2.0))).rows[0, 0] == 3.0


@pytest.mark.parametrize("observations", [None, windowed(-2, 0)])
async def test_call_by_call_goes_on_at_a_worker_that_was_restarted(observations: Observations | None) -> None:
    second = by_state(observations=observations)
    async with connected(by_state(observations=observations)) as there:
        for value in range(3):
            await there.policy.predict(seen(float(value)))
        host = served(second)
        await host.start()
        there.link.app = app(host)
        chunk = await there.policy.predict(seen(8.0))
    assert chunk.observed == 15
    assert chunk.rows[0, 0] == 9.0


class Remembering(Scripted):
    def __init__(self, **script: Any) -> None:
        super().__init__(**script)
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1


async def test_after_a_lost_episode_with_state_the_next_call_begins_a_new_one() -> None:
    second = Remembering(rows=5, by="state")
    async with connected(Remembering(rows=5, by="state")) as there:
        await there.policy.predict(seen())
        host = served(second)
        await host.start()
        there.link.app = app(host)
        with pytest.raises(Gone):
            await there.policy.predict(seen())
        assert (await there.policy.predict(seen(3.0))).rows[0, 0] == 4.0
    assert second.resets == 1


async def test_inside_an_episode_a_lost_state_is_not_papered_over() -> None:
    async with connected(Remembering(rows=5, by="state")) as there, there.policy.episode():
        await there.policy.predict(seen())
        host = served(Remembering(rows=5, by="state"))
        await host.start()
        there.link.app = app(host)
        for _ in range(2):
            with pytest.raises(Gone):
                await there.policy.predict(seen())


async def test_a_policy_with_state_can_be_run_after_call_by_call_and_the_other_way_round() -> None:
    """It serves one episode at a time: what is over has to be ended."""
    policy = Remembering(rows=10, by="state", infer_s=0.05)
    async with connected(policy) as there:
        await there.policy.predict(seen())
        driven = await drive(there.policy, max_actions=20)
        assert driven.error is None
        assert (await there.policy.predict(seen(3.0))).rows[0, 0] == 4.0
        assert there.host.statistics()["episodes"] == 1
    assert there.host.statistics()["episodes"] == 0
    assert policy.resets == 3
