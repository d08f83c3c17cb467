"""What calls take, when acts come, and whether a call waits for more of them: learnt, and never at anybody's cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.policies.durations import CallDurations
from seqrt.policies.gathering import begin_at
from seqrt.policies.rhythm import Rhythms


class Episode:
    def __init__(self, ended: bool = False) -> None:
        self.ended = ended


def learnt(least_s: float = 0.1, an_act_s: float = 0.002, sizes: Sequence[int] = (1, 8)) -> CallDurations:
    durations = CallDurations()
    for size in sizes:
        for _ in range(3):
            durations.add(size, least_s + an_act_s * size)
    return durations


def begins(now: float = 0.0, **changed: object) -> float:
    given = {"since": now, "dry_at": now + 1.0, "count": 1, "most": 8, "expected": [now + 0.02], "durations": learnt()}
    return begin_at(now, **{**given, **changed})  # type: ignore[arg-type]


# What calls take.


def test_a_size_is_known_after_two_calls_and_a_slow_first_one_is_not_believed():
    durations = CallDurations()
    assert durations.of(1) is None
    durations.add(1, 60.0)
    assert durations.of(1) is None
    durations.add(1, 0.1)
    assert durations.of(1) == 0.1


def test_what_was_measured_at_the_start_counts_until_calls_say_more():
    durations = CallDurations()
    durations.measured(0.25)
    assert durations.of(1) == 0.25
    durations.add(1, 0.2)
    durations.add(1, 0.2)
    assert durations.of(1) == 0.2


def test_of_sizes_not_seen_nothing_is_known_from_one_alone_and_the_line_from_two():
    durations = learnt(sizes=[1])
    assert durations.of(4) is None
    durations = learnt(sizes=[1, 4])
    assert durations.of(8) == pytest.approx(0.116)
    assert durations.of(2) == pytest.approx(0.104)


def test_a_larger_call_is_never_taken_to_be_shorter():
    durations = CallDurations()
    for size, took_s in [(1, 0.2), (1, 0.2), (4, 0.1), (4, 0.1)]:
        durations.add(size, took_s)
    assert durations.of(16) == pytest.approx(0.15)


def test_what_a_call_has_still_to_go_is_nothing_once_it_is_late():
    durations = learnt()
    assert durations.left(1, 5.0, 5.05) == pytest.approx(0.052)
    assert durations.left(1, 5.0, 9.0) == 0.0
    assert CallDurations().left(1, 5.0, 5.0) == 0.0


# When acts come.


def test_a_robot_is_expected_by_the_longest_of_its_last_intervals_and_not_before_three_acts():
    rhythms, episode = Rhythms(), Episode()
    rhythms.heard(episode, 0.0)
    rhythms.heard(episode, 1.0)
    assert list(rhythms.expected(1.1, ())) == []
    rhythms.heard(episode, 2.2)
    assert list(rhythms.expected(2.3, ())) == [pytest.approx(3.4)]
    assert list(rhythms.expected(2.3, [episode])) == []


def test_an_overdue_robot_and_one_whose_episode_ended_are_not_expected():
    rhythms, episode = Rhythms(), Episode()
    for at in (0.0, 1.0, 2.0):
        rhythms.heard(episode, at)
    assert list(rhythms.expected(3.01, ())) == []
    episode.ended = True
    assert list(rhythms.expected(2.5, ())) == []


def test_those_expected_come_soonest_first():
    rhythms, robots = Rhythms(), [Episode() for _ in range(3)]
    for number, robot in enumerate(robots):
        for act in range(3):
            rhythms.heard(robot, act + 0.3 * (2 - number))
    assert list(rhythms.expected(2.7, ())) == [pytest.approx(3.0), pytest.approx(3.3), pytest.approx(3.6)]


def test_the_rate_of_a_robot_that_falls_silent_fades():
    rhythms, robot = Rhythms(), Episode()
    assert rhythms.rates(0.0) == []
    for at in (0.0, 0.5, 1.0):
        rhythms.heard(robot, at)
    assert rhythms.rates(1.1) == [2.0]
    assert rhythms.rates(11.0) == [pytest.approx(0.1)]
    robot.ended = True
    assert rhythms.rates(11.0) == []


def test_an_episode_that_is_forgotten_elsewhere_is_forgotten():
    rhythms = Rhythms()
    for _ in range(100):
        rhythms.heard(Episode(), 0.0)
    assert len(rhythms._all) == 0


# Whether a call waits.


def test_a_call_waits_for_robots_that_are_about_to_ask_where_more_gets_done_by_it():
    assert begins(expected=[0.02, 0.021, 0.022]) == 0.022


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("nobody is expected", {"expected": []}),
        ("somebody who waits is short", {"dry_at": 0.2}),
        ("it is full", {"count": 8}),
        ("what calls take is not learnt", {"durations": CallDurations()}),
        ("of a larger call nothing is known", {"durations": learnt(sizes=[1])}),
        ("a call of two takes twice as long", {"durations": learnt(0.0, 0.1)}),
        ("the next one comes when this call would be over", {"expected": [0.11]}),
        ("it has waited for as long as a call takes", {"since": -0.1}),
        ("an act takes no time", {"durations": learnt(0.0, 0.0)}),
    ],
)
def test_a_call_begins_at_once_where(why, changed):
    assert begins(**changed) == 0.0


def test_of_those_expected_only_as_many_are_waited_for_as_are_worth_it():
    assert begins(expected=[0.01, 0.02, 0.09, 0.1]) in (0.02, 0.1)
    assert begins(expected=[0.01, 0.099], most=3, durations=learnt(0.1, 0.05)) == 0.01


@settings(deadline=None)
@given(
    st.floats(0, 100),
    st.floats(0, 2),
    st.floats(0, 3),
    st.integers(1, 20),
    st.integers(2, 16),
    st.lists(st.floats(0.001, 2), max_size=20).map(sorted),
    st.floats(0, 0.5),
    st.floats(0, 0.1),
)
def test_whatever_is_expected_nobody_runs_dry_by_it_and_nobody_waits_longer_than_a_call(
    now, waited_s, dry_in_s, count, most, after, least_s, an_act_s
):
    durations = learnt(least_s, an_act_s, sizes=(1, 16))
    expected = [now + one for one in after]
    since, dry_at = now - waited_s, now + dry_in_s
    at = begins(now, since=since, dry_at=dry_at, count=count, most=most, expected=expected, durations=durations)
    assert at >= now
    if at > now:
        assert at in expected
        alone_s = durations.of(count) or math.inf
        assert at <= since + alone_s + 1e-9
        joined = min(most, count + sum(one <= at for one in expected))
        assert at + (durations.of(joined) or 0.0) <= dry_at + 1e-9
