"""Whose the state of an episode is, what its methods are called for, and what is left when it is over."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import pytest
from episodic import ask, started

from seqrt.errors import DeclarationError, Gone, InvalidRequest, PolicyError, Unavailable
from seqrt.policies import Host, HostLimits, Timeouts, policy
from seqrt.policies.episode import Episode
from seqrt.policies.parameters import InferParam
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, Frame, ObserveRequest

pytestmark = pytest.mark.anyio


@policy(episodes="shared", timeouts=Timeouts(episode_idle=20))
class Counts:
    """Counts the acts of an episode in its state, and notes what is called."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.seen: list[Episode] = []

    def reset(self, episode: Episode) -> None:
        episode.state["acts"] = 0
        self.said.append(("reset", episode.id))

    def infer(self, obs: Any, *, episode: Episode) -> Any:
        if obs.get("fails"):
            raise ValueError("no")
        episode.state["acts"] += 1
        self.seen.append(episode)
        self.said.append((episode.id, episode.steps, episode.state["acts"]))
        return episode.state["acts"]

    def on_episode(self, episode: Episode) -> None:
        self.said.append(("over", episode.id, dict(episode.state)))


async def test_one_copy_serves_many_episodes_and_keeps_their_states_apart() -> None:
    counts = Counts()
    host = await started(counts)
    for number in range(2):
        for episode in "ab":
            assert (await ask(host, episode, number)).outputs == number + 1
    assert counts.said == [("reset", "a"), ("a", 0, 1), ("reset", "b"), ("b", 0, 1), ("a", 1, 2), ("b", 1, 2)]
    assert counts.seen[0] is counts.seen[2]
    assert host.info().episodes == "shared"
    assert host.info().stateful


async def test_an_episodes_end_is_told_with_its_state_and_lets_it_go() -> None:
    counts = Counts()
    host = await started(counts)
    await ask(host, "a")
    counts.seen[0].state["cache"] = cache = Cache()
    alive = weakref.ref(cache)
    await host.end("a")
    assert counts.said.pop() == ("over", "a", {"acts": 1, "cache": cache})
    counts.seen.clear()
    del cache
    gc.collect()
    assert alive() is None
    with pytest.raises(Gone):
        await ask(host, "a", 1)


async def test_steps_count_the_acts_that_were_answered_and_not_those_that_failed() -> None:
    counts = Counts()
    host = await started(counts)
    await ask(host, "a", 0)
    with pytest.raises(PolicyError):
        await ask(host, "a", 1, {"fails": True})
    await ask(host, "a", 2)
    assert [entry for entry in counts.said if entry[0] == "a"] == [("a", 0, 1), ("a", 1, 2)]


async def test_a_robot_that_vanished_is_an_episodes_end_too() -> None:
    counts = Counts()
    host = await started(counts)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.tend)
        await ask(host, "a")
        await anyio.sleep(19.0)
        assert counts.said[-1][0] == "a"
        await anyio.sleep(3.0)
        assert counts.said[-1] == ("over", "a", {"acts": 1})
        tasks.cancel_scope.cancel()


async def test_a_vanished_robots_episode_ends_with_the_next_request_where_nobody_tends_the_host() -> None:
    counts = Counts()
    host = await started(counts)
    await ask(host, "a")
    await anyio.sleep(21.0)
    await ask(host, "b")
    assert counts.said[2:] == [("over", "a", {"acts": 1}), ("reset", "b"), ("b", 0, 1)]


async def test_an_end_waits_for_the_inference_that_runs_and_acts_before_those_that_wait() -> None:
    counts = Counts()
    host = await started(counts, duration_s=1.0)
    await ask(host, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "b")
        await anyio.sleep(0.1)
        tasks.start_soon(ask, host, "c")
        tasks.start_soon(host.end, "a")
    assert [entry[0] for entry in counts.said] == ["reset", "a", "reset", "b", "over", "reset", "c"]


async def test_what_on_episode_raises_is_nobody_elses_trouble(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Counts):
        def on_episode(self, episode: Episode) -> None:
            raise OSError("disk full")

    host = await started(Fails())
    await ask(host, "a")
    await host.end("a")
    await ask(host, "b")
    assert "disk full" in caplog.text


async def test_a_reset_that_fails_is_called_again_before_the_next_act() -> None:
    class Fails(Counts):
        def reset(self, episode: Episode) -> None:
            super().reset(episode)
            if len(self.said) == 1:
                raise OSError("not yet")

    policy_ = Fails()
    host = await started(policy_)
    with pytest.raises(PolicyError, match="not yet"):
        await ask(host, "a", 0)
    assert (await ask(host, "a", 1)).outputs == 1
    assert policy_.said == [("reset", "a"), ("reset", "a"), ("a", 0, 1)]


async def test_an_act_that_was_overtaken_does_not_run_where_there_is_state() -> None:
    host = await started(Counts())
    await host.observe(ObserveRequest(episode_id="a", frames=[Frame(seq=n, inputs={"x": n}) for n in range(4)]))
    assert (await ask(host, "a", 3)).outputs == 1
    late = await ask(host, "a", 2)
    assert late.outputs is None
    assert late.plan is not None
    assert late.plan.stale


async def test_an_act_without_an_episode_is_refused_where_there_is_state() -> None:
    host = await started(Counts())
    with pytest.raises(InvalidRequest, match="needs an episode_id"):
        await ask(host, None)


class Cache:
    """What a policy keeps of an episode, and what is missed when it is not let go."""


async def test_ten_thousand_episodes_begun_and_abandoned_hold_bounded_memory() -> None:
    alive: weakref.WeakSet[Cache] = weakref.WeakSet()

    @policy(episodes="shared", timeouts=Timeouts(episode_idle=10))
    class Heavy:
        def infer(self, obs: Any, *, episode: Episode) -> Any:
            episode.state["cache"] = Cache()
            alive.add(episode.state["cache"])
            return 0

    host = await started(Heavy(), duration_s=0.0101, limits=HostLimits(episodes=500))
    refused = most = 0
    for number in range(10_000):
        try:
            await ask(host, f"e{number}")
        except Unavailable:
            refused += 1
            await anyio.sleep(0.11)
        most = max(most, len(alive))
    assert refused < 10_000
    assert most <= 501  # the one that is being begun while the oldest is let go
    assert host.statistics()["frame_bytes"] < 500 * 1000
    await anyio.sleep(61.0)
    await ask(host, "last")
    assert (host.statistics()["episodes"], len(alive)) == (1, 1)
    assert host.statistics()["answer_bytes"] < 1000


# A copy for each episode.


@policy(episodes="own")
class Own:
    made: int = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = type(self).made
        self.acts = 0
        self.loaded = False

    def load(self) -> None:
        self.loaded = True

    def infer(self, obs: Any) -> Any:
        assert self.loaded
        self.acts += 1
        return [self.number, self.acts]


class Resets(Own):
    made = 0

    def reset(self) -> None:
        self.acts = 0


@pytest.fixture
def own() -> type[Own]:
    return type("Fresh", (Own,), {"made": 0})


@pytest.fixture
def resets() -> type[Resets]:
    return type("FreshResets", (Resets,), {"made": 0})


async def test_each_episode_has_a_copy_for_itself(own: type[Own]) -> None:
    host = await started(own())
    answers = [(await ask(host, episode, number)).outputs for number in range(2) for episode in "abc"]
    assert answers == [[1, 1], [2, 1], [3, 1], [1, 2], [2, 2], [3, 2]]


async def test_a_copy_is_used_again_after_reset_and_none_is_made(resets: type[Resets]) -> None:
    host = await started(resets())
    for episode in "abc":
        assert (await ask(host, episode)).outputs == [1, 1]
        assert (await ask(host, episode, 1)).outputs == [1, 2]
        await host.end(episode)
    assert resets.made == 1


async def test_without_reset_every_episode_gets_a_copy_made_for_it(own: type[Own]) -> None:
    host = await started(own())
    for number, episode in enumerate("abc"):
        assert (await ask(host, episode)).outputs == [number + 1, 1]
        await host.end(episode)


async def test_copies_are_bounded_and_one_episode_more_is_told_to_come_back(resets: type[Resets]) -> None:
    host = await started(resets(), limits=HostLimits(copies=2))
    await ask(host, "a")
    await ask(host, "b")
    with pytest.raises(Unavailable, match="2 episodes at a time") as busy:
        await ask(host, "c")
    assert busy.value.code == "busy"
    await host.end("a")
    assert (await ask(host, "c")).outputs == [1, 1]
    assert resets.made == 2


async def test_a_copy_of_a_robot_that_vanished_is_taken_back(resets: type[Resets]) -> None:
    host = await started(resets(), limits=HostLimits(copies=1))
    await ask(host, "a")
    await anyio.sleep(301.0)
    assert (await ask(host, "b")).outputs == [1, 1]


async def test_an_episode_that_ends_while_it_is_inferred_frees_its_copy_afterwards(resets: type[Resets]) -> None:
    host = await started(resets(), limits=HostLimits(copies=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "a")
        await anyio.sleep(0.01)
        await host.end("a")
        assert (await ask(host, "b")).outputs == [1, 1]
    assert resets.made == 1


async def test_a_copy_that_cannot_be_made_fails_that_act_and_the_next_tries_again(own: type[Own]) -> None:
    class Sometimes(own):  # type: ignore[misc, valid-type]
        def load(self) -> None:
            if self.number == 2:
                raise MemoryError("no room on the device")
            super().load()

    host = await started(Sometimes())
    await ask(host, "a")
    with pytest.raises(PolicyError, match="no room on the device"):
        await ask(host, "b")
    assert (await ask(host, "b", 1)).outputs == [3, 1]


async def test_an_object_whose_class_takes_arguments_is_never_guessed_at() -> None:
    @policy(episodes="own")
    class Takes:
        def __init__(self, path: str = "default") -> None:
            self.path = path

        def reset(self) -> None: ...

        def infer(self, obs: Any) -> Any:
            return self.path

    host = await started(Takes("mine"))
    assert (await ask(host, "a")).outputs == "mine"
    with pytest.raises(Unavailable, match="one episode at a time"):
        await ask(host, "b")


async def test_copies_are_made_as_the_constructor_says() -> None:
    @policy(episodes="own", make="of", kwargs={"path": "{weights}/a"})
    class Made:
        def __init__(self, path: str) -> None:
            self.path = path

        @classmethod
        def of(cls, path: str) -> Made:
            return cls(path)

        def infer(self, obs: Any) -> Any:
            return self.path

    host = await started(Made("first"), weights="/w")
    assert [(await ask(host, episode)).outputs for episode in "ab"] == ["first", "/w/a"]


async def test_shutdown_ends_live_episodes_first() -> None:
    class Says(Counts):
        def shutdown(self) -> None:
            self.said.append("shutdown")

    policy_ = Says()
    host = await started(policy_)
    await ask(host, "a")
    await host.stop()
    assert policy_.said[-2:] == [("over", "a", {"acts": 1}), "shutdown"]
    with pytest.raises(Unavailable):
        await ask(host, "a", 1)


# Observe.


@policy(episodes="shared")
class Watches:
    def observe(self, obs: Any, *, episode: Episode) -> None:
        episode.state.setdefault("seen", []).append(obs["x"])

    def infer(self, obs: Any, *, episode: Episode) -> Any:
        return list(episode.state["seen"])


async def test_observe_is_handed_every_observation_once_and_in_order_before_the_act() -> None:
    host = await started(Watches())
    for numbers in ((1,), (0, 2)):
        await host.observe(ObserveRequest(episode_id="a", frames=[Frame(seq=n, inputs={"x": n}) for n in numbers]))
    call = ActRequest(call="act", seq=3, episode_id="a")
    assert (await host.act(call, request_id="r-00000001")).outputs == [0, 1, 2]
    assert (await host.act(call, request_id="r-00000002")).outputs == [0, 1, 2]
    await host.observe(ObserveRequest(episode_id="a", frames=[Frame(seq=3, inputs={"x": 3})]))
    assert (await ask(host, "a", 4)).outputs == [0, 1, 2, 3, 4]


async def test_an_observe_that_fails_does_not_lose_what_it_was_handed_after_it() -> None:
    class Fails(Watches):
        def observe(self, obs: Any, *, episode: Episode) -> None:
            if obs["x"] == 1 and not episode.state.get("failed"):
                episode.state["failed"] = True
                raise ValueError("blurred")
            super().observe(obs, episode=episode)

    host = await started(Fails())
    await host.observe(ObserveRequest(episode_id="a", frames=[Frame(seq=n, inputs={"x": n}) for n in range(2)]))
    with pytest.raises(PolicyError, match="blurred"):
        await ask(host, "a", 2)
    assert (await ask(host, "a", 3)).outputs[-1] == 3


# Parameters.


async def test_parameters_reach_infer_cast_and_with_their_defaults() -> None:
    def infer(obs: Any, *, steps: int = 10, mode: str = "fast", scale: float = 1.0, draw: bool = False) -> Any:
        return [steps, mode, scale, draw]

    host = await started(infer)
    assert (await ask(host, None)).outputs == [10, "fast", 1.0, False]
    params = {"steps": 4.0, "scale": 2, "draw": "true"}
    assert (await ask(host, None, params=params)).outputs == [4, "fast", 2.0, True]
    assert host.info().params["steps"] == {"type": "int", "default": 10}


async def test_a_parameter_that_is_not_allowed_is_refused_before_anything_runs() -> None:
    @policy(params={"steps": InferParam(type="int", default=10, min=1, max=50)})
    class Sampler:
        calls = 0

        def infer(self, obs: Any, *, steps: int) -> Any:
            type(self).calls += 1

    host = await started(Sampler())
    with pytest.raises(InvalidRequest, match="int from 1 to 50") as refused:
        await ask(host, None, params={"steps": 51}, request_id="r-00000001")
    assert refused.value.details["allowed"] == {"type": "int", "default": 10, "min": 1.0, "max": 50.0}
    with pytest.raises(InvalidRequest, match="did you mean 'steps'"):
        await ask(host, None, params={"step": 5})
    assert Sampler.calls == 0
    await ask(host, None, params={"steps": 50}, request_id="r-00000001")


# Declared, and held to it.


async def test_infer_that_takes_episode_declares_episodes() -> None:
    class Takes:
        def infer(self, obs: Any, *, episode: Any) -> Any: ...

    with pytest.raises(DeclarationError, match='episodes="shared"'):
        Host(Takes(), offload=inline())


async def test_a_full_policy_that_rejects_says_so_at_once() -> None:
    @policy(on_full="reject")
    class Full:
        def infer(self, obs: Any) -> Any:
            return 0

    host = await started(Full())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "a")
        await anyio.sleep(0.01)
        with pytest.raises(Unavailable, match="every place") as busy:
            await ask(host, "b")
        assert anyio.current_time() == pytest.approx(0.01, abs=1e-6)
    assert (busy.value.code, busy.value.retry_after_s) == ("busy", 1.0)
    await ask(host, "b")


async def test_an_act_waits_in_the_queue_no_longer_than_declared() -> None:
    @policy(queue_timeout_s=5)
    class Slow:
        calls = 0

        def infer(self, obs: Any) -> Any:
            type(self).calls += 1

    host = await started(Slow(), duration_s=30.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, "a")
        await anyio.sleep(0.5)
        with pytest.raises(Unavailable, match="waited 5 s") as busy:
            await ask(host, "b")
    assert busy.value.code == "busy"
    assert Slow.calls == 1
