"""What a worker holds of episodes that are over, while nobody asks it for anything: nothing."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import anyio
import numpy as np
import pytest
from episodic import ask, started

from seqrt.policies import Host, Timeouts, policy
from seqrt.policies.episode import Episode
from seqrt.wire.limits import ANSWERS_KEPT_S

pytestmark = pytest.mark.anyio


class Seen(np.ndarray):  # type: ignore[type-arg]
    """An array a weak reference can be taken of while the worker holds it."""


def seen(size: int = 8) -> Any:
    array = np.zeros(size, np.uint8).view(Seen)
    array.flags.writeable = False  # or the worker keeps a copy
    return array


class Cache:
    """What a policy keeps of an episode."""


@policy(episodes="shared", timeouts=Timeouts(episode_idle=20))
class Caching:
    """Has state, and does not ask to be told when an episode is over."""

    def __init__(self) -> None:
        self.kept: weakref.WeakSet[Cache] = weakref.WeakSet()

    def infer(self, obs: Any, *, episode: Episode) -> Any:
        cache = episode.state.setdefault("cache", Cache())
        self.kept.add(cache)
        return 0


@policy(timeouts=Timeouts(episode_idle=20))
class Plain:
    """Answers depend on the request alone."""

    def infer(self, obs: Any) -> Any:
        return 0


async def test_an_ended_episodes_observations_are_let_go_at_once() -> None:
    host = await started(Plain())
    posted = seen()
    held = weakref.ref(posted)
    await ask(host, "a", inputs={"x": posted})
    del posted
    gc.collect()
    assert held() is not None  # the newest can be acted on again
    await host.end("a")
    gc.collect()
    assert held() is None


async def test_the_observations_of_a_robot_that_vanished_are_let_go_without_another_request() -> None:
    host = await started(Plain())
    posted = seen()
    held = weakref.ref(posted)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.tend)
        await ask(host, "a", inputs={"x": posted})
        del posted
        await anyio.sleep(45.0)
        gc.collect()
        assert held() is None
        tasks.cancel_scope.cancel()


async def test_an_episodes_state_is_let_go_at_its_end_where_the_policy_is_not_told_of_it() -> None:
    caching = Caching()
    host = await started(caching)
    await ask(host, "a")
    gc.collect()
    assert len(caching.kept) == 1
    await host.end("a")
    gc.collect()
    assert len(caching.kept) == 0


async def test_an_episode_that_ends_while_it_is_inferred_leaves_nothing_either() -> None:
    caching = Caching()
    host = await started(caching)
    posted = seen()
    held = weakref.ref(posted)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "a", 0, {"x": posted})
        del posted
        await anyio.sleep(0.05)
        await host.end("a")
    gc.collect()
    assert (held(), len(caching.kept)) == (None, 0)


async def _come_and_go(host: Host, begun: Iterator[int]) -> int:
    """Fifty episodes of which half end and half are left; what is traced once the last is forgotten, in bytes."""
    for number in islice(begun, 50):
        await ask(host, f"e{number}", inputs={"x": np.zeros(2000, np.uint8)})
        if number % 2:
            await host.end(f"e{number}")
    await anyio.sleep(1000.0)  # idle episodes, kept answers and the ids of ended episodes are forgotten
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def test_each_fifty_episodes_leave_what_the_fifty_before_them_left() -> None:
    host, begun = await started(Caching(), duration_s=0.0101), count()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.tend)
        tracemalloc.start()
        try:
            await _come_and_go(host, begun)
            before = await _come_and_go(host, begun)  # tables have the size they need by now
            after = [await _come_and_go(host, begun) for _ in range(2)]
        finally:
            tracemalloc.stop()
        assert max(after) < before + 20_000  # an episode's shell alone is 1600, its observation 2000
        tasks.cancel_scope.cancel()


async def test_the_answer_of_an_act_without_an_episode_is_dropped_without_another_request() -> None:
    host = await started(Plain())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.tend)
        await ask(host, None)
        assert host.statistics()["answers"] == 1
        await anyio.sleep(2 * ANSWERS_KEPT_S)
        assert host.statistics()["answers"] == 0
        tasks.cancel_scope.cancel()
