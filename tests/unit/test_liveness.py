from __future__ import annotations

import math

import pytest

from seqrt.link.liveness import (
    LOOK_S,
    MEASURE_S,
    PATIENCE_S,
    ROUND_TRIPS,
    SILENCE_S,
    Experience,
    Gone,
    Liveness,
    Ping,
    Wait,
)


def opened(experience: Experience | None = None, at: float = 0.0) -> Liveness:
    """A connection that was opened, and pinged and answered, at ``at``."""
    liveness = Liveness(experience or Experience())
    liveness.begin(at)
    liveness.opened(at)
    assert liveness.decide(at) == Ping(None)
    ping(liveness, at)
    liveness.ping_over()
    return liveness


def ping(liveness: Liveness, at: float, about: str | None = None) -> None:
    """One goes out, over a link that is free."""
    liveness.pinged(Ping(about), at)
    liveness.looked(1000, at)
    liveness.ping_handed_over(20, at)
    liveness.looked(1020, at)


def seen(*round_trips: float) -> Experience:
    experience = Experience()
    for took_s in round_trips:
        experience.answered(took_s)
    return experience


# Silence.


def test_nothing_is_decided_before_the_first_request() -> None:
    assert isinstance(Liveness(Experience()).decide(1e9), Wait)


def test_a_second_of_silence_is_asked_about() -> None:
    liveness = opened()
    assert liveness.decide(0.9) == Wait(SILENCE_S)
    assert liveness.decide(SILENCE_S) == Ping(None)


def test_a_program_that_stood_still_listens_for_a_while_before_it_takes_the_other_end_for_gone() -> None:
    liveness = opened()
    assert liveness.decide(SILENCE_S) == Ping(None)
    ping(liveness, SILENCE_S)
    assert liveness.decide(SILENCE_S) == Wait(SILENCE_S + PATIENCE_S)
    assert liveness.decide(30.0) == Wait(30.0 + PATIENCE_S)
    assert liveness.decide(30.0 + PATIENCE_S) == Gone(30.0 + PATIENCE_S)


def test_a_machine_that_is_always_late_finds_out_all_the_same() -> None:
    liveness = opened()
    ping(liveness, SILENCE_S)
    for now in (SILENCE_S, 2.5):
        assert isinstance(liveness.decide(now), Wait)
    assert liveness.decide(4.0) == Gone(4.0)


def test_a_loop_that_is_a_little_late_gives_the_other_end_no_more_time() -> None:
    liveness = opened()
    ping(liveness, SILENCE_S)
    assert liveness.decide(SILENCE_S) == Wait(SILENCE_S + PATIENCE_S)
    late = SILENCE_S + PATIENCE_S + 0.2
    assert liveness.decide(late) == Gone(late)


def test_where_bytes_keep_coming_a_ping_goes_out_now_and_then_to_measure_the_round_trip() -> None:
    liveness = opened()
    for tenths in range(1, 20):
        liveness.heard(tenths / 10)
        assert liveness.decide(tenths / 10) == Wait(min(tenths / 10 + SILENCE_S, MEASURE_S))
    liveness.heard(MEASURE_S)
    assert liveness.decide(MEASURE_S) == Ping(None)


@pytest.mark.parametrize(
    ("round_trips", "patience_s"), [((), 1.0), ((0.02,), 1.0), ((0.4,), 1.6), ((0.02, 0.02, 3.0), 1.0)]
)
def test_the_other_end_is_gone_when_a_ping_brings_nothing_within_a_second_or_four_round_trips(
    round_trips: tuple[float, ...], patience_s: float
) -> None:
    liveness = opened(seen(*round_trips))
    ping(liveness, SILENCE_S)
    until = SILENCE_S + patience_s
    assert liveness.decide(until - 0.01) == Wait(pytest.approx(until))
    assert liveness.decide(until) == Gone(pytest.approx(until))


def test_a_ping_that_was_out_already_when_the_silence_began_makes_the_bound_no_shorter() -> None:
    liveness = opened()
    liveness.heard(MEASURE_S)
    ping(liveness, MEASURE_S)
    liveness.heard(MEASURE_S + 0.5)
    gone_at = MEASURE_S + 0.5 + SILENCE_S + PATIENCE_S
    assert liveness.decide(gone_at - 0.01) == Wait(gone_at)
    assert liveness.decide(gone_at) == Gone(SILENCE_S + PATIENCE_S)


@pytest.mark.parametrize("stall_s", [0.5, 1.0, 1.9])
def test_a_stall_that_ends_within_the_bound_kills_nothing(stall_s: float) -> None:
    liveness, now = opened(), 0.0
    while now < stall_s:
        step = liveness.decide(now)
        assert not isinstance(step, Gone)
        if isinstance(step, Ping):
            ping(liveness, now)
        now += 0.05
    liveness.heard(now)
    liveness.ping_over()
    assert isinstance(liveness.decide(now + SILENCE_S / 2), Wait)


def test_any_byte_is_a_sign_of_life_while_a_ping_is_out() -> None:
    liveness = opened()
    ping(liveness, SILENCE_S)
    for tenths in range(11, 300):
        liveness.heard(tenths / 10)
        assert isinstance(liveness.decide(tenths / 10), Wait)


# A full uplink.


def test_a_ping_that_waits_behind_an_upload_is_no_dead_peer_as_long_as_bytes_are_taken() -> None:
    liveness = opened()
    liveness.looked(1000, 1.0)
    liveness.pinged(Ping(None), 1.0)
    for quarter in range(1, 60):
        now = 1.0 + quarter * LOOK_S
        liveness.looked(1000 + 31_250 * quarter, now)
        step = liveness.decide(now)
        assert isinstance(step, Wait)
        assert step.until <= now + LOOK_S + 1e-9


def test_nor_is_one_behind_what_the_system_holds() -> None:
    liveness = opened()
    liveness.pinged(Ping(None), 1.0)
    liveness.looked(1000, 1.0)
    liveness.ping_handed_over(1_840_000, 1.0)
    for quarter in range(1, 50):
        now = 1.0 + quarter * LOOK_S
        liveness.looked(1000 + 31_250 * quarter, now)
        assert isinstance(liveness.decide(now), Wait)


def test_once_it_is_taken_or_nothing_is_taken_any_more_the_ping_has_as_long_as_any() -> None:
    """A relay that swallows everything takes bytes for ever: those behind the ping are no sign of life."""
    taken, stands, stands_here = opened(), opened(), opened()
    for liveness, at in ((taken, 2000), (stands, 1500), (stands_here, 1500)):
        liveness.pinged(Ping(None), 1.0)
        liveness.looked(1000, 1.0)
        if liveness is not stands_here:
            liveness.ping_handed_over(1000, 1.0)
        liveness.looked(at, 2.0)
        liveness.looked(at + (50_000 if liveness is taken else 0), 2.5)
        assert isinstance(liveness.decide(2.9), Wait)
        assert isinstance(liveness.decide(2.0 + PATIENCE_S), Gone)


def test_where_the_system_tells_nothing_a_ping_that_cannot_be_handed_over_says_little() -> None:
    liveness = opened()
    liveness.pinged(Ping(None), 1.0)
    liveness.looked(None, 1.0)
    assert isinstance(liveness.decide(10.9), Wait)
    assert isinstance(liveness.decide(11.0), Gone)
    liveness.ping_handed_over(0, 5.0)
    assert isinstance(liveness.decide(5.9), Wait)
    assert isinstance(liveness.decide(6.0), Gone)


# Opening.


def test_a_connection_that_does_not_open_is_given_up_and_that_time_never_grows() -> None:
    experience = Experience()
    for _ in range(3):
        liveness = Liveness(experience)
        liveness.begin(10.0)
        assert liveness.decide(11.9) == Wait(12.0)
        assert liveness.decide(12.0) == Gone(2.0)
        experience.was_silent()


def test_a_connection_that_is_refused_is_no_silent_one() -> None:
    liveness = Liveness(Experience())
    liveness.begin(0.0)
    liveness.refused()
    assert isinstance(liveness.decide(100.0), Wait)
    liveness.begin(100.0)
    assert isinstance(liveness.decide(101.0), Wait)


def test_one_silent_connection_after_another_is_not_the_connections_fault_each_is_given_twice_the_time() -> None:
    experience, bounds = seen(0.02), []
    for _ in range(6):
        liveness = opened(experience)
        ping(liveness, SILENCE_S)
        step = liveness.decide(SILENCE_S)
        assert isinstance(step, Wait)
        bounds.append(step.until - SILENCE_S)
        experience.was_silent()
    assert bounds == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
    experience.was_answered()
    assert experience.patience_s(opened=True) == PATIENCE_S


# An act.


def test_an_act_that_is_out_for_long_is_asked_after_and_each_second_again() -> None:
    liveness = opened()
    liveness.act_out("r-1", 0.2)
    liveness.act_out("r-2", 0.3)
    liveness.heard(1.15)
    assert liveness.decide(1.19) == Wait(pytest.approx(1.2))
    assert liveness.decide(1.2) == Ping("r-1")
    ping(liveness, 1.2, "r-1")
    liveness.ping_over()
    assert liveness.decide(1.3) == Ping("r-2")
    liveness.act_over("r-2")
    liveness.heard(2.1)
    assert liveness.decide(2.2) == Ping("r-1")


@pytest.mark.parametrize(("served_s", "expected_s"), [([], 1.0), ([0.1], 1.0), ([0.8], 1.6), ([65.0, 0.1, 0.1], 1.0)])
def test_how_long_an_act_may_be_out_goes_by_the_last_ones_and_not_by_a_slow_first(
    served_s: list[float], expected_s: float
) -> None:
    experience = Experience()
    for took_s in served_s:
        experience.served(took_s)
    assert experience.expected_s == pytest.approx(expected_s)


def asked_after(*, handed_over_at: float = 0.0, begun: bool = False, round_trip_s: float = 0.1) -> Liveness:
    liveness = opened(seen(round_trip_s))
    liveness.act_out("r-1", 0.0)
    liveness.act_handed_over("r-1", handed_over_at)
    if begun:
        liveness.act_begun("r-1")
    ping(liveness, 1.0, "r-1")
    return liveness


@pytest.mark.parametrize(
    ("liveness", "state", "for_s", "lost"),
    [
        (asked_after(), "unknown", 0.0, True),
        (asked_after(), "running", 64.0, False),
        (asked_after(), "waiting", 64.0, False),
        (asked_after(), "answered", 0.1, False),
        (asked_after(), "answered", 1.1, True),
        (asked_after(begun=True), "answered", 0.6, False),
        (asked_after(begun=True), "unknown", 0.0, False),
        (asked_after(handed_over_at=math.inf), "unknown", 0.0, False),
        (asked_after(handed_over_at=0.95), "unknown", 0.0, False),
        (asked_after(), None, 0.0, False),
        (asked_after(), "a word of a newer worker", 9.0, False),
    ],
)
def test_an_act_is_lost_when_the_worker_does_not_have_it_though_it_was_sent_a_round_trip_before_the_ping(
    liveness: Liveness, state: str | None, for_s: float, lost: bool
) -> None:
    assert liveness.is_lost(Ping("r-1"), state, for_s) is lost
    assert not liveness.is_lost(Ping(None), state, for_s)


def test_four_round_trips_are_what_the_table_of_failures_says() -> None:
    assert (SILENCE_S, PATIENCE_S, ROUND_TRIPS) == (1.0, 1.0, 4)
