from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seqrt.errors import DeclarationError
from seqrt.observation import (
    Frames,
    Observations,
    Stream,
    fed_steps,
    in_steps,
    is_fed,
    keep_from,
    keys_read,
    needed_steps,
    read,
    resolve,
)

FED = Observations(every=1)
MIXED = Observations(streams={"a": Stream(at=[-4, 0]), "b": Stream(every=2), "c": Stream(every=3)})


@pytest.mark.parametrize(
    ("every", "step", "previous", "steps"),
    [
        (1, 0, -1, [0]),
        (1, 3, -1, [0, 1, 2, 3]),
        (1, 7, 3, [4, 5, 6, 7]),
        (3, 7, 3, [4, 7]),
        (3, 7, 4, [7]),
        (3, 7, 1, [4, 7]),
        (3, 7, 0, [1, 4, 7]),
        (3, 7, -1, [1, 4, 7]),
        (3, 6, -1, [0, 3, 6]),
        (100, 7, -1, [7]),
        (1, 7, 6, [7]),
        (1, 7, 7, []),
        (1, 7, 9, []),
        (2, 7, -50, [1, 3, 5, 7]),
    ],
)
def test_what_is_fed_is_counted_back_from_the_act_to_the_act_before_which_is_left_out(
    every: int, step: int, previous: int, steps: list[int]
) -> None:
    assert [entry.step for entry in resolve(Observations(every=every), step, previous)] == steps
    assert [entry.step for entry in resolve(Observations(streams={"x": Stream(every=every)}), step, previous)] == steps
    assert needed_steps(Observations(every=every), step, previous) == steps


def test_each_entry_of_a_union_holds_the_keys_asked_there() -> None:
    entries = [(entry.step, "".join(sorted(entry.keys or ()))) for entry in resolve(MIXED, 10, 5)]
    assert entries == [(6, "ab"), (7, "c"), (8, "b"), (10, "abc")]


def test_a_fed_key_needs_nothing_at_or_before_the_act_and_pads_nothing() -> None:
    assert keep_from(FED, 7) == 8
    assert keep_from(MIXED, 7) == 4
    assert resolve(FED, 0) == resolve(Observations(every=5), 0)
    assert (is_fed(FED), is_fed(MIXED), is_fed(Observations()), is_fed(None)) == (True, True, False, False)


def test_the_keys_read_at_an_offset_count_the_fed_ones() -> None:
    assert keys_read(MIXED, -4) == {"a", "b"}
    assert keys_read(MIXED, -3) == {"c"}
    assert keys_read(FED, -1) is None
    assert keys_read(Observations(every=2), -1) == frozenset()


def test_a_window_of_any_length_is_resolved_among_what_is_held() -> None:
    assert [entry.step for entry in resolve(FED, 2**53, among=[3, 2**40])] == [3, 2**40]
    frames = Frames()
    frames.skip_runs([(0, 2**40)])
    assert [frames.missing(steps) for steps in fed_steps(FED, 2**53)] == [2**40]


def test_a_skipped_step_that_is_fed_is_left_out() -> None:
    frames = Frames()
    for number in (0, 1, 4):
        frames.add(number, {"a": number, "b": number, "c": number})
    frames.skip([2, 3])
    assert read(frames, FED, 4, 0).steps == [1, 4]
    assert read(frames, Observations(streams={"a": Stream(at=[-1, 0]), "b": Stream(every=1)}), 4, 0).steps == [1, 1, 4]


@given(every=st.integers(1, 6), step=st.integers(0, 60), later=st.integers(1, 30), previous=st.integers(-1, 59))
def test_nothing_is_fed_twice_and_nothing_below_what_was_kept(every: int, step: int, later: int, previous: int) -> None:
    observations = Observations(every=every)
    first = {entry.step for entry in resolve(observations, step, min(previous, step - 1))}
    second = {entry.step for entry in resolve(observations, step + later, step)}
    assert not first & second
    assert min(second) >= keep_from(observations, step)
    assert step + later in second


@pytest.mark.parametrize(
    ("hz", "at", "every", "steps", "fed"),
    [
        (15, [-1.0, 0], 0.2, (-15, 0), 3),
        (10, [-0.25, -0.15, 0], 0.25, (-2, 0), 2),  # halves go to the even one: 2.5 to 2, 1.5 to 2
        (10, [-0.35, -0.05, 0], 0.05, (-4, 0), 1),  # 3.5 to 4; 0.5 to 0, and fed at least one step
        (30, [-0.01, 0], 0.01, (0,), 1),
        (29.97, [-1, 0], 1, (-30, 0), 30),
    ],
)
def test_seconds_are_rounded_to_steps_of_the_grid(
    hz: float, at: list[float], every: float, steps: tuple[int, ...], fed: int
) -> None:
    declared = Observations(streams={"x": Stream(at=at), "y": Stream(every=every)}, unit="seconds")
    resolved = in_steps(declared, hz)
    assert resolved is not None
    assert resolved.streams is not None
    assert (resolved.streams["x"].at, resolved.streams["y"].every, resolved.unit) == (steps, fed, "steps")
    assert in_steps(Observations(every=every, unit="seconds"), hz) == Observations(every=fed)


@pytest.mark.parametrize("hz", [None, 0, -1, float("nan"), float("inf"), 1001, True])
def test_seconds_without_a_rate_are_an_error(hz: Any) -> None:
    with pytest.raises(DeclarationError, match="seconds"):
        in_steps(Observations(every=0.5, unit="seconds"), hz)
    assert in_steps(FED, hz) is FED
    with pytest.raises(ValueError, match="in_steps"):
        resolve(Observations(every=0.5, unit="seconds"), 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"streams": {"x": {"at": [0], "every": 1}}}, "not both"),
        ({"streams": {"x": {}}, "every": 1}, "not both"),
        ({"streams": {"x": {"every": 0}}}, "greater than 0"),
        ({"every": -1}, "greater than 0"),
        ({"every": True}, "not an integer"),
        ({"every": float("nan"), "unit": "seconds"}, "not a number"),
        ({"every": 1.0}, "unit='seconds'"),
        ({"streams": {"x": {"at": [-1.0, 0]}}}, "unit='seconds'"),
        ({"streams": {"x": {"at": [-1.0]}}, "unit": "seconds"}, "no key reads offset 0"),
        ({"streams": {"x": {"at": [(False)]}}, "unit": "seconds"}, "not an integer"),
        ({"unit": "minutes"}, "unit"),
    ],
)
def test_a_declaration_that_cannot_be_read_is_refused_with_what_to_write(wrong: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Observations.model_validate(wrong)


@pytest.mark.parametrize("declared", [FED, MIXED, Observations(streams={"x": Stream(every=0.5)}, unit="seconds")])
@pytest.mark.parametrize("exclude_defaults", [True, False])
def test_what_is_fed_survives_the_wire(declared: Observations, exclude_defaults: bool) -> None:
    plain = declared.model_dump(mode="json", exclude_defaults=exclude_defaults)
    assert Observations.model_validate(plain) == declared
