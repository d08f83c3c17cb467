from __future__ import annotations

import anyio
import numpy as np
import pytest

from seqrt.testing.robots import FakeArm, FakeRobot, Faulty, Frozen, Slow

pytestmark = pytest.mark.anyio


async def test_an_arm_remembers_every_row_and_when_it_came() -> None:
    arm = FakeArm(2)
    row = np.array([1.0, 2.0])
    arm.act(row)
    row *= 0
    await anyio.sleep(0.5)
    arm.act(np.array([3.0, 4.0]))
    arm.hold()
    assert [acted.at_s for acted in arm.acts] == [0.0, 0.5]
    assert arm.rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert arm.holds == [0.5]
    assert arm.observe()["state"].tolist() == [3.0, 4.0]
    assert arm.observe()["state"].dtype == np.float32
    assert arm.names == ("joint_0", "joint_1")


@pytest.mark.parametrize(("space", "end"), [("absolute", 2.0), ("delta", 13.0), ("velocity", 10.3)])
async def test_an_arm_moves_as_its_space_says(space: str, end: float) -> None:
    arm = FakeArm(1, space=space, dt_s=0.1, start=[10.0])  # type: ignore[arg-type]
    arm.act(np.array([1.0]))
    arm.act(np.array([2.0]))
    assert arm.position == pytest.approx([end])


async def test_an_arm_with_lag_follows_its_commands_later() -> None:
    arm = FakeArm(1, lag=2)
    positions = []
    for value in range(1, 6):
        arm.act(np.array([float(value)]))
        positions.append(float(arm.position[0]))
    assert positions == [0.0, 0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("row", [[np.nan, 0.0], [0.0], [0.0, np.inf]])
async def test_an_arm_refuses_what_would_break_it(row: list[float]) -> None:
    with pytest.raises(ValueError, match="2 finite numbers"):
        FakeArm(2).act(np.array(row))


async def test_no_two_pictures_in_a_row_are_alike_and_red_is_channel_0() -> None:
    arm = FakeArm(camera=(4, 6))
    pictures = [arm.observe()["camera"] for _ in range(300)]
    assert pictures[0].shape == (4, 6, 3)
    assert pictures[0].dtype == np.uint8
    assert pictures[0][1, 1].tolist() == [255, 0, 0]
    assert len({picture.tobytes() for picture in pictures}) == 300


async def test_a_slow_robot_takes_its_scripted_durations() -> None:
    arm = FakeArm(1)
    robot = Slow(arm, observe_s=[0.15, 2.7], act_s=0.01, hold_s=0.5)
    await robot.observe()
    await robot.observe()
    await robot.act(np.array([1.0]))
    await robot.hold()
    assert arm.observed == pytest.approx([0.15, 2.85])
    assert arm.acts[0].at_s == pytest.approx(2.86)
    assert arm.holds == pytest.approx([3.36])
    assert robot.names == arm.names


async def test_a_faulty_robot_raises_on_the_calls_it_was_told() -> None:
    arm = FakeArm(1)
    robot = Faulty(arm, act_on={1}, observe_on=range(2), hold_on={0}, error=OSError("no status packet"))
    robot.act(np.array([1.0]))
    with pytest.raises(OSError, match="no status packet"):
        robot.act(np.array([2.0]))
    robot.act(np.array([3.0]))
    assert arm.rows.tolist() == [[1.0], [3.0]]
    for call in (robot.observe, robot.observe, robot.hold):
        with pytest.raises(OSError, match="no status packet"):
            call()
    assert "state" in robot.observe()


async def test_wrappers_compose() -> None:
    robot = Slow(Faulty(FakeArm(1, camera=(2, 2)), act_on={0}), act_s=0.3)
    assert isinstance(robot, FakeRobot)
    with pytest.raises(OSError, match="status packet"):
        await robot.act(np.zeros(1))
    assert anyio.current_time() == pytest.approx(0.3)


async def test_a_frozen_camera_shows_the_same_picture_while_the_joints_go_on() -> None:
    arm = FakeArm(1, camera=(2, 2))
    robot = Frozen(arm, after=2, until=5)
    seen = []
    for step in range(7):
        arm.act(np.array([float(step)]))
        seen.append(robot.observe())
    assert [int(look["camera"][0, 0, 2]) for look in seen] == [0, 1, 2, 2, 2, 5, 6]
    assert [float(look["state"][0]) for look in seen] == [0, 1, 2, 3, 4, 5, 6]
