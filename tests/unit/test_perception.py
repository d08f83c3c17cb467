"""The demo's perception, on the task's own pictures."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("gym_pusht") is None:
    pytest.skip("needs the extra demo: pip install 'seqrt[demo]'", allow_module_level=True)

from seqrt.demo.perception import find_block
from seqrt.demo.robot import PushTRobot, resize
from seqrt.demo.shapes import CENTRE, OUTLINE, Pose, place, signed_distance


def _seen(robot: PushTRobot) -> tuple[Pose, Pose]:
    """The pose found and the true one."""
    observation = robot.observe()
    found = find_block(observation["pixels"], observation["agent_pos"])
    assert found is not None
    return found, robot.moments[-1].block


def _turn(first: float, second: float) -> float:
    return abs((first - second + np.pi) % (2 * np.pi) - np.pi)


@pytest.mark.parametrize("seed", range(12))
def test_the_t_is_found_within_two_pixels_and_two_degrees(seed: int) -> None:
    robot = PushTRobot(seed)
    for _ in range(4):
        # Into the T's middle: the agent's disc lies before it in the picture.
        robot.act(place(CENTRE[None], robot.moments[-1].block)[0])
        found, true = _seen(robot)
        assert np.hypot(found.x - true.x, found.y - true.y) < 2.0
        assert _turn(found.angle, true.angle) < np.deg2rad(2.0)


def test_most_poses_are_found_within_a_pixel() -> None:
    misses = []
    for seed in range(40, 70):
        found, true = _seen(PushTRobot(seed))
        misses.append(np.hypot(found.x - true.x, found.y - true.y))
    assert np.median(misses) < 0.6


def test_a_picture_without_a_t_gives_none() -> None:
    white = np.full((96, 96, 3), 255, dtype=np.uint8)
    assert find_block(white, (100.0, 100.0)) is None


def test_a_shape_that_is_no_t_is_refused() -> None:
    picture = np.full((96, 96, 3), 255, dtype=np.uint8)
    picture[30:60, 30:60] = (143, 163, 184)
    assert find_block(picture, (400.0, 400.0)) is None


def test_the_outline_has_distance_zero_and_grows_along_its_gradient() -> None:
    rng = np.random.default_rng(0)
    assert np.allclose(signed_distance(OUTLINE)[0], 0.0)
    points = rng.uniform(-150.0, 200.0, (200, 2))
    distance, gradient = signed_distance(points)
    stepped, _ = signed_distance(points + 1e-5 * gradient)
    assert np.allclose(stepped - distance, 1e-5, atol=1e-8)
    assert np.all(signed_distance(np.array([[0.0, 15.0], [0.0, 100.0], [50.0, 10.0]]))[0] < 0.0)


def test_the_stand_in_for_opencv_resizes_as_opencv_does() -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV cannot be loaded here", exc_type=ImportError)
    picture = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    apart = cv2.resize(picture, (96, 96)).astype(int) - resize(picture, (96, 96))
    assert np.abs(apart).max() <= 1
