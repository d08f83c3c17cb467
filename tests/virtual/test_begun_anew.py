"""A worker that no longer has the episode of a policy with state: the run ends, or goes on in a new episode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from driven import Driven, drive

from seqrt import FirstStepTooFar, Gone, Limits, LinkLost, Observations, Play, Stream, Timeouts
from seqrt.testing.connected import connected, served
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.testing.standby import ConnectedToSeveral, connected_to
from seqrt.timeline import events as ev
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

A, B = "a.test:80", "b.test:80"
STREAMS = {
    "bare": None,
    "window": Observations(streams={"state": Stream(at=[-15, 0])}),
    "dropped pad": Observations(streams={"state": Stream(at=[-3, 0])}, pad="drop"),
    "fed": Observations(streams={"state": Stream(every=1)}),
    "fed whole": Observations(every=1),
}
ROWS = 100
WITH_A_RESERVE = Play(fresh_s=0.6)


class Remembering(Scripted):
    """A policy with state: an episode is bound to the worker that began it."""

    def __init__(self, **script: Any) -> None:
        super().__init__(**{"rows": 50, "hz": 20, "infer_s": 0.0803, "by": "state", **script})
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1


async def driving(
    policies: Sequence[Scripted],
    happens: Callable[[ConnectedToSeveral], Any],
    *,
    at_s: float = 2.013,
    arm: Any = None,
    on_lost: Any = "restart",
    **options: Any,
) -> Driven:
    """Drive, and have something happen at ``at_s``."""
    options = {"max_actions": ROWS, "play": WITH_A_RESERVE, **options}
    async with connected_to(*policies, on_lost=on_lost) as ends, anyio.create_task_group() as tasks:

        async def meanwhile() -> None:
            await anyio.sleep(at_s)
            done = happens(ends)
            if isinstance(done, Awaitable):
                await done

        tasks.start_soon(meanwhile)
        driven = await drive(ends.policy, arm, **options)
        tasks.cancel_scope.cancel()
    return driven


def kill_the_first(ends: ConnectedToSeveral) -> None:
    ends.workers[0].link.begin_outage("refused")


async def test_it_stops_with_hold_and_gone_and_says_what_to_do() -> None:
    second = Remembering()
    driven = await driving(
        [Remembering(rows=12), second], kill_the_first, on_lost="stop", limits=Limits(max_stall_s=2.0)
    )
    assert isinstance(driven.error, Gone)
    assert "on_lost='restart'" in str(driven.error)
    assert B in str(driven.error)
    assert driven.error.host == A
    assert len(driven.arm.holds) == 1
    assert second.calls == []
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == pytest.approx(2.0 * 20, abs=1)


async def test_where_it_stops_its_own_worker_is_waited_for_as_if_it_were_the_only_one() -> None:
    async def blink(ends: ConnectedToSeveral) -> None:
        kill_the_first(ends)
        await anyio.sleep(2.5)
        ends.workers[0].link.end_outage()

    first, second = Remembering(), Remembering()
    driven = await driving([first, second], blink, on_lost="stop")
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.worker_changes, driven.outcome.reconnects) == (ROWS, 0, 1)
    assert second.resets == 0


@pytest.mark.parametrize("streams", STREAMS)
async def test_a_new_episode_begins_at_the_second_and_the_arm_does_not_notice(streams: str) -> None:
    first, second = (Remembering(observations=STREAMS[streams]) for _ in range(2))
    driven = await driving([first, second], kill_the_first)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.episodes_restarted == driven.outcome.worker_changes == second.resets == 1
    assert (driven.outcome.actions, driven.outcome.underruns) == (ROWS, 0)
    assert driven.played == [float(n) for n in range(1, ROWS + 1)]
    assert driven.arm.holds == []
    restarted = driven.of(ev.EpisodeRestarted)[0]
    began_at = 20 * restarted.at_s
    # From what is seen then: nothing from before is handed to it, and it is asked at the next observation.
    assert began_at <= min(step for call in second.calls for step in call.steps) <= began_at + 2
    assert second.calls[0].t <= began_at + 2
    assert restarted.epoch == 2
    assert restarted.rows_left > 0


async def test_no_answer_of_the_episode_before_is_played() -> None:
    """It is still under way when the new one begins."""
    first, second = Remembering(infer_s=[0.0803, 0.0803, 0.9003]), Remembering()

    async def forget(ends: ConnectedToSeveral) -> None:
        for episode in list(ends.workers[0].host._episodes._live):
            await ends.workers[0].host.end(episode)

    driven = await driving([first, second], forget)
    assert driven.error is None
    restarted = driven.of(ev.EpisodeRestarted)[0]
    asked = {event.request_id: event for event in driven.of(ev.Asked)}
    late = [e for e in driven.of(ev.Spliced) if e.at_s > restarted.at_s and asked[e.request_id].at_s < restarted.at_s]
    assert late == []


@pytest.mark.parametrize("streams", STREAMS)
async def test_with_one_worker_alone_a_new_episode_begins_once_it_was_restarted(streams: str) -> None:
    first, second = (Remembering(observations=STREAMS[streams]) for _ in range(2))
    async with connected(first, on_lost="restart") as ends, anyio.create_task_group() as tasks:

        async def restart() -> None:
            await anyio.sleep(2.013)
            ends.link.begin_outage("refused")
            await anyio.sleep(0.3)
            host = served(second)
            await host.start()
            ends.link.app = app(host)
            ends.link.end_outage()

        tasks.start_soon(restart)
        driven = await drive(ends.policy, max_actions=ROWS, play=WITH_A_RESERVE)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.episodes_restarted, driven.outcome.underruns, driven.outcome.actions) == (1, 0, ROWS)
    assert driven.played == [float(n) for n in range(1, ROWS + 1)]
    assert second.resets == 1


async def test_an_episode_forgotten_while_idle_is_begun_anew() -> None:
    timeouts = Timeouts(episode_idle=10)
    first = Remembering(timeouts=timeouts)

    async def pause(ends: ConnectedToSeveral) -> None:
        ends.policy.pause()
        await anyio.sleep(15.0)
        ends.policy.resume()

    driven = await driving([first, Remembering(timeouts=timeouts)], pause)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.episodes_restarted == 1
    assert driven.outcome.worker_changes == 0
    assert first.resets == 2


async def test_the_first_row_of_the_new_episode_is_held_against_where_the_arm_is() -> None:
    class Elsewhere(Remembering):
        def infer(self, obs: Any) -> Any:
            return {"actions": super().infer(obs)["actions"] + 40.0}

    arm = FakeArm(3)
    driven = await driving(
        [Remembering(), Elsewhere()], kill_the_first, arm=arm,
        limits=Limits(first_step={"state": 30.0}, max_stall_s=1.0),
    )  # fmt: skip
    assert isinstance(driven.error, FirstStepTooFar)
    assert max(float(row[0]) for row in arm.rows) < 60
    assert len(arm.holds) == 1


async def test_a_worker_that_forgets_every_episode_ends_the_run_after_three_times() -> None:
    class Forgetting:
        def __init__(self, app: Any) -> None:
            self.app, self.forgets = app, False

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if not self.forgets or scope["path"] not in ("/act", "/observe"):
                return await self.app(scope, receive, send)
            from seqrt.errors import remote_error
            from seqrt.wire.codec import encode
            from seqrt.wire.errorbody import body_of

            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 410, "headers": []})
            await send({"type": "http.response.body", "body": encode(body_of(remote_error("gone", "no")))})

    async def forget(ends: ConnectedToSeveral) -> None:
        for worker in ends.workers:
            worker.link.app = Forgetting(worker.link.app)
            worker.link.app.forgets = True

    driven = await driving([Remembering(), Remembering()], forget)
    assert isinstance(driven.error, Gone)
    assert len(driven.of(ev.EpisodeRestarted)) == 3
    assert len(driven.arm.holds) == 1


async def test_where_the_robots_own_network_goes_the_state_is_not_thrown_away() -> None:
    async def both(ends: ConnectedToSeveral) -> None:
        for worker in ends.workers:
            worker.link.begin_outage("refused")
        await anyio.sleep(1.7)
        for worker in ends.workers:
            worker.link.end_outage()

    first, second = Remembering(), Remembering()
    driven = await driving([first, second], both)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.worker_changes, driven.outcome.episodes_restarted) == (0, 0)
    assert second.resets == 0


async def test_a_policy_without_state_is_gone_on_with_and_not_begun_anew() -> None:
    first, second = (Scripted(rows=50, hz=20, infer_s=0.0803, by="state") for _ in range(2))
    driven = await driving([first, second], kill_the_first)
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.worker_changes, driven.outcome.episodes_restarted) == (1, 0)


async def test_two_runs_of_one_episode_go_on_where_it_was_begun_anew() -> None:
    first, second = Remembering(), Remembering()
    async with connected_to(first, second, on_lost="restart") as ends, ends.policy.episode():
        async with anyio.create_task_group() as tasks:

            async def kill() -> None:
                await anyio.sleep(1.013)
                kill_the_first(ends)

            tasks.start_soon(kill)
            one = await drive(ends.policy, max_actions=60, play=WITH_A_RESERVE)
        two = await drive(ends.policy, one.arm, max_actions=20)
    assert one.error is None
    assert two.error is None
    assert second.resets == 1
    assert two.of(ev.EpisodeRestarted) == []
    assert two.played == [float(n) for n in range(61, 81)]


# Call by call.


@pytest.mark.parametrize("inside", [True, False])
async def test_a_call_begins_anew_with_the_observation_it_is_about(inside: bool) -> None:
    first, second = Remembering(rows=5), Remembering(rows=5)
    async with connected_to(first, second, on_lost="restart") as ends:
        if inside:
            async with ends.policy.episode():
                await _call_by_call(ends)
        else:
            await _call_by_call(ends)
    assert second.resets == 1
    assert [call.steps for call in second.calls] == [(5,), (10,), (11,)]


async def _call_by_call(ends: ConnectedToSeveral) -> None:
    await ends.policy.predict({"state": [1.0] * 3})
    kill_the_first(ends)
    assert (await ends.policy.predict({"state": [2.0] * 3})).rows[0, 0] == 3.0
    for value in (3.0, 4.0, 5.0, 6.0, 7.0):
        assert (await ends.policy.next_action())[0] == value
    assert (await ends.policy.next_action({"state": [7.0] * 3}))[0] == 8.0
    await ends.policy.observe({"state": [9.0] * 3})
    assert (await ends.policy.next_chunk()).rows[0, 0] == 10.0


async def test_an_observation_that_finds_its_episode_gone_is_the_first_of_the_next() -> None:
    first, second = Remembering(rows=5), Remembering(rows=5)
    async with connected_to(first, second, on_lost="restart") as ends:
        await ends.policy.predict({"state": [1.0] * 3})
        kill_the_first(ends)
        number = await ends.policy.observe({"state": [2.0] * 3})
        assert (await ends.policy.next_chunk()).rows[0, 0] == 3.0
    assert [call.steps for call in second.calls] == [(number,)]


async def test_where_it_stops_a_call_says_what_to_do() -> None:
    async with connected_to(Remembering(rows=5), Remembering(rows=5)) as ends, ends.policy.episode():
        await ends.policy.predict({"state": [1.0] * 3})
        kill_the_first(ends)
        for _ in range(2):
            with pytest.raises(LinkLost, match="on_lost='restart'"):
                await ends.policy.predict({"state": [2.0] * 3})
        await ends.workers[0].restart(Remembering(rows=5))
        ends.workers[0].link.end_outage()
        with pytest.raises(Gone, match="on_lost='restart'"):
            await ends.policy.predict({"state": [2.0] * 3})
