"""Windows of whole runs: what `infer` got, what crossed the link for it, and what it costs when nothing goes right."""

from __future__ import annotations

import weakref
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from driven import Driven, drive

from seqrt import Conflict, Limits, Observations, Play, Stream
from seqrt.errors import InvalidRequest
from seqrt.policies import HostLimits
from seqrt.testing.connected import connected, served
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode
from seqrt.wire.messages import ActRequest, AskPlan, Frame, ObserveRequest
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio


class Counting(FakeArm):
    """The state of each observation is its step, the camera's too; steps in ``missed`` give none."""

    def __init__(self, missed: frozenset[int] = frozenset()) -> None:
        super().__init__(3)
        self._missed = missed

    def observe(self) -> Any:
        step = len(self.observed)
        super().observe()
        return None if step in self._missed else {"state": np.full(3, step, np.float32), "frame": float(step)}


class Remembering(Scripted):
    """Keeps all that each call was handed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.handed: list[list[dict[str, Any]]] = []

    def infer(self, obs: Any) -> Any:
        self.handed.append([dict(entry) for entry in obs["observations"]])
        return super().infer(obs)


def fed(**fields: Any) -> Observations:
    return Observations(every=1, **fields)


STOPPING = Play(prefetch=False)
"""Asked when the plan is dry: with H = 10, d = 2 the acts are at 0, 12, 24, 36."""


async def told(
    observations: Observations, *, missed: frozenset[int] = frozenset(), actions: int = 40, **options: Any
) -> dict[int, tuple[int, ...]]:
    policy = Remembering(rows=10, hz=20, infer_s=0.0803, observations=observations)
    async with connected(policy, **options) as there:
        driven = await drive(there.policy, Counting(missed), max_actions=actions, play=STOPPING)
    assert driven.error is None
    for call, handed in zip(policy.calls, policy.handed, strict=True):
        for step, entry in zip(call.steps, handed, strict=True):
            assert all(np.all(np.asarray(value) == step) for value in entry.values())
    return {call.t: call.steps for call in policy.calls}


async def test_what_infer_got_from_step_0_to_40_is_what_the_table_says() -> None:
    acts = (0, 12, 24, 36)
    frames = Observations(streams={"frame": Stream(at=[-15, 0]), "state": Stream()})
    assert await told(frames) == {0: (0, 0), 12: (0, 12), 24: (9, 24), 36: (21, 36)}
    assert await told(frames.model_copy(update={"pad": "drop"})) == {0: (0,), 12: (12,), 24: (9, 24), 36: (21, 36)}
    assert await told(fed()) == {t: tuple(range(max(0, t - 11), t + 1)) for t in acts}
    assert await told(Observations(every=5)) == {0: (0,), 12: (2, 7, 12), 24: (14, 19, 24), 36: (26, 31, 36)}
    mixed = Observations(streams={"frame": Stream(at=[-15, 0]), "state": Stream(every=4)})
    assert await told(mixed) == {
        0: (0, 0),
        12: (0, 4, 8, 12),
        24: (9, 16, 20, 24),
        36: (21, 28, 32, 36),
    }


async def test_seconds_are_steps_of_the_grid_and_a_slow_loop_does_not_stretch_them() -> None:
    second = Observations(streams={"frame": Stream(at=[-0.75, 0]), "state": Stream()}, unit="seconds")
    assert await told(second) == {0: (0, 0), 12: (0, 12), 24: (9, 24), 36: (21, 36)}
    # Every third observation is taken: what was seen 15 steps ago is the newest taken up to then.
    blinking = frozenset(step for step in range(100) if step % 3)
    slow = await told(second, missed=blinking)
    assert slow
    assert all(steps == (max(0, (t - 15) // 3 * 3), t) for t, steps in slow.items())
    every = await told(Observations(every=0.25, unit="seconds"))
    assert every == {0: (0,), 12: (2, 7, 12), 24: (14, 19, 24), 36: (26, 31, 36)}


async def test_steps_missed_are_left_out_of_what_is_fed() -> None:
    handed = await told(fed(), missed=frozenset({5, 6, 17}))
    assert handed[12] == (1, 2, 3, 4, 7, 8, 9, 10, 11, 12)
    assert handed[24] == tuple(n for n in range(13, 25) if n != 17)


@pytest.mark.parametrize("observations", [fed(), Observations(streams={"state": Stream(at=[-15, 0])})])
async def test_nothing_of_an_earlier_episode_is_handed_over_after_a_reset(observations: Observations) -> None:
    policy = Remembering(rows=10, hz=20, infer_s=0.0803, observations=observations)
    async with connected(policy) as there:
        await drive(there.policy, Counting(), max_actions=25, play=STOPPING)
        before = len(policy.calls)
        await drive(there.policy, Counting(), max_actions=25, play=STOPPING)
        assert there.host.statistics()["frame_bytes"] == 0
    first, second = policy.calls[:before], policy.calls[before:]
    assert [call.steps for call in first] == [call.steps for call in second]
    assert second[0].steps in {(0,), (0, 0)}


async def test_two_runs_of_one_episode_are_fed_on_from_where_the_first_ended() -> None:
    policy = Remembering(rows=10, hz=20, infer_s=0.0803, observations=fed())
    async with connected(policy) as there, there.policy.episode():
        await drive(there.policy, FakeArm(3), max_actions=25, play=STOPPING)
        await drive(there.policy, FakeArm(3), max_actions=25, play=STOPPING)
    steps = [step for call in policy.calls for step in call.steps]
    assert steps == sorted(set(steps))


async def test_a_policy_that_is_fed_is_handed_each_step_once_whatever_the_link_loses() -> None:
    lost: set[int] = set()

    def lose(request: httpx.Request) -> bool:
        number = len(lost)
        lost.add(id(request))
        return request.url.path == "/observe" and number % 7 == 3

    policy = Remembering(rows=50, hz=20, infer_s=0.0803, observations=fed())
    async with connected(
        policy,
        lose_request=lose,
        timeout_s=0.4,
        limits=HostLimits(stream_wait_s=0.5),
        outages=[(4.01, 4.51, "refused")],
    ) as there:
        driven = await drive(there.policy, FakeArm(3), max_actions=300, play=Play(fresh_s=0.6))
    assert driven.error is None
    steps = [step for call in policy.calls for step in call.steps]
    assert steps == list(range(policy.calls[-1].t + 1))


async def test_a_restarted_worker_is_fed_what_the_last_answer_had_not_read() -> None:
    first, second = (Remembering(rows=50, hz=20, infer_s=0.0803, by="state", observations=fed()) for _ in range(2))
    async with connected(first) as there, anyio.create_task_group() as tasks:
        host = served(second)
        await host.start()

        async def restart() -> None:
            await anyio.sleep(3.013)
            there.link.app = app(host)

        tasks.start_soon(restart)
        driven = await drive(there.policy, FakeArm(3), max_actions=200, play=Play(fresh_s=0.6))
    assert driven.error is None
    assert second.calls
    steps = [step for call in (*first.calls, *second.calls) for step in call.steps]
    assert sorted(set(steps)) == list(range(second.calls[-1].t + 1))
    assert second.calls[0].steps[0] == first.calls[-1].t + 1


@pytest.mark.parametrize("when", ["wait", "drop_oldest"])
async def test_a_link_that_falls_behind_makes_acts_wait_or_frames_be_skipped(when: Any) -> None:
    numbers: list[int] = []
    skipped: set[int] = set()

    def look(request: httpx.Request) -> bool:
        if request.url.path == "/observe":
            post = decode(request.content, ObserveRequest)
            numbers.extend(frame.seq for frame in post.frames)
            skipped.update(post.skipped)
        return False

    policy = Remembering(rows=50, hz=20, infer_s=0.0803, observations=fed(when_behind=when))
    outage = (2.013, 5.013, "refused")
    async with connected(policy, lose_request=look, outages=[outage]) as there:  # type: ignore[list-item]
        driven = await drive(there.policy, FakeArm(3), max_actions=150, play=Play(fresh_s=0.6))
    assert driven.error is None
    steps = [step for call in policy.calls for step in call.steps]
    assert len(steps) == len(set(steps))
    missing = set(range(policy.calls[-1].t + 1)) - set(steps)
    if when == "wait":
        assert not missing
    else:
        assert 20 <= len(missing) <= 60  # of the 60 taken meanwhile, those under way and the newest few are sent
        assert missing <= skipped


class Cameras(FakeArm):
    """Two raw cameras; knows how many of its pictures anybody still holds."""

    def __init__(self) -> None:
        super().__init__(3)
        self._pictures: list[weakref.ref[Any]] = []

    def observe(self) -> Any:
        left, right = (np.zeros((48, 64, 3), np.uint8) for _ in range(2))
        for picture in (left, right):
            picture.flags.writeable = False  # or a copy would be kept
            self._pictures.append(weakref.ref(picture))
        return {**super().observe(), "left": left, "right": right}

    @property
    def held(self) -> int:
        self._pictures = [picture for picture in self._pictures if picture() is not None]
        return len(self._pictures) // 2


class Warming(Scripted):
    def load(self) -> None:
        """Takes as long as the offload says."""


@pytest.mark.parametrize(
    ("observations", "window"),
    [(fed(), 1), (Observations(streams={"left": Stream(at=[-2, 0]), "right": Stream()}), 3)],
)
async def test_100_s_of_warming_use_no_more_of_the_limits_than_one_window(
    observations: Observations, window: int
) -> None:
    policy, arm, held = Warming(rows=30, hz=10, observations=observations), Cameras(), [0]
    driven = Driven(arm)
    host = served(policy, offload=inline([100.013, 0.0803]))
    async with connected(policy) as there, anyio.create_task_group() as tasks:
        there.link.app = app(host)
        tasks.start_soon(host.start)

        async def watch() -> None:
            while host.stage != "ready":
                await anyio.sleep(0.5003)
                held.append(arm.held)
            held.append(host.statistics()["frame_bytes"] // 20_000)

        tasks.start_soon(watch)
        await drive(there.policy, arm, driven=driven, max_actions=60, limits=Limits(startup_timeout_s=200))
    assert driven.error is None
    assert len(driven.of(ev.Warming)) > 15
    assert driven.outcome is not None
    assert driven.outcome.actions == 60
    assert driven.of(ev.FramesRefused) == []
    # What the act before read may still be in a post that waits to be tried again; then number 0, and the run's first.
    assert max(held) <= 2 * window + 3


async def test_observations_over_an_episodes_limit_are_skipped_told_once_and_the_run_goes_on() -> None:
    policy = Remembering(rows=50, hz=20, infer_s=0.0803, observations=fed(), by="clock")
    async with connected(policy, limits=HostLimits(frames=12)) as there:
        driven = await drive(there.policy, FakeArm(3), max_actions=200)
    assert driven.error is None
    assert len(driven.of(ev.FramesRefused)) == 1
    assert driven.outcome is not None
    assert driven.outcome.actions == 200
    steps = [step for call in policy.calls for step in call.steps]
    assert len(steps) == len(set(steps))
    assert max(len(call.steps) for call in policy.calls) <= 12


async def test_an_act_in_seconds_that_names_no_rate_is_refused() -> None:
    policy = Scripted(observations=Observations(every=0.5, unit="seconds"))
    host = served(policy)
    await host.start()
    frames = [Frame(seq=n, inputs={"state": np.zeros(3)}) for n in range(21)]
    await host.observe(ObserveRequest(episode_id="e", frames=frames))
    for plan in (None, AskPlan(), AskPlan(hz=0.0), AskPlan(hz=float("nan"))):
        with pytest.raises(InvalidRequest, match="seconds"):
            await host.act(ActRequest(call="act", seq=21, episode_id="e", plan=plan), request_id="r-00000001")
    await host.act(ActRequest(call="act", seq=21, episode_id="e", plan=AskPlan(hz=20)), request_id="r-00000002")
    assert policy.calls[0].steps == (0, 10, 20)
    assert host.info().acts_in_flight == 1


async def test_a_policy_in_seconds_without_a_rate_is_refused_when_connecting() -> None:
    policy = Scripted(hz=None, observations=Observations(every=0.5, unit="seconds"))
    with pytest.raises(ValueError, match="no rate"):
        async with connected(policy):
            pass
    async with connected(policy, control_hz=20) as there:
        chunk = await there.policy.predict({"state": np.zeros(3)})
    assert len(chunk.rows) == 50


async def test_called_one_by_one_a_fed_policy_is_handed_all_that_was_observed_since() -> None:
    policy = Scripted(observations=fed())
    async with connected(policy) as there:
        for count in (3, 2):
            for _ in range(count):
                await there.policy.observe({"state": np.zeros(3)})
            await there.policy.next_chunk()
        with pytest.raises(Conflict, match="nothing new"):
            await there.policy.next_chunk()
    assert [call.steps for call in policy.calls] == [(0, 1, 2), (3, 4)]
