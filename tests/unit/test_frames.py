from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.observation import Entry, Frames
from seqrt.observation.ranges import Ranges, runs


def filled(numbers: Iterable[int], **inputs: Any) -> Frames:
    frames = Frames(len)
    for number in numbers:
        frames.add(number, inputs or {"x": number})
    return frames


def test_before_the_first_observation_nothing_is_through_and_nothing_newest() -> None:
    frames = Frames()
    assert (frames.through, frames.newest, frames.oldest, len(frames), frames.bytes) == (-1, -1, -1, 0, 0)


def test_through_is_the_highest_number_without_a_gap_before_it() -> None:
    frames = filled([0, 1, 3])
    assert frames.through == 1
    frames.skip([2])
    assert frames.through == 3


def test_an_observation_sent_again_is_kept_once() -> None:
    frames = Frames(len)
    assert frames.add(0, {"x": 1})
    assert not frames.add(0, {"x": 2})
    assert frames.get(0) == {"x": 1}
    assert frames.bytes == 1


def test_keys_not_yet_held_are_added_and_only_they_are_charged() -> None:
    frames = filled([0], x=1)
    assert frames.cost(0, {"x": 9, "y": 2, "z": 3}) == (0, 2)
    assert frames.add(0, {"x": 9, "y": 2, "z": 3})
    assert frames.get(0) == {"x": 1, "y": 2, "z": 3}
    assert (len(frames), frames.bytes) == (1, 3)


def test_what_is_handed_in_is_not_changed_by_a_later_key() -> None:
    frames = Frames()
    first = {"x": 1}
    frames.add(0, first)
    frames.add(0, {"y": 2})
    assert first == {"x": 1}


def test_a_number_told_skipped_is_not_taken_any_more_and_one_held_is_not_skipped() -> None:
    frames = filled([1])
    frames.skip([0, 1])
    assert not frames.add(0, {"x": 0})
    assert 1 in frames
    assert 0 not in frames


def test_the_first_missing_number_is_named() -> None:
    frames = filled([0, 1, 4])
    assert frames.missing(range(5)) == 2
    assert frames.missing([1, 4]) is None
    assert frames.missing([4, 5]) == 5


def test_an_endless_range_is_not_walked() -> None:
    assert filled([0, 1]).missing(range(10**18)) == 2


def test_a_key_this_episode_has_sent_before_is_waited_for() -> None:
    frames = Frames()
    frames.add(0, {"wrist": 0, "state": 0})
    frames.add(15, {"wrist": 15})
    both = Entry(15, frozenset({"wrist", "state"}))
    assert frames.lacking([both]) == 15
    frames.add(15, {"state": 15})
    assert frames.lacking([both]) is None


def test_a_key_never_sent_is_not_waited_for() -> None:
    frames = filled([0], x=0)
    assert frames.lacking([Entry(0, frozenset({"x", "y"}))]) is None


def test_forgetting_frees_what_lies_below_and_takes_it_no_more() -> None:
    frames = filled(range(5))
    frames.forget_below(3)
    assert list(frames) == [3, 4]
    assert frames.bytes == 2
    assert not frames.add(1, {"x": 1})
    assert frames.through == 4
    assert frames.missing([0, 1, 2]) is None


def test_the_newest_below_stays_while_the_number_itself_is_not_held() -> None:
    frames = filled([0, 1, 2])
    frames.forget_below(4)
    assert list(frames) == [2]
    frames.add(4, {"x": 4})
    frames.forget_below(5)
    assert list(frames) == [4]


def test_each_key_keeps_its_newest_below() -> None:
    frames = Frames(len)
    frames.add(0, {"wrist": 0, "state": 0})
    frames.add(1, {"wrist": 1})
    frames.add(2, {"wrist": 2})
    frames.forget_below(3)
    assert list(frames) == [0, 2]


def test_observations_that_are_no_mappings_are_kept_whole() -> None:
    frames = Frames(lambda inputs: 7)
    assert frames.add(0, [1, 2])
    assert not frames.add(0, [3])
    frames.add(1, "text")
    frames.forget_below(2)
    assert list(frames) == [1]
    assert frames.bytes == 7


def test_the_newest_at_or_before_has_one_of_the_keys_asked_for() -> None:
    frames = filled([0], x=0)
    frames.add(2, {"y": 2})
    assert frames.newest_at_or_before(5) == 2
    assert frames.newest_at_or_before(5, {"x"}) == 0
    assert frames.newest_at_or_before(1) == 0
    assert frames.newest_at_or_before(5, {"z"}) is None


def test_numbers_far_ahead_cost_what_near_ones_do() -> None:
    frames = filled([0, 10**15])
    frames.skip(range(1, 1000))
    assert frames.ranges == 2
    assert frames.newest == 10**15
    assert frames.through == 999


posts = st.lists(st.tuples(st.integers(0, 12), st.sets(st.sampled_from("abc"), min_size=1)), min_size=1, max_size=30)


@given(posts=posts, seed=st.randoms(use_true_random=False))
def test_whatever_the_order_and_however_often_the_same_is_held(posts: list[tuple[int, set[str]]], seed: Any) -> None:
    def held(order: list[tuple[int, set[str]]]) -> tuple[Any, int, int]:
        frames = Frames(len)
        for number, keys in order:
            frames.add(number, {key: (number, key) for key in keys})
        return {number: frames.get(number) for number in frames}, frames.bytes, frames.through

    shuffled = posts * 2
    seed.shuffle(shuffled)
    assert held(posts) == held(shuffled)


@given(
    numbers=st.lists(st.integers(0, 30), max_size=30),
    skipped=st.lists(st.integers(0, 30), max_size=30),
    floors=st.lists(st.integers(0, 35), max_size=4),
)
def test_bytes_are_those_of_what_is_held_and_through_has_no_gap(
    numbers: list[int], skipped: list[int], floors: list[int]
) -> None:
    frames = Frames(len)
    for number in numbers:
        frames.add(number, {"x": 1, "y": 2})
    frames.skip(skipped)
    for floor in floors:
        frames.forget_below(floor)
    assert frames.bytes == 2 * len(frames)
    assert all(frames.is_settled(number) for number in range(frames.through + 1))
    assert not frames.is_settled(frames.through + 1)


@given(
    added=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=20),
    below=st.integers(0, 50),
)
def test_ranges_hold_what_a_set_would(added: list[tuple[int, int]], below: int) -> None:
    ranges, plain = Ranges(), set[int]()
    for start, length in added:
        ranges.add(start, start + length)
        plain |= set(range(start, start + length))
    assert {number for start, stop in ranges for number in range(start, stop)} == plain
    assert len(ranges) == len(runs(plain))
    assert all((number in ranges) == (number in plain) for number in range(60))
    assert ranges.first_gap(below) == next(n for n in range(below, 200) if n not in plain)
    ranges.forget_below(below)
    assert list(ranges) == runs(number for number in plain if number >= below)


@pytest.mark.parametrize(("numbers", "found"), [([], []), ([3, 1, 2, 2], [(1, 4)]), ([5, 1, 2], [(1, 3), (5, 6)])])
def test_numbers_become_runs(numbers: list[int], found: list[tuple[int, int]]) -> None:
    assert runs(numbers) == found
