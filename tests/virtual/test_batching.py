"""Acts of several episodes in one call of ``infer``."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest
from episodic import INFER_S, ask, started

from seqrt.errors import DeclarationError, Gone, PolicyError, RemoteError, Unavailable, remote_error
from seqrt.policies import Host, policy
from seqrt.policies.episode import Episode
from seqrt.policies.terms import Concurrency
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActResponse

pytestmark = pytest.mark.anyio


@policy(episodes="shared", concurrency=Concurrency(max_concurrent=4))
class Batched:
    """Answers each with its own value; fails where one of the values is in `failing`."""

    failing: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def infer(self, obs: list[Any], *, episode: list[Episode], seed: list[int | None], scale: int = 1) -> list[Any]:
        values = [one["x"] for one in obs]
        self.batches.append(values)
        for one in episode:
            if self.keeps(one.id):
                one.state["acts"] = one.state.get("acts", 0) + 1
        for value in values:
            if value in self.failing:
                raise ValueError(f"cannot see {value}")
        return [[value, scale, drawn] for value, drawn in zip(values, seed, strict=True)]

    def keeps(self, episode: str) -> bool:
        return True


async def together(host: Host, *asked: tuple[str, int], **fields: Any) -> dict[str, ActResponse | RemoteError]:
    """The acts, asked in this order while another one runs."""
    answers: dict[str, ActResponse | RemoteError] = {}

    async def one(episode: str, number: int) -> None:
        try:
            answers[f"{episode}{number}"] = await ask(host, episode, number, {"x": f"{episode}{number}"}, **fields)
        except RemoteError as refused:
            answers[f"{episode}{number}"] = refused

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "first")
        await anyio.sleep(0.01)
        for episode, number in asked:
            tasks.start_soon(one, episode, number)
            await anyio.sleep(0.001)
    return answers


async def test_acts_that_wait_are_inferred_together_and_each_gets_its_own_answer() -> None:
    batched = Batched()
    host = await started(batched)
    answers = await together(host, ("a", 0), ("b", 0), ("c", 0))
    assert batched.batches == [[0], ["a0", "b0", "c0"]]
    assert {name: answer.outputs for name, answer in answers.items() if isinstance(answer, ActResponse)} == {
        name: [name, 1, None] for name in ("a0", "b0", "c0")
    }
    assert anyio.current_time() == pytest.approx(2 * INFER_S)
    assert host.info().acts_at_once == 4


async def test_one_alone_is_a_list_of_one() -> None:
    batched = Batched()
    host = await started(batched)
    assert (await ask(host, "a", seed=7)).outputs == [0, 1, 7]
    assert batched.batches == [[0]]


async def test_more_than_fit_go_in_the_next_call() -> None:
    batched = Batched()
    host = await started(batched)
    await together(host, *((episode, 0) for episode in "abcdef"))
    assert [len(batch) for batch in batched.batches] == [1, 4, 2]


async def test_at_most_one_act_of_an_episode_is_in_a_call_and_they_stay_in_order() -> None:
    batched = Batched()
    host = await started(batched)
    await together(host, ("a", 0), ("a", 1), ("b", 0), ("a", 2))
    assert batched.batches == [[0], ["a0", "b0"], ["a1"], ["a2"]]


async def test_acts_with_different_parameters_are_not_mixed() -> None:
    batched = Batched()
    host = await started(batched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "first")
        await anyio.sleep(0.01)
        for episode, scale in (("a", 1), ("b", 2), ("c", 1)):
            tasks.start_soon(lambda e=episode, s=scale: ask(host, e, params={"scale": s}))
            await anyio.sleep(0.001)
    assert [len(batch) for batch in batched.batches] == [1, 2, 1]


async def test_a_model_of_one_size_is_handed_that_size() -> None:
    @policy(concurrency=Concurrency(max_concurrent=3, dynamic=False))
    class Static:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def infer(self, obs: list[Any]) -> Any:
            self.sizes.append(len(obs))
            return [one["x"] for one in obs]

    static = Static()
    host = await started(static)
    assert (await ask(host, "a", 0)).outputs == 0
    answers = await together(host, ("b", 0), ("c", 0))
    assert [answer.outputs for answer in answers.values() if isinstance(answer, ActResponse)] == ["b0", "c0"]
    assert static.sizes == [3, 3, 3]


async def test_a_failing_call_is_tried_act_by_act_where_nothing_was_held_and_ends_the_others_episodes() -> None:
    class Fails(Batched):
        failing = frozenset({"b0"})

        def keeps(self, episode: str) -> bool:
            return episode == "held"

    fails = Fails()
    host = await started(fails)
    await ask(host, "held", 0, {"x": "held0"})
    answers = await together(host, ("held", 1), ("a", 0), ("b", 0), ("c", 0))
    assert fails.batches[2:] == [["a0", "b0", "c0", "held1"], ["a0"], ["b0"], ["c0"]]  # those that stand first
    assert isinstance(answers["b0"], PolicyError)
    assert "cannot see b0" in str(answers["b0"])
    assert isinstance(answers["held1"], PolicyError)
    for served in ("a0", "c0"):
        assert isinstance(answers[served], ActResponse)
    with pytest.raises(Gone):
        await ask(host, "held", 2)
    assert isinstance((await ask(host, "b", 1)), ActResponse)


async def test_what_a_failing_call_left_in_an_empty_state_is_gone_when_the_act_is_tried_again() -> None:
    @policy(episodes="shared", concurrency=Concurrency(max_concurrent=2))
    class Fails:
        def infer(self, obs: list[Any], *, episode: list[Episode]) -> list[Any]:
            counts = []
            for one in episode:
                one.state["acts"] = one.state.get("acts", 0) + 1
                counts.append(one.state["acts"])
            if len(obs) > 1:
                raise ValueError("out of memory")
            return counts

    host = await started(Fails())
    answers = await together(host, ("a", 0), ("b", 0))
    assert [answer.outputs for answer in answers.values() if isinstance(answer, ActResponse)] == [1, 1]


async def test_a_call_that_is_refused_for_now_ends_nothing() -> None:
    class Busy(Batched):
        def infer(self, obs: list[Any], *, episode: list[Episode], seed: list[Any], scale: int = 1) -> list[Any]:
            if len(obs) > 1:
                raise remote_error("busy", "out of memory for now", retry_after_s=1.0)
            return super().infer(obs, episode=episode, seed=seed, scale=scale)

    host = await started(Busy())
    await ask(host, "a", 0)
    answers = await together(host, ("a", 1), ("b", 0))
    assert all(isinstance(answer, Unavailable) for answer in answers.values())
    await ask(host, "a", 1)


@pytest.mark.parametrize("answer", [np.zeros((3, 2)), [1], {"actions": [1, 2]}, None])
async def test_an_answer_that_is_no_list_of_one_for_each_says_what_to_return(answer: Any) -> None:
    @policy(concurrency=Concurrency(max_concurrent=2))
    class Wrong:
        def infer(self, obs: list[Any]) -> Any:
            return answer if len(obs) == 2 else [0]

    host = await started(Wrong())
    answers = await together(host, ("a", 0), ("b", 0))
    assert all(isinstance(one, ActResponse) for one in answers.values())  # tried act by act, which works


async def test_an_answer_without_a_list_is_told_so() -> None:
    @policy(concurrency=Concurrency(max_concurrent=2))
    class Wrong:
        def infer(self, obs: list[Any]) -> Any:
            return np.zeros((1, 2))

    host = await started(Wrong())
    with pytest.raises(PolicyError, match="handed a list of 1 and returned a ndarray"):
        await ask(host, "a")


async def test_whoever_leaves_while_it_waits_is_not_inferred_and_the_line_goes_on() -> None:
    batched = Batched()
    host = await started(batched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "first")
        await anyio.sleep(0.01)
        with anyio.move_on_after(0.02):
            await ask(host, "left")
        tasks.start_soon(ask, host, "a")
    assert batched.batches == [[0], [0]]
    assert host.statistics()["acts"] == 0


async def test_whoever_leaves_while_it_is_inferred_gets_its_answer_under_the_same_id() -> None:
    batched = Batched()
    host = await started(batched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "first")
        await anyio.sleep(0.01)
        tasks.start_soon(ask, host, "a")
        await anyio.sleep(0.001)
        with anyio.move_on_after(INFER_S):  # it leaves in the middle of the call it shares with a
            await ask(host, "b", request_id="r-0000000b")
    assert batched.batches == [[0], [0, 0]]
    assert (await ask(host, "b", request_id="r-0000000b")).outputs == [0, 1, None]
    assert len(batched.batches) == 2


async def test_a_leader_that_leaves_before_it_began_hands_the_lead_on() -> None:
    batched = Batched()
    host = await started(batched)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "first")
        await anyio.sleep(0.01)
        leaving = anyio.CancelScope()

        async def leaves() -> None:
            with leaving:
                await ask(host, "leaves")

        async def cancels() -> None:
            await anyio.sleep(INFER_S - 0.01)
            leaving.cancel()

        tasks.start_soon(leaves)
        tasks.start_soon(cancels)
        await anyio.sleep(0.001)
        tasks.start_soon(ask, host, "a")
    assert host.statistics()["acts"] == 0
    assert (await ask(host, "b")).outputs == [0, 1, None]


async def test_state_on_self_and_concurrency_do_not_go_together() -> None:
    class Resets:
        def reset(self) -> None: ...

        def infer(self, obs: Any) -> Any: ...

    with pytest.raises(DeclarationError, match='episodes="shared"'):
        policy(concurrency=Concurrency(max_concurrent=2))(Resets)
    with pytest.raises(DeclarationError, match='episodes="shared"'):
        policy(concurrency=Concurrency(max_concurrent=2), episodes="own")
    assert Host(Resets(), offload=inline()).info().acts_at_once == 1
