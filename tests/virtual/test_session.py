"""The contract's stream rules against a `Host`, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from seqrt.errors import Conflict, Gone, InvalidRequest, NotFound, PolicyError, RemoteError, Unavailable, remote_error
from seqrt.observation import Observations, Stream
from seqrt.policies import Host, HostLimits, Timeouts, policy
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, ActResponse, AskPlan, Frame, ObserveRequest

pytestmark = pytest.mark.anyio

INFER_S = 0.1203


class Echo:
    """Answers what it was handed, and counts."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def infer(self, obs: Any) -> Any:
        self.calls.append(obs)
        return {"actions": np.zeros((4, 2)), "call": len(self.calls)}


def windowed(*at: int, **fields: Any) -> Observations:
    return Observations(streams={"x": Stream(at=list(at))}, **fields)


async def hosted(
    observations: Observations | None = None,
    *,
    infer: Callable[[Any], Any] | None = None,
    duration_s: float | Sequence[float] = INFER_S,
    limits: HostLimits | None = None,
    **declared: Any,
) -> tuple[Host, Echo]:
    made: type[Echo] = policy(observations=observations, **declared)(type("Made", (Echo,), {}))
    echo = made()
    if infer is not None:
        echo.infer = infer  # type: ignore[method-assign, assignment]
    host = Host(echo, offload=inline(duration_s), limits=limits or HostLimits())
    await host.start()
    return host, echo


def frame(number: int, value: Any = None) -> Frame:
    return Frame(seq=number, inputs={"x": number if value is None else value})


def post(*numbers: int, episode: str = "e", skipped: Sequence[int] = (), begun: bool | None = None) -> ObserveRequest:
    return ObserveRequest(
        episode_id=episode, frames=[frame(number) for number in numbers], skipped=list(skipped), begun=begun
    )


def dataless(count: int, episode: str = "e", **plan: Any) -> ActRequest:
    return ActRequest(call="act", seq=count, episode_id=episode, plan=AskPlan(**plan) if plan else None)


def carrying(number: int, episode: str | None = "e", value: Any = None, **plan: Any) -> ActRequest:
    return ActRequest(
        inputs=frame(number, value).inputs, seq=number, episode_id=episode, plan=AskPlan(**plan) if plan else None
    )


ids = iter(range(10**6))


def new_id() -> str:
    return f"r-{next(ids):016x}"


async def ask(host: Host, request: ActRequest, request_id: str | None = None, **more: Any) -> ActResponse:
    return await host.act(request, request_id=request_id or new_id(), **more)


def t_of(response: ActResponse) -> int | None:
    assert response.plan is not None
    return response.plan.t


async def test_a_window_is_read_from_what_was_posted() -> None:
    host, echo = await hosted(windowed(-2, 0))
    assert (await host.observe(post(0, 1, 2))).through == 2
    response = await ask(host, dataless(3, epoch=5))
    assert echo.calls == [{"observations": [{"x": 0}, {"x": 2}], "steps": [0, 2]}]
    assert response.plan is not None
    assert (response.plan.t, response.plan.epoch) == (2, 5)
    assert response.plan.queue_s == pytest.approx(0.0, abs=1e-3)
    assert response.perf == {"inference_ms": pytest.approx(INFER_S * 1e3)}


async def test_an_undeclared_policy_is_handed_its_inputs_bare() -> None:
    host, echo = await hosted()
    await ask(host, carrying(0))
    await host.observe(post(1))
    await ask(host, dataless(2))
    assert echo.calls == [{"x": 0}, {"x": 1}]


async def test_a_policy_that_declares_no_streams_is_handed_the_whole_observation_of_its_step() -> None:
    host, echo = await hosted(Observations())
    await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"anything": [1, 2]})]))
    await ask(host, dataless(1))
    assert echo.calls == [{"observations": [{"anything": [1, 2]}], "steps": [0]}]


async def test_an_act_without_an_episode_is_served_alone() -> None:
    host, echo = await hosted(windowed(-2, 0))
    await ask(host, carrying(0, episode=None))
    assert echo.calls == [{"observations": [{"x": 0}, {"x": 0}], "steps": [0, 0]}]
    assert host.statistics()["frame_bytes"] == 0


async def test_an_act_that_overtook_its_frames_waits_for_just_those() -> None:
    host, echo = await hosted(windowed(-2, 0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, dataless(4))
        await anyio.sleep(1.0)
        await host.observe(post(3, 0))
        await anyio.sleep(1.0)
        assert echo.calls == []
        await host.observe(post(1))
        started = anyio.current_time()
    assert anyio.current_time() - started == pytest.approx(INFER_S)
    assert [call["steps"] for call in echo.calls] == [[1, 3]]


async def test_a_policy_without_windows_waits_for_every_number_before_its_own() -> None:
    host, _ = await hosted()
    await host.observe(post(0, 1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, carrying(4))
        await anyio.sleep(1.0)
        await host.observe(post(3))
        await anyio.sleep(1.0)
        assert host.statistics()["inferred"] == 0
        await host.observe(post(skipped=[2]))
    assert host.statistics()["inferred"] == 1


async def test_frames_that_never_come_are_a_conflict_that_names_the_first() -> None:
    host, _ = await hosted(windowed(-2, 0))
    await host.observe(post(0))
    started = anyio.current_time()
    with pytest.raises(Conflict) as missing:
        await ask(host, dataless(6))
    assert missing.value.details == {"reason": "frames_missing", "from": 3}
    assert anyio.current_time() - started == pytest.approx(10.0)


async def test_after_a_conflict_the_same_id_may_be_sent_again() -> None:
    host, _ = await hosted(windowed(0))
    await host.observe(post(0))
    with pytest.raises(Conflict):
        await ask(host, dataless(2), "r-00000001")
    await host.observe(post(1))
    assert t_of(await ask(host, dataless(2), "r-00000001")) == 1


async def test_while_bytes_move_an_act_waits_on() -> None:
    host, _ = await hosted(windowed(0))
    await host.observe(post(0))

    async def upload() -> None:
        for _ in range(5):
            await anyio.sleep(7.0)
            host.moving("robot")
        await host.observe(post(1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(upload)
        assert t_of(await ask(host, dataless(2), source="robot")) == 1
        assert anyio.current_time() == pytest.approx(35.0 + INFER_S, abs=0.01)


async def test_an_act_with_inputs_stores_them_as_its_observation() -> None:
    host, echo = await hosted(windowed(-1, 0))
    await ask(host, carrying(0))
    await ask(host, carrying(1))
    assert echo.calls[-1] == {"observations": [{"x": 0}, {"x": 1}], "steps": [0, 1]}


async def test_a_number_sent_again_is_answered_the_same_and_kept_once() -> None:
    host, echo = await hosted(windowed(0))
    first = await host.observe(post(0))
    held = host.statistics()["frame_bytes"]
    again = await host.observe(ObserveRequest(episode_id="e", frames=[frame(0, "other")]))
    assert (again, host.statistics()["frame_bytes"]) == (first, held)
    await ask(host, dataless(1))
    assert echo.calls[0]["observations"] == [{"x": 0}]


async def test_the_rest_of_a_steps_keys_may_come_later_and_is_waited_for() -> None:
    both = Observations(streams={"wrist": Stream(at=[-2, 0]), "state": Stream()})
    host, echo = await hosted(both)
    await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"wrist": 0, "state": 0})]))
    await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=2, inputs={"wrist": 2})]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, dataless(3))
        await anyio.sleep(1.0)
        assert echo.calls == []
        await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=2, inputs={"state": 2})]))
    assert echo.calls == [{"observations": [{"wrist": 0}, {"wrist": 2, "state": 2}], "steps": [0, 2]}]


async def test_only_declared_keys_are_held() -> None:
    host, echo = await hosted(windowed(0))
    inputs = {"x": 1, "unread": np.zeros(10**6)}
    await host.observe(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs=inputs)]))
    assert host.statistics()["frame_bytes"] < 1000
    await ask(host, dataless(1))
    assert echo.calls[0]["observations"] == [{"x": 1}]


async def test_a_skipped_step_reads_the_newest_observation_before_it_and_t_says_which() -> None:
    host, echo = await hosted(windowed(-2, 0))
    await host.observe(post(0, 4, skipped=[1, 2, 3, 5]))
    response = await ask(host, dataless(6))
    assert echo.calls[0]["steps"] == [0, 4]
    assert t_of(response) == 4


async def test_a_data_less_act_before_any_observation_is_refused() -> None:
    host, _ = await hosted()
    for request in (dataless(0), ActRequest(call="act", episode_id="e"), ActRequest(call="act", seq=1)):
        with pytest.raises(InvalidRequest):
            await ask(host, request)
    with pytest.raises(InvalidRequest, match="neither"):
        await ask(host, ActRequest(episode_id="e", seq=0))
    with pytest.raises(InvalidRequest, match="both"):
        await ask(host, ActRequest(episode_id="e", seq=1, inputs={}, call="act"))


async def test_the_newest_observation_can_be_acted_on_again() -> None:
    host, echo = await hosted(windowed(-2, 0))
    await host.observe(post(0, 1, 2))
    await ask(host, dataless(3))
    await ask(host, dataless(3))
    assert echo.calls[0] == echo.calls[1]


async def test_an_act_older_than_the_one_served_is_answered_stale() -> None:
    host, echo = await hosted()
    await host.observe(post(0, 1, 2, 3))
    await ask(host, dataless(4))
    response = await ask(host, dataless(2, epoch=3))
    assert response.outputs is None
    assert response.plan is not None
    assert (response.plan.stale, response.plan.epoch) == (True, 3)
    assert len(echo.calls) == 1


async def test_served_acts_free_what_no_later_window_reads() -> None:
    host, _ = await hosted(windowed(-4, 0))
    for number in range(64):
        await ask(host, carrying(number, value=np.zeros(1000, np.uint8)))
    assert host.statistics()["frame_bytes"] < 7 * 1200


@pytest.mark.parametrize(
    "limits", [HostLimits(frames=3), HostLimits(episode_bytes=3 * 1200), HostLimits(worker_bytes=3 * 1200)]
)
async def test_a_post_over_the_limits_is_refused_whole_and_its_numbers_are_not_kept(limits: HostLimits) -> None:
    host, echo = await hosted(windowed(-3, 0), limits=limits)
    big = np.zeros(1000, np.uint8)
    await host.observe(ObserveRequest(episode_id="e", frames=[frame(0, big), frame(1, big)]))
    held = host.statistics()["frame_bytes"]
    with pytest.raises(InvalidRequest) as over:
        await host.observe(ObserveRequest(episode_id="e", frames=[frame(2, big), frame(3, big)], skipped=[4]))
    assert (over.value.code, over.value.details["reason"]) == ("payload_too_large", "frames_over_limit")
    assert host.statistics()["frame_bytes"] == held
    assert (await host.observe(post(skipped=[2, 3]))).through == 3
    await ask(host, dataless(4))
    assert echo.calls[0]["steps"] == [0, 1]


async def test_an_act_over_the_limits_has_not_run_and_its_id_is_free() -> None:
    host, _ = await hosted(limits=HostLimits(episode_bytes=1000))
    with pytest.raises(InvalidRequest, match="more than"):
        await ask(host, carrying(0, value=np.zeros(2000, np.uint8)), "r-00000001")
    await ask(host, carrying(0), "r-00000001")


async def test_too_many_observations_in_one_post_are_refused() -> None:
    host, _ = await hosted()
    with pytest.raises(InvalidRequest, match="at most 64"):
        await host.observe(post(*range(65)))


@pytest.mark.parametrize("number", [-1, 2**60])
async def test_numbers_outside_their_range_are_refused(number: int) -> None:
    host, _ = await hosted()
    with pytest.raises(InvalidRequest, match="number"):
        await host.observe(post(number))
    with pytest.raises(InvalidRequest, match="number"):
        await host.observe(post(skipped=[number]))


async def test_scattered_skips_cannot_fill_the_memory() -> None:
    host, _ = await hosted(limits=HostLimits(ranges=100))
    await host.observe(post(0, skipped=range(10**5)))
    with pytest.raises(InvalidRequest, match="more than"):
        await host.observe(post(skipped=range(10**6, 2 * 10**6, 2)))


async def test_arrays_kept_are_the_hosts_own() -> None:
    host, echo = await hosted(windowed(0))
    buffer = np.zeros(3)
    await host.observe(ObserveRequest(episode_id="e", frames=[frame(0, buffer)]))
    buffer[:] = 9
    await ask(host, dataless(1))
    assert echo.calls[0]["observations"][0]["x"].tolist() == [0, 0, 0]


async def test_a_value_that_is_not_as_declared_is_refused_with_both_and_the_next_act_works() -> None:
    observations = Observations(streams={"x": Stream(shape=[3], dtype="float32")})
    host, echo = await hosted(observations)
    with pytest.raises(InvalidRequest) as refused:
        await ask(host, carrying(0, value=np.zeros(4)))
    assert refused.value.details == {"key": "x", "expected": [3], "found": [4]}
    await ask(host, carrying(1, value=np.zeros(3)))
    assert echo.calls[0]["observations"][0]["x"].dtype == np.float32


# One id, one run.


async def test_an_id_that_ran_is_answered_the_same_without_running_again() -> None:
    host, echo = await hosted()
    first = await ask(host, carrying(0), "r-00000001")
    assert await ask(host, carrying(0, dry_in_s=0.3), "r-00000001") is first
    assert len(echo.calls) == 1


async def test_an_id_that_runs_is_waited_for() -> None:
    host, echo = await hosted()
    answers: list[ActResponse] = []

    async def once() -> None:
        answers.append(await ask(host, carrying(0), "r-00000001"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(once)
        await anyio.sleep(0.05)
        assert host.running("r-00000001") == {"state": "running", "for_s": pytest.approx(0.05)}
        tasks.start_soon(once)
    assert answers[0] is answers[1]
    assert len(echo.calls) == 1
    assert host.running("r-00000001")["state"] == "answered"
    assert host.running("r-00000002")["state"] == "unknown"


async def test_a_failure_is_answered_again_too() -> None:
    def fails(obs: Any) -> Any:
        calls.append(obs)
        raise KeyError("wrist")

    calls: list[Any] = []
    host, _ = await hosted(infer=fails)
    errors = []
    for _ in range(2):
        with pytest.raises(PolicyError) as raised:
            await ask(host, carrying(0), "r-00000001")
        errors.append(raised.value)
    assert len(calls) == 1
    assert errors[0] is not errors[1]
    assert errors[0].details == errors[1].details
    assert errors[0].details["type"] == "KeyError"
    assert errors[0].details["message"] == "'wrist'"
    assert 'raise KeyError("wrist")' in errors[0].details["traceback"]
    assert "seqrt" not in errors[0].details["traceback"].split("test_session")[0]


async def test_the_same_id_with_another_body_is_a_conflict() -> None:
    host, _ = await hosted()
    await ask(host, carrying(0), "r-00000001")
    with pytest.raises(Conflict) as reused:
        await ask(host, carrying(0, value="other"), "r-00000001")
    assert reused.value.details == {"reason": "request_id_reused"}


async def test_the_same_id_in_another_episode_is_another_act() -> None:
    host, echo = await hosted()
    await ask(host, carrying(0, episode="a"), "r-00000001")
    await ask(host, carrying(0, episode="b"), "r-00000001")
    assert len(echo.calls) == 2


async def test_answers_are_kept_for_a_minute_and_64_an_episode() -> None:
    host, echo = await hosted(duration_s=0.001)
    for number in range(65):
        await ask(host, carrying(number), f"r-{number:08x}")
    await ask(host, carrying(1), f"r-{1:08x}")
    assert len(echo.calls) == 65
    assert host.running("r-00000000")["state"] == "unknown"
    await anyio.sleep(61.0)
    await host.observe(post(65))
    assert (await ask(host, dataless(66), f"r-{64:08x}")).plan.t == 65  # type: ignore[union-attr]
    assert len(echo.calls) == 66


async def test_answers_kept_are_bounded_in_bytes_too() -> None:
    host, _ = await hosted(infer=lambda obs: np.zeros(1000), limits=HostLimits(answer_bytes=20_000))
    for number in range(30):
        await ask(host, carrying(number))
    assert host.statistics()["answer_bytes"] <= 20_000


async def test_whoever_asked_may_leave_and_the_answer_is_kept() -> None:
    host, echo = await hosted()
    with anyio.move_on_after(0.05) as left:
        await ask(host, carrying(0), "r-00000001")
    assert left.cancel_called
    assert len(echo.calls) == 1
    assert (await ask(host, carrying(0), "r-00000001")).outputs["call"] == 1
    assert len(echo.calls) == 1


async def test_an_act_cancelled_in_the_queue_has_not_run_and_whoever_waits_for_it_takes_its_place() -> None:
    host, echo = await hosted()
    answers: list[ActResponse] = []

    async def second() -> None:
        answers.append(await ask(host, carrying(0, episode="b"), "r-00000002"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, carrying(0, episode="a"))
        await anyio.sleep(0.01)
        with anyio.move_on_after(0.03):
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(ask, host, carrying(0, episode="b"), "r-00000002")
                await anyio.sleep(0.01)
                tasks.start_soon(second)
                await anyio.sleep_forever()
    assert len(answers) == 1
    assert len(echo.calls) == 2
    assert host.statistics()["acts"] == 0


async def test_acts_are_served_one_at_a_time_in_order_of_arrival() -> None:
    host, echo = await hosted()
    queued: dict[str, float] = {}

    async def one(episode: str) -> None:
        response = await ask(host, carrying(0, episode=episode, value=episode))
        assert response.plan is not None
        assert response.plan.queue_s is not None
        queued[episode] = response.plan.queue_s

    async with anyio.create_task_group() as tasks:
        for episode in "abcd":
            tasks.start_soon(one, episode)
            await anyio.sleep(0.0101)
    assert [call["x"] for call in echo.calls] == ["a", "b", "c", "d"]
    assert queued["d"] == pytest.approx(3 * INFER_S - 3 * 0.0101, abs=1e-6)


async def test_a_deadline_gives_up_an_act_that_waits() -> None:
    host, echo = await hosted()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, carrying(0, episode="a"))
        await anyio.sleep(0.01)
        with pytest.raises(Unavailable) as late:
            await ask(host, carrying(0, episode="b"), deadline_s=0.05)
    assert (late.value.code, late.value.retryable) == ("timeout", True)
    assert len(echo.calls) == 1
    with pytest.raises(Unavailable) as missing:
        await ask(host, dataless(5, episode="a"), deadline_s=0.5)
    assert missing.value.code == "timeout"


async def test_acts_beyond_the_limits_are_told_to_come_back() -> None:
    host, _ = await hosted(limits=HostLimits(acts=2, acts_an_episode=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, carrying(0, episode="a"))
        await anyio.sleep(0.01)
        with pytest.raises(Unavailable, match="of this episode") as busy:
            await ask(host, carrying(1, episode="a"))
        assert (busy.value.code, busy.value.retry_after_s) == ("busy", 1.0)
        tasks.start_soon(ask, host, carrying(0, episode="b"))
        await anyio.sleep(0.01)
        with pytest.raises(Unavailable, match="2 acts are waiting"):
            await ask(host, carrying(0, episode="c"))


async def test_a_policy_may_say_that_it_is_overloaded_and_its_id_stays_free() -> None:
    def overloaded_once(obs: Any) -> Any:
        calls.append(obs)
        if len(calls) == 1:
            raise remote_error("busy", "later", retry_after_s=1.0)
        return "done"

    calls: list[Any] = []
    host, _ = await hosted(infer=overloaded_once)
    with pytest.raises(Unavailable, match="later"):
        await ask(host, carrying(0), "r-00000001")
    assert (await ask(host, carrying(0), "r-00000001")).outputs == "done"


async def test_a_policy_that_exits_is_an_error_and_not_the_servers_end() -> None:
    def exits(obs: Any) -> Any:
        raise SystemExit(3)

    host, _ = await hosted(infer=exits)
    with pytest.raises(PolicyError, match="SystemExit"):
        await ask(host, carrying(0))


# Episodes.


async def test_an_episode_belongs_to_the_key_that_began_it() -> None:
    host, _ = await hosted()
    await host.observe(post(0), owner="a")
    for owned in (
        lambda: host.observe(post(1), owner="b"),
        lambda: host.act(dataless(1), request_id=new_id(), owner="b"),
        lambda: host.end("e", owner="b"),
    ):
        with pytest.raises(NotFound):
            await owned()


async def test_an_ended_episode_is_revived_by_nothing() -> None:
    host, _ = await hosted()
    await ask(host, carrying(0), "r-00000001")
    await host.end("e")
    await host.end("e")
    await host.end("never begun")
    for late in (
        lambda: host.observe(post(0)),
        lambda: ask(host, carrying(0), "r-00000001"),
        lambda: host.observe(post(0, episode="never begun")),
    ):
        with pytest.raises(Gone) as gone:
            await late()
        assert gone.value.details == {"reason": "ended"}
    assert host.statistics()["frame_bytes"] == 0
    assert host.statistics()["answer_bytes"] == 0


async def test_ended_ids_are_forgotten_after_ten_minutes() -> None:
    host, _ = await hosted()
    await host.observe(post(0))
    await host.end("e")
    with pytest.raises(Gone):
        await host.observe(post(0))
    await anyio.sleep(601.0)
    assert (await host.observe(post(0))).through == 0


async def test_ended_ids_are_bounded_in_number() -> None:
    host, _ = await hosted(limits=HostLimits(ended=10))
    for number in range(20):
        await host.end(f"e{number}")
    await host.observe(post(0, episode="e9"))
    with pytest.raises(Gone):
        await host.observe(post(0, episode="e10"))


async def test_an_act_that_waits_is_told_when_its_episode_ends() -> None:
    host, _ = await hosted(windowed(0))
    await host.observe(post(0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_ends_later, host)
        with pytest.raises(Gone):
            await ask(host, dataless(5))
    assert host.statistics()["acts"] == 0


async def _ends_later(host: Host) -> None:
    await anyio.sleep(1.0)
    await host.end("e")


async def test_an_act_in_the_queue_of_an_episode_that_ended_does_not_run() -> None:
    host, echo = await hosted(duration_s=2.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, carrying(0, episode="other"))
        await anyio.sleep(0.01)
        tasks.start_soon(_ends_later, host)
        with pytest.raises(Gone):
            await ask(host, carrying(0))
    assert len(echo.calls) == 1


async def test_an_idle_episode_is_forgotten_and_its_bytes_are_freed() -> None:
    host, _ = await hosted(windowed(-1, 0), timeouts=Timeouts(episode_idle=20))
    await host.observe(post(0))
    await anyio.sleep(15.0)
    await host.observe(post(1))
    await anyio.sleep(15.0)
    assert host.statistics()["episodes"] == 1
    await anyio.sleep(15.0)
    await host.observe(post(0, episode="other"))
    assert host.statistics()["episodes"] == 1


async def test_episodes_are_bounded_in_number() -> None:
    host, _ = await hosted(limits=HostLimits(episodes=2))
    await host.observe(post(0, episode="a"))
    await host.observe(post(0, episode="b"))
    with pytest.raises(Unavailable) as busy:
        await host.observe(post(0, episode="c"))
    assert busy.value.code == "busy"


@pytest.mark.parametrize("episode", ["", "e" * 257])
async def test_an_episode_id_has_1_to_256_characters(episode: str) -> None:
    host, _ = await hosted()
    for refused in (
        lambda: host.observe(post(0, episode=episode)),
        lambda: ask(host, carrying(0, episode=episode)),
        lambda: host.end(episode),
    ):
        with pytest.raises(InvalidRequest, match="1 to 256"):
            await refused()


# Rule 9: what began where.


async def test_a_post_that_arrives_before_number_0_is_kept_and_an_act_waits_for_number_0() -> None:
    host, echo = await hosted(windowed(0))
    assert (await host.observe(post(1))).through == -1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, host, dataless(2))
        await anyio.sleep(1.0)
        assert echo.calls == []
        await host.observe(post(0))
    assert echo.calls[0]["steps"] == [1]


async def test_an_episode_may_be_begun_by_saying_that_number_0_was_skipped() -> None:
    host, echo = await hosted(windowed(0))
    await host.observe(post(5, skipped=range(5)))
    await ask(host, dataless(6))
    assert echo.calls[0]["steps"] == [5]


async def test_without_number_0_an_act_is_a_conflict_in_the_end() -> None:
    host, _ = await hosted(windowed(0))
    with pytest.raises(Conflict) as missing:
        await ask(host, carrying(3))
    assert missing.value.details == {"reason": "frames_missing", "from": 0}
    assert anyio.current_time() == pytest.approx(10.0, abs=0.01)


@pytest.mark.parametrize("posts_first", [False, True])
async def test_a_lost_episode_says_so_at_once_and_is_rebuilt(posts_first: bool) -> None:
    host, echo = await hosted(windowed(-2, 0))
    if posts_first:
        await host.observe(post(51, begun=True))
    with pytest.raises(Conflict) as missing:
        await ask(host, carrying(50, begun=True), "r-00000001")
    assert missing.value.details == {"reason": "frames_missing", "from": 48}
    assert anyio.current_time() < 0.1
    await host.observe(post(48, 49, 50, begun=True))
    await ask(host, carrying(50, begun=True), "r-00000001")
    assert echo.calls[0]["steps"] == [48, 50]


async def test_a_lost_episode_without_windows_goes_on_from_the_oldest_the_robot_still_has() -> None:
    host, echo = await hosted()
    with pytest.raises(Conflict):
        await ask(host, dataless(51, begun=True))
    await host.observe(post(48, 49, 50, begun=True))
    await ask(host, dataless(51, begun=True))
    assert echo.calls == [{"x": 50}]


async def test_a_lost_episode_without_windows_goes_on_from_the_act_before() -> None:
    host, echo = await hosted()
    await ask(host, carrying(50, begun=True, previous=49))
    assert echo.calls == [{"x": 50}]


async def test_an_episode_opened_by_a_late_post_is_lost_too_once_the_robot_says_it_had_answers() -> None:
    host, _ = await hosted(windowed(-2, 0))
    await host.observe(post(49))
    with pytest.raises(Conflict) as missing:
        await ask(host, carrying(50, begun=True))
    assert missing.value.details == {"reason": "frames_missing", "from": 48}
    assert anyio.current_time() == 0.0


class Remembers(Echo):
    def reset(self) -> None:
        self.calls.append("reset")


async def test_a_policy_with_state_serves_one_episode_at_a_time_and_is_reset_for_each() -> None:
    remembers = Remembers()
    host = Host(remembers, offload=inline(INFER_S))
    await host.start()
    assert host.info().stateful
    assert host.info().acts_in_flight == 1
    await ask(host, carrying(0, episode="a"))
    await ask(host, carrying(1, episode="a"))
    with pytest.raises(Unavailable) as busy:
        await ask(host, carrying(0, episode="b"))
    assert busy.value.code == "busy"
    await host.end("a")
    await ask(host, carrying(0, episode="b"))
    assert remembers.calls == ["reset", {"x": 0}, {"x": 1}, "reset", {"x": 0}]


async def test_a_lost_episode_of_a_policy_with_state_is_gone() -> None:
    host = Host(Remembers(), offload=inline(INFER_S))
    await host.start()
    for lost in (lambda: ask(host, carrying(5, begun=True)), lambda: host.observe(post(5, begun=True))):
        with pytest.raises(Gone) as gone:
            await lost()
        assert gone.value.details == {"reason": "lost"}
    assert anyio.current_time() == 0.0
    with pytest.raises(Gone):
        await ask(host, carrying(5))
    assert anyio.current_time() == pytest.approx(10.0)


# The host itself.


async def test_infer_is_handed_the_reserved_arguments_it_asks_for() -> None:
    def infer(obs: Any, *, prefix: Any, delay: Any, spacing: Any, seed: Any = None) -> Any:
        got.append((None if prefix is None else prefix.tolist(), delay, spacing, seed))

    got: list[Any] = []
    host = Host(infer, offload=inline())
    await host.start()
    assert host.info().takes == ["delay", "prefix", "seed", "spacing"]
    await ask(host, carrying(0))
    plan = AskPlan(prefix=[[1, 2], [3, 4]], d=2, s=5)
    await ask(host, ActRequest(inputs={}, seq=1, episode_id="e", seed=7, plan=plan))
    assert got == [(None, None, None, None), ([[1.0, 2.0], [3.0, 4.0]], 2, 5, 7)]


@pytest.mark.parametrize("prefix", ["text", [1.0], [[float("nan")]], [[1, 2], [3]]])
async def test_a_prefix_that_is_no_finite_table_is_refused(prefix: Any) -> None:
    host, _ = await hosted()
    with pytest.raises(InvalidRequest, match=r"plan\.prefix"):
        await ask(host, carrying(0, prefix=prefix))


async def test_what_the_policy_does_not_declare_cannot_be_set() -> None:
    host, _ = await hosted()
    with pytest.raises(InvalidRequest, match="'speed'"):
        await ask(host, ActRequest(inputs={}, params={"speed": 2}))
    with pytest.raises(InvalidRequest, match="declares none"):
        await ask(host, ActRequest(inputs={}, embodiment="droid"))


async def test_until_the_policy_is_loaded_it_is_warming_and_says_its_stage() -> None:
    class Loads(Echo):
        def load(self) -> None:
            stages.append(host.stage)

        def warmup(self) -> None:
            stages.append(host.stage)

    stages: list[str] = []
    host = Host(Loads(), offload=inline(2.0))
    assert host.info().protocol == 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.start)
        await anyio.sleep(1.0)
        with pytest.raises(Unavailable) as warming:
            await ask(host, carrying(0))
        assert warming.value.warming
        assert warming.value.retry_after_s is not None
        assert warming.value.details == {"stage": "load_start"}
    assert stages == ["load_start", "load_done"]
    assert host.stage == "ready"
    await ask(host, carrying(0))


async def test_a_load_that_fails_is_raised_and_remembered() -> None:
    class Fails(Echo):
        def load(self) -> None:
            raise OSError("no weights")

    host = Host(Fails(), offload=inline())
    with pytest.raises(OSError, match="no weights"):
        await host.start()
    assert (host.stage, host.failure) == ("error", "OSError: no weights")
    with pytest.raises(RemoteError, match="no weights"):
        await ask(host, carrying(0))


async def test_a_draining_host_finishes_live_episodes_and_begins_none() -> None:
    host, _ = await hosted()
    await host.observe(post(0))
    host.drain()
    with pytest.raises(Unavailable) as draining:
        await host.observe(post(0, episode="new"))
    assert draining.value.details == {"reason": "draining"}

    async def last_act() -> None:
        await anyio.sleep(5.0)
        await ask(host, dataless(1))
        await host.end("e")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(last_act)
        await host.quiet()
        assert anyio.current_time() == pytest.approx(5.0 + INFER_S)


async def test_a_draining_host_does_not_wait_for_robots_that_left() -> None:
    host, _ = await hosted(timeouts=Timeouts(episode_idle=20))
    await host.observe(post(0))
    host.drain()
    await host.quiet()
    assert anyio.current_time() == pytest.approx(21.0, abs=0.1)
