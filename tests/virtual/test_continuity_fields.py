"""What an act says for continuity reaches ``infer``, and the model's own rows travel there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from episodic import started

import seqrt
from seqrt.errors import InvalidRequest, PolicyError
from seqrt.observation import Observations, Stream
from seqrt.policies import Host, policy
from seqrt.policies.terms import Concurrency
from seqrt.testing import FakeArm, Scripted
from seqrt.testing.connected import connected
from seqrt.wire.codec import decode, encode
from seqrt.wire.messages import ActRequest, ActResponse, AnswerPlan, AskPlan

pytestmark = pytest.mark.anyio

READS = Observations(streams={"x": Stream(at=[0])})
SAID: dict[str, Any] = {"prefix": [[1.0, 2.0], [3.0, 4.0]], "d": 2, "s": 5, "predicted_state": [7.0, 8.0]}


async def ask(host: Host, episode: str = "e", seed: int | None = None, **plan: Any) -> ActResponse:
    request = ActRequest(inputs={"x": 0}, seq=0, episode_id=episode, seed=seed, plan=AskPlan(**plan))
    return await host.act(request, request_id=f"r-{np.random.default_rng().integers(2**32):016x}")


def plan_of(response: ActResponse) -> AnswerPlan:
    assert response.plan is not None
    return response.plan


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@policy(observations=READS)
class Listens:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def infer(self, obs: Any, *, prefix: Any, delay: Any, spacing: Any, seed: Any, predicted_state: Any) -> Any:
        self.heard.append([plain(prefix), delay, spacing, seed, plain(predicted_state)])
        return np.zeros((4, 2))


@policy(observations=READS, concurrency=Concurrency(max_concurrent=2))
class ListensToMany(Listens):
    def infer(self, obs: Any, *, prefix: Any, delay: Any, spacing: Any, seed: Any, predicted_state: Any) -> Any:
        for said in zip(prefix, delay, spacing, seed, predicted_state, strict=True):
            self.heard.append([plain(one) for one in said])
        return [np.zeros((4, 2)) for _ in obs]


@pytest.mark.parametrize("listens", [Listens, ListensToMany])
async def test_all_that_an_act_says_for_continuity_reaches_infer_and_none_where_it_does_not(
    listens: type[Listens],
) -> None:
    listening = listens()
    host = await started(listening)
    assert host.info().takes == ["delay", "predicted_state", "prefix", "seed", "spacing"]
    await ask(host, "a", seed=3, **SAID)
    await ask(host, "b")
    assert listening.heard == [[SAID["prefix"], 2, 5, 3, [7.0, 8.0]], [None] * 5]


class Normalised:
    """Works on tenths of what is played."""

    def __init__(self) -> None:
        self.prefixes: list[Any] = []
        self.answer: dict[str, Any] = {"actions": np.full((4, 2), 10.0), "raw": np.ones((4, 2), np.float32)}

    def infer(self, obs: Any, *, prefix: Any = None) -> Any:
        self.prefixes.append(plain(prefix))
        return self.answer


def normalised() -> Normalised:
    actions = seqrt.Actions(key="actions", model_key="raw", hz=20)
    made: type[Normalised] = policy(observations=READS, actions=actions)(type("Made", (Normalised,), {}))
    return made()


@pytest.mark.parametrize("asked", [True, None])
async def test_the_models_own_rows_travel_in_the_plan_when_asked_for_and_never_in_the_outputs(
    asked: bool | None,
) -> None:
    own = normalised()
    response = await ask(await started(own), want_rows_model=asked)
    assert list(response.outputs) == ["actions"]
    assert plain(plan_of(response).rows_model) == ([[1.0, 1.0]] * 4 if asked else None)
    assert set(own.answer) == {"actions", "raw"}  # what infer returned is its own
    assert plan_of(response).t == 0


async def test_they_survive_the_wire_there_and_back() -> None:
    own = normalised()
    host = await started(own)
    answer = decode(encode(await ask(host, "a", want_rows_model=True)), ActResponse)
    asked = AskPlan(prefix=plan_of(answer).rows_model[1:], prefix_space="model", d=1)
    request = decode(encode(ActRequest(inputs={"x": 0}, seq=0, episode_id="b", plan=asked)), ActRequest)
    await host.act(request, request_id="r-0000000b")
    assert own.prefixes == [None, [[1.0, 1.0]] * 3]


async def test_an_answer_given_again_has_them_too() -> None:
    host = await started(normalised())
    request = ActRequest(inputs={"x": 0}, seq=0, episode_id="e", plan=AskPlan(want_rows_model=True))
    first, again = [await host.act(request, request_id="r-0000000a") for _ in range(2)]
    assert plan_of(first).rows_model is plan_of(again).rows_model is not None
    assert host.statistics()["answer_bytes"] > 4 * 2 * 8 + 4 * 2 * 4
    assert host.statistics()["inferred"] == 1


async def test_a_policy_is_handed_prefixes_of_one_space_alone() -> None:
    own, played = normalised(), Listens()
    host, other = await started(own), await started(played)
    left_out = await ask(host, "a", prefix=SAID["prefix"], prefix_space="action", d=2)
    await ask(host, "b", prefix=SAID["prefix"], prefix_space="model", d=2)
    assert own.prefixes == [None, SAID["prefix"]]
    assert "prefix_space" in left_out.warnings[0]
    with pytest.raises(InvalidRequest, match="declares no such rows"):
        await ask(other, prefix=SAID["prefix"], prefix_space="model")
    assert not played.heard


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (None, "no key 'raw'"),
        (np.ones((3, 2)), "holds 3 rows"),
        (np.ones(4), r"it is float64 \[4\]"),
        (np.full((4, 2), np.nan), "finite"),
        (np.array([["a"]] * 4), "finite rows"),
    ],
    ids=["missing", "fewer", "flat", "NaN", "text"],
)
async def test_rows_that_could_not_be_a_prefix_are_an_error_of_the_policy(raw: Any, words: str) -> None:
    own = normalised()
    own.answer = {"actions": np.zeros((4, 2))} | ({} if raw is None else {"raw": raw})
    host = await started(own)
    with pytest.raises(PolicyError, match=words):
        await ask(host, want_rows_model=True)


@pytest.mark.parametrize(("space", "continuity"), [("absolute", "auto"), ("absolute", None), ("delta", "auto")])
async def test_the_robot_says_where_it_is_told_to_be_when_the_answer_arrives(space: Any, continuity: Any) -> None:
    policy = Scripted(rows=30, hz=20, infer_s=0.2303, by="state", space=space, takes_prefix=True)
    async with connected(policy) as there:
        await there.policy.run(
            FakeArm(3), validate=lambda row: True, max_actions=60, play=seqrt.Play(continuity=continuity)
        )
    said = [call for call in policy.calls if call.predicted_state is not None]
    assert len(said) == 0 if space == "delta" else len(said) >= 2
    for call in said:
        assert call.delay is not None
        assert call.predicted_state.tolist() == (call.observation["state"] + call.delay).tolist()  # one a row
