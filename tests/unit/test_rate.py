from __future__ import annotations

import math

import pytest
from narrow import Way, send

from seqrt.link.lowest import Lowest
from seqrt.link.rate import LEAST_PIECE, MOST_PIECE, PIECE_S, Rate

MS = 1e-3


@pytest.mark.parametrize("rtt_s", [0.0021, 0.0403, 0.2003])
@pytest.mark.parametrize("mbit", [5, 20, 100, 500])
def test_an_act_hardly_waits_on_a_link_that_is_used_to_nine_tenths(mbit: float, rtt_s: float) -> None:
    way = Way(mbit, rtt_s)
    seen = send(way, seconds=6.0)
    waits = seen.waits_ms(2.0)
    piece_ms = max(PIECE_S, LEAST_PIECE / (mbit * 125e3)) * 1e3
    assert waits[int(0.99 * len(waits))] <= piece_ms + 10.0
    assert seen.used(way, 2.0, 6.0) >= 0.9
    assert seen.rate_at(2.0) == pytest.approx(mbit * 125e3, rel=0.08)


@pytest.mark.parametrize("mbit", [5, 20, 100])
def test_jitter_is_taken_for_no_queue(mbit: float) -> None:
    way = Way(mbit, jitter_s=0.005)
    seen = send(way, seconds=6.0)
    waits = seen.waits_ms(2.0)
    assert waits[int(0.99 * len(waits))] <= 25.0
    assert seen.used(way, 2.0, 6.0) >= 0.88


@pytest.mark.parametrize("rtt_s", [0.0121, 0.0403, 0.1003])
@pytest.mark.parametrize(("times", "demand"), [(0.25, 1.5), (4.0, 6.0)])
def test_a_link_that_becomes_another_is_known_within_two_seconds(times: float, demand: float, rtt_s: float) -> None:
    way = Way(20, rtt_s, changes=[(3.0, times)])
    seen = send(way, demand=demand, seconds=8.0)
    rate = seen.rate_at(5.0)
    assert rate is not None
    assert rate == pytest.approx(20 * 125e3 * times, rel=0.2)
    assert seen.used(way, 5.0, 8.0) >= 0.88


WORKERS = {
    "quick": lambda at_s: 0.0005,
    "slow": lambda at_s: 0.1,
    "busy half the time": lambda at_s: 0.3 - at_s % 0.6 if at_s % 0.6 < 0.3 else 0.0005,
    "busy nearly always": lambda at_s: 0.28 - at_s % 0.3 if at_s % 0.3 < 0.28 else 0.0005,
    "busy now and then": lambda at_s: 0.08 - at_s % 0.1 if at_s % 0.1 < 0.08 else 0.0005,
}


@pytest.mark.parametrize("jitter_s", [0.0, 0.005])
@pytest.mark.parametrize("worker", WORKERS)
def test_a_fast_link_is_never_held_back_whatever_its_worker_does(worker: str, jitter_s: float) -> None:
    way = Way(1000, jitter_s=jitter_s, worker_s=WORKERS[worker])
    seen = send(way, demand=54_000 * 15 / 125e6, seconds=5.0)
    assert {rate for _, rate in seen.rates} == {None}
    assert set(seen.pieces) == {54_000}
    assert len(seen.pieces) >= 5 * 15 - 6


def test_a_link_that_is_long_and_not_busy_shows_no_limit() -> None:
    """54 KB answered in a round trip of 200 ms: that is all it was asked for, and not what it carries."""
    seen = send(Way(1000, 0.2003), demand=54_000 * 30 / 125e6, seconds=3.0)
    assert {rate for _, rate in seen.rates} == {None}


def test_nothing_is_known_at_first_and_bodies_go_whole() -> None:
    rate = Rate()
    assert rate.bytes_per_s is None
    assert rate.due(10**6, 5.0, needed=False) == 5.0
    assert rate.take(10**6, 5.0) == 10**6


def test_pieces_are_three_milliseconds_within_bounds() -> None:
    assert Rate(20 * 125e3).piece == 7500
    assert Rate(1e5).piece == LEAST_PIECE
    assert Rate(1e9).piece == MOST_PIECE


def test_while_an_answer_is_overdue_only_what_is_needed_goes() -> None:
    rate = Rate()
    rate.handed(1000, 0.0)
    rate.ended("a", 0.0)
    rate.answered("a", 0.0403)
    rate.handed(1000, 1.0)
    rate.ended("b", 1.0)
    assert rate.due(1000, 1.05, needed=False) == 1.05
    late = 1.0 + 0.0403 + 60 * MS
    assert rate.due(1000, late, needed=False) == math.inf
    assert rate.due(1000, late, needed=True) == late
    rate.answered("b", late)
    assert rate.due(1000, late, needed=False) == late


def test_a_post_that_will_not_be_answered_holds_nobody_back() -> None:
    rate = Rate()
    rate.handed(10**6, 0.0)
    rate.ended("a", 0.0)
    assert rate.due(1000, 1.0, needed=False) == math.inf
    rate.lost("a")
    assert rate.due(1000, 1.0, needed=False) == 1.0
    assert rate.unanswered == 0


def test_an_answer_that_was_overtaken_says_nothing() -> None:
    rate = Rate()
    for post in ("a", "b"):
        rate.handed(1000, 0.0)
        rate.ended(post, 0.0)
    rate.answered("b", 0.04)
    rate.answered("a", 3.0)
    assert rate.bytes_per_s is None
    assert rate.unanswered == 0


def test_what_never_waits_is_charged() -> None:
    rate = Rate(1e6)
    rate.handed(3000, 1.0)
    before = rate.due(10**5, 1.0, needed=True)
    rate.handed(5000, 1.0)
    assert rate.due(10**5, 1.0, needed=True) == pytest.approx(before + 5000 / 0.95e6)


def test_the_lowest_value_is_forgotten_in_time() -> None:
    lowest = Lowest(1.0)
    assert not lowest
    for at_s, value in [(0.0, 3.0), (0.4, 1.0), (0.9, 2.0), (1.3, 4.0)]:
        lowest.add(at_s, value, beside=10 * value)
    assert (lowest.value, lowest.beside) == (1.0, 10.0)
    lowest.add(1.5, 5.0)
    assert lowest.value == 2.0
    lowest.add(9.0, 7.0)
    assert lowest.value == 7.0
