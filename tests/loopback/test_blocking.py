"""`seqrt.blocking`: real threads around a policy in this process; nothing here goes by how long anything takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import anyio.from_thread
import numpy as np
import pytest

import seqrt.blocking as seqrt
from seqrt.action.declaration import Actions
from seqrt.blocking.lane import Lane
from seqrt.blocking.session import Session
from seqrt.errors import ActionError, LinkLost
from seqrt.policies import policy as declared
from seqrt.policies.robot_arm import ActionContract, ObservationContract
from seqrt.testing import FakeArm, Scripted
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import fold
from seqrt.worker.server import serving

HZ = 100.0


def yes(_: Any) -> bool:
    return True


def a_policy(rows: int = 10, hz: float = HZ, **script: Any) -> Scripted:
    return Scripted(rows=rows, hz=hz, **script)


class Arm(FakeArm):
    """An arm that remembers in which thread it was called, and in which order."""

    def __init__(self, *, at_third: Callable[[], object] = lambda: None, names: tuple[str, ...] | None = None) -> None:
        super().__init__(3, clock=time.monotonic, names=names)
        self.log: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.third, self.at_third = threading.Event(), at_third

    def note(self, word: str) -> None:
        self.log.append(word)
        self.threads.add(threading.current_thread())

    def observe(self) -> Any:
        self.note("observe")
        return super().observe()

    def act(self, row: Any) -> None:
        super().act(row)
        self.note("act")
        if len(self.acts) == 3:
            self.third.set()
            self.at_third()

    def hold(self) -> None:
        self.note("hold")
        super().hold()

    @property
    def held_last(self) -> bool:
        return self.log.count("hold") == 1 and "act" not in self.log[self.log.index("hold") :]


class Gated(Scripted):
    """Each of its answers but the first waits until something happens to the arm, however fast the machine is."""

    def __init__(self, *, patience_s: float = 60, **script: Any) -> None:
        super().__init__(hz=HZ, **script)
        self.go_on, self._patience_s = threading.Event(), patience_s

    def infer(self, obs: Any) -> Any:
        if self.calls:
            self.go_on.wait(self._patience_s)
        return super().infer(obs)


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Of Ctrl-C, also where the suite runs in the background of a shell, which has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def policy() -> Iterator[seqrt.Policy]:
    with seqrt.connect(policy=a_policy()) as handle:
        yield handle


def rows_of(arm: FakeArm) -> list[float]:
    return [float(acted.row[0]) for acted in arm.acts]


# Whose thread.


def test_every_function_is_called_in_the_callers_own_thread(policy: seqrt.Policy) -> None:
    arm, told = Arm(), list[seqrt.Prediction]()

    def on_chunk(prediction: seqrt.Prediction) -> None:
        arm.note("chunk")
        told.append(prediction)

    def validate(row: Any) -> bool:
        arm.note("validate")
        return True

    def until(observation: Any) -> bool:
        arm.note("until")
        return False

    outcome = policy.run(
        arm.observe, arm.act, max_actions=25, validate=validate, hold=arm.hold, on_chunk=on_chunk, until=until
    )
    assert (outcome.actions, outcome.reason) == (25, "completed")
    assert arm.threads == {threading.current_thread()}
    assert {"observe", "act", "validate", "chunk", "until"} <= set(arm.log)
    assert "hold" not in arm.log
    assert rows_of(arm) == sorted(rows_of(arm))
    assert len(told) == outcome.chunks
    assert told[0].action_chunk.control_frequency_hz == HZ
    assert str(outcome).startswith("RunOutcome(25 actions over ")


def test_on_underrun_is_handed_the_seconds_starved_if_it_asks_for_them() -> None:
    arm, starved, gated = Arm(), list[float](), Gated(rows=4)

    def on_underrun(seconds: float) -> None:
        arm.note("starved")
        starved.append(seconds)
        gated.go_on.set()

    with seqrt.connect(policy=gated) as policy:
        policy.run(
            arm.observe, arm.act, max_actions=8, validate=yes, hold=arm.hold, on_underrun=on_underrun, prefetch=False
        )
    assert min(starved) >= 0
    assert arm.threads == {threading.current_thread()}


def test_a_robot_object_is_driven_by_its_names() -> None:
    named = Actions(key="actions", hz=HZ, space="absolute", names=("left", "right", "top"))
    arm = Arm(names=("right", "left", "top"))
    with seqrt.connect(policy=Scripted(dims=3, actions=named, tagged=True)) as policy:
        policy.run(arm, max_actions=2, validate=yes)
    # In the policy's order: the step it is due at, its observation, its place in the chunk. Which row is the first one
    # played is a matter of the machine's speed.
    observation, due, place = arm.acts[0].row.tolist()
    assert due == observation + 1 + place


def test_a_robot_arm_policy_is_shown_their_observations_and_predicts_as_theirs_did() -> None:
    seen: list[Any] = []

    @declared(
        action_contract=ActionContract(
            robot="franka", action_space="joint_absolute", action_dim=2, control_frequency_hz=HZ
        ),
        observation_contract=ObservationContract(proprio={"joint_positions": 2, "gripper": 1}, instruction=True),
    )
    class Franka:
        def infer(self, obs: Any) -> Any:
            seen.append(obs)
            return np.zeros((4, 2))

    def observe() -> seqrt.Observation:
        return seqrt.Observation([], seqrt.Proprioception([0.0, 0.0], gripper=0.5), "push")

    acted, told = list[Any](), list[seqrt.Prediction]()
    with seqrt.connect("pi05-droid", policy=Franka()) as policy:
        policy.run(observe, acted.append, max_actions=3, validate=yes, hold=acted.clear, on_chunk=told.append)
    assert len(acted) == 3
    assert seen[0]["proprioception"] == {"joint_positions": [0.0, 0.0], "gripper": [0.5]}
    chunk = told[0].action_chunk
    assert (told[0].model, chunk.robot, chunk.action_space) == ("pi05-droid", "franka", "joint_absolute")


def test_a_dry_run_looks_at_rows_and_sends_none(policy: seqrt.Policy) -> None:
    arm, seen = Arm(), list[float]()
    outcome = policy.run(arm.observe, None, max_actions=3, validate=lambda row: seen.append(row[0]) or True)
    assert (outcome.actions, len(seen), arm.acts) == (3, 3, [])


# What raises.


@pytest.mark.parametrize("name", ["observe", "act", "validate", "on_chunk", "until"])
@pytest.mark.parametrize("kind", [ValueError, StopIteration, SystemExit])
def test_whatever_a_function_raises_comes_out_as_itself_from_where_it_was_raised(
    name: str, kind: type[BaseException], policy: seqrt.Policy
) -> None:
    arm, error = Arm(), kind("the driver's own")
    calls = 0

    def raises(*_: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1 or name == "on_chunk":
            raise error
        return arm.observe() if name == "observe" else name == "validate"

    functions: dict[str, Any] = {"observe": arm.observe, "act": arm.act, "validate": yes, name: raises}
    observe, act = functions.pop("observe"), functions.pop("act")
    with pytest.raises(kind, match="the driver's own") as caught:
        policy.run(observe, act, max_actions=50, hold=arm.hold, **functions)
    assert caught.value is error
    assert caught.traceback[-1].name == "raises"
    assert len(traceback.extract_tb(error.__traceback__)) < 12, "none of the other thread's"
    assert caught.value.outcome.reason == f"raised:{kind.__name__}"  # type: ignore[attr-defined]
    assert arm.held_last


def test_a_tolerated_error_of_act_costs_its_row_and_one_of_validate_is_never_tolerated(policy: seqrt.Policy) -> None:
    arm = Arm()
    errors = [ValueError("lost"), ValueError("lost")]

    def act(row: Any) -> None:
        arm.act(row)
        if len(arm.acts) in (2, 5):
            raise errors.pop()

    limits = seqrt.Limits(act_errors=1)
    outcome = policy.run(arm.observe, act, max_actions=8, validate=yes, hold=arm.hold, limits=limits)
    assert (outcome.callback_errors, outcome.reason) == (2, "completed")

    def validate(row: Any) -> bool:
        raise KeyError("limits")

    with pytest.raises(KeyError):
        policy.run(arm.observe, act, max_actions=8, validate=validate, hold=arm.hold, limits=limits)


def test_a_row_that_validate_refuses_is_not_sent_and_the_arm_holds(policy: seqrt.Policy) -> None:
    arm = Arm()
    outcome = policy.run(arm.observe, arm.act, max_actions=9, validate=lambda _: len(arm.acts) < 4, hold=arm.hold)
    assert (outcome.reason, outcome.actions, len(arm.acts)) == ("validate", 4, 4)
    assert outcome.stopped_early
    assert arm.held_last


def test_a_hold_that_raises_hides_no_error_and_is_told_with_it(policy: seqrt.Policy) -> None:
    arm = Arm()

    def act(row: Any) -> None:
        raise ValueError("first")

    def hold() -> None:
        raise OSError("second")

    with pytest.raises(ValueError, match="first") as caught:
        policy.run(arm.observe, act, max_actions=3, validate=yes, hold=hold)
    assert "second" in str(caught.value.hold_error)  # type: ignore[attr-defined]


def test_no_validate_warns_where_run_is_called(policy: seqrt.Policy) -> None:
    arm = Arm()
    with pytest.warns(UserWarning, match="not a safe robot command") as warned:
        policy.run(arm.observe, arm.act, max_actions=1, hold=arm.hold)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("max_actions", [0, -1, 1.5, True, float("inf"), "3"])
def test_a_run_without_an_end_is_refused_before_anything_is_sent(max_actions: Any) -> None:
    arm = Arm()
    nowhere = seqrt.connect("pi05-droid", base_url="http://127.0.0.1:1", api_key="seq")
    with pytest.raises(ValueError, match="max_actions"):
        nowhere.run(arm.observe, arm.act, max_actions=max_actions, validate=yes, hold=arm.hold)
    with pytest.raises(TypeError, match="max_actions"):
        nowhere.run(arm.observe, arm.act)  # type: ignore[call-arg]
    assert arm.log == []


# Ctrl-C.


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_inside_act_lets_it_come_to_its_end_then_holds(policy: seqrt.Policy) -> None:
    ended: list[bool] = []

    def press() -> None:
        ctrl_c()
        ended.append(True)

    arm = Arm(at_third=press)
    with pytest.raises(KeyboardInterrupt) as caught:
        policy.run(arm.observe, arm.act, max_actions=5000, validate=yes, hold=arm.hold)
    assert ended
    assert len(arm.acts) == 3
    assert arm.held_last
    assert caught.value.outcome.reason == "raised:KeyboardInterrupt"  # type: ignore[attr-defined]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_nothing_is_called_holds() -> None:
    arm, main = Arm(), threading.get_ident()
    with seqrt.connect(policy=a_policy(rows=4, hz=1.0)) as policy:

        def press(event: ev.Event) -> None:
            if isinstance(event, ev.Spliced):  # told in the loop's thread, the first tick is 1 s off
                signal.pthread_kill(main, signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            policy.run(arm.observe, arm.act, max_actions=4, validate=yes, hold=arm.hold, record=press)
    assert arm.held_last


def test_a_second_ctrl_c_does_not_cut_the_hold(policy: seqrt.Policy) -> None:
    arm, held = Arm(at_third=ctrl_c), list[bool]()

    def hold() -> None:
        arm.hold()
        ctrl_c()
        ctrl_c()
        held.append(True)

    with pytest.raises(KeyboardInterrupt):
        policy.run(arm.observe, arm.act, max_actions=5000, validate=yes, hold=hold)
    assert held == [True]
    assert arm.held_last


def test_a_function_that_hangs_is_cut_short_by_ctrl_c_and_the_arm_holds(policy: seqrt.Policy) -> None:
    """A read from a line that is dead: only a signal ends it."""
    arm, never = Arm(), threading.Event()

    def observe() -> Any:
        if len(arm.acts) >= 3:
            ctrl_c()
            never.wait(60)
        return arm.observe()

    with pytest.raises(KeyboardInterrupt) as caught:
        policy.run(observe, arm.act, max_actions=5000, validate=yes, hold=arm.hold)
    assert caught.traceback[-1].name != "observe" or caught.value.outcome  # type: ignore[attr-defined]
    assert arm.log[-1] == "hold"


def test_ctrl_c_before_the_first_observation_is_there_moves_nothing(policy: seqrt.Policy) -> None:
    arm, never = Arm(), threading.Event()

    def observe() -> Any:
        ctrl_c()
        never.wait(60)

    with pytest.raises(KeyboardInterrupt):
        policy.run(observe, arm.act, max_actions=5, validate=yes, hold=arm.hold)
    assert arm.log == []
    assert policy.run(arm.observe, arm.act, max_actions=2, validate=yes, hold=arm.hold).actions == 2


def test_ctrl_c_ends_a_predict_that_waits() -> None:
    class Slow:
        def __init__(self) -> None:
            self.asked, self.go_on = threading.Event(), threading.Event()

        def infer(self, obs: Any) -> Any:
            signal.pthread_kill(main, signal.SIGINT)
            self.go_on.wait(60)
            return np.zeros((2, 2))

    main, slow = threading.get_ident(), Slow()
    with seqrt.connect(policy=slow, control_hz=10) as policy:
        released = threading.Timer(0.2, slow.go_on.set)  # what runs in the policy's thread runs to its end
        released.start()
        with pytest.raises(KeyboardInterrupt):
            policy.predict({"state": np.zeros(2)})
        released.join()


def test_a_programs_own_handler_of_sigint_is_left_alone(policy: seqrt.Policy) -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        arm = Arm(at_third=ctrl_c)
        assert policy.run(arm.observe, arm.act, max_actions=5, validate=yes, hold=arm.hold).actions == 5
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [signal.SIGINT]


# One driver.


def test_a_second_thread_is_refused_and_the_same_one_may_call_again(policy: seqrt.Policy) -> None:
    arm, refused = Arm(), list[Exception]()

    def drive_too() -> None:
        try:
            policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=arm.hold)
        except seqrt.AlreadyDriven as error:
            refused.append(error)

    def at_third() -> None:
        other = threading.Thread(target=drive_too)
        other.start()
        other.join()

    arm.at_third = at_third
    assert policy.run(arm.observe, arm.act, max_actions=6, validate=yes, hold=arm.hold).actions == 6
    assert "this Policy is already being driven by another thread" in str(refused[0])
    assert "one Policy per control loop" in str(refused[0])
    assert policy.run(arm.observe, arm.act, max_actions=2, validate=yes, hold=arm.hold).actions == 2
    assert policy.next_action(arm.observe()).shape == (3,)


@pytest.mark.parametrize("name", ["run", "predict", "close"])
def test_a_call_from_inside_a_callback_is_refused_and_says_why(name: str, policy: seqrt.Policy) -> None:
    arm = Arm()
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: policy.run(arm.observe, arm.act, max_actions=1, validate=yes, hold=arm.hold),
        "predict": lambda: policy.predict(arm.observe()),
        "close": policy.close,
    }
    arm.at_third = calls[name]
    with pytest.raises(seqrt.AlreadyDriven, match="inside a callback"):
        policy.run(arm.observe, arm.act, max_actions=6, validate=yes, hold=arm.hold)
    assert arm.held_last


def test_two_handles_are_driven_from_two_threads(policy: seqrt.Policy) -> None:
    left, right = Arm(), Arm()

    def drive() -> None:
        with seqrt.connect(policy=a_policy()) as other:
            other.run(left.observe, left.act, max_actions=8, validate=yes, hold=left.hold)

    thread = threading.Thread(target=drive)
    thread.start()
    policy.run(right.observe, right.act, max_actions=8, validate=yes, hold=right.hold)
    thread.join()
    assert (len(left.acts), len(right.acts)) == (8, 8)
    assert left.threads == {thread}


def test_the_run_is_paused_resumed_and_interrupted_from_other_threads(policy: seqrt.Policy) -> None:
    arm, held = Arm(), threading.Event()

    def press() -> None:
        arm.third.wait(60)
        policy.pause()
        held.wait(60)
        assert policy.statistics().state == "paused"
        policy.resume()

    def hold() -> None:
        arm.hold()
        held.set()

    button = threading.Thread(target=press)
    button.start()

    def until(_: Any) -> bool:
        if len(arm.acts) >= 12:
            policy.interrupt()
        return False

    outcome = policy.run(arm.observe, arm.act, max_actions=5000, validate=yes, hold=hold, until=until)
    button.join()
    assert outcome.reason == "interrupted"
    assert arm.log.count("hold") == 2


def test_interrupt_from_inside_validate_lets_no_further_row_out(policy: seqrt.Policy) -> None:
    arm = Arm()

    def validate(_: Any) -> bool:
        if len(arm.acts) == 2:
            policy.interrupt()
        return True

    outcome = policy.run(arm.observe, arm.act, max_actions=50, validate=validate, hold=arm.hold)
    assert (outcome.reason, outcome.actions, len(arm.acts)) == ("interrupted", 2, 2)


def test_statistics_are_told_inside_a_callback_and_outside_a_run(policy: seqrt.Policy) -> None:
    arm, states = Arm(), list[str]()
    assert policy.statistics().state == "idle"
    arm.at_third = lambda: states.append(policy.statistics().state)
    policy.run(arm.observe, arm.act, max_actions=4, validate=yes, hold=arm.hold)
    assert states == ["playing"]
    assert policy.statistics().outcome == policy.last_outcome
    assert policy.info.model == "scripted"


# Call by call.


def test_next_action_hands_out_row_by_row_and_says_when_none_is_left() -> None:
    arm, scripted = Arm(), a_policy(rows=3)
    with seqrt.connect(policy=scripted) as policy:
        with pytest.raises(seqrt.ChunkExhausted):
            policy.next_action()
        assert policy.buffered == 0
        assert [policy.next_action(arm.observe())[0] for _ in range(4)] == [1, 2, 3, 4]
        assert (len(scripted.calls), policy.buffered) == (2, 2)
        predicted = policy.predict(arm.observe())
        assert policy.buffered == len(predicted) == 3, "it replaces what was left"
        assert policy.next_action()[0] == predicted.rows[0][0]


def test_an_episode_goes_on_with_its_numbers_over_calls_and_runs(policy: seqrt.Policy) -> None:
    arm = Arm()
    with policy.episode() as name:
        assert len(name) == 32
        assert policy.observe(arm.observe()) == 0
        assert policy.observe(arm.observe()) == 1
        assert policy.next_chunk().chunk.observed == 1
        policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=arm.hold)
        assert policy.observe(arm.observe()) > 3
    assert policy.observe(arm.observe()) == 0


def test_a_runs_events_are_recorded_and_fold_to_its_outcome(policy: seqrt.Policy) -> None:
    arm, told = Arm(), list[ev.Event]()
    outcome = policy.run(arm.observe, arm.act, max_actions=5, validate=yes, hold=arm.hold, record=told.append)
    assert fold(told) == outcome


# What 0.1.0 promises, and its faults.


def test_twelve_actions_of_four_row_chunks_are_exactly_three_chunks_in_sequence() -> None:
    arm, scripted = Arm(), a_policy(rows=4)
    with seqrt.connect(policy=scripted) as policy:
        outcome = policy.run(
            arm.observe, arm.act, max_actions=12, validate=yes, hold=arm.hold, splice=seqrt.Sequential()
        )
    assert (outcome.actions, outcome.chunks, len(scripted.calls)) == (12, 3, 3)
    assert outcome.rows_dropped == 0


def test_without_prefetch_there_is_exactly_one_stall_between_two_chunks() -> None:
    arm, gated = Arm(), Gated(rows=4)

    def act(row: Any) -> None:
        gated.go_on.clear()
        arm.act(row)

    with seqrt.connect(policy=gated) as policy:
        outcome = policy.run(
            arm.observe, act, max_actions=16, validate=yes, hold=arm.hold, on_underrun=gated.go_on.set, prefetch=False,
            splice=seqrt.Sequential(),
        )  # fmt: skip
    assert (outcome.chunks, outcome.underruns, len(arm.acts)) == (4, 3, 16)


def test_rows_left_by_a_run_or_a_predict_are_not_played_by_the_next_run() -> None:
    arm, scripted = Arm(), Scripted(rows=50, hz=HZ, tagged=True)
    with seqrt.connect(policy=scripted) as policy:
        policy.predict(arm.observe())
        policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=arm.hold)
        before = len(arm.acts)
        policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=arm.hold)
    assert [acted.row[2] for acted in arm.acts[before : before + 1]] == [0.0], "row 0 of its own first chunk"
    assert arm.acts[0].row[2] == 0.0


def test_a_failed_prefetch_does_not_make_later_runs_fail() -> None:
    arm = Arm()
    with seqrt.connect(policy=a_policy(rows=4, raise_on={1, 2, 3, 4})) as policy:
        with pytest.raises(seqrt.PolicyError):
            policy.run(arm.observe, arm.act, max_actions=30, validate=yes, hold=arm.hold)
        while True:
            try:
                outcome = policy.run(arm.observe, arm.act, max_actions=6, validate=yes, hold=arm.hold)
            except seqrt.PolicyError:
                continue
            break
    assert outcome.actions == 6


def test_an_empty_chunk_is_an_error_that_says_so() -> None:
    arm = Arm()
    with (
        seqrt.connect(policy=lambda obs: np.zeros((0, 3)), control_hz=HZ) as policy,
        pytest.raises(ActionError),
    ):
        policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=arm.hold)
    assert arm.acts == []


def test_rows_are_due_at_multiples_of_the_period_whatever_act_takes(policy: seqrt.Policy) -> None:
    arm, told = Arm(), list[ev.Event]()
    policy.run(arm.observe, arm.act, max_actions=20, validate=yes, hold=arm.hold, record=told.append)
    ticks = [event for event in told if isinstance(event, ev.Ticked)]
    played = [tick.step for tick in ticks if tick.kind == "played"]
    assert len(played) == len(set(played)) == 20
    assert all(tick.at_s >= tick.step / HZ for tick in ticks), "none before its time, and none counted from the last"


def test_rows_that_passed_while_the_answer_came_are_not_played_late() -> None:
    arm, gated = Arm(), Gated(rows=20, tagged=True, patience_s=0.2)  # while the plan is dry nothing passes

    def act(row: Any) -> None:
        arm.act(row)
        gated.go_on.set()

    def observe() -> Any:
        gated.go_on.clear()
        return arm.observe()

    with seqrt.connect(policy=gated) as policy:
        outcome = policy.run(observe, act, max_actions=40, validate=yes, hold=arm.hold)
    assert outcome.rows_dropped > 0
    played = [(acted.row[1], acted.row[2]) for acted in arm.acts]
    assert played == sorted(set(played)), "of each chunk in order, none twice"


def test_a_stalled_fetch_is_interrupted() -> None:
    class Stalling:
        def __init__(self) -> None:
            self.asked, self.go_on = threading.Event(), threading.Event()

        def infer(self, obs: Any) -> Any:
            self.asked.set()
            self.go_on.wait(60)
            return np.zeros((2, 3))

    arm, stalling = Arm(), Stalling()
    with seqrt.connect(policy=stalling, control_hz=HZ) as policy:

        def press() -> None:
            stalling.asked.wait(60)
            policy.interrupt()

        def hold() -> None:
            arm.hold()
            stalling.go_on.set()

        button = threading.Thread(target=press)
        button.start()
        outcome = policy.run(arm.observe, arm.act, max_actions=3, validate=yes, hold=hold)
        button.join()
    assert (outcome.reason, arm.acts) == ("interrupted", [])
    assert arm.held_last


# Beginnings and ends.


def test_nothing_is_sent_and_no_thread_runs_until_the_handle_is_used() -> None:
    nowhere = seqrt.connect("pi05-droid", base_url="http://127.0.0.1:1", api_key="seq")
    assert nowhere._session._thread is None
    for _ in range(2):
        with pytest.raises(LinkLost, match=r"127\.0\.0\.1:1"):
            nowhere.predict({"state": [0.0]})
    nowhere.close()
    with pytest.raises(seqrt.SeqrtError, match="closed"):
        nowhere.predict({"state": [0.0]})
    assert not nowhere._session._thread.is_alive()


def test_closing_twice_or_an_unused_handle_is_nothing() -> None:
    seqrt.connect(policy=a_policy()).close()
    policy = seqrt.connect(policy=a_policy())
    policy.next_action({"state": np.zeros(3)})
    policy.close()
    policy.close()
    assert policy.statistics().state == "idle"
    with pytest.raises(seqrt.SeqrtError, match="closed"):
        policy.next_action({"state": np.zeros(3)})


def test_close_from_another_thread_ends_the_run_with_hold(policy: seqrt.Policy) -> None:
    arm = Arm()

    def press() -> None:
        arm.third.wait(60)
        policy.close()

    button = threading.Thread(target=press)
    button.start()
    outcome = policy.run(arm.observe, arm.act, max_actions=5000, validate=yes, hold=arm.hold)
    button.join()
    assert outcome.reason == "interrupted"
    assert arm.held_last


def test_no_thread_outlives_a_handle_nobody_has_any_more() -> None:
    policy = seqrt.connect(policy=a_policy())
    policy.next_action({"state": np.zeros(3)})
    thread = policy._session._thread
    assert thread is not None
    gone = weakref.ref(policy)
    del policy
    assert gone() is None
    thread.join(60)
    assert not thread.is_alive()


def ran(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("driver", ["main", "daemon"])
def test_a_program_that_never_closes_its_handle_ends_and_the_policy_is_shut_down(driver: str) -> None:
    done = ran(
        """
        import sys, threading, numpy as np, seqrt.blocking as seqrt

        class Policy:
            def infer(self, obs): return np.zeros((4, 3))
            def shutdown(self): print("shut down", flush=True)

        policy, acted = seqrt.connect(policy=Policy(), control_hz=50), threading.Event()

        def hold(): print("held", flush=True)

        def drive(actions):
            policy.run(lambda: {"state": np.zeros(3)}, lambda row: acted.set(), max_actions=actions,
                       validate=lambda row: True, hold=hold)

        if sys.argv[1] == "main":
            drive(2)
        else:
            threading.Thread(target=drive, args=(100000,), daemon=True).start()
            acted.wait()
        """,
        driver,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout == "held\nshut down\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_a_handle_that_was_used_says_so_and_one_that_was_not_works() -> None:
    done = ran(
        """
        import os, sys, numpy as np, seqrt.blocking as seqrt
        def policy(obs): return np.zeros((4, 3))
        used, fresh = seqrt.connect(policy=policy, control_hz=50), seqrt.connect(policy=policy, control_hz=50)
        look = {"state": np.zeros(3)}
        used.next_action(look)
        child = os.fork()
        if child == 0:
            try:
                used.next_action(look)
            except seqrt.SeqrtError as error:
                print("connect() in each process" in str(error), fresh.next_action(look).shape, flush=True)
            used.close()
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), used.next_action(look).shape)
        """
    )
    assert done.stdout == "True (3,)\n7 (3,)\n", done.stderr


async def nothing() -> None: ...


def test_what_is_asked_of_a_loop_that_ends_is_refused_and_never_waited_for() -> None:
    session = Session(lambda: pytest.fail("nobody connects"))  # type: ignore[arg-type, return-value]
    session.start()
    lane = Lane(lambda *_: None)
    session.stop()
    with pytest.raises(seqrt.SeqrtError, match="closed"):  # noqa: PT012  # by whichever: the loop may be gone already
        session.submit(nothing, lane)
        lane.serve()
        lane.outcome()
    session.close()
    with pytest.raises(seqrt.SeqrtError, match="closed"):
        session.submit(nothing, lane)
    with pytest.raises(seqrt.SeqrtError, match="closed"):
        session.start()


# Over the network.


@pytest.fixture(scope="module")
def worker_url() -> Iterator[str]:
    async def serve() -> Any:
        return serving(a_policy(rows=30), secret="seq_live")

    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(serve)) as server,
    ):
        yield server.url


def test_a_worker_drives_an_arm_over_one_connection(worker_url: str) -> None:
    arm = Arm()
    with seqrt.connect(base_url=worker_url, api_key="seq_live") as policy:
        for _ in range(2):
            outcome = policy.run(arm.observe, arm.act, max_actions=10, validate=yes, hold=arm.hold)
            assert (outcome.actions, outcome.reconnects) == (10, 0)
        assert policy.next_action(arm.observe()).shape == (3,)
        assert policy.statistics().link.protocol == "HTTP/2"


def test_a_wrong_key_is_said_at_the_first_use(worker_url: str) -> None:
    with (
        seqrt.connect(base_url=worker_url, api_key="seq_old") as policy,
        pytest.raises(seqrt.AuthError) as refused,
    ):
        policy.predict({"state": np.zeros(3)})
    assert refused.value.status == 401


def test_a_catalogue_that_is_not_there_is_not_found(worker_url: str) -> None:
    with pytest.raises(seqrt.NotFound):
        seqrt.models(base_url=worker_url)
    with pytest.raises(LinkLost):
        seqrt.models(base_url="http://127.0.0.1:1")
