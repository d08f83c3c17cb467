"""What cannot go well is refused before anything moves, with the line to write instead."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest

import seqrt
from seqrt.errors import AlreadyDriven, DeclarationError, ObservationError
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm

pytestmark = pytest.mark.anyio

INFER_S = 0.0703


def yes(_: object) -> bool:
    return True


class Untouched(FakeArm):
    """An arm nothing may be asked of."""

    def observe(self) -> Any:
        raise AssertionError("looked at")

    def act(self, row: Any) -> None:
        raise AssertionError("moved")

    def hold(self) -> None:
        raise AssertionError("held")


class Legless:
    """A robot that cannot hold."""

    def observe(self) -> None: ...

    def act(self, row: object) -> None: ...


arm = Untouched(3)

REFUSED_BY_RUN: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no end": ({"robot": arm}, ValueError, "max_actions=, max_seconds= or until="),
    "no robot": ({"max_actions": 5}, ValueError, "observe= and act="),
    "both": ({"robot": arm, "observe": arm.observe, "max_actions": 5}, ValueError, "not both"),
    "both, act": ({"robot": arm, "act": arm.act, "max_actions": 5}, ValueError, "not both"),
    "both, hold": ({"robot": arm, "hold": arm.hold, "max_actions": 5}, ValueError, "not both"),
    "no hold": ({"robot": Legless(), "max_actions": 5}, ValueError, "Legless has no hold"),
    "not callable": ({"observe": arm.observe, "act": 5, "max_actions": 5}, TypeError, "act= must be callable, not int"),
    "on_chunk": ({"robot": arm, "on_chunk": "x", "max_actions": 5}, TypeError, "on_chunk= must be callable"),
    "until": ({"robot": arm, "until": True}, TypeError, "until= must be callable"),
    "validate": ({"robot": arm, "validate": True, "max_actions": 5}, TypeError, "validate= must be callable"),
    "0 actions": ({"robot": arm, "max_actions": 0}, ValueError, "max_actions must be a whole number above 0"),
    "-1 actions": ({"robot": arm, "max_actions": -1}, ValueError, "max_actions"),
    "2.5 actions": ({"robot": arm, "max_actions": 2.5}, ValueError, "max_actions"),
    "True actions": ({"robot": arm, "max_actions": True}, ValueError, "max_actions"),
    "0 seconds": ({"robot": arm, "max_seconds": 0.0}, ValueError, "max_seconds"),
    "NaN seconds": ({"robot": arm, "max_seconds": float("nan")}, ValueError, "max_seconds"),
    "endless seconds": ({"robot": arm, "max_seconds": float("inf")}, ValueError, "max_seconds"),
    "continuity": (
        {"robot": arm, "max_actions": 5, "play": seqrt.Play(continuity="server")}, ValueError, "takes prefix="
    ),
    "play": ({"robot": arm, "max_actions": 5, "play": {"substeps": 2}}, TypeError, r"play= takes seqrt\.Play"),
    "limits": ({"robot": arm, "max_actions": 5, "limits": seqrt.Play()}, TypeError, r"limits= takes seqrt\.Limits"),
    "ages": (
        {"robot": arm, "max_actions": 5, "play": seqrt.Play(fresh_s=1.0), "limits": seqrt.Limits(max_age_s=0.5)},
        ValueError, "aim lower"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_BY_RUN)
async def test_run_refuses_what_means_nothing_and_touches_no_robot(case: str) -> None:
    wanted, error, match = REFUSED_BY_RUN[case]
    wanted = {"validate": yes, "hold": None if "robot" in wanted else arm.hold, **wanted}
    policy = Scripted(rows=12, infer_s=INFER_S)
    async with connected(policy) as served:
        with pytest.raises(error, match=match):
            await served.policy.run(**wanted)
        assert policy.calls == []
        assert served.policy.last_outcome is None
        outcome = await served.policy.run(FakeArm(3), validate=yes, max_actions=2)
        assert outcome.actions == 2, "the handle is as it was"


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: seqrt.Limits(max_stall_s=0.0), "max_stall_s"),
        (lambda: seqrt.Limits(max_stall_s=float("nan")), "max_stall_s"),
        (lambda: seqrt.Limits(startup_timeout_s=-1.0), "startup_timeout_s"),
        (lambda: seqrt.Limits(startup_timeout_s=float("inf")), "startup_timeout_s"),
        (lambda: seqrt.Limits(act_errors=-1), "act_errors"),
        (lambda: seqrt.Limits(observe_errors=-1), "observe_errors"),
        (lambda: seqrt.Play(continuity="yes"), "continuity"),  # type: ignore[arg-type]
        (lambda: seqrt.Play(fresh_s=0.0), "fresh_s"),
        (lambda: seqrt.Play(fresh_s=float("inf")), "fresh_s"),
    ],
)
async def test_options_are_refused_where_they_are_written(made: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        made()


# The first observation


DECLARED = seqrt.Observations(
    streams={
        "observation.state": seqrt.Stream(shape=[3], dtype="float32"),
        "wrist_cam": seqrt.Stream(shape=[4, 4, 3], dtype="uint8"),
    }
)
GOOD: dict[str, Any] = {"observation.state": np.zeros(3), "wrist_cam": np.zeros((4, 4, 3), np.uint8)}


@pytest.mark.parametrize(
    ("observation", "match"),
    [
        (None, "gave None"),
        ({"observation.state": GOOD["observation.state"]}, "'wrist_cam'"),
        ({**GOOD, "wrist_cam": np.zeros((3, 4, 4), np.uint8)}, r"\[3, 4, 4\].*\[4, 4, 3\]"),
        ({**GOOD, "observation.state": np.zeros((1, 3))}, r"\[1, 3\].*\[3\]"),
        ({**GOOD, "wrist_cam": np.zeros((4, 4, 3), np.float32)}, "float32.*uint8"),
        ([1.0, 2.0], "not a mapping"),
        ("state", "not a mapping"),
    ],
)
async def test_an_observation_that_is_not_what_was_declared_moves_nothing(observation: Any, match: str) -> None:
    real = FakeArm(3)
    policy = Scripted(rows=12, infer_s=INFER_S, observations=DECLARED)
    async with connected(policy) as served:
        with pytest.raises(ObservationError, match=match):
            await served.policy.run(
                observe=lambda: observation, act=real.act, hold=real.hold, validate=yes, max_actions=5
            )
    assert (real.acts, real.holds, policy.calls) == ([], [], [])


@pytest.mark.parametrize(
    ("key", "near"), [("wrist_camera", "wrist_cam"), ("wrist", "wrist_cam"), ("state", "observation.state")]
)
async def test_a_missing_key_names_the_one_that_was_probably_meant(key: str, near: str) -> None:
    """Camera names differ (lerobot 2622): both are in the message."""
    observation = {name: value for name, value in GOOD.items() if name != near} | {key: GOOD[near]}
    async with connected(Scripted(observations=DECLARED)) as served:
        with pytest.raises(ObservationError, match=f"'{near}'.*did you mean '{key}'") as caught:
            await served.policy.run(
                observe=lambda: observation, act=arm.act, hold=arm.hold, validate=yes, max_actions=5
            )
    assert caught.value.key == near


async def test_a_float64_state_is_cast_and_what_is_not_declared_is_not_sent() -> None:
    real = FakeArm(3)
    policy = Scripted(rows=12, infer_s=INFER_S, observations=DECLARED)
    async with connected(policy) as served:
        await served.policy.run(
            observe=lambda: {**GOOD, "secret": "x"}, act=real.act, hold=real.hold, validate=yes, max_actions=2
        )
    assert policy.calls[0].observation.keys() == GOOD.keys()
    assert policy.calls[0].observation["observation.state"].dtype == np.float32


async def test_an_observe_that_raises_at_once_comes_out_as_itself_without_a_hold() -> None:
    real = FakeArm(3)
    error = OSError("no camera at /dev/video0")

    def observe() -> Any:
        raise error

    async with connected(Scripted(rows=12)) as served:
        with pytest.raises(OSError, match="no camera") as caught:
            await served.policy.run(observe=observe, act=real.act, hold=real.hold, validate=yes, max_actions=5)
    assert caught.value is error
    assert real.holds == [], "nothing had begun"


async def test_until_may_be_true_of_the_first_observation_and_then_nothing_moves() -> None:
    real = FakeArm(3)
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served:
        outcome = await served.policy.run(real, validate=yes, until=yes)
    assert (outcome.reason, outcome.actions, real.acts, real.holds) == ("completed", 0, [], [])


# Rate


async def test_a_rate_is_needed_from_one_side_or_the_other() -> None:
    undeclared = Scripted(rows=12, by="state", declared=False, infer_s=INFER_S)
    async with connected(undeclared) as served:
        with pytest.raises(ValueError, match=r"connect\(\.\.\., control_hz="):
            await served.policy.run(arm, validate=yes, max_actions=5)
    async with connected(Scripted(rows=12, infer_s=INFER_S, hz=None), control_hz=10) as served:
        real = FakeArm(3)
        await served.policy.run(real, validate=yes, max_actions=5)
        assert np.diff([acted.at_s for acted in real.acts]) == pytest.approx([0.1] * 4)


async def test_two_rates_that_differ_are_refused_and_the_same_one_twice_is_fine() -> None:
    async with connected(Scripted(rows=12, hz=20), control_hz=30) as served:
        with pytest.raises(ValueError, match=r"20 Hz and control_hz=30"):
            await served.policy.run(arm, validate=yes, max_actions=5)
    async with connected(Scripted(rows=12, hz=20, infer_s=INFER_S), control_hz=20) as served:
        outcome = await served.policy.run(FakeArm(3), validate=yes, max_actions=5)
        assert outcome.actions == 5


# Connecting


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "base_url= .* or policy="),
        ({"policy": Scripted(), "base_url": "http://gpu:8080"}, "not both"),
        ({"base_url": "gpu:8080"}, "must look like"),
        ({"base_url": "ftp://gpu"}, "must look like"),
        ({"base_url": "http://gpu:99999"}, "not a URL"),
        ({"base_url": "http://gpu:0"}, "must end with the port"),
        ({"base_url": "http://gpu/?x=1"}, "must end with the port"),
        ({"base_url": "http://gpu", "api_key": "secret"}, "unencrypted to gpu"),
        ({"base_url": "http://127.0.0.1", "api_key": " "}, "api_key is empty"),
        *[
            ({"base_url": "http://127.0.0.1", "timeout_s": bad}, "timeout_s")
            for bad in (0, -1, float("inf"), float("nan"))
        ],
        *[({"policy": Scripted(), "control_hz": bad}, "control_hz") for bad in (0, -1, 1001, float("nan"))],
    ],
)
async def test_connect_refuses_what_means_nothing(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        async with seqrt.connect(**given):
            raise AssertionError("connected")


async def test_an_object_that_is_no_policy_is_refused() -> None:
    with pytest.raises(DeclarationError, match="infer"):
        async with seqrt.connect(policy=object()):
            raise AssertionError("connected")


# One driver a handle


async def test_a_second_task_is_refused_and_the_first_goes_on() -> None:
    real = FakeArm(3)
    refused: list[str] = []
    async with connected(Scripted(rows=12, infer_s=INFER_S)) as served, anyio.create_task_group() as tasks:

        async def second() -> None:
            await anyio.sleep(0.7123)
            policy = served.policy
            for call in (
                lambda: policy.run(arm, validate=yes, max_actions=5),
                lambda: policy.predict({"state": np.zeros(3)}),
                lambda: policy.next_action({"state": np.zeros(3)}),
                lambda: policy.observe({"state": np.zeros(3)}),
                policy.next_chunk,
            ):
                with pytest.raises(AlreadyDriven, match=r"connect\(\) once per control loop") as caught:
                    await call()
                refused.append(type(caught.value).__name__)

        tasks.start_soon(second)
        outcome = await served.policy.run(real, validate=yes, max_actions=40)
        assert (outcome.reason, outcome.actions, outcome.underruns) == ("completed", 40, 0)
        assert len(refused) == 5
        outcome = await served.policy.run(FakeArm(3), validate=yes, max_actions=2)
        assert outcome.actions == 2


async def test_rows_left_by_one_run_are_not_played_by_the_next() -> None:
    policy = Scripted(rows=30, infer_s=INFER_S, tagged=True)
    async with connected(policy) as served, served.policy.episode():
        await served.policy.run(FakeArm(3), validate=yes, max_actions=3)
        calls = len(policy.calls)
        real = FakeArm(3)
        await served.policy.run(real, validate=yes, max_actions=10)
        assert min(row[1] for row in real.rows) >= policy.calls[calls].t
        assert real.rows[0][2] == 0


async def test_keys_nobody_reads_and_an_inference_longer_than_its_chunk_are_said_before_motion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Slow:
        def infer(self, obs: Any) -> Any:
            return np.zeros((4, 2))

        def sample(self) -> list[Any]:
            return [{"state": np.zeros(2, np.float32)}] * 3

    declared = seqrt.policy(
        observations=seqrt.Observations(streams={"state": seqrt.Stream(shape=[2])}),
        actions=seqrt.Actions(hz=20, space="absolute", open_loop_horizon=4),
    )(Slow)
    arm = FakeArm(2)
    async with connected(declared(), offload=inline(0.3003)) as there:
        assert there.policy.info.infer_s == pytest.approx(0.3003, rel=0.1)
        await there.policy.run(
            observe=lambda: {**arm.observe(), "wrist_camera": 0}, act=arm.act, hold=arm.hold, max_actions=2
        )
    said = [record.message for record in caplog.records]
    assert any("not sent: wrist_camera" in message for message in said)
    assert any("an inference takes 0.30 s and its chunk covers 0.20 s (4 rows)" in message for message in said)
