"""Of an episode's acts the newest is served and older ones are answered stale, where answers depend on the request."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest
from episodic import INFER_S, ask, started

import seqrt
from seqrt.errors import Conflict, RemoteError, Unavailable
from seqrt.observation import Observations, Stream
from seqrt.observation.cameras import encode_cameras
from seqrt.policies import Host, HostLimits, policy
from seqrt.policies.terms import Concurrency
from seqrt.wire.messages import ActRequest, ActResponse, Frame, ObserveRequest

pytestmark = pytest.mark.anyio

Answered = dict[str, tuple[ActResponse | RemoteError, float]]


class Echo:
    """Remembers what it was handed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def infer(self, obs: Any) -> Any:
        self.seen.append(obs["x"] if "x" in obs else obs["observations"][-1]["x"])
        return np.zeros((4, 2))


WINDOW = Observations(streams={"x": Stream(at=[0])})
"""An act needs its own step alone: acts may then overtake one another."""


def echo(observations: Observations | None = WINDOW, **declared: Any) -> Echo:
    made: type[Echo] = policy(observations=observations, **declared)(type("Made", (Echo,), {}))
    return made()


async def asked(host: Host, *acts: tuple[str, int, float]) -> Answered:
    """Acts of ``(episode, step, at)``, each as it was answered and when, in seconds from the first."""
    answers: Answered = {}
    began = anyio.current_time()

    async def one(episode: str, step: int, at_s: float) -> None:
        await anyio.sleep(at_s)
        answer: ActResponse | RemoteError
        try:
            answer = await ask(host, episode, step, {"x": f"{episode}{step}"})
        except RemoteError as refused:
            answer = refused
        answers[f"{episode}{step}"] = answer, anyio.current_time() - began

    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(one, *act)
    return answers


def stale(answers: Answered) -> list[str]:
    said = [name for name, (answer, _) in answers.items() if isinstance(answer, ActResponse) and answer.plan is not None
            and answer.plan.stale]  # fmt: skip
    assert all(answers[name][0].outputs is None for name in said)  # type: ignore[union-attr]
    return sorted(said)


async def test_the_newest_waiting_act_is_served_and_the_older_ones_are_stale_when_it_begins() -> None:
    served = echo()
    host = await started(served)
    answers = await asked(host, *(("e", step, 0.0101 * step) for step in range(4)))
    assert served.seen == ["e0", "e3"]
    assert stale(answers) == ["e1", "e2"]
    assert [answers[name][1] for name in ("e1", "e2")] == pytest.approx([INFER_S, INFER_S])
    newest = answers["e3"][0]
    assert isinstance(newest, ActResponse)
    assert newest.plan is not None
    assert newest.plan.queue_s == pytest.approx(INFER_S - 0.0303)
    assert host.statistics()["stale"] == 2


async def test_acts_that_arrive_out_of_order_are_judged_by_their_step() -> None:
    served = echo()
    host = await started(served)
    answers = await asked(host, ("e", 0, 0.0), ("e", 7, 0.0101), ("e", 4, 0.0202), ("e", 9, 0.0303), ("e", 5, 0.2))
    assert served.seen == ["e0", "e9"]
    assert stale(answers) == ["e4", "e5", "e7"]
    assert answers["e5"][1] == pytest.approx(0.2)  # while 9 is inferred: at once


async def test_a_late_act_needs_no_place_even_where_a_full_policy_rejects() -> None:
    host = await started(echo(on_full="reject"))
    await ask(host, "e", 0)
    answers = await asked(host, ("e", 5, 0.0), ("e", 3, 0.0101), ("e", 8, 0.0202))
    assert stale(answers) == ["e3"]
    assert isinstance(answers["e8"][0], Unavailable)


async def test_the_same_step_asked_about_twice_is_served_twice() -> None:
    served = echo()
    host = await started(served)
    await asked(host, ("e", 0, 0.0), ("e", 2, 0.0101), ("e", 2, 0.0202))
    assert served.seen == ["e0", "e2", "e2"]


@pytest.mark.parametrize(
    ("declared", "methods"),
    [
        ({}, {"reset": lambda self: None}),
        ({"episodes": "shared"}, {}),
        ({"episodes": "shared"}, {"observe": lambda self, obs, episode: None}),
        ({"observations": Observations(every=1)}, {}),
        ({"observations": Observations(streams={"x": Stream(every=1)})}, {}),
    ],
    ids=["reset", "shared", "observe", "every", "fed"],
)
async def test_acts_that_build_on_one_another_are_all_served_in_order(
    declared: dict[str, Any], methods: dict[str, Callable[..., None]]
) -> None:
    served = policy(**declared)(type("Made", (Echo,), methods))()
    host = await started(served)
    answers = await asked(host, *(("e", step, 0.0101 * step) for step in range(4)))
    assert served.seen == ["e0", "e1", "e2", "e3"]
    assert stale(answers) == []
    assert host.info().acts_in_flight == 1


async def test_a_robot_that_asks_often_neither_loses_its_place_nor_takes_anothers() -> None:
    served = echo()
    host = await started(served, limits=HostLimits(acts_an_episode=64))
    await asked(host, ("a", 0, 0.0), ("b", 0, 0.0), ("c", 0, 0.0))
    often = [("a", step, 0.0101 * (step - 1)) for step in range(1, 31)]
    await asked(host, *often, ("b", 1, 0.0052), ("c", 1, 0.0153))
    assert served.seen[3:] == ["a1", "b1", "c1", "a30"]  # a had its share


async def test_an_act_that_waits_for_observations_blocks_no_newer_one_and_is_stale_once_that_one_runs() -> None:
    host = await started(echo())
    await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"x": 0})]))
    answers: dict[int, tuple[ActResponse, float]] = {}

    async def one(count: int) -> None:
        request = ActRequest(call="act", seq=count, episode_id="e")
        answer = await host.act(request, request_id=f"r-{count:016x}")
        answers[count] = answer, anyio.current_time()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, 3)  # number 2 never comes
        await anyio.sleep(0.0101)
        tasks.start_soon(one, 6)
        await anyio.sleep(0.0101)
        await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=5, inputs={"x": 5})]))
    assert answers[3][0].plan is not None
    assert answers[3][0].plan.stale
    assert answers[3][1] == pytest.approx(0.0202)
    newest, at_s = answers[6]
    assert newest.plan is not None
    assert (newest.plan.t, newest.plan.queue_s) == (5, 0.0)  # it waited for its observation, not for its turn
    assert at_s == pytest.approx(0.0202 + INFER_S)


async def test_a_stale_answer_is_given_again_under_its_id() -> None:
    served = echo()
    host = await started(served)
    await ask(host, "e", 0)
    await ask(host, "e", 4)
    for _ in range(2):
        answer = await ask(host, "e", 2, request_id="r-00000002")
        assert answer.plan is not None
        assert (answer.plan.stale, answer.request_id) == (True, "r-00000002")
    with pytest.raises(Conflict):
        await ask(host, "e", 3, request_id="r-00000002")
    assert served.seen == [0, 4]
    assert host.statistics()["stale"] == 1


async def test_the_prefix_is_part_of_what_an_id_stands_for() -> None:
    host = await started(echo())
    await ask(host, "e", 0, request_id="r-00000001", prefix=[[1.0, 2.0]], d=1)
    await ask(host, "e", 0, request_id="r-00000001", prefix=[[1.0, 2.0]], d=1)
    with pytest.raises(Conflict):
        await ask(host, "e", 0, request_id="r-00000001", prefix=[[1.0, 2.5]], d=1)


async def test_the_newest_act_that_leaves_before_it_began_leaves_its_turn_to_the_one_before_it() -> None:
    served = echo()
    host = await started(served)
    async with anyio.create_task_group() as tasks:
        for step in (0, 1):
            tasks.start_soon(ask, host, "e", step)
            await anyio.sleep(0.0101)
        with anyio.move_on_after(0.0101):
            await ask(host, "e", 2)
    assert served.seen == [0, 1]
    assert host.statistics()["stale"] == host.statistics()["acts"] == 0


async def test_a_batch_has_the_newest_act_of_each_episode() -> None:
    @policy(concurrency=Concurrency(max_concurrent=4))
    class Batched:
        def __init__(self) -> None:
            self.batches: list[list[str]] = []

        def infer(self, obs: list[Any]) -> list[Any]:
            self.batches.append([one["x"] for one in obs])
            return [np.zeros((4, 2)) for _ in obs]

    batched = Batched()
    host = await started(batched)
    waiting = [("a", 0, 0.01), ("a", 1, 0.02), ("b", 0, 0.03), ("a", 2, 0.04), ("b", 1, 0.05)]
    answers = await asked(host, ("first", 0, 0.0), *waiting)
    assert batched.batches == [["first0"], ["a2", "b1"]]
    assert stale(answers) == ["a0", "a1", "b0"]


async def test_more_acts_than_an_episode_may_have_waiting_are_busy_with_a_time_to_come_back() -> None:
    host = await started(echo(), limits=HostLimits(acts_an_episode=3))
    answers = await asked(host, *(("e", step, 0.0101 * step) for step in range(4)))
    refused = answers["e3"][0]
    assert isinstance(refused, Unavailable)
    assert (refused.code, refused.retry_after_s) == ("busy", 1.0)
    await ask(host, "e", 3)


async def test_acts_that_overtake_one_another_find_what_they_read_still_held() -> None:
    host = await started(echo(Observations(streams={"x": Stream(at=[-4, 0])})))
    frames = [Frame(seq=number, inputs={"x": number}) for number in range(12)]
    await host.observe(ObserveRequest(episode_id="e", frames=frames))
    handed: list[int | None] = []

    async def one(count: int) -> None:
        answer = await host.act(ActRequest(call="act", seq=count, episode_id="e"), request_id=f"r-{count:016x}")
        assert answer.plan is not None
        handed.append(answer.plan.t)

    async with anyio.create_task_group() as tasks:
        for count in (9, 6, 10, 12):
            tasks.start_soon(one, count)
            await anyio.sleep(0.0101)
        await anyio.sleep(INFER_S)
        tasks.start_soon(one, 11)
    assert handed == [None, 8, None, None, 11]


async def test_an_act_whose_picture_is_broken_makes_no_older_one_stale() -> None:
    camera = seqrt.Camera(width=4, height=4, codec="png")
    observations = Observations(streams={"x": Stream(camera=camera)})
    host = await started(echo(observations))
    encoded = encode_cameras({"x": np.zeros((4, 4, 3), np.uint8)}, observations)["x"]
    broken = encoded[:40]  # its header says what it is; the rest is missing
    await ask(host, "e", 0, {"x": encoded})
    with pytest.raises(RemoteError):
        await ask(host, "e", 3, {"x": broken})
    assert (await ask(host, "e", 2, {"x": encoded})).outputs is not None


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_order_each_act_is_answered_once_and_the_newest_of_each_episode_is_served(
    seed: int, together: bool
) -> None:
    rng = random.Random(seed)
    served: list[str] = []

    @policy(observations=WINDOW, concurrency=Concurrency(max_concurrent=3) if together else None)
    class Remembers:
        def infer(self, obs: Any) -> Any:
            seen = [one["observations"][-1]["x"] for one in (obs if together else [obs])]
            served.extend(seen)
            return [0.0 for _ in seen] if together else 0.0

    host = await started(Remembers(), limits=HostLimits(acts_an_episode=64))
    acts = [(episode, step, rng.uniform(0.05, 2.0)) for episode in "abcd" for step in range(1, 20)]
    leaving = {f"{episode}{step}": rng.uniform(0.0, 0.3) for episode, step, _ in acts if step < 19}
    left = set(rng.sample(sorted(leaving), 10))
    answers: Answered = {}

    async def one(episode: str, step: int, at_s: float) -> None:
        await anyio.sleep(at_s)
        name = f"{episode}{step}"
        with anyio.move_on_after(leaving[name] if name in left else None):
            answers[name] = await ask(host, episode, step, {"x": name}), anyio.current_time()

    for episode in "abcd":  # each has begun
        await ask(host, episode, 0, {"x": f"{episode}0"})
    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(one, *act)
    assert len(set(served)) == len(served)
    assert set(answers) | left >= {f"{episode}{step}" for episode, step, _ in acts}
    for episode in "abcd":
        steps = [int(name[1:]) for name in served if name[0] == episode]
        assert steps == sorted(steps)
        assert steps[-1] == 19
    passed_by = set(stale(answers))
    assert not passed_by & set(served)
    assert passed_by | set(served) >= set(answers)
    assert passed_by
    assert host.statistics()["acts"] == 0
