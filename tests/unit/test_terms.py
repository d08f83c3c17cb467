"""Declarations a policy may write beside observations and actions: what is taken, what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from seqrt.action.declaration import Actions
from seqrt.errors import DeclarationError
from seqrt.observation import Observations, Stream
from seqrt.policies import declaration_of, policy
from seqrt.policies.lifecycle import BenchmarkHook, Hook, benchmark_hooks, policy_hooks
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract, View
from seqrt.policies.schema import schemas
from seqrt.policies.terms import Concurrency, Tensors, Timeouts
from seqrt.policies.written import Written

ARM = ActionContract(robot="arm", action_space="joint_absolute", action_dim=2, control_frequency_hz=15)


@pytest.mark.parametrize(
    ("model", "fields", "told"),
    [
        (Timeouts, {"request": 0.5}, "greater than or equal to 1"),
        (Timeouts, {"startup": 59}, "60"),
        (Timeouts, {"episode_idle": 86_401}, "86400"),
        (Timeouts, {"request": True}, "write a number, not True"),
        (Timeouts, {"requests": 5}, "did you mean 'request'"),
        (Concurrency, {"max_concurrent": 1}, "2"),
        (Concurrency, {"max_concurrent": 257}, "256"),
        (Concurrency, {"max_concurrent": 4.0}, "integer"),
        (Concurrency, {"max_concurrent": 4, "dynamic": 1}, "write True or False"),
        (Tensors, {"batched": True}, "did you mean 'batch'"),
        (Tensors, {"device": "cuda"}, "it has batch"),
        (View, {"width": 0, "height": 4}, "1"),
        (View, {"width": 4, "height": 4, "codec": "jpeg"}, "codec"),
        (ObservationContract, {"history": 65}, "64"),
        (ObservationContract, {"proprio": {"torque": 7}}, "joint_positions"),
        (ObservationContract, {"state": {"gripper": 0}}, "1"),
        (ActionContract, {**ARM.model_dump(), "bounds": [(0, 1)]}, "1 entries for action_dim 2"),
        (ActionContract, {**ARM.model_dump(), "bounds": [(0, 1), (1, 0)]}, r"write \[low, high\]"),
        (ActionContract, {**ARM.model_dump(), "max_delta": [0.1]}, "max_delta"),
        (ActionContract, {**ARM.model_dump(), "max_delta": 0.0}, "0"),
        (ActionContract, {**ARM.model_dump(), "control_frequency_hz": float("inf")}, "finite"),
        (ActionContract, {**ARM.model_dump(), "action_space": "joints"}, "joint_absolute"),
        (Embodiment, {"action": ARM, "actions": ARM}, "did you mean 'action'"),
        (Written, {"queue_timeout_s": 4}, "5"),
        (Written, {"on_full": "wait"}, "queue"),
        (Written, {"on_full": "reject", "queue_timeout_s": 10}, "never waits"),
        (Written, {"episodes": "Shared"}, "shared"),
        (Written, {"streaming": True, "episodes": "shared"}, "leave it out"),
    ],
)
def test_what_is_out_of_range_or_unknown_is_refused_and_says_what_is_meant(
    model: type[BaseModel], fields: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        model(**fields)


def test_defaults_are_the_contracts() -> None:
    assert (Timeouts().request, Timeouts().startup, Timeouts().episode_idle) == (300, 1800, 300)
    assert Tensors().batch
    assert Concurrency(max_concurrent=2).dynamic
    assert (Written().on_full, Written().queue_timeout_s, Written().episodes) == ("queue", 120, None)
    assert ObservationContract().history == 1


def test_streaming_reads_as_own_and_is_never_written() -> None:
    written = Written(streaming=True)
    assert written.episodes == "own"
    assert "streaming" not in written.model_dump()
    assert Written(streaming=True, episodes="own") == written


NEW = {
    "observations": Observations(streams={"x": Stream()}),
    "actions": Actions(hz=10),
    "tensors": Tensors(),
}
OWN = {"own_observations": "latest", "own_actions": "one"}
ARMS = {"action_contract": ARM, "embodiments": {"arm": Embodiment(action=ARM)}}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("other", [*NEW, *OWN])
def test_the_robot_arm_contract_is_never_beside_the_others(arm: str, other: str) -> None:
    with pytest.raises(DeclarationError, match=f"{arm}.*{other}"):
        policy(**{arm: ARMS[arm], other: {**NEW, **OWN}[other]})  # type: ignore[arg-type]


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("new", ["observations", "actions"])
def test_older_forms_are_refused_beside_the_new(own: str, new: str) -> None:
    with pytest.raises(DeclarationError, match=f"{own}.*{new}"):
        policy(**{own: OWN[own], new: NEW[new]})  # type: ignore[arg-type]


@pytest.mark.parametrize("episodes", ["shared", "own"])
def test_episodes_go_with_either_form(episodes: Any) -> None:
    assert Written(episodes=episodes, action_contract=ARM).episodes == episodes
    assert Written(episodes=episodes, observations=NEW["observations"]).episodes == episodes


def test_several_robots_are_embodiments_alone() -> None:
    with pytest.raises(ValidationError, match="leave out action_contract"):
        Written(action_contract=ARM, embodiments={"arm": Embodiment(action=ARM)})
    with pytest.raises(ValidationError, match="needs action_contract"):
        Written(observation_contract=ObservationContract())
    assert Written(action_contract=ARM).robots == {"arm": Embodiment(action=ARM)}


def test_the_arms_rate_and_space_are_told_as_actions() -> None:
    @policy(action_contract=ARM)
    class Arm:
        def infer(self, obs: Any) -> Any: ...

    assert declaration_of(Arm()).actions == Actions(hz=15, space="absolute")


def test_the_bits_are_the_contracts() -> None:
    assert {hook.name: hook.value for hook in Hook} == {
        "WARMUP": 1,
        "LOAD": 2,
        "PLAN": 4,
        "SHUTDOWN": 8,
        "INFER": 16,
        "ON_EPISODE": 1024,
        "RESET": 32768,
        "OBSERVE": 131072,
        "SAMPLE": 524288,
    }
    assert {hook.name: hook.value for hook in BenchmarkHook} == {
        "LOAD": 2,
        "SETUP": 4096,
        "SCORE": 16384,
        "RESET": 32768,
        "CHECK": 65536,
        "OBSERVE": 131072,
        "STEP": 262144,
    }


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (8192, "never given again"),
        (18, "combines LOAD and INFER"),
        (0, "not known"),
        (-16, "not known"),
        (4096, "not known"),
        (2**40, "not known"),
        (True, "no key"),
        ("16", "no key"),
        (16.0, "no key"),
    ],
)
def test_keys_that_are_unknown_retired_or_combined_are_refused(key: Any, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        policy_hooks({key: "infer"})


def test_a_benchmark_observes_and_steps_or_does_neither() -> None:
    assert benchmark_hooks({131072: "observe", 262144: "step"}) == {
        BenchmarkHook.OBSERVE: "observe",
        BenchmarkHook.STEP: "step",
    }
    assert benchmark_hooks({2: "load"}) == {BenchmarkHook.LOAD: "load"}
    for alone in (131072, 262144):
        with pytest.raises(DeclarationError, match="or neither"):
            benchmark_hooks({alone: "method"})
    with pytest.raises(DeclarationError, match="not known"):
        benchmark_hooks({16: "infer"})


def test_a_methods_name_is_an_identifier() -> None:
    with pytest.raises(DeclarationError, match="no method's name"):
        policy_hooks({16: "get action"})


def test_every_declaration_has_a_schema_that_refuses_what_is_not_known() -> None:
    told = schemas()
    assert set(told) >= {"Policy", "Observations", "Actions", "Tensors", "InferParam", "Concurrency", "Embodiment"}
    for schema in told.values():
        assert schema["additionalProperties"] is False
        assert schema["description"]


def test_a_whole_declaration_survives_json() -> None:
    written = Written(
        episodes="shared",
        concurrency=Concurrency(max_concurrent=4),
        lifecycle={Hook.INFER: "get_action", Hook.RESET: "begin"},
        tensors=Tensors(batch=False),
    )
    assert Written.model_validate_json(written.model_dump_json(exclude_defaults=True)) == written
