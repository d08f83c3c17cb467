"""Whose turn it is: who runs dry first, within a fair share, and nobody for ever last."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqrt.policies.turns import MOST_DEBT_S, MOST_SLACK_S, UNTOLD_S, Place, Turns, dry_in_s
from seqrt.wire.messages import AskPlan


@dataclass(eq=False)
class Act:
    place: Place


def act(episode: str, step: int = 0, at: float = 0.0, dry_in: float = 0.0, who: str = "") -> Act:
    return Act(Place(episode, who or episode, step, at, at + dry_in))


def ordered(turns: Turns[Act], acts: Iterable[Act]) -> list[Act]:
    waiting = {one: turns.due(one.place) for one in acts}
    order = turns.order(waiting)
    assert not order or turns.first(waiting) is order[0]
    return order


def order(*acts: Act, freshest: bool = True) -> list[str]:
    turns: Turns[Act] = Turns(freshest=freshest)
    return [f"{one.place.episode}{one.place.step}" for one in ordered(turns, acts)]


def test_the_robot_that_runs_dry_first_is_served_first():
    assert order(act("a", dry_in=0.9), act("b", dry_in=0.2), act("c", dry_in=0.5)) == ["b0", "c0", "a0"]


def test_among_equals_whoever_came_first_is_first():
    assert order(act("a", at=0.2), act("b", at=0.1), act("c", at=0.2)) == ["b0", "a0", "c0"]


def test_of_an_episode_the_newest_is_served_or_the_oldest_at_the_place_of_the_one_that_is_due_first():
    acts = [act("a", 3, at=0.0, dry_in=0.5), act("b", at=0.1, dry_in=0.45), act("a", 7, at=0.3, dry_in=1.5)]
    assert order(*acts) == ["a7", "b0"]
    assert order(*acts, freshest=False) == ["a3", "b0"]


def test_more_than_the_most_slack_is_not_believed_and_less_than_none_neither():
    turns: Turns[Act] = Turns(freshest=True)
    assert turns.due(act("a", at=1.0, dry_in=1e9).place) == 1.0 + MOST_SLACK_S
    assert turns.due(act("a", at=1.0, dry_in=-5.0).place) == 1.0


@pytest.mark.parametrize(
    ("plan", "first", "told"),
    [
        (None, True, 0.0),
        (None, False, UNTOLD_S),
        (AskPlan(epoch=1), False, UNTOLD_S),
        (AskPlan(dry_in_s=0.7), True, 0.7),
        (AskPlan(dry_in_s=0.7, steps_left=100, hz=10.0), False, 0.7),
        (AskPlan(steps_left=5, hz=10.0), False, 0.5),
        (AskPlan(steps_left=5), False, UNTOLD_S),
        (AskPlan(steps_left=5, hz=0.0), False, UNTOLD_S),
        (AskPlan(dry_in_s=0.7, net_p95_ms=200.0), False, pytest.approx(0.5)),
        (AskPlan(dry_in_s=0.1, net_p95_ms=200.0), False, 0.0),
        (AskPlan(dry_in_s=0.7, net_p95_ms=-200.0), False, 0.7),
        (AskPlan(dry_in_s=-3.0), False, 0.0),
        (AskPlan(dry_in_s=math.inf), False, math.inf),
        (AskPlan(dry_in_s=math.nan), False, UNTOLD_S),
        (AskPlan(dry_in_s=0.3, net_p95_ms=math.nan), False, 0.3),
        (AskPlan(dry_in_s=math.inf, net_p95_ms=math.inf), False, 0.0),
    ],
)
def test_how_long_a_robot_has_is_what_it_says_less_the_network_and_a_guess_where_it_says_nothing(plan, first, told):
    assert dry_in_s(plan, first=first) == told


def test_whoever_took_more_than_its_share_of_a_worker_that_others_want_stands_back():
    turns: Turns[Act] = Turns(freshest=True)
    turns.served(["a"], began_at=0.0, now=0.1, sharing=4)
    assert [one.place.episode for one in ordered(turns, [act("a", at=0.1), act("b", at=0.3)])] == ["b", "a"]
    assert [one.place.episode for one in ordered(turns, [act("a", at=0.1), act("b", at=0.5)])] == ["a", "b"]


def test_nobody_owes_anything_for_a_worker_that_nobody_else_wanted():
    turns: Turns[Act] = Turns(freshest=True)
    for call in range(100):
        turns.served(["a"], began_at=0.1 * call, now=0.1 * (call + 1), sharing=1)
    assert turns.due(act("a", at=10.0).place) == 10.0


def test_a_debt_is_forgotten_when_it_is_paid():
    turns: Turns[Act] = Turns(freshest=True)
    for robot in range(1000):
        turns.served([f"r{robot}"], began_at=robot, now=robot + 0.1, sharing=5)
    assert len(turns._paid_until) < 5


ACTS = st.lists(
    st.builds(
        act,
        st.sampled_from("abcdef"),
        st.integers(0, 50),
        st.floats(0, 100),
        st.one_of(st.floats(-10, 10), st.just(math.inf)),
        st.sampled_from(["", "lease"]),
    ),
    max_size=20,
)
CALLS = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 5), st.integers(1, 30)), max_size=30)


@settings(deadline=None)
@given(ACTS, CALLS, st.booleans())
def test_whatever_was_said_and_owed_no_act_is_overtaken_by_one_that_came_later_than_the_bound(acts, calls, freshest):
    turns: Turns[Act] = Turns(freshest=freshest)
    now = 0.0
    for who, took_s, sharing in calls:
        turns.served([who], began_at=now, now=now + took_s, sharing=sharing)
        now += took_s
    in_turn = ordered(turns, acts)
    assert {one.place.episode for one in in_turn} == {one.place.episode for one in acts}
    assert len(in_turn) == len({one.place.episode for one in acts})
    oldest: dict[object, float] = {}
    for one in acts:
        oldest[one.place.episode] = min(one.place.arrived_at, oldest.get(one.place.episode, math.inf))
    for index, one in enumerate(in_turn):
        for behind in in_turn[index + 1 :]:
            assert oldest[one.place.episode] <= oldest[behind.place.episode] + MOST_SLACK_S + MOST_DEBT_S + 1e-9


@settings(deadline=None)
@example([act("a", dry_in=math.inf), act("a")], 0.0)
@example([act("b", at=1.0, dry_in=math.inf), act("a", dry_in=math.inf), act("b", dry_in=math.inf)], 0.0)
@given(ACTS, st.floats(0, 5))
def test_asking_again_neither_costs_a_robot_its_place_nor_makes_it_better(acts, at):
    turns: Turns[Act] = Turns(freshest=True)
    more = act("a", 99, at=101.0 + at)  # after all others, and standing, as it says
    before = [one.place.episode for one in ordered(turns, acts)]
    after = [one.place.episode for one in ordered(turns, [*acts, more])]
    if "a" in before and min(turns.due(one.place) for one in acts if one.place.episode == "a") <= turns.due(more.place):
        assert after == before


@dataclass
class Robot:
    """Asks, waits for its answer, thinks, asks again; late answers are counted by how late they were."""

    name: str
    period_s: float
    dry_in_s: float
    says_s: float | None = None
    served: int = 0
    late_s: float = 0.0
    waits: list[float] = field(default_factory=list)
    next_at: float = 0.0


def simulate(robots: list[Robot], call_s: float, until: float) -> None:
    """One act a call; the time is advanced by calls, and to the next arrival where nobody waits."""
    turns: Turns[Act] = Turns(freshest=True)
    waiting: dict[str, Act] = {}
    now = 0.0
    while now < until:
        for robot in robots:
            if robot.next_at <= now and robot.name not in waiting:
                says_s = robot.says_s if robot.says_s is not None else robot.dry_in_s
                waiting[robot.name] = act(robot.name, at=robot.next_at, dry_in=says_s)
        if not waiting:
            now = min(robot.next_at for robot in robots)
            continue
        first = ordered(turns, waiting.values())[0]
        robot = next(robot for robot in robots if robot.name == first.place.episode)
        del waiting[robot.name]
        began, now = now, now + call_s
        arrived = {one.name for one in robots if one.next_at <= now and one is not robot}
        turns.served([robot.name], began_at=began, now=now, sharing=len(arrived | {robot.name}))
        asked_at, robot.served = robot.next_at, robot.served + 1
        robot.waits.append(began - asked_at)
        robot.late_s = max(robot.late_s, now - asked_at - robot.dry_in_s)
        robot.next_at = max(now, asked_at + robot.period_s)


def test_robots_that_ask_ahead_are_served_in_time_beside_one_that_always_says_it_stands_and_never_stops_asking():
    honest = [Robot(f"h{n}", period_s=1.0, dry_in_s=0.9, next_at=0.07 * n) for n in range(5)]
    liar = Robot("liar", period_s=0.0, dry_in_s=0.0)
    simulate([*honest, liar], call_s=0.1, until=60.0)
    assert max(robot.late_s for robot in honest) <= 0.0
    assert all(robot.served >= 59 for robot in honest)
    assert liar.served >= 250  # and what is left over is its


def test_ten_that_lie_do_not_keep_one_that_does_not_from_its_share():
    honest = Robot("honest", period_s=2.0, dry_in_s=1.5, next_at=0.05)
    liars = [Robot(f"l{n}", period_s=0.0, dry_in_s=0.0) for n in range(10)]
    simulate([honest, *liars], call_s=0.1, until=60.0)
    assert honest.late_s <= 0.2
    assert honest.served >= 27


def test_among_robots_that_all_want_too_much_each_gets_the_same():
    robots = [Robot(f"r{n}", period_s=0.0, dry_in_s=0.1 * n) for n in range(6)]
    simulate(robots, call_s=0.1, until=120.0)
    counts = [robot.served for robot in robots]
    assert max(counts) <= min(counts) + 3
    assert max(max(robot.waits) for robot in robots) < MOST_SLACK_S
