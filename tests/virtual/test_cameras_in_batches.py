"""Pictures where acts are served in batches, observations are handed to ``observe``, and a sample is acted out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest

import seqrt
from seqrt.errors import InvalidRequest, ObservationError, RemoteError
from seqrt.observation import encode_cameras
from seqrt.policies import Host, HostLimits
from seqrt.policies.sample import SampleFailed
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, ActResponse, Frame, ObserveRequest

pytestmark = pytest.mark.anyio

SIZE = 16
CAMERA = seqrt.Camera(width=SIZE, height=SIZE, resize="pad", filter="bilinear", codec="jpeg", layout="chw_float")
OBSERVATIONS = seqrt.Observations(streams={"wrist": seqrt.Stream(camera=CAMERA)})


def sent(level: int) -> dict[str, Any]:
    return encode_cameras({"wrist": np.full((SIZE, SIZE, 3), level, np.uint8)}, OBSERVATIONS)


def broken() -> dict[str, Any]:
    return {"wrist": sent(0)["wrist"][:-2]}


def level_of(picture: npt.NDArray[np.float32]) -> int:
    assert picture.shape == (3, SIZE, SIZE)
    return round(float(picture.mean()) * 255)


def newest(obs: Mapping[str, Any]) -> int:
    return level_of(obs["observations"][-1]["wrist"])


async def hosted(policy: object, limits: HostLimits | None = None) -> Host:
    host = Host(policy, offload=inline(0.0503), limits=limits or HostLimits())
    await host.start()
    return host


async def act(host: Host, episode: str, number: int, inputs: Any) -> ActResponse | RemoteError:
    request = ActRequest(inputs=inputs, seq=number, episode_id=episode)
    try:
        return await host.act(request, request_id=f"{episode}-{number}")
    except RemoteError as refused:
        return refused


@seqrt.policy(observations=OBSERVATIONS, episodes="shared", concurrency=seqrt.Concurrency(max_concurrent=4))
class Batched:
    """Answers what it sees; fails where one of the pictures is `failing`."""

    failing: int | None = None

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.told: list[str] = []

    def reset(self, episode: seqrt.Episode) -> None:
        self.told.append(f"reset {episode.id}")

    def infer(self, obs: list[Any], *, episode: list[seqrt.Episode]) -> list[Any]:
        levels = [newest(one) for one in obs]
        self.batches.append(levels)
        if self.failing in levels:
            raise ValueError("cannot see")
        return [[level, one.id] for level, one in zip(levels, episode, strict=True)]

    def on_episode(self, episode: seqrt.Episode) -> None:
        self.told.append(f"over {episode.id}")


async def together(host: Host, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The acts of one batch: they wait while another one runs."""
    answers: dict[str, Any] = {}

    async def one(episode: str, inputs: Any) -> None:
        answers[episode] = await act(host, episode, 0, inputs)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act, host, "first", 0, sent(9))
        await anyio.sleep(0.01)
        for episode, inputs in asked.items():
            tasks.start_soon(one, episode, inputs)
            await anyio.sleep(0.001)
    return answers


async def test_a_broken_picture_refuses_its_own_act_and_the_rest_of_the_batch_goes_on() -> None:
    batched = Batched()
    host = await hosted(batched)
    answers = await together(host, {"a": sent(40), "b": broken(), "c": sent(80)})
    assert batched.batches == [[9], [40, 80]]
    assert (answers["a"].outputs, answers["c"].outputs) == ([40, "a"], [80, "c"])
    assert isinstance(answers["b"], InvalidRequest)
    assert answers["b"].details["key"] == "wrist"
    assert "reset b" not in batched.told
    assert host.statistics()["inferred"] == 3
    assert host.running("b-0") == {"state": "unknown", "for_s": 0.0}


async def test_an_episode_whose_only_act_was_refused_is_none_the_policy_hears_of() -> None:
    batched = Batched()
    host = await hosted(batched)
    await together(host, {"b": broken()})
    await host.end("b")
    await host.end("first")
    assert batched.told == ["reset first", "over first"]


async def test_a_batch_of_nothing_but_broken_pictures_calls_nothing() -> None:
    batched = Batched()
    host = await hosted(batched)
    answers = await together(host, {"a": broken(), "b": broken()})
    assert [type(answer) for answer in answers.values()] == [InvalidRequest, InvalidRequest]
    assert batched.batches == [[9]]


async def test_acts_tried_by_themselves_after_a_batch_failed_see_the_same_pictures() -> None:
    batched = Batched()
    batched.failing = 80
    host = await hosted(batched)
    answers = await together(host, {"a": sent(40), "b": broken(), "c": sent(80)})
    assert batched.batches == [[9], [40, 80], [40], [80]]
    assert answers["a"].outputs == [40, "a"]
    assert (answers["b"].code, answers["c"].code) == ("invalid_request", "policy_error")


@seqrt.policy(observations=OBSERVATIONS, episodes="own")
class Observes:
    """Sees every observation in `observe`, the act's own in `infer` too."""

    def __init__(self) -> None:
        self.observed: list[Any] = []
        self.inferred: list[Any] = []
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def observe(self, obs: Mapping[str, Any]) -> None:
        self.observed.append(obs["wrist"])

    def infer(self, obs: Mapping[str, Any]) -> Any:
        self.inferred.append(obs["observations"][-1]["wrist"])
        return [[0.0]]


async def post(host: Host, episode: str, number: int, inputs: Any) -> None:
    await host.observe(ObserveRequest(episode_id=episode, frames=[Frame(seq=number, inputs=inputs)], skipped=[]))


async def test_observe_is_handed_pictures_decoded_once_for_it_and_for_infer() -> None:
    policy = Observes()
    host = await hosted(policy)
    for number in range(2):
        await post(host, "e", number, sent(10 * number))
    assert isinstance(await act(host, "e", 2, sent(20)), ActResponse)
    assert [level_of(picture) for picture in policy.observed] == [0, 10, 20]
    assert policy.inferred[-1] is policy.observed[-1]


async def test_a_broken_picture_that_observe_would_see_refuses_the_act_before_reset() -> None:
    policy = Observes()
    host = await hosted(policy)
    await post(host, "e", 0, broken())
    assert isinstance(await act(host, "e", 1, sent(10)), InvalidRequest)
    assert (policy.resets, policy.observed, policy.inferred) == (0, [], [])


async def test_a_copy_pinned_for_an_act_that_was_refused_is_free_for_the_next_episode() -> None:
    policy = Observes()
    host = await hosted(policy, HostLimits(copies=1))
    assert isinstance(await act(host, "e", 0, broken()), InvalidRequest)
    await host.end("e")
    assert isinstance(await act(host, "f", 0, sent(10)), ActResponse)
    assert policy.resets == 1


class Samples:
    """Its sample is what a robot's camera gives: another size, not encoded."""

    pictures: tuple[Any, ...] = (np.full((2 * SIZE, 2 * SIZE, 3), 60, np.uint8),)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def sample(self) -> list[Any]:
        return [{"wrist": picture} for picture in self.pictures]

    def infer(self, obs: Mapping[str, Any]) -> Any:
        self.seen.append(newest(obs))
        return [[0.0]]


async def test_the_pictures_of_a_sample_are_fitted_and_encoded_as_a_robot_does_it() -> None:
    samples = seqrt.policy(observations=OBSERVATIONS)(Samples)()
    host = await hosted(samples)
    assert samples.seen == [60]
    assert host.sampled is not None


async def test_a_sample_whose_picture_cannot_be_sent_says_why() -> None:
    samples = seqrt.policy(observations=OBSERVATIONS)(Samples)()
    samples.pictures = (np.full((SIZE, SIZE, 3), np.nan),)
    host = Host(samples, offload=inline())
    with pytest.raises(SampleFailed, match="'wrist'") as failed:
        await host.start()
    assert isinstance(failed.value.__cause__, ObservationError)
    assert host.stage == "error"
