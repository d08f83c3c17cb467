"""One episode of the policy's own, acted out before the worker says ready."""

from __future__ import annotations

import traceback
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from episodic import ask, started

from seqrt.action.declaration import Actions
from seqrt.errors import ActionError, ObservationError, Unavailable
from seqrt.observation import Observations, Stream
from seqrt.policies import Host, policy
from seqrt.policies.episode import Episode
from seqrt.policies.sample import SampleFailed
from seqrt.policies.terms import Concurrency
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport
from seqrt.wire.codec import decode_info
from seqrt.wire.headers import MSGPACK
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio


@policy(
    observations=Observations(streams={"x": Stream(at=[-1, 0], shape=[2], dtype="float32")}),
    actions=Actions(key="actions", hz=10, names=("pan", "tilt")),
    episodes="shared",
)
class Sampled:
    shape: tuple[int, ...] = (4, 2)
    length = 2

    def __init__(self) -> None:
        self.said: list[Any] = []

    def load(self) -> None:
        self.said.append("load")

    def warmup(self) -> None:
        self.said.append("warmup")

    def sample(self) -> list[Any]:
        self.said.append("sample")
        return [{"x": np.full(self.length, float(n))} for n in range(3)]

    def reset(self, episode: Episode) -> None:
        self.said.append("reset")

    def infer(self, obs: Any, *, episode: Episode) -> Any:
        self.said.append((obs["steps"], episode.steps))
        return {"actions": np.zeros(self.shape)}

    def on_episode(self, episode: Episode) -> None:
        self.said.append("over")


async def test_a_sample_is_acted_out_as_an_episode_before_ready_and_its_median_is_told() -> None:
    sampled = Sampled()
    # load, warmup, sample; three acts, of which the first is slow; on_episode
    host = await started(sampled, duration_s=[0.0, 0.0, 0.0, 5.0, 0.2, 0.3, 0.0])
    assert sampled.said == ["load", "warmup", "sample", "reset", ([0, 0], 0), ([0, 1], 1), ([1, 2], 2), "over"]
    assert host.info().infer_s == pytest.approx(0.3)
    assert host.stage == "ready"
    assert host.statistics()["inferred"] == host.statistics()["episodes"] == 0
    assert host.sampled is not None
    assert set(host.sampled.answers) == {"{'actions': float64 [4, 2]}"}


async def test_policy_tells_the_timing_only_once_the_sample_ran_and_acts_wait_for_it() -> None:
    host = Host(Sampled(), offload=inline(1.0))
    async with (
        LinkTransport(app(host)) as link,
        httpx.AsyncClient(transport=link, base_url="http://worker", timeout=None) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(host.start)
        await anyio.sleep(3.5)
        told = await client.get("/policy", headers={"accept": MSGPACK})
        assert decode_info(told.content).infer_s is None
        with pytest.raises(Unavailable) as warming:
            await ask(host, "a")
        assert warming.value.warming
        await anyio.sleep(5.0)
        told = await client.get("/policy", headers={"accept": MSGPACK})
        info = decode_info(told.content)
        assert info.infer_s == pytest.approx(1.0)
        assert info.episodes == "shared"


async def test_a_sample_that_raises_is_a_start_refused_with_the_policys_traceback() -> None:
    class Raises(Sampled):
        def infer(self, obs: Any, *, episode: Episode) -> Any:
            if episode.steps == 1:
                raise KeyError("wrist")
            return super().infer(obs, episode=episode)

    host = Host(Raises(), offload=inline())
    with pytest.raises(SampleFailed, match="act 1 of the sample's 3 failed: KeyError: 'wrist'") as failed:
        await host.start()
    assert 'raise KeyError("wrist")' in "".join(traceback.format_exception(failed.value))
    assert host.stage == "error"
    assert "KeyError" in host.failure


async def test_a_sample_that_is_not_as_declared_is_refused_with_both_sides() -> None:
    class Longer(Sampled):
        length = 3

    with pytest.raises(SampleFailed, match=r"shape \[3\], the policy declares \[2\]") as failed:
        await started(Longer())
    assert isinstance(failed.value.__cause__, ObservationError)


@pytest.mark.parametrize(("shape", "told"), [((1, 4, 2), "without the leading axis"), ((4, 3), "3 columns")])
async def test_an_answer_that_is_not_as_declared_is_refused_with_what_to_return(
    shape: tuple[int, ...], told: str
) -> None:
    wrong = type("Wrong", (Sampled,), {"shape": shape})
    with pytest.raises(SampleFailed, match=told) as failed:
        await started(wrong())
    assert isinstance(failed.value.__cause__, ValueError | ActionError)


@pytest.mark.parametrize("answer", [[], {}, {"x": 1.0}, None, 3])
async def test_a_sample_that_is_no_list_says_what_to_return(answer: Any) -> None:
    wrong = type("Wrong", (Sampled,), {"sample": lambda self: answer})
    with pytest.raises(TypeError, match="return a list"):
        await started(wrong())


async def test_a_generator_is_a_sample_too_and_a_batched_policy_acts_it_out_in_lists() -> None:
    @policy(concurrency=Concurrency(max_concurrent=4))
    class Batched:
        def sample(self) -> Any:
            yield {"x": 1}
            yield {"x": 2}

        def infer(self, obs: list[Any]) -> list[Any]:
            return [one["x"] for one in obs]

    host = await started(Batched(), duration_s=0.25)
    assert host.info().infer_s == pytest.approx(0.25)


async def test_a_copy_that_acted_the_sample_out_is_reset_for_the_first_robot() -> None:
    @policy(episodes="own")
    class Own:
        def __init__(self) -> None:
            self.acts = 0

        def sample(self) -> list[Any]:
            return [{}, {}]

        def reset(self) -> None:
            self.acts = 0

        def infer(self, obs: Any) -> Any:
            self.acts += 1
            return self.acts

    host = await started(Own())
    assert (await ask(host, "a")).outputs == 1


async def test_without_a_sample_there_is_no_timing() -> None:
    host = await started(lambda obs: 0)
    assert host.info().infer_s is None
