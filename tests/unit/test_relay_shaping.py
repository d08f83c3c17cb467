"""One direction of the relay's link, without sockets and without waiting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.testing.relay.shaping import READ_BYTES, Shaping, Way
from seqrt.testing.relay.window import INITIAL_BYTES, SenderWindow

RATE = 1e6
DELAY_S = 0.02


def link(rate: float | None = RATE, queue_bytes: int = 100_000) -> Shaping:
    return Shaping(lambda: DELAY_S, rate, queue_bytes)


def taken(way: Way, now_s: float) -> bytes:
    return way.take(now_s)[0]


def test_bytes_arrive_as_they_are_through_and_the_delay_later() -> None:
    way = Way(link(), None)
    way.hand_over(0.0, bytes(10_000))
    assert way.due_s() == pytest.approx(0.001448, abs=1e-6)  # the first segment is through then, and may have a delay
    assert taken(way, DELAY_S) == b""
    assert 4_000 < len(taken(way, 0.005 + DELAY_S)) <= 5_000
    assert len(taken(way, 0.01 + DELAY_S)) > 5_000
    assert way.due_s() == math.inf


def test_all_connections_share_the_rate_and_each_keeps_its_own_bytes() -> None:
    shaping = link()
    one, two = Way(shaping, None), Way(shaping, None)
    one.hand_over(0.0, b"1" * 30_000)
    two.hand_over(0.0, b"2" * 1_000)
    assert taken(two, 0.03 + DELAY_S) == b""
    assert taken(one, 0.03 + DELAY_S) == b"1" * 30_000
    assert taken(two, 0.0311 + DELAY_S) == b"2" * 1_000


def test_a_full_queue_lets_nothing_be_read_until_there_is_room_for_a_piece() -> None:
    way = Way(link(queue_bytes=10_000), None)
    assert way.room_bytes(0.0) == 10_000
    way.hand_over(0.0, bytes(10_000))
    assert way.room_bytes(0.0) == 0
    room_at_s = way.room_at_s(0.0)
    assert room_at_s == pytest.approx(0.001448)
    assert way.room_bytes(0.001) == 0
    assert way.room_bytes(room_at_s) >= 1448


def test_without_a_rate_a_chunk_at_a_time_may_be_read() -> None:
    way = Way(link(rate=None), None)
    way.hand_over(0.0, bytes(50_000))
    assert way.room_bytes(0.0) == READ_BYTES
    assert len(taken(way, DELAY_S)) == 50_000


def test_a_stall_holds_the_queue_and_what_had_passed_it() -> None:
    shaping = link(rate=None)
    way = Way(shaping, None)
    way.hand_over(0.0, b"passed")
    shaping.stall(0.001)
    way.hand_over(0.5, b"queued")
    assert (way.due_s(), taken(way, 1.0)) == (math.inf, b"")
    shaping.resume(1.0)
    assert taken(way, 1.0) == b"passed"
    assert taken(way, 1.0 + DELAY_S) == b"queued"


def test_a_burst_holds_what_arrives_and_the_queue_flows_on() -> None:
    shaping = link()
    way = Way(shaping, None)
    way.hand_over(0.0, bytes(50_000))
    shaping.begin_burst()
    assert (way.due_s(), taken(way, 0.3)) == (math.inf, b"")
    assert way.room_bytes(0.3) > 0
    shaping.end_burst()
    assert len(taken(way, 0.3)) == 50_000


def test_the_end_comes_after_the_bytes_before_it() -> None:
    way = Way(link(), None)
    way.hand_over(0.0, bytes(2_000))
    way.hand_over(0.0, b"", "closed")
    data, end = way.take(0.0015 + DELAY_S)
    assert (len(data), end) == (1_448, None)
    data, end = way.take(0.0021 + DELAY_S)
    assert (len(data), end) == (552, "closed")


def test_with_a_window_no_more_is_read_than_a_sender_so_far_away_would_have_sent() -> None:
    way = Way(link(rate=None), SenderWindow())
    assert way.room_bytes(0.0) == INITIAL_BYTES
    way.hand_over(0.0, bytes(INITIAL_BYTES))
    assert (way.room_bytes(0.01), way.room_at_s(0.01)) == (0, math.inf)
    assert len(taken(way, DELAY_S)) == INITIAL_BYTES
    way.delivered(INITIAL_BYTES, DELAY_S + 0.03)
    assert way.room_at_s(0.03) == pytest.approx(0.05)
    assert way.room_bytes(0.05) == 2 * INITIAL_BYTES


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.integers(1, 40_000)), max_size=20),
    st.lists(st.floats(0, 0.05), min_size=1, max_size=5),
    st.sampled_from([None, 2e5, 1e7]),
)
def test_whatever_is_sent_comes_in_order_and_never_before_the_rate_allows(
    sends: list[tuple[float, int]], delays: list[float], rate: float | None
) -> None:
    numbers = iter(range(10**6))
    shaping = Shaping(lambda: delays[next(numbers) % len(delays)], rate, 10**9)
    way, sent, came, now_s = Way(shaping, None), b"", b"", 0.0
    for after_s, size in sends:
        until_s = now_s + after_s
        while (due_s := way.due_s()) <= until_s:
            came += taken(way, due_s)
            assert rate is None or len(came) <= rate * due_s + 1e-3
        now_s = until_s
        data = bytes((len(sent) + index) % 251 for index in range(size))
        sent += data
        way.hand_over(now_s, data)
    while (due_s := way.due_s()) < math.inf:
        came += taken(way, due_s)
        assert rate is None or len(came) <= rate * due_s + 1e-3
    assert came == sent
