"""Where a new chunk is laid: each row played is the one that is due, whatever comes in between."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.blend import Crossfade, Ramp
from seqrt.action.chunk import Chunk, Spliced
from seqrt.action.declaration import Actions, Parts
from seqrt.action.plan import Plan
from seqrt.action.seam import Measure
from seqrt.action.splice import Aligned, Nearest, Placing, Sequential


def line(start: float, count: int, step: float = 1.0) -> np.ndarray:
    return np.array([[start + step * i] for i in range(count)])


def placing(rows: np.ndarray, *, passed: int, last: object, measure: Measure | None = None) -> Placing:
    row = None if last is None else np.atleast_1d(np.asarray(last, dtype=np.float64))
    return Placing(10, 10 + passed, 40, rows, row, measure or Measure())


@pytest.mark.parametrize(
    ("last", "passed", "first"),
    [
        (3.0, 4, 4),  # plans agree: the last row passed is the last command, as if aligned
        (1.1, 4, 2),  # the arm has got no farther than row 1: row 2 is next
        (-5.0, 4, 1),
        (99.0, 4, 4),  # never past what has been played
        (3.0, 0, 0),  # nothing has passed
        (None, 4, 4),  # nobody knows where the arm is
        ([1.0, 1.0], 4, 4),  # rows of another length
        (3.0, 30, 4),  # the whole chunk has passed, of ten rows
    ],
)
def test_the_row_behind_the_one_nearest_to_the_last_command_is_next(last, passed, first):
    placed = placing(line(0, 10), passed=passed, last=last)
    assert placed.position - Nearest().start(placed) == first


def test_of_rows_equally_near_the_latest_counts_so_a_plan_that_waits_goes_on():
    assert 14 - Nearest().start(placing(np.zeros((10, 1)), passed=4, last=0.0)) == 4


def test_a_gripper_does_not_say_which_row_is_near():
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0]])
    measure = Measure.of(Actions(space="absolute", parts=Parts(gripper=(1,))))
    assert 13 - Nearest().start(placing(rows, passed=3, last=[1.0, 1.0], measure=measure)) == 2


def test_a_plan_that_turns_back_is_joined_where_the_arm_is_and_aligned_jumps():
    """The arm went up for three rows; the new plan says down from where it looked."""
    jumps = {}
    for splice in (Aligned(), Nearest()):
        plan = Plan(splice, actions=Actions(space="absolute"))
        plan.splice(Chunk(line(0, 10), 0), observed_at=0)
        for _ in range(5):
            plan.pop()
        result = plan.splice(Chunk(line(1, 10, -1.0), 1), observed_at=2)
        assert isinstance(result, Spliced)
        assert result.disagreement_passed == 5.0, "of what was meant, wherever it is laid"
        due = plan.pop()
        assert due is not None
        jumps[type(splice)] = due.jump
    assert jumps == {Aligned: 6.0, Nearest: 4.0}


def test_successive_plans_that_agree_disagree_by_nothing_and_those_that_share_no_row_say_none():
    plan = Plan()
    first = plan.splice(Chunk(line(0, 6), 0), observed_at=0)
    assert isinstance(first, Spliced)
    assert (first.disagreement, first.disagreement_passed) == (None, None)
    for _ in range(4):
        plan.pop()
    again = plan.splice(Chunk(line(2, 10), 1), observed_at=2)
    assert isinstance(again, Spliced)
    assert (again.disagreement, again.disagreement_passed) == (0.0, 0.0)
    fresh = plan.splice(Chunk(line(9, 10), 2), observed_at=plan.position)
    assert isinstance(fresh, Spliced)
    assert fresh.disagreement_passed is None
    assert fresh.disagreement == 5.0


def test_rows_behind_are_compared_as_they_were_played_across_seams_and_holes():
    plan = Plan()
    plan.splice(Chunk(line(0, 3), 0), observed_at=0)
    for _ in range(3):
        plan.pop()
    plan.played_otherwise()  # nobody knows what position 3 was
    plan.splice(Chunk(line(40, 4), 1), observed_at=4)
    plan.pop()
    result = plan.splice(Chunk(np.array([[0.5], [1.5], [2.5], [90.0], [40.25], [7.0]]), 2), observed_at=0)
    assert isinstance(result, Spliced)
    assert result.disagreement_passed == 0.5
    assert result.disagreement == 34.0


def test_a_quaternion_and_its_negative_are_one_attitude():
    measure = Measure.of(Actions(space="absolute", parts=Parts(quaternion=(0, 1, 2, 3))))
    half = np.array([[0.6, 0.0, 0.8, 0.0, 3.0]])
    other = half * [-1, -1, -1, -1, 1]
    assert measure.apart(half, other).tolist() == [0.0]
    assert Measure().apart(half, other).tolist() == [1.6]


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=6, max_size=6), st.booleans())
def test_two_rows_are_as_far_apart_by_themselves_as_among_others(pairs, parts):
    measure = Measure(gripper=(1,), quaternions=((0, 2, 4, 5),)) if parts else Measure()
    row, other = np.array(pairs).T
    assert measure.between(row.tolist(), other.tolist()) == measure.apart(row[np.newaxis], other[np.newaxis])[0]


STEP = st.one_of(
    *[st.just(("tick",))] * 4,
    st.just(("observe",)),
    st.tuples(st.just("answer"), st.integers(0, 6), st.integers(1, 14)),
    st.tuples(st.just("lost"), st.integers(0, 6)),
    st.just(("stall",)),
    st.just(("take over",)),
)


@dataclass
class World:
    """Plays a plan by a list of what happens, and counts by itself what was played."""

    plan: Plan
    played: int = 0
    rows: list[list[float]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    out: list[int] = field(default_factory=list)

    def happen(self, step: tuple[object, ...], number: int) -> None:
        if step[0] == "observe":
            self.counts[number] = self.played
            self.out.append(number)
        elif step[0] == "answer" and self.out:
            observed = self.out.pop(int(step[1]) % len(self.out))  # type: ignore[call-overload]
            count = self.counts[observed]
            rows = np.array([[observed, i, count + i] for i in range(int(step[2]))], float)  # type: ignore[call-overload]
            self.plan.splice(Chunk(rows, observed), count)
        elif step[0] == "lost" and self.out:
            self.out.pop(int(step[1]) % len(self.out))  # type: ignore[call-overload]
        elif step[0] == "take over":
            self.plan.clear()
            self.out.clear()  # answers to what was seen before are of another epoch
        elif step[0] == "stall":
            for _ in range(20):
                self.tick()
        elif step[0] == "tick":
            self.tick()

    def tick(self) -> None:
        due = self.plan.pop()
        if due is not None:
            self.played += 1
            self.rows.append(due.row.tolist())


def world(steps: list[tuple[object, ...]], plan: Plan) -> World:
    made = World(plan)
    for number, step in enumerate(steps):
        made.happen(step, number)
    return made


@given(st.lists(STEP, max_size=60))
@settings(max_examples=80, deadline=None)
def test_each_row_played_is_the_one_whose_number_is_the_actions_played_since_its_observation(steps):
    made = world(steps, Plan())
    errors = [index - (n - made.counts[int(t)]) for n, (t, index, _) in enumerate(made.rows)]
    assert errors == [0] * len(errors)


@given(st.lists(STEP, max_size=60), st.sampled_from([None, Crossfade(gate=None), Ramp(3)]))
@settings(max_examples=50, deadline=None)
def test_no_step_of_a_delta_space_is_lost_or_made_twice(steps, seam):
    made = world(steps, Plan(seam=seam, actions=Actions(space="delta")))
    assert [n for _, _, n in made.rows] == list(range(made.played))


@given(st.lists(STEP, max_size=60), st.sampled_from([Aligned(), Nearest(), Sequential()]))
@settings(max_examples=50, deadline=None)
def test_no_strategy_skips_a_row_that_was_not_passed_or_repeats_one_of_the_same_chunk(steps, splice):
    made = world(steps, Plan(splice, actions=Actions(space="absolute")))
    seen: dict[float, float] = {}
    for n, (t, index, _) in enumerate(made.rows):
        assert index <= n - made.counts[int(t)] or isinstance(splice, Aligned)
        assert index == seen.get(t, index - 1) + 1
        seen[t] = index
