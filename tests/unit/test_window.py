from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seqrt.observation import (
    Entry,
    Frames,
    Observations,
    Stream,
    keep_from,
    keys_read,
    lookback,
    needed_steps,
    read,
    resolve,
)


def windowed(pad: str = "repeat_first", **at: list[int]) -> Observations:
    return Observations(streams={key: Stream(at=offsets) for key, offsets in at.items()}, pad=pad)


@pytest.mark.parametrize(
    ("pad", "step", "expected"),
    [
        ("repeat_first", 3, [0, 0, 3]),
        ("drop", 3, [0, 3]),
        ("repeat_first", 0, [0, 0, 0]),
        ("drop", 0, [0]),
        ("repeat_first", 10, [4, 7, 10]),
        ("drop", 10, [4, 7, 10]),
    ],
)
def test_a_window_reads_its_offsets_and_pads_what_lies_before_step_0(pad: str, step: int, expected: list[int]) -> None:
    assert [entry.step for entry in resolve(windowed(pad, x=[-6, -3, 0]), step)] == expected


def test_an_entry_holds_only_the_keys_asked_there() -> None:
    observations = windowed(wrist=[-15, 0], state=[0], far=[-15])
    assert resolve(observations, 20) == [
        Entry(5, frozenset({"wrist", "far"})),
        Entry(20, frozenset({"wrist", "state"})),
    ]


def test_padding_keeps_one_entry_for_each_step_asked_with_its_own_keys() -> None:
    observations = windowed(a=[-6, 0], b=[-3, 0])
    assert resolve(observations, 2) == [
        Entry(0, frozenset({"a"})),
        Entry(0, frozenset({"b"})),
        Entry(2, frozenset({"a", "b"})),
    ]


@pytest.mark.parametrize("observations", [None, Observations()])
def test_without_streams_an_act_reads_its_own_step_and_needs_everything_before(
    observations: Observations | None,
) -> None:
    assert resolve(observations, 7) == [Entry(7, None)]
    assert needed_steps(observations, 7) == range(8)
    assert lookback(observations) == 0
    assert keep_from(observations, 7) == 8


def test_a_window_needs_only_its_own_steps() -> None:
    assert needed_steps(windowed(x=[-6, -3, 0]), 3) == [0, 3]
    assert needed_steps(windowed(x=[-6, -3, 0]), 9) == [3, 6, 9]


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (14, 0), (15, 1), (40, 26)])
def test_after_an_act_what_no_later_window_reads_is_not_kept(step: int, kept: int) -> None:
    assert keep_from(windowed(x=[-15, 0], y=[0]), step) == kept


def test_keys_read_at_an_offset() -> None:
    observations = windowed(wrist=[-15, 0], state=[0])
    assert keys_read(observations, 0) == {"wrist", "state"}
    assert keys_read(observations, -15) == {"wrist"}
    assert keys_read(observations, -1) == frozenset()
    assert keys_read(None, 0) is None
    assert keys_read(None, -1) == frozenset()


def test_a_policy_no_key_of_which_reads_the_acts_own_step_is_refused() -> None:
    with pytest.raises(ValidationError, match="no key reads offset 0"):
        windowed(x=[-6, -3], y=[-1])


offsets = st.lists(st.integers(-20, 0), min_size=1, max_size=5, unique=True)


@given(
    at=st.dictionaries(st.sampled_from("abc"), offsets, min_size=1),
    pad=st.sampled_from(["repeat_first", "drop"]),
    step=st.integers(0, 60),
    later=st.integers(1, 30),
)
def test_no_later_act_reads_below_what_the_keep_rule_kept(
    at: dict[str, list[int]], pad: str, step: int, later: int
) -> None:
    at["z"] = [0]
    observations = windowed(pad, **at)
    kept = keep_from(observations, step)
    assert all(entry.step >= min(kept, step + later) for entry in resolve(observations, step + later))


@given(at=offsets, pad=st.sampled_from(["repeat_first", "drop"]), step=st.integers(0, 60))
def test_a_window_is_ascending_ends_at_its_step_and_is_as_long_as_its_offsets_say(
    at: list[int], pad: str, step: int
) -> None:
    at = sorted({*at, 0})
    steps = [entry.step for entry in resolve(windowed(pad, x=at), step)]
    assert steps == sorted(steps)
    assert steps[-1] == step
    assert len(steps) == (len(at) if pad == "repeat_first" else sum(step + offset >= 0 for offset in at))


def held(**inputs: int) -> dict[str, int]:
    return inputs


def test_a_skipped_step_reads_the_newest_observation_held_before_it() -> None:
    frames = Frames()
    for number in (0, 1, 5):
        frames.add(number, held(x=number))
    frames.skip([2, 3, 4])
    window = read(frames, windowed(x=[-2, 0]), 5)
    assert (window.steps, window.observations) == ([1, 5], [{"x": 1}, {"x": 5}])


@pytest.mark.parametrize(("pad", "steps"), [("repeat_first", [4, 5]), ("drop", [5])])
def test_a_skipped_step_with_nothing_held_before_it_is_padded(pad: str, steps: list[int]) -> None:
    frames = Frames()
    frames.skip([0, 1, 2, 3])
    frames.add(4, held(x=4))
    frames.add(5, held(x=5))
    assert read(frames, windowed(pad, x=[-3, 0]), 5).steps == steps


def test_an_acts_own_step_may_be_skipped_too() -> None:
    frames = Frames()
    frames.add(0, "first")
    frames.skip([1])
    assert read(frames, None, 1).steps == [0]
    assert read(frames, None, 1).observations == ["first"]


def test_a_key_an_observation_lacks_is_left_out_of_its_entry() -> None:
    frames = Frames()
    frames.add(0, held(x=0, y=0))
    frames.add(1, held(x=1))
    assert read(frames, windowed(x=[0], y=[0]), 1).observations == [{"x": 1}]


def test_where_nothing_is_held_a_window_is_empty() -> None:
    frames = Frames()
    frames.skip([0])
    assert read(frames, windowed(x=[0]), 0).steps == []
