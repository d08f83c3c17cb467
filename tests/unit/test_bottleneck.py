from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.testing.bottleneck import Bottleneck


def test_bytes_take_their_size_over_the_rate_one_after_the_other() -> None:
    line = Bottleneck(1000)
    ends = [line.hand_over(2.0, 100), line.hand_over(2.05, 50)]
    assert [line.through_at_s(end) for end in ends] == pytest.approx([2.1, 2.15])
    assert line.through_at_s(line.hand_over(2.25, 10)) == pytest.approx(2.26)


def test_without_a_rate_nothing_waits_but_what_is_held() -> None:
    line = Bottleneck(None)
    assert line.through_at_s(line.hand_over(3.0, 10**9)) == 3.0
    assert line.waiting_bytes(3.0) == 0
    line.hold(4.0)
    end = line.hand_over(5.0, 100)
    assert (line.through_at_s(end), line.waiting_bytes(6.0)) == (math.inf, 100)
    line.release(7.0)
    assert (line.through_at_s(end), line.waiting_bytes(7.0)) == (7.0, 0)


def test_another_rate_holds_for_what_waits_too() -> None:
    line = Bottleneck(100)
    end = line.hand_over(0.0, 100)
    line.set_rate(0.5, 10)
    assert line.through_at_s(end) == pytest.approx(5.5)
    line.set_rate(1.5, 1000)
    assert line.through_at_s(end) == pytest.approx(1.54)
    line.set_rate(1.51, None)
    assert line.through_at_s(end) == 1.51


def test_what_is_held_waits_and_takes_its_time_afterwards() -> None:
    line = Bottleneck(100)
    end = line.hand_over(0.0, 100)
    line.hold(0.5)
    assert line.through_at_s(end) == math.inf
    assert line.waiting_bytes(7.0) == 50
    line.release(8.0)
    assert line.through_at_s(end) == pytest.approx(8.5)


def test_there_is_room_once_enough_of_it_is_through() -> None:
    line = Bottleneck(100)
    line.hand_over(0.0, 300)
    assert line.room_at_s(100) == pytest.approx(2.0)
    assert line.room_at_s(300) <= 0.0
    line.clear()
    assert line.room_at_s(0) <= 0.0


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_makes_no_sense_is_refused_and_the_one_before_goes_on(rate: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Bottleneck(rate)
    line = Bottleneck(100)
    end = line.hand_over(0.0, 100)
    with pytest.raises(ValueError, match="None for no limit"):
        line.set_rate(0.5, rate)
    assert line.through_at_s(end) == pytest.approx(1.0)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 2),
            st.one_of(
                st.tuples(st.just("send"), st.integers(0, 100_000)),
                st.tuples(st.just("rate"), st.floats(1e3, 1e8)),
                st.tuples(st.sampled_from(["hold", "release"]), st.just(0)),
            ),
        ),
        max_size=30,
    )
)
def test_whatever_happens_order_is_kept_and_no_span_carries_more_than_the_rate_allows(
    steps: list[tuple[float, tuple[str, float]]],
) -> None:
    line, now_s, rate, waiting = Bottleneck(1e6), 0.0, 1e6, 0.0
    ends: list[int] = []
    for after_s, (what, value) in steps:
        now_s += after_s
        left = line.waiting_bytes(now_s)
        assert waiting - rate * after_s - 1e-3 <= left <= waiting + 1e-3
        if what == "send":
            ends.append(line.hand_over(now_s, int(value)))
        elif what == "rate":
            line.set_rate(now_s, value)
            rate = value
        else:
            line.hold(now_s) if what == "hold" else line.release(now_s)
        times = [line.through_at_s(end) for end in ends]
        assert times == sorted(times)
        waiting = line.waiting_bytes(now_s)
    line.release(now_s)
    if ends:
        assert line.through_at_s(ends[-1]) == pytest.approx(now_s + waiting / rate)
