"""A policy in the robot's own process is let go of as a worker would."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import seqrt
from seqrt.link.local import LocalLink
from seqrt.policies import Host
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest

pytestmark = pytest.mark.anyio


@seqrt.policy(episodes="shared")
class Ends:
    def __init__(self) -> None:
        self.told: list[str] = []

    def infer(self, obs: Any, *, episode: seqrt.Episode) -> Any:
        return [[0.0]]

    def on_episode(self, episode: seqrt.Episode) -> None:
        self.told.append(f"over {episode.id}")

    def shutdown(self) -> None:
        self.told.append("shutdown")


async def linked(policy: object) -> LocalLink:
    host = Host(policy, offload=inline(0.1003))
    await host.start()
    link = LocalLink(host)
    ask = await link.prepare(ActRequest(inputs={"x": 1}, seq=0, episode_id="e"))
    await link.act(ask, "r-1", 10.0)
    return link


async def test_closing_ends_its_episodes_and_calls_shutdown_once() -> None:
    ends = Ends()
    link = await linked(ends)
    await link.aclose()
    await link.aclose()
    assert ends.told == ["over e", "shutdown"]


async def test_closing_goes_through_although_the_program_was_cancelled() -> None:
    ends = Ends()
    link = await linked(ends)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await link.aclose()
    assert ends.told == ["over e", "shutdown"]
