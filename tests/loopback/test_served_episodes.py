"""Episodes, parameters and the sample over real HTTP, in real threads, on asyncio and trio."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import httpx
import numpy as np
import pytest

from seqrt.action.declaration import Actions
from seqrt.policies import policy
from seqrt.policies.episode import Episode
from seqrt.policies.terms import Concurrency
from seqrt.worker import serving

pytestmark = pytest.mark.anyio


@policy(actions=Actions(key="actions", hz=10), episodes="shared", concurrency=Concurrency(max_concurrent=8))
class Counts:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.batches: list[int] = []
        self.blocked = threading.Event()
        self.let_go = threading.Event()

    def sample(self) -> list[Any]:
        return [{"x": 1.0}, {"x": 2.0}]

    def infer(self, obs: list[Any], *, episode: list[Episode], steps: int = 10) -> list[Any]:
        if any(one["x"] == "block" for one in obs):
            self.blocked.set()
            assert self.let_go.wait(60)
        self.batches.append(len(obs))
        for one in episode:
            one.state["acts"] = one.state.get("acts", 0) + 1
        return [{"actions": np.full((1, 1), one.state["acts"]), "steps": steps} for one in episode]

    def on_episode(self, episode: Episode) -> None:
        self.said.append(f"over {episode.id}")

    def shutdown(self) -> None:
        self.said.append("shutdown")


async def test_eight_robots_share_one_call_and_their_states_stay_apart() -> None:
    counts = Counts()
    async with serving(counts) as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        answers: dict[str, Any] = {}

        async def act(episode: str, number: int, x: Any = 0.0) -> None:
            body = {"inputs": {"x": x}, "seq": number, "episode_id": episode, "params": {"steps": 4}}
            answers[episode] = (await client.post("/act", json=body)).json()

        for number in range(2):
            counts.blocked.clear()
            counts.let_go.clear()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(act, "first", number, "block")
                await anyio.to_thread.run_sync(counts.blocked.wait, 20)
                for episode in range(8):
                    tasks.start_soon(act, f"e{episode}", number)
                while server.policy.statistics()["acts"] < 9:
                    await anyio.lowlevel.checkpoint()
                counts.let_go.set()
            told = {episode: answer["outputs"] for episode, answer in answers.items()}
            assert told == {name: {"actions": [[number + 1]], "steps": 4} for name in told}
        assert counts.batches[2:] == [1, 8, 1, 8]

        info = (await client.get("/policy")).json()
        assert info["infer_s"] > 0
        assert (info["acts_at_once"], info["episodes"]) == (8, "shared")
        assert info["params"] == {"steps": {"type": "int", "default": 10}}
        refused = await client.post("/act", json={"inputs": {}, "seq": 2, "episode_id": "e0", "params": {"steps": "x"}})
        assert (refused.status_code, refused.json()["details"]["param"]) == (400, "steps")
        await client.post("/act/episode_end", json={"episode_id": "e0"})
        assert counts.said == ["over sample", "over e0"]
    assert counts.said[-1] == "shutdown"
    assert len(counts.said) == 2 + 8 + 1


async def test_a_sample_that_fails_is_raised_where_the_policy_is_served() -> None:
    class Raises(Counts):
        def infer(self, obs: list[Any], *, episode: list[Episode], steps: int = 10) -> list[Any]:
            raise KeyError("wrist")

    raises = Raises()
    with pytest.raises(Exception, match="act 0 of the sample's 2 failed: KeyError: 'wrist'"):
        async with serving(raises):
            pytest.fail("it serves")
    assert "shutdown" not in raises.said
