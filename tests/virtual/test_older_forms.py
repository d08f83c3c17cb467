"""Policies written in the older form, `own_observations` and `own_actions`: served, called and driven as they say."""

from __future__ import annotations

from typing import Any

import pytest
from driven import drive
from episodic import started

from seqrt import ActionError, Play, policy
from seqrt.policies.sample import SampleFailed
from seqrt.testing.connected import connected
from seqrt.testing.robots import FakeArm

pytestmark = pytest.mark.anyio


def answering(answer: Any, **declared: Any) -> Any:
    @policy(**declared)
    class Older:
        def __init__(self) -> None:
            self.handed: list[Any] = []

        def infer(self, obs: Any) -> Any:
            self.handed.append(obs)
            return answer

    return Older()


async def test_all_that_was_seen_since_the_last_act_comes_without_steps() -> None:
    older = answering([0.0], own_observations="since_last_act")
    async with connected(older) as there:
        for seen in ((0, 1, 2), (3,), (4, 5)):
            for number in seen:
                await there.policy.observe({"x": number})
            await there.policy.next_chunk()
    assert older.handed == [{"observations": [{"x": n} for n in seen]} for seen in ((0, 1, 2), (3,), (4, 5))]


@pytest.mark.parametrize(
    ("form", "answer", "rows"),
    [
        ("one", [1.0, 2.0], [[1.0, 2.0]]),
        ("steps", [1.0, 2.0], [[1.0], [2.0]]),
        ("steps", [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
async def test_an_answer_is_one_action_or_a_list_of_them(form: Any, answer: Any, rows: Any) -> None:
    async with connected(answering(answer, own_actions=form)) as there:
        chunk = await there.policy.predict({"x": 0})
    assert chunk.outputs == answer
    assert chunk.rows.tolist() == rows


async def test_a_run_plays_what_the_older_form_answers_and_is_fed_each_step_once() -> None:
    older = answering([1.0, 2.0, 3.0], own_observations="since_last_act", own_actions="steps")
    async with connected(older, control_hz=20) as there:
        driven = await drive(there.policy, FakeArm(1), max_actions=6, play=Play(prefetch=False))
    assert driven.played == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    assert len(older.handed[0]["observations"]) == 1
    assert len(older.handed[1]["observations"]) > 2


async def test_an_answer_of_the_other_form_is_refused_before_motion_and_before_ready() -> None:
    older = answering([[1.0], [2.0]], own_actions="one")
    arm = FakeArm(1)
    async with connected(older, control_hz=20) as there:
        driven = await drive(there.policy, arm, max_actions=6)
    assert isinstance(driven.error, ActionError)
    assert 'own_actions="steps"' in str(driven.error)
    assert driven.played == []

    type(older).sample = lambda self: [{"x": 0}]
    with pytest.raises(SampleFailed, match="own_actions"):
        await started(policy(own_actions="one")(type(older))())
