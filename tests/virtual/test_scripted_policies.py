from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest

from seqrt.action.declaration import Actions
from seqrt.action.rows import rows_of
from seqrt.observation.declaration import Observations, Stream
from seqrt.policies import Host
from seqrt.policies.declaration import declaration_of, infer_of
from seqrt.testing.policies import Scripted
from seqrt.wire.messages import ActRequest, AskPlan

pytestmark = pytest.mark.anyio


def seen(step: int, state: float = 0.0, dims: int = 3) -> dict[str, Any]:
    return {"observations": [{"state": np.full(dims, state, np.float32)}], "steps": [step]}


async def test_by_the_clock_a_row_holds_the_step_it_is_due_at() -> None:
    policy = Scripted(rows=4, dims=2)
    assert policy.infer(seen(9))["actions"].tolist() == [[10, 10], [11, 11], [12, 12], [13, 13]]


async def test_by_the_state_a_row_goes_on_from_where_the_arm_was_seen() -> None:
    policy = Scripted(rows=3, dims=2, by="state", step_size=0.5)
    assert policy.infer(seen(9, state=7.0, dims=2))["actions"].tolist() == [[7.5, 7.5], [8.0, 8.0], [8.5, 8.5]]


async def test_a_tagged_row_tells_its_chunk_and_its_place() -> None:
    policy = Scripted(rows=2, dims=4, tagged=True)
    assert policy.infer(seen(9))["actions"].tolist() == [[10, 9, 0, 10], [11, 9, 1, 11]]


async def test_answers_take_their_scripted_lengths() -> None:
    policy = Scripted(rows=[16, 10], dims=1)
    assert [len(policy.infer(seen(step))["actions"]) for step in range(4)] == [16, 10, 10, 10]


async def test_inference_takes_its_scripted_durations_and_loading_takes_none() -> None:
    policy = Scripted(rows=2, infer_s=[3.0, 0.3])
    await policy.offload(lambda: None)
    assert anyio.current_time() == 0.0
    for step in range(3):
        await policy.offload(lambda step=step: policy.infer(seen(step)))  # type: ignore[misc]
    assert policy.began_s == pytest.approx([0.0, 3.0, 3.3])
    assert anyio.current_time() == pytest.approx(3.6)


async def test_a_call_that_raises_takes_its_time_too() -> None:
    policy = Scripted(infer_s=0.3, raise_on={1}, error=KeyError("camera"))
    await policy.offload(lambda: policy.infer(seen(0)))
    with pytest.raises(KeyError, match="camera"):
        await policy.offload(lambda: policy.infer(seen(1)))
    assert anyio.current_time() == pytest.approx(0.6)
    await policy.offload(lambda: policy.infer(seen(2)))
    assert [call.t for call in policy.calls] == [0, 1, 2]
    assert policy.calls[1].rows is None


async def test_bad_values_come_where_and_when_they_were_asked_for() -> None:
    policy = Scripted(rows=5, dims=6, bad_values={0: (3, 5, np.nan), 1: (0, 0, np.inf)})
    first, second, third = (policy.infer(seen(step))["actions"] for step in range(3))
    assert np.argwhere(np.isnan(first)).tolist() == [[3, 5]]
    assert np.argwhere(np.isinf(second)).tolist() == [[0, 0]]
    assert np.isfinite(third).all()


async def test_a_prefix_is_honoured_and_recorded() -> None:
    policy = Scripted(rows=5, dims=1, takes_prefix=True)
    declaration = declaration_of(policy)
    assert declaration.takes == {"prefix", "delay", "spacing", "seed", "predicted_state"}
    infer = infer_of(policy, declaration)
    prefix = np.array([[90.0], [91.0], [92.0]])
    rows = infer(seen(9, dims=1), prefix=prefix, delay=2, spacing=4, seed=7)["actions"]
    assert rows[:, 0].tolist() == [90, 91, 12, 13, 14]
    assert infer(seen(9, dims=1))["actions"][:, 0].tolist() == [10, 11, 12, 13, 14]
    assert (policy.calls[0].delay, policy.calls[0].spacing, policy.calls[0].seed) == (2, 4, 7)
    assert policy.calls[1].prefix is None


async def test_rows_in_a_space_of_its_own_are_answered_and_taken_back() -> None:
    policy = Scripted(rows=3, dims=1, takes_prefix=True, model_scale=10.0)
    host = Host(policy, offload=policy.offload)
    await host.start()
    for number, prefix in enumerate([None, [[9.0]]]):
        plan = AskPlan(prefix=prefix, prefix_space="model", d=1, want_rows_model=True, predicted_state=[4.0])
        request = ActRequest(inputs={"state": [0.0]}, seq=number, episode_id="e", plan=plan)
        answer = await host.act(request, request_id=f"r-{number:016x}")
    assert answer.outputs["actions"][:, 0].tolist() == [90, 3, 4]
    assert answer.plan is not None
    assert answer.plan.rows_model[:, 0].tolist() == pytest.approx([9, 0.3, 0.4])
    assert policy.calls[1].predicted_state == [4.0]


async def test_by_the_state_the_plan_goes_on_from_the_prefix() -> None:
    policy = Scripted(rows=4, dims=1, by="state", takes_prefix=True)
    rows = policy.infer_with_prefix(seen(0, state=5.0, dims=1), prefix=np.array([[90.0], [91.0]]), delay=2)["actions"]
    assert rows[:, 0].tolist() == [90, 91, 92, 93]


async def test_each_policy_carries_a_declaration_of_its_own() -> None:
    first = Scripted(hz=20.0)
    second = Scripted(
        observations=Observations(streams={"state": Stream(at=[-1, 0])}), actions=Actions(hz=50.0, space="delta")
    )
    assert declaration_of(first).actions == Actions(key="actions", hz=20.0, space="absolute")
    assert declaration_of(second).actions == Actions(hz=50.0, space="delta")
    assert declaration_of(second).observations is not None
    assert not declaration_of(first).stateful
    assert rows_of(second.infer(seen(0)), declaration_of(second).actions).shape == (50, 3)


async def test_an_undeclared_policy_is_handed_its_inputs_bare() -> None:
    policy = Scripted(rows=2, dims=1, by="state", declared=False)
    assert declaration_of(policy).actions is None
    assert declaration_of(policy).observations is None
    assert policy.infer({"state": np.array([3.0])}).tolist() == [[4.0], [5.0]]


@pytest.mark.parametrize("arguments", [{"declared": False}, {"tagged": True, "dims": 2}, {"infer_s": -1.0}])
async def test_scripts_that_make_no_sense_are_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"by='state'|three columns|duration"):
        Scripted(**arguments)
