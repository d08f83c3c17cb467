from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from seqrt.observation.frozen import Frozen, FrozenPictures, rows_in

NOISE = np.random.default_rng(7)


def picture() -> np.ndarray:
    return NOISE.integers(0, 256, (48, 64, 3), dtype=np.uint8)


def watched(
    frames: list[Any], *, rows: int = 4, cameras: tuple[str, ...] = (), moved: Callable[[int], int] = lambda i: i
) -> list[list[Frozen]]:
    """What each frame under "wrist" gives; the arm moves one row a frame unless ``moved`` says otherwise."""
    pictures = FrozenPictures(cameras, rows=rows)
    return [pictures.see({"wrist": frame, "state": np.zeros(7)}, moved(i)) for i, frame in enumerate(frames)]


def test_a_picture_that_stays_the_same_is_frozen_once_so_many_rows_have_moved_the_arm():
    still = picture()
    found = watched([picture(), still, still, still, still, still, still])
    assert found[:5] == [[]] * 5
    assert found[5] == [Frozen("wrist", 4, frames=4, first=True)]
    assert found[6] == [Frozen("wrist", 5, frames=1, first=False)]


def test_a_picture_that_changes_is_forgotten_and_a_second_freeze_is_noticed_again():
    still, later = picture(), picture()
    found = watched([still] * 6 + [later] * 6)
    assert [[each.first for each in step] for step in found] == [*[[]] * 4, [True], [False], *[[]] * 4, [True], [False]]


def test_while_the_arm_stands_a_picture_that_stays_the_same_is_no_fault():
    assert watched([picture()] * 50, moved=lambda _: 3) == [[]] * 50


@pytest.mark.parametrize("repeats", [2, 3, 4])
def test_a_camera_slower_than_the_grid_is_not_frozen(repeats):
    found = watched([frame for frame in (picture() for _ in range(9)) for _ in range(repeats)], rows=10)
    assert found == [[]] * 9 * repeats


def test_a_buffer_that_a_driver_fills_anew_is_not_the_same_picture():
    buffer = picture()
    pictures = FrozenPictures(rows=2)
    for i in range(12):
        buffer[:] = picture()
        assert pictures.see({"wrist": buffer}, i) == []
    for i in range(12, 18):
        found = pictures.see({"wrist": buffer}, i)
    assert found[0].frames == 1, "and one that it does not fill is"


def test_a_change_of_one_byte_that_no_sample_shows_is_a_new_picture():
    frames = []
    for number in range(12):
        frame = np.zeros((480, 640, 3), np.uint8)
        frame[471, 633, 1] = number
        frames.append(frame)
    assert watched(frames, rows=2) == [[]] * 12


def test_something_that_only_moved_in_a_picture_without_noise_is_a_new_picture():
    frames = []
    for number in range(12):
        frame = np.zeros((480, 640, 3), np.uint8)
        frame[401:403, 16 * number + 1 : 16 * number + 3] = 200
        frames.append(frame)
    assert watched(frames, rows=2) == [[]] * 12


@pytest.mark.parametrize(
    "seen",
    [
        lambda frame: frame[..., ::-1],
        lambda frame: frame.transpose(2, 0, 1),
        lambda frame: frame[3:41, 5:60],
        lambda frame: frame[::2, 1::2],
        lambda frame: np.stack([frame, frame]),
        lambda frame: (frame / 255).astype(np.float32),
        lambda frame: np.where(frame > 9, np.nan, 1.0),
        lambda frame: frame.tobytes(),
        lambda frame: frame.tobytes().hex(),
        lambda frame: [{"view": "wrist", "data": frame.tobytes().hex()}],
    ],
)
def test_however_a_picture_lies_in_memory_it_is_compared_whole(seen):
    still = picture()
    assert [len(step) for step in watched([seen(still.copy()) for _ in range(6)])] == [0, 0, 0, 0, 1, 1]
    assert watched([seen(picture()) for _ in range(6)], rows=1) == [[]] * 6


def test_a_resting_arm_and_an_instruction_are_no_pictures_but_a_small_camera_is():
    assert watched([np.zeros(16)] * 9) == [[]] * 9
    assert watched(["pick up the red cube"] * 9) == [[]] * 9
    assert watched([np.array([{}] * 999, dtype=object)] * 9) == [[]] * 9
    assert [len(step) for step in watched([np.zeros((4, 4, 3), np.uint8)] * 6, cameras=("wrist",))][-2:] == [1, 1]


def test_what_is_no_mapping_holds_no_pictures():
    assert FrozenPictures().see(picture(), 0) == []
    assert FrozenPictures().see(None, 0) == []


@pytest.mark.parametrize(("seconds", "rows"), [(0.5, 10), (0.501, 11), (0.01, 1), (math.pi, 63)])
def test_a_time_is_so_many_rows(seconds, rows):
    assert rows_in(seconds, 0.05) == rows
