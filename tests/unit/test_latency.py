from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.action.latency import Latencies, quantile


def fed(*latencies_s: float, cold_first: bool = False) -> Latencies:
    """One request after another, each sent when the answer before it came."""
    windows, now = Latencies(), 0.0
    for index, latency_s in enumerate(latencies_s):
        windows.add(latency_s, sent_at=now, now=now + latency_s, cold=cold_first and index == 0)
        now += latency_s
    return windows


@pytest.mark.parametrize("cold_first", [True, False])
@pytest.mark.parametrize(("cold_s", "count", "warm_s"), [(3.0, 100, 0.3), (65.0, 50, 0.08)])
def test_a_cold_start_does_not_stay_in_the_estimate(cold_first, cold_s, count, warm_s):
    windows = fed(cold_s, *[warm_s] * count, cold_first=cold_first)
    assert windows.high_s() == pytest.approx(warm_s)
    assert windows.median_s() == pytest.approx(warm_s)


def test_a_cold_start_marked_as_such_is_forgotten_at_the_first_typical_answer():
    windows = fed(3.0, cold_first=True)
    assert (windows.high_s(), windows.median_s()) == (3.0, 3.0)
    windows.add(0.3, sent_at=3.0, now=3.3)
    assert windows.high_s() == pytest.approx(0.3)


def test_a_reconnect_stays_out_of_the_window_that_is_there():
    windows = fed(*[0.3] * 10)
    assert windows.add(9.0, sent_at=3.0, now=12.0, cold=True) is False
    assert windows.high_s() == pytest.approx(0.3)


def test_nothing_is_known_before_the_first_answer():
    windows = Latencies()
    assert windows.high_s() is None
    assert windows.median_s() is None
    assert windows.serving_s() is None
    assert windows.covers() is None
    assert not windows.typical


def test_what_the_worker_measured_serves_until_acts_were_timed():
    windows = Latencies(infer_s=0.128)
    assert windows.serving_s() == 0.128
    for seconds in (0.2, 0.3, 0.1):
        windows.add_serving(seconds)
    assert windows.serving_s() == 0.2


def test_one_stall_is_one_sample():
    windows = fed(*[0.2] * 20)
    # Four requests were out when the link stood still for 5 s; their answers come together at 15.0.
    taken = [windows.add(15.0 - sent_at, sent_at=sent_at, now=15.0) for sent_at in (10.0, 10.2, 10.4, 10.6)]
    assert taken == [True, False, False, False]
    assert windows.high_s() == pytest.approx(0.2)
    assert windows.add(0.2, sent_at=15.0, now=15.2) is True


def test_a_lasting_change_is_taken_in():
    windows = fed(*[0.1] * 20, *[0.5] * 5)
    assert windows.high_s() == pytest.approx(0.5)


def test_a_maximum_is_forgotten_after_twenty_answers():
    windows = fed(*[0.1] * 10, 0.9, 0.9, 0.9, *[0.1] * 20)
    assert windows.high_s() == pytest.approx(0.1)


def test_covers_speak_from_twenty_samples_on_and_remember_a_hundred():
    windows = Latencies()
    for _ in range(19):
        windows.add_cover(7)
    assert windows.covers() is None
    windows.add_cover(7)
    assert windows.covers() == (7, 7)
    for _ in range(80):
        windows.add_cover(3)
    assert windows.covers() == (7, 7)  # 20 of 100 needed 7
    for _ in range(18):
        windows.add_cover(3)
    assert windows.covers() == (3, 3)  # 2 of 100: the two worst are left out
    for _ in range(3):
        windows.add_cover(30)
    assert windows.covers() == (30, 30)


@pytest.mark.parametrize(
    ("q", "samples", "expected"),
    [
        (0.9, [1], 1),
        (0.5, [1, 2], 1),
        (0.5, [3, 1, 2], 2),
        (0.9, range(1, 21), 18),
        (0.9, range(1, 11), 9),
        (0.98, range(1, 101), 98),
        (0.98, range(1, 21), 20),
    ],
)
def test_a_quantile_is_the_nearest_rank(q, samples, expected):
    assert quantile(list(samples), q) == expected


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.98]))
def test_a_quantile_is_the_smallest_sample_with_enough_not_above_it(samples, q):
    value = quantile(samples, q)
    assert value in samples
    assert sum(s <= value for s in samples) >= q * len(samples) - 1e-9
    assert sum(s < value for s in samples) < q * len(samples) + 1e-9


def test_the_moving_average_of_refills_begins_with_the_first_and_takes_three_tenths_of_each_new_one():
    assert Latencies().refill_s() is None
    assert fed(1.0, cold_first=True).refill_s() == pytest.approx(1.0)
    assert fed(1.0, 0.5, cold_first=True).refill_s() == pytest.approx(0.85)
    assert fed(1.0, 0.5, 2.0).refill_s() == pytest.approx(0.7 * 0.85 + 0.3 * 2.0)
