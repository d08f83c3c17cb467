"""Two workers serve the same policy, and one of them goes: the arm does not notice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from answering import by_state
from driven import Driven, drive

from seqrt import DeclarationError, Limits, LinkLost, Observations, Play, Stream, Timeouts
from seqrt.testing.policies import Scripted
from seqrt.testing.standby import ConnectedToSeveral, connected_to
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

A, B = "a.test:80", "b.test:80"
WITH_A_RESERVE = Play(fresh_s=0.6)
"""Asks early enough that finding another worker costs no row of a chunk of 2.5 s."""
ROWS = 100
STREAMS = {
    "bare": None,
    "one step": Observations(streams={"state": Stream()}),
    "window": Observations(streams={"state": Stream(at=[-15, 0])}),
    "window of three": Observations(streams={"state": Stream(at=[-3, -2, -1, 0])}),
    "fed": Observations(streams={"state": Stream(every=1)}),
    "fed whole": Observations(every=1),
}


async def while_driving(
    ends: ConnectedToSeveral, at_s: float, happens: Callable[[], Any], arm: Any = None, **options: Any
) -> Driven:
    """Drive, and have something happen at ``at_s``."""
    options = {"max_actions": ROWS, "play": WITH_A_RESERVE, **options}
    async with anyio.create_task_group() as tasks:

        async def meanwhile() -> None:
            await anyio.sleep(at_s)
            done = happens()
            if isinstance(done, Awaitable):
                await done

        tasks.start_soon(meanwhile)
        driven = await drive(ends.policy, arm, **options)
        tasks.cancel_scope.cancel()
    return driven


def nothing_was_noticed(driven: Driven, rows: int = ROWS) -> None:
    assert driven.error is None
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns, driven.outcome.overruns) == (rows, 0, 0)
    assert driven.played == [float(n) for n in range(1, rows + 1)]
    assert driven.arm.holds == []


def moved(driven: Driven) -> list[tuple[str, str]]:
    return [(event.before, event.host) for event in driven.of(ev.WorkerChanged)]


# A policy without state goes on.


@pytest.mark.parametrize(
    ("streams", "kind"), [*((streams, "refused") for streams in STREAMS), ("bare", "reset"), ("window", "closed")]
)
async def test_the_second_goes_on_where_the_first_is_lost_in_mid_run(streams: str, kind: Any) -> None:
    first, second = (by_state(observations=STREAMS[streams]) for _ in range(2))
    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 2.013, lambda: ends.workers[0].link.begin_outage(kind))
        assert ends.policy.statistics().host == B
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]
    assert driven.outcome is not None
    assert driven.outcome.worker_changes == 1
    calls = [*first.calls, *second.calls]
    assert len(second.calls) > 3
    frames_read = {step for call in calls for step in call.steps}
    if "fed" in streams:  # every observation up to the last act was read by one of the two
        assert frames_read == set(range(calls[-1].t + 1))
    elif "window" in streams:
        offsets = STREAMS[streams].streams["state"].at  # type: ignore[union-attr, index]
        for call in second.calls:
            assert list(call.steps) == [max(0, call.t + offset) for offset in offsets]  # type: ignore[union-attr]


async def test_a_worker_that_refuses_to_connect_is_left_at_once() -> None:
    async with connected_to(by_state(), by_state()) as ends:
        driven = await while_driving(ends, 2.013, lambda: ends.workers[0].link.begin_outage("refused"))
    lost, back = driven.of(ev.LinkLost), driven.of(ev.LinkBack)
    assert len(lost) == len(back) == 1
    # The wait before the second try, a connection's first requests, what the worker lacks, and the act.
    assert back[0].down_s < 0.02 + 4 * 0.0202 + 0.0803 + 0.05


@pytest.mark.parametrize("observations", [None, Observations(streams={"state": Stream(at=[-15, 0])})])
async def test_a_worker_that_falls_silent_is_left_once_that_is_found(observations: Observations | None) -> None:
    first, second = (by_state(observations=observations) for _ in range(2))
    async with connected_to(first, second, timeout_s=0.5) as ends:
        driven = await while_driving(ends, 2.013, lambda: ends.workers[0].link.begin_outage("silent"))
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


async def test_a_broken_connection_to_a_worker_that_is_there_is_made_again_and_no_other_is_asked() -> None:
    first, second = by_state(), by_state()

    async def blink() -> None:
        ends.workers[0].link.begin_outage("reset")
        await anyio.sleep(0.2)
        ends.workers[0].link.end_outage()

    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 2.013, blink)
    nothing_was_noticed(driven)
    assert moved(driven) == []
    assert second.calls == []


async def test_there_is_no_going_back_while_the_second_serves() -> None:
    async def come_back() -> None:
        ends.workers[0].link.begin_outage("refused")
        await anyio.sleep(1.0)
        ends.workers[0].link.end_outage()

    first, second = by_state(), by_state()
    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 2.013, come_back)
        asked_of_first = len(first.calls)
        again = await drive(ends.policy, max_actions=40)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]
    assert again.error is None
    assert len(first.calls) == asked_of_first
    assert again.of(ev.RunStarted)[0].host == B


async def test_when_the_second_is_lost_too_the_first_is_gone_back_to() -> None:
    async def one_after_the_other() -> None:
        ends.workers[0].link.begin_outage("refused")
        await anyio.sleep(1.5)
        ends.workers[0].link.end_outage()
        ends.workers[1].link.begin_outage("refused")

    async with connected_to(by_state(), by_state()) as ends:
        driven = await while_driving(ends, 1.013, one_after_the_other)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B), (B, A)]


async def test_the_third_is_asked_where_the_second_is_lost_as_well() -> None:
    def both() -> None:
        ends.workers[0].link.begin_outage("refused")
        ends.workers[1].link.begin_outage("refused")

    async with connected_to(by_state(), by_state(), by_state()) as ends:
        driven = await while_driving(ends, 2.013, both)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, "c.test:80")]


@pytest.mark.parametrize("streams", STREAMS)
async def test_a_worker_killed_before_its_first_answer_leaves_the_episode_to_the_second_at_once(streams: str) -> None:
    first, second = (by_state(observations=STREAMS[streams]) for _ in range(2))
    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 0.0603, lambda: ends.workers[0].link.begin_outage("refused"), max_actions=20)
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 21)]
    assert second.calls[0].t <= 1
    assert driven.of(ev.Answered)[0].at_s < 1  # not after the ten seconds that a worker waits for number 0


async def test_an_act_whose_answer_was_lost_may_run_at_both_and_is_counted() -> None:
    first, second = by_state(), by_state()

    def lose(request: Any) -> bool:
        if request.url.path == "/act" and len(first.calls) == 4:
            ends.workers[0].link.begin_outage("refused")
        return False

    async with connected_to(first, second, links=[{"lose_answer": lose}]) as ends:
        driven = await drive(ends.policy, max_actions=ROWS, play=WITH_A_RESERVE)
    nothing_was_noticed(driven)
    assert driven.outcome is not None
    both = {call.t for call in first.calls} & {call.t for call in second.calls}
    assert driven.outcome.acts_repeated == len(both) == 1
    repeated = driven.of(ev.ActRepeated)[0]
    assert (repeated.before, repeated.host) == (A, B)
    assert len(second.calls) == len({call.t for call in second.calls})


async def test_what_the_first_acknowledged_after_it_was_left_is_sent_to_the_second_all_the_same() -> None:
    """A draining or slow worker may still say that a post has landed; the second does not have it."""
    fed = Observations(streams={"state": Stream(every=1)})
    first, second = by_state(observations=fed), by_state(observations=fed)

    def lose(request: Any) -> bool:
        if request.url.path == "/act" and len(first.calls) == 4:
            ends.workers[0].link.begin_outage("reset")
        return False

    async with connected_to(first, second, links=[{"lose_answer": lose, "down_s": 0.2003}]) as ends:
        driven = await drive(ends.policy, max_actions=ROWS, play=Play(fresh_s=0.9))
    assert driven.error is None
    assert driven.arm.holds == []
    steps = {step for call in (*first.calls, *second.calls) for step in call.steps}
    assert steps == set(range(second.calls[-1].t + 1))


# Draining, loading, gone.


async def test_a_run_begins_at_the_second_where_the_first_drains() -> None:
    first, second = by_state(), by_state()
    async with connected_to(first, second) as ends:
        one = await drive(ends.policy, max_actions=30)
        ends.workers[0].host.drain()
        two = await drive(ends.policy, max_actions=30)
    assert one.error is None
    assert two.error is None
    assert two.played == [float(n) for n in range(1, 31)]
    assert moved(two) == [(A, B)]
    assert two.of(ev.Answered)[0].at_s < 1


async def test_a_worker_that_drains_serves_a_live_episode_to_its_end_and_is_left_when_it_goes() -> None:
    async def drain() -> None:
        ends.workers[0].host.drain()
        await anyio.sleep(1.5)
        ends.workers[0].link.begin_outage("refused")

    first, second = by_state(), by_state()
    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 1.013, drain)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]
    assert max(call.t for call in first.calls) > 30


async def test_where_all_drain_the_refusal_is_the_workers_own() -> None:
    first, second = (by_state(timeouts=Timeouts(startup=60)) for _ in range(2))
    async with connected_to(first, second) as ends:
        for worker in ends.workers:
            worker.host.drain()
        driven = await drive(ends.policy, max_actions=30)
        acts = sum(worker.link.statistics().requests_to.get("/act", 0) for worker in ends.workers)
    assert driven.error is not None
    assert driven.error.details["reason"] == "draining"  # type: ignore[attr-defined]
    assert acts <= 2, "nobody is asked again and again who has said that it begins nothing"


async def test_an_episode_that_was_ended_at_one_worker_goes_on_at_the_other() -> None:
    first, second = by_state(), by_state()

    async def end() -> None:
        for session in list(ends.workers[0].host._episodes._live):
            await ends.workers[0].host.end(session)

    async with connected_to(first, second) as ends:
        driven = await while_driving(ends, 2.013, end)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


async def test_a_worker_that_is_back_and_loads_for_minutes_is_left_for_one_that_is_ready() -> None:
    class Loading(Scripted):
        def load(self) -> None:
            """Takes as long as the offload says."""

    async def restart() -> None:
        from seqrt.testing.connected import served
        from seqrt.testing.offload import inline
        from seqrt.worker.app import app

        host = served(Loading(rows=50, hz=20), offload=inline([300.0]))
        ends.workers[0].link.begin_outage("reset")
        ends.workers[0].link.app = app(host)
        ends.workers[0].link.end_outage()
        await host.start()

    async with connected_to(by_state(), by_state()) as ends:
        driven = await while_driving(ends, 2.013, restart)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


# Connecting.


async def test_the_first_that_answers_is_started_with() -> None:
    async with connected_to(by_state(), by_state(), links=[{"outages": [(0.0, 9.0, "refused")]}]) as ends:
        driven = await drive(ends.policy, max_actions=40)
    assert driven.error is None
    assert driven.of(ev.RunStarted)[0].host == B


async def test_one_that_is_silent_does_not_stand_before_one_that_is_there() -> None:
    async with connected_to(by_state(), by_state(), links=[{"outages": [(0.0, 99.0, "silent")]}]) as ends:
        assert ends.policy.statistics().host == B
        assert anyio.current_time() < 5
        ends.workers[0].link.end_outage()


async def test_one_that_is_ready_is_preferred_to_one_that_drains() -> None:
    first = by_state()
    async with connected_to(first, by_state()) as ends:
        ends.workers[0].host.drain()
        driven = await drive(ends.policy, max_actions=40)
    assert driven.error is None
    assert first.calls == []


async def test_where_none_answers_all_are_named() -> None:
    down = {"outages": [(0.0, 99.0, "refused")]}
    with pytest.raises(LinkLost) as lost:
        async with connected_to(by_state(), by_state(), links=[down, down]):
            pass
    assert A in str(lost.value)
    assert B in str(lost.value)


@pytest.mark.parametrize("down_s", [0.0, 1.0])
async def test_a_second_that_serves_something_else_is_refused_when_connecting_and_never_gone_on_with(
    down_s: float,
) -> None:
    other = Scripted(rows=50, hz=20, dims=7, infer_s=0.0803, observations=STREAMS["window"])
    if not down_s:
        with pytest.raises(DeclarationError) as refused:
            async with connected_to(by_state(), other):
                pass
        assert A in str(refused.value)
        assert B in str(refused.value)
        assert refused.value.field == "observations"
        return
    async with connected_to(by_state(rows=12), other, links=[{}, {"outages": [(0.0, down_s, "refused")]}]) as ends:
        driven = await while_driving(
            ends, 2.013, lambda: ends.workers[0].link.begin_outage("refused"), limits=Limits(max_stall_s=2.0)
        )
        ends.workers[0].link.end_outage()
    assert other.calls == []
    assert isinstance(driven.error, LinkLost)
    assert "do not serve the same policy (observations" in str(driven.error)
    assert len(driven.arm.holds) == 1


async def test_a_worker_that_comes_back_with_another_policy_is_left() -> None:
    async def replaced() -> None:
        ends.workers[0].link.begin_outage("reset")
        await ends.workers[0].restart(other)
        ends.workers[0].link.end_outage()

    other = Scripted(rows=50, hz=20, dims=3, infer_s=0.0803, observations=STREAMS["window"])
    async with connected_to(by_state(), by_state()) as ends:
        driven = await while_driving(ends, 2.013, replaced)
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


async def test_what_a_worker_measures_or_grants_is_no_difference() -> None:
    def sampled(self: Any) -> Any:
        return [{"state": [0.0, 0.0, 0.0]}]

    class Sampled(Scripted):
        sample = sampled

    with_sample = Sampled(rows=50, hz=20, infer_s=0.0803, by="state")
    async with connected_to(by_state(), with_sample) as ends:
        measured = [worker.host.info().infer_s for worker in ends.workers]
        driven = await while_driving(ends, 2.013, lambda: ends.workers[0].link.begin_outage("refused"))
    assert measured[0] is None
    assert measured[1] is not None
    nothing_was_noticed(driven)
    assert moved(driven) == [(A, B)]


# All are lost.


@pytest.mark.parametrize("kind", ["refused", "reset", "silent"])
async def test_where_both_are_lost_the_arm_is_held_within_max_stall_s_and_both_are_named(kind: Any) -> None:
    def both() -> None:
        for worker in ends.workers:
            worker.link.begin_outage(kind)

    async with connected_to(by_state(rows=12), by_state(rows=12), timeout_s=0.5) as ends:
        driven = await while_driving(ends, 2.013, both, limits=Limits(max_stall_s=4.0))
        for worker in ends.workers:
            worker.link.end_outage()
    assert isinstance(driven.error, LinkLost)
    assert A in str(driven.error)
    assert B in str(driven.error)
    assert len(driven.arm.holds) == 1
    assert driven.outcome is not None
    assert driven.outcome.reason == "stalled"
    assert driven.outcome.starved_ticks == pytest.approx(4.0 * 20, abs=1)


async def test_the_one_that_is_back_first_is_gone_on_with() -> None:
    async def both() -> None:
        for worker in ends.workers:
            worker.link.begin_outage("refused")
        await anyio.sleep(4.0)
        ends.workers[1].link.end_outage()

    async with connected_to(by_state(rows=12), by_state(rows=12)) as ends:
        driven = await while_driving(ends, 2.013, both)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 1
    assert driven.played == [float(n) for n in range(1, ROWS + 1)]
    assert moved(driven) == [(A, B)]


# Call by call.


async def test_a_call_goes_on_at_the_second_within_itself() -> None:
    first, second = by_state(rows=5), by_state(rows=5)
    async with connected_to(first, second) as ends:
        assert (await ends.policy.predict({"state": [1.0, 1.0, 1.0]})).rows[0, 0] == 2.0
        ends.workers[0].link.begin_outage("refused")
        assert (await ends.policy.predict({"state": [3.0, 3.0, 3.0]})).rows[0, 0] == 4.0
        assert ends.policy.statistics().host == B
        number = await ends.policy.observe({"state": [5.0, 5.0, 5.0]})
        assert (await ends.policy.next_chunk()).observed == number


@pytest.mark.parametrize("streams", STREAMS)
async def test_so_does_the_very_first_call_and_one_with_a_window(streams: str) -> None:
    first, second = (by_state(rows=5, observations=STREAMS[streams]) for _ in range(2))
    async with connected_to(first, second) as ends:
        ends.workers[0].link.begin_outage("refused")
        for value in (1.0, 2.0, 3.0):
            assert (await ends.policy.predict({"state": [value] * 3})).rows[0, 0] == value + 1
        ends.workers[0].link.end_outage()
        ends.workers[1].link.begin_outage("refused")
        for value in (4.0, 5.0):
            assert (await ends.policy.predict({"state": [value] * 3})).rows[0, 0] == value + 1
    assert len(second.calls) == 3


async def test_a_call_that_finds_nobody_names_all_and_the_next_one_works() -> None:
    async with connected_to(by_state(), by_state()) as ends:
        await ends.policy.predict({"state": [1.0, 1.0, 1.0]})
        for worker in ends.workers:
            worker.link.begin_outage("refused")
        with pytest.raises(LinkLost, match=r"b\.test:80"):
            await ends.policy.predict({"state": [1.0, 1.0, 1.0]})
        ends.workers[1].link.end_outage()
        assert (await ends.policy.predict({"state": [2.0, 2.0, 2.0]})).rows[0, 0] == 3.0
