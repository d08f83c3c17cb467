"""Episodes beyond the copies of a policy: they wait for a place in the order they came, or are refused at once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from episodic import INFER_S, ask, started

from seqrt.errors import Unavailable
from seqrt.policies import Host, HostLimits, policy
from seqrt.wire.messages import ObserveRequest

pytestmark = pytest.mark.anyio


def stateful(**declared: Any) -> Any:
    @policy(**declared)
    class Resets:
        def reset(self) -> None: ...

        def infer(self, obs: Any) -> Any:
            return obs["x"]

    return Resets()


async def begun(host: Host, told: dict[str, float], episode: str, after_s: float = 0.0) -> None:
    await anyio.sleep(after_s)
    await ask(host, episode)
    told[episode] = anyio.current_time()


async def test_new_episodes_wait_for_a_place_and_get_one_in_the_order_they_came() -> None:
    host = await started(stateful())
    told: dict[str, float] = {}
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        for number, episode in enumerate("bcd"):
            tasks.start_soon(begun, host, told, episode, 0.1 * number)
        await anyio.sleep(5.0)
        assert host.load().episodes_waiting == 3
        assert (host.load().episodes, host.load().most_episodes, host.load().full) == (1, 1, True)
        for ended in "abc":
            await host.end(ended)
            await anyio.sleep(1.0)
    assert list(told) == ["b", "c", "d"]
    assert told["b"] == pytest.approx(INFER_S + 5.0 + INFER_S)
    assert host.load().episodes_waiting == 0


async def test_one_that_waits_too_long_is_told_its_place() -> None:
    host = await started(stateful(queue_timeout_s=5))
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        refused: dict[str, Unavailable] = {}

        async def waits(episode: str) -> None:
            with pytest.raises(Unavailable, match="one episode at a time") as busy:
                await ask(host, episode)
            refused[episode] = busy.value

        tasks.start_soon(waits, "b")
        await anyio.sleep(0.1)
        tasks.start_soon(waits, "c")
    assert {name: error.details["position"] for name, error in refused.items()} == {"b": 1, "c": 1}  # b had left
    assert anyio.current_time() == pytest.approx(INFER_S + 5.1)
    assert host.statistics()["acts"] == host.statistics()["episodes_waiting"] == 0


async def test_a_post_of_a_new_episode_never_waits_and_takes_no_place_from_those_that_do() -> None:
    host = await started(stateful())
    told: dict[str, float] = {}
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begun, host, told, "b")
        await anyio.sleep(1.0)
        await host.end("a")  # b has not come to take its place yet
        with pytest.raises(Unavailable) as busy:
            await host.observe(ObserveRequest(episode_id="c", skipped=[0]))
        assert busy.value.details == {"position": 2}
    assert list(told) == ["b"]


async def test_a_post_of_the_episode_whose_turn_it_is_takes_its_place() -> None:
    host = await started(stateful())
    told: dict[str, float] = {}
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begun, host, told, "b")
        await anyio.sleep(1.0)
        await host.end("a")
        await host.observe(ObserveRequest(episode_id="b", skipped=[5]))
    assert list(told) == ["b"]


async def test_a_policy_that_rejects_lets_no_episode_wait() -> None:
    host = await started(stateful(on_full="reject"))
    await ask(host, "a")
    with pytest.raises(Unavailable, match="one episode at a time") as busy:
        await ask(host, "b")
    assert (busy.value.code, busy.value.details["position"]) == ("busy", 1)
    assert anyio.current_time() == pytest.approx(INFER_S)


async def test_whoever_leaves_while_it_waits_leaves_its_place_to_the_next() -> None:
    host = await started(stateful())
    told: dict[str, float] = {}
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        leaving = anyio.CancelScope()

        async def leaves() -> None:
            with leaving:
                await ask(host, "b")

        tasks.start_soon(leaves)
        await anyio.sleep(0.1)
        tasks.start_soon(begun, host, told, "c")
        await anyio.sleep(0.1)
        leaving.cancel()
        await anyio.sleep(0.1)
        assert host.load().episodes_waiting == 1
        await host.end("a")
    assert list(told) == ["c"]


async def test_when_the_worker_drains_those_that_wait_are_told_at_once() -> None:
    host = await started(stateful())
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:

        async def waits() -> None:
            with pytest.raises(Unavailable) as draining:
                await ask(host, "b")
            assert draining.value.details == {"reason": "draining"}
            assert anyio.current_time() == pytest.approx(INFER_S + 1.0)

        tasks.start_soon(waits)
        await anyio.sleep(1.0)
        host.drain()
        await host.draining()


async def test_an_episode_that_is_lost_does_not_wait_to_hear_of_it() -> None:
    host = await started(stateful(), limits=HostLimits(copies=1))
    await ask(host, "a")
    with pytest.raises(Exception, match="no longer has this episode"):
        await host.observe(ObserveRequest(episode_id="b", skipped=[5], begun=True))
    assert anyio.current_time() == pytest.approx(INFER_S)
