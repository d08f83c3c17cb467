"""What is sent at a tick: rows whole, in substeps and stretched, over any splices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.chunk import Chunk
from seqrt.action.declaration import Actions, Parts
from seqrt.action.guard import Guard
from seqrt.action.plan import Plan
from seqrt.action.player import Command, Player, check_playable
from seqrt.action.splice import Sequential
from seqrt.errors import ActionError, DeclarationError
from seqrt.policies.robot_arm import ActionContract

ABSOLUTE, DELTA, VELOCITY = (Actions(space=space) for space in ("absolute", "delta", "velocity"))


def player(actions: Actions, rows: list[list[float]], **options: Any) -> tuple[Player, Plan]:
    plan = Plan()
    plan.splice(Chunk(np.array(rows), 0), observed_at=0)
    return Player(plan, actions, **options), plan


def sent(playing: Player, commands: int, **options: Any) -> list[list[float] | None]:
    each = (playing.next(**options) for _ in range(commands))
    return [None if command is None else command.row.tolist() for command in each]


def test_without_substeps_a_command_is_a_row() -> None:
    playing, plan = player(ABSOLUTE, [[1.0], [2.0]])
    command = playing.next()
    assert isinstance(command, Command)
    assert (command.row.tolist(), command.begins, command.due.index) == ([1.0], True, 0)
    assert (playing.finished, playing.played()) == (True, (1, 0.0))
    assert sent(playing, 2) == [[2.0], None]
    assert plan.position == 2


def test_an_absolute_row_is_reached_with_its_last_substep_and_the_first_of_all_is_sent_as_it_is() -> None:
    playing, plan = player(ABSOLUTE, [[1.0], [3.0], [0.1]], substeps=4)
    assert sent(playing, 4) == [[1.0]] * 4
    assert sent(playing, 4) == [[1.5], [2.0], [2.5], [3.0]]
    assert np.array(sent(playing, 4))[:, 0] == pytest.approx([2.275, 1.55, 0.825, 0.1])
    assert plan.last is not None
    assert plan.last.tolist() == [0.1], "to the last bit"


def test_a_velocity_is_held_and_a_delta_split_evenly() -> None:
    assert sent(player(VELOCITY, [[1.0], [3.0]], substeps=2)[0], 4) == [[1.0], [1.0], [3.0], [3.0]]
    assert sent(player(DELTA, [[1.0], [3.0]], substeps=2)[0], 4) == [[0.5], [0.5], [1.5], [1.5]]


def test_a_gripper_is_neither_interpolated_nor_split_and_a_quaternion_turns() -> None:
    grips = Actions(space="absolute", parts=Parts(gripper=(1,)))
    assert sent(player(grips, [[0.0, 0.0], [1.0, 1.0]], substeps=2)[0], 4)[2:] == [[0.5, 1.0], [1.0, 1.0]]
    split = Actions(space="delta", parts=Parts(gripper=(1,)))
    assert sent(player(split, [[1.0, 1.0]], substeps=4)[0], 1) == [[0.25, 1.0]]
    half = math.sqrt(0.5)
    turns = Actions(space="absolute", parts=Parts(quaternion=(0, 1, 2, 3)))
    playing, _ = player(turns, [[1.0, 0.0, 0.0, 0.0], [half, 0.0, 0.0, half]], substeps=2)
    assert np.linalg.norm(sent(playing, 3)[2]) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_a_row_is_counted_when_it_begins_and_an_observation_of_its_period_when_it_ends() -> None:
    playing, plan = player(ABSOLUTE, [[1.0]] * 9, substeps=4)
    begun = [command.begins for _ in range(8) if (command := playing.next()) is not None]
    assert begun == [True, False, False, False] * 2
    assert playing.next() is not None
    assert (plan.position, playing.finished) == (3, False)
    assert playing.played(3) == (3, 0.0)
    assert playing.played(1) == (3, 0.5), "two substeps were skipped: half a row is still to come"


def test_rows_that_cannot_be_moved_are_laid_at_the_nearest_whole_number() -> None:
    for skipped, whole in ((1, 1), (2, 1), (3, 0)):
        playing, _ = player(DELTA, [[1.0]] * 9, substeps=4)
        playing.next()
        assert playing.played(3 - skipped) == (whole, 0.0)
    appended = Player(Plan(Sequential()), ABSOLUTE, substeps=4, aligned=False)
    assert appended.realigned(np.array([[1.0], [2.0]]), appended.played(2)[1]).tolist() == [[1.0], [2.0]]


def test_a_chunk_takes_over_behind_the_row_in_hand_and_its_step_is_split_too() -> None:
    playing, plan = player(ABSOLUTE, [[0.0], [1.0], [2.0], [3.0]], substeps=2)
    sent(playing, 3)
    plan.splice(Chunk(np.array([[9.0], [5.0], [6.0]]), 1), observed_at=1)
    assert sent(playing, 5) == [[1.0], [3.0], [5.0], [5.5], [6.0]]


def test_from_an_underrun_command_the_way_begins_where_that_was() -> None:
    playing, plan = player(ABSOLUTE, [[0.0]], substeps=2)
    assert sent(playing, 3) == [[0.0], [0.0], None]
    plan.last = np.array([4.0])
    plan.splice(Chunk(np.array([[0.0], [8.0]]), 1), observed_at=0)
    assert sent(playing, 1, tick=False) == [None], "a row waits for its period once none was due"
    assert sent(playing, 2) == [[6.0], [8.0]]


def test_a_pause_forgets_the_row_on_its_way() -> None:
    playing, plan = player(ABSOLUTE, [[0.0], [4.0], [8.0]], substeps=4)
    sent(playing, 6)
    assert (playing.clear(), playing.finished, plan.last) == (1, True, None)
    plan.splice(Chunk(np.array([[7.0]]), 1), observed_at=plan.position)
    assert sent(playing, 2) == [[7.0], [7.0]], "from nobody knows where: the row itself"


def test_what_lies_between_rows_is_the_callers_own() -> None:
    for substeps in (1, 2):
        playing, plan = player(ABSOLUTE, [[1.0], [2.0]], substeps=substeps)
        for _ in range(2 * substeps):
            command = playing.next()
            assert command is not None
            command.row[:] = 99.0
        assert plan.last is not None
        assert plan.last.tolist() == [2.0]


def test_stretched_rows_are_passed_on_the_way_and_the_last_one_is_reached() -> None:
    playing, plan = player(ABSOLUTE, [[1.0], [2.0], [3.0]], rate=lambda: 0.6)
    assert np.array(sent(playing, 5))[:, 0] == pytest.approx([1.0, 1.2, 1.8, 2.4, 3.0])
    assert plan.position == 3
    assert sent(playing, 1) == [None]


def test_no_row_begins_behind_the_last_one_wanted() -> None:
    playing, plan = player(ABSOLUTE, [[1.0], [2.0], [3.0]], rate=lambda: 0.6)
    sent(playing, 3)
    assert sent(playing, 1, more=False) == [[2.0]]
    assert (playing.finished, plan.position) == (True, 2)


def test_back_at_the_full_rate_rows_are_played_whole_again() -> None:
    rate = 0.6
    playing, _ = player(ABSOLUTE, [[float(i)] for i in range(9)], rate=lambda: rate)
    sent(playing, 2)
    rate = 1.0
    assert sent(playing, 3) == [[1.0], [2.0], [3.0]]
    assert playing.played() == (4, 0.0)


def test_rows_that_may_not_be_mixed_are_never_stretched() -> None:
    playing, _ = player(VELOCITY, [[1.0], [2.0]], rate=lambda: 0.5)
    assert sent(playing, 2) == [[1.0], [2.0]]


OPERATION = st.one_of(
    st.integers(1, 7).map(lambda n: ("commands", n)),
    st.tuples(st.just("answer"), st.integers(1, 6), st.integers(0, 3), st.integers(-50, 50)),
    st.just(("skip",)),
)


@given(st.sampled_from([ABSOLUTE, DELTA, VELOCITY]), st.integers(1, 5), st.lists(OPERATION, max_size=60))
@settings(max_examples=60, deadline=None)
def test_each_position_is_played_once_and_whole_whatever_is_spliced_meanwhile(actions, k, operations):
    plan = Plan()
    playing = Player(plan, actions, substeps=k)
    commands: list[tuple[int, bool, Command]] = []
    before: list[np.ndarray | None] = []
    clock = 0
    for number, operation in enumerate(operations):
        if operation[0] == "answer":
            _, rows, passed, height = operation
            values = height + np.cumsum(np.ones((rows, 2)), axis=0) * [1.0, -0.3]
            plan.splice(Chunk(values, number), observed_at=max(0, plan.position - passed))
        for _ in range(operation[1] if operation[0] == "commands" else 0):
            last = plan.last
            command = playing.next(tick=clock % k == 0)
            if command is not None:
                before += [last] if command.begins else []
                commands.append((plan.position, command.begins, command))
            clock += 1
        clock += operation[0] == "skip"
    begun = [position for position, begins, _ in commands if begins]
    assert begun == list(range(1, plan.position + 1))
    for position, last in zip(begun, before, strict=True):
        parts = [command for at, _, command in commands if at == position]
        row = parts[0].due.row
        assert len(parts) == k or (position == plan.position and not playing.finished)
        if actions is DELTA:
            assert sum(part.row for part in parts) == pytest.approx(row * len(parts) / k)
        elif actions is VELOCITY or last is None:
            assert all(part.row.tolist() == row.tolist() for part in parts)
        else:
            way = np.array([last, *(part.row for part in parts)])
            assert (np.abs(np.diff(way, axis=0)) <= np.abs(row - last) / k + 1e-9).all()
            assert len(parts) < k or way[-1].tolist() == row.tolist()


RATES = st.one_of(st.just(1.0), st.floats(0.2, 1.0))


@given(
    st.integers(1, 4),
    st.lists(st.tuples(RATES, st.integers(0, 9), st.booleans()), min_size=15, max_size=40),
    st.integers(0, 6),
)
@settings(max_examples=25, deadline=None)
def test_plans_that_agree_are_followed_exactly_at_any_rate_and_never_backward(k, periods, delay):
    """Row i of an answer is i + 1 rows ahead of where its observation lies: one line, cut anywhere."""
    plan, rate = Plan(), 1.0
    playing = Player(plan, ABSOLUTE, substeps=k, rate=lambda: rate)
    asked: list[tuple[int, int, int, float]] = []
    last = 0.0
    for step, (rate, skipped, ask) in enumerate(periods):
        for substep in range(k):
            if skipped == substep and k > 1:
                continue
            command = playing.next(tick=substep == 0 or (substep == 1 and skipped == 0))
            whole, short = playing.played()
            if substep == 0 and ask:
                asked.append((step, step + delay, *playing.played(k - 1 if skipped >= k else 0)))
            if command is None:
                continue
            value = float(command.row[0])
            assert last - 1e-6 <= value
            if command.due.index or plan.position > 1:  # the first of all is sent at once
                assert value == pytest.approx(whole - short, abs=1e-6)
                assert value - last <= rate / k + 1e-6
            last = value
        for observed, _, whole, short in [each for each in asked if each[1] == step]:
            rows = whole - short + 1.0 + np.arange(7.0).reshape(-1, 1)
            plan.splice(Chunk(playing.realigned(rows, short), observed, short=short), observed_at=whole)
        if not asked:
            plan.splice(Chunk(1.0 + np.arange(12.0).reshape(-1, 1), 0), observed_at=0)


@pytest.mark.parametrize(
    ("actions", "options", "says"),
    [
        (None, {"substeps": 2}, "declares no space"),
        (Actions(), {"substeps": 2}, "declares no space"),
        (Actions(), {"stretch": True}, r"Stretch\(\)\) sends commands between two rows, and the policy declares no"),
        (VELOCITY, {"stretch": True}, "cannot be played slower"),
        (DELTA, {"stretch": True}, "cannot be played slower"),
        (Actions(space="absolute", mixable=False), {"substeps": 2}, "may not be mixed"),
        (Actions(space="delta", parts=Parts(quaternion=(0, 1, 2, 3))), {"substeps": 2}, "cannot be split"),
        (
            Actions(space="absolute", parts=Parts(quaternion=(0, 1, 2, 3)), bounds=[[-1, 1], [0, 1], [-1, 1], [-1, 1]]),
            {"substeps": 2},
            r"within \[0, 1\] in column 1",
        ),
    ],
)
def test_what_nothing_can_be_sent_between_is_refused_with_the_reason(
    actions: Actions | None, options: dict[str, Any], says: str
) -> None:
    check_playable(actions, hz=15)
    with pytest.raises(DeclarationError, match=says):
        check_playable(actions, hz=15, **options)


def test_what_can_be_played_between_rows_is_not_refused_but_above_1000_hz() -> None:
    for actions in (ABSOLUTE, DELTA, VELOCITY):
        check_playable(actions, hz=10, substeps=100)
        with pytest.raises(ValueError, match="1010 Hz; no robot is driven faster than at 1000"):
            check_playable(actions, hz=10.1, substeps=100)
    check_playable(Actions(space="absolute", bounds=[[0, 1]]), hz=15, substeps=2, stretch=True)


def test_poses_of_the_robot_arm_contract_are_not_mixed_and_joints_are() -> None:
    for space, mixes in (("ee_absolute", False), ("joint_absolute", True), ("ee_delta", False)):
        actions = ActionContract(robot="arm", action_space=space, action_dim=7, control_frequency_hz=15).actions()
        assert (actions.mixes, actions.space) == (mixes, space.split("_")[1])
        assert Actions.model_validate(actions.model_dump(mode="json", exclude_defaults=True)) == actions, "it travels"


def test_rows_without_the_columns_that_parts_name_are_refused_on_arrival() -> None:
    guard = Guard.of(Actions(space="absolute", parts=Parts(gripper=(7,))))
    guard.check(np.zeros((2, 8)))
    with pytest.raises(ActionError, match=r"parts name column 7: columns .* from 0"):
        guard.check(np.zeros((2, 7)))
