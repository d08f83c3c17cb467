"""The model of a sender's TCP window."""

from __future__ import annotations

import pytest

from seqrt.testing.relay.window import INITIAL_BYTES, MOST_BYTES, SEGMENT_BYTES, SenderWindow

RTT_S = 0.04


def send_all(window: SenderWindow, size_bytes: int, now_s: float = 0.0) -> tuple[int, float]:
    """Send so much as the window allows over a link without a bottleneck: in how many goes, and when acknowledged."""
    goes = 0
    while size_bytes:
        now_s = now_s if (room := window.room_bytes(now_s)) else window.room_at_s()
        room = min(size_bytes, room or window.room_bytes(now_s))
        window.sent(now_s, room)
        window.delivered(room, now_s + RTT_S)
        size_bytes -= room
        goes += 1
    return goes, now_s + RTT_S


def test_ten_segments_go_at_once_and_then_twice_as_many_each_round_trip() -> None:
    window = SenderWindow()
    goes, acked_s = send_all(window, (10 + 20 + 40) * SEGMENT_BYTES)
    assert goes == 3
    assert acked_s == pytest.approx(3 * RTT_S)


@pytest.mark.parametrize(("size_bytes", "goes"), [(14_480, 1), (14_481, 2), (24_000, 2), (54_000, 3), (1_304_000, 7)])
def test_a_body_on_a_new_connection_takes_so_many_round_trips(size_bytes: int, goes: int) -> None:
    assert send_all(SenderWindow(), size_bytes)[0] == goes


def opened(size_bytes: int = 2_000_000) -> tuple[SenderWindow, float]:
    window = SenderWindow()
    _, now_s = send_all(window, size_bytes)
    assert window.room_bytes(now_s) >= size_bytes / 2
    return window, now_s


def test_after_a_pause_of_seconds_24_kb_take_a_round_trip_more() -> None:
    window, now_s = opened()
    assert send_all(window, 24_000, now_s + 0.1)[0] == 1
    assert send_all(window, 24_000, now_s + 30)[0] == 2


def test_each_timeout_of_a_pause_halves_the_window_and_asking_twice_does_not() -> None:
    window, now_s = opened()
    full, timeout_s = window.room_bytes(now_s), 0.2 + RTT_S
    last_sent_s = now_s - RTT_S
    for _ in range(3):
        assert window.room_bytes(last_sent_s + 0.9 * timeout_s) == full
    for _ in range(3):
        assert window.room_bytes(last_sent_s + 1.1 * timeout_s) == full // 2
    assert window.room_bytes(last_sent_s + 2.1 * timeout_s) == full // 4
    assert window.room_bytes(last_sent_s + 600) == INITIAL_BYTES


def test_a_window_that_is_never_filled_shrinks_towards_what_is_used() -> None:
    window, now_s = opened()
    for _ in range(100):
        now_s += 0.05
        window.room_bytes(now_s)
        window.sent(now_s, 5_000)
        window.delivered(5_000, now_s + RTT_S)
    assert window.size_bytes < INITIAL_BYTES * 1.1


def test_a_window_that_is_not_used_does_not_grow() -> None:
    window = SenderWindow()
    for step in range(100):
        window.room_bytes(step * 0.05)
        window.sent(step * 0.05, 5_000)
        window.delivered(5_000, step * 0.05 + RTT_S)
    assert window.size_bytes == INITIAL_BYTES


def test_what_is_never_delivered_fills_the_window_for_good() -> None:
    window = SenderWindow()
    window.sent(0.0, window.room_bytes(0.0))
    assert window.room_bytes(1000.0) == 0
    assert window.room_at_s() == float("inf")


def test_the_window_opens_only_so_far() -> None:
    window = SenderWindow()
    send_all(window, 20 * MOST_BYTES)
    assert window.size_bytes == MOST_BYTES


def test_deliveries_may_be_cut_otherwise_than_what_was_sent() -> None:
    window = SenderWindow()
    for size in (1000, 2000, 3000):
        window.sent(0.0, size)
    for size in (500, 3500, 2000):
        window.delivered(size, RTT_S)
    assert window.in_flight_bytes == 6000
    window.room_bytes(RTT_S)
    assert window.in_flight_bytes == 0
