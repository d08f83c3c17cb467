from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.chunk import Chunk, Dropped, Due, Spliced
from seqrt.action.declaration import Actions
from seqrt.action.guard import Guard
from seqrt.action.plan import Plan
from seqrt.action.splice import Aligned, Placing, Sequential
from seqrt.errors import ActionError


def chunk(observed: int, rows: int, *, committed: int = 0) -> Chunk:
    """Row i of the chunk of observation t reads [t, i]: what is played says where it came from."""
    return Chunk(np.array([[float(observed), float(i)] for i in range(rows)]), observed, committed=committed)


def heights(*values: float, observed: int = 0) -> Chunk:
    return Chunk(np.array([[v] for v in values]), observed)


def play(plan: Plan, ticks: int) -> list[list[float] | None]:
    return [None if (due := plan.pop()) is None else due.row.tolist() for _ in range(ticks)]


def test_an_empty_plan_has_no_row_and_does_not_move():
    plan = Plan()
    assert plan.pop() is None
    assert (plan.position, plan.rows_left, plan.end, plan.newest, plan.last) == (0, 0, 0, -1, None)
    assert plan.ahead(0, 4) is None


def test_the_first_chunk_starts_at_row_0_however_late_it_comes():
    plan = Plan()
    assert play(plan, 21) == [None] * 21  # 0.7 s at 30 Hz: nothing was played, so nothing of any plan went by
    result = plan.splice(chunk(0, 30), observed_at=0)
    assert isinstance(result, Spliced)
    assert (result.first, result.dropped) == (0, 0)
    assert play(plan, 2) == [[0, 0], [0, 1]]


def test_nine_rows_played_since_the_observation_make_row_nine_the_next():
    plan = Plan()
    plan.splice(chunk(0, 30), observed_at=0)
    play(plan, 5)
    observed_at = plan.position
    play(plan, 9)  # 0.305 s at 30 Hz: nine ticks, not ten
    result = plan.splice(chunk(5, 30), observed_at)
    assert isinstance(result, Spliced)
    assert (result.first, result.dropped) == (9, 9)
    assert play(plan, 2) == [[5, 9], [5, 10]]


def test_a_starved_tick_passes_no_row_of_the_chunk_that_is_on_its_way():
    plan = Plan()
    plan.splice(chunk(0, 4), observed_at=0)
    play(plan, 2)
    observed_at = plan.position
    assert play(plan, 5) == [[0, 2], [0, 3], None, None, None]
    plan.splice(chunk(2, 10), observed_at)
    assert play(plan, 1) == [[2, 2]]


def test_a_tick_that_an_underrun_policy_played_counts_as_a_row():
    plan = Plan()
    plan.splice(chunk(0, 2), observed_at=0)
    play(plan, 2)
    plan.played_otherwise()
    plan.played_otherwise()
    assert (plan.position, plan.rows_left) == (4, 0)
    plan.splice(chunk(1, 10), observed_at=1)
    assert play(plan, 1) == [[1, 3]]


def test_parts_of_a_row_that_an_underrun_policy_moved_add_up_to_the_nearest_whole_one():
    plan = Plan()
    plan.splice(chunk(0, 2), observed_at=0)
    play(plan, 2)
    gone = [plan.played_otherwise(part, np.array([9.0, part])) for part in (0.8, 0.6, 0.4, 0.2, 0.0, 0.0)]
    assert gone == [1, 0, 1, 0, 0, 0]
    assert (plan.position, plan.last.tolist()) == (4, [9.0, 0.0])  # type: ignore[union-attr]
    plan.splice(chunk(1, 10), observed_at=2)
    assert play(plan, 1) == [[1, 2]]
    assert plan.played_otherwise(0.4) == 0, "a row played ends the part before it"


def test_an_older_answer_is_dropped():
    plan = Plan()
    plan.splice(chunk(7, 10), observed_at=0)
    for observed in (6, 7):
        result = plan.splice(chunk(observed, 10), observed_at=0)
        assert isinstance(result, Dropped)
        assert result.why == "older"
    assert play(plan, 1) == [[7, 0]]


def test_an_answer_whose_rows_have_all_passed_leaves_the_plan_as_it_was():
    plan = Plan()
    plan.splice(chunk(0, 20), observed_at=0)
    play(plan, 8)
    result = plan.splice(chunk(2, 6), observed_at=2)
    assert isinstance(result, Dropped)
    assert result.why == "passed"
    assert (plan.rows_left, plan.newest) == (12, 0)
    assert play(plan, 2) == [[0, 8], [0, 9]]


def test_the_last_row_of_a_late_answer_is_played_and_one_tick_later_it_is_passed():
    for played, outcome in ((5, Spliced), (6, Dropped)):
        plan = Plan()
        plan.splice(chunk(0, 6), observed_at=0)
        play(plan, played)
        assert isinstance(plan.splice(chunk(1, 6), observed_at=0), outcome)


def test_committed_rows_are_played_by_the_old_plan():
    plan = Plan()
    plan.splice(chunk(0, 30), observed_at=0)
    play(plan, 10)
    result = plan.splice(chunk(9, 30, committed=6), observed_at=9)
    assert isinstance(result, Spliced)
    assert (result.first, result.dropped) == (6, 1)
    assert play(plan, 7) == [[0, i] for i in range(10, 15)] + [[9, 6], [9, 7]]


def test_a_committed_chunk_takes_over_where_the_old_plan_runs_dry():
    plan = Plan()
    plan.splice(chunk(0, 12), observed_at=0)
    play(plan, 10)
    result = plan.splice(chunk(9, 30, committed=6), observed_at=9)
    assert isinstance(result, Spliced)
    assert result.first == 3  # position 12, the first one the old plan has no row for
    assert play(plan, 4) == [[0, 10], [0, 11], [9, 3], [9, 4]]


def test_a_late_committed_chunk_is_played_at_once_and_the_robot_does_not_stall():
    plan = Plan()
    plan.splice(chunk(0, 12), observed_at=0)
    play(plan, 11)
    result = plan.splice(chunk(4, 16, committed=6), observed_at=4)  # a tick later than the model was told
    assert isinstance(result, Spliced)
    assert (result.first, result.dropped) == (7, 7)
    assert play(plan, 2) == [[4, 7], [4, 8]]


def test_a_chunk_no_longer_than_its_committed_rows_takes_nothing_from_the_plan():
    plan = Plan()
    plan.splice(chunk(0, 50), observed_at=0)
    play(plan, 10)
    result = plan.splice(chunk(9, 5, committed=5), observed_at=9)
    assert isinstance(result, Dropped)
    assert plan.rows_left == 40


def test_a_chunk_shorter_than_its_committed_rows_still_helps_a_plan_that_is_dry():
    plan = Plan()
    plan.splice(chunk(0, 4), observed_at=0)
    play(plan, 4)
    result = plan.splice(chunk(3, 5, committed=9), observed_at=3)
    assert isinstance(result, Spliced)
    assert play(plan, 5) == [[3, 1], [3, 2], [3, 3], [3, 4], None]


def test_two_chunks_wait_their_turn_in_the_order_of_their_takeovers():
    plan = Plan()
    plan.splice(chunk(0, 13), observed_at=0)
    play(plan, 10)
    plan.splice(chunk(9, 20, committed=5), observed_at=9)  # from 13, where the plan before it ends
    plan.splice(chunk(12, 20, committed=5), observed_at=10)  # from 15
    assert play(plan, 6) == [[0, 10], [0, 11], [0, 12], [9, 4], [9, 5], [12, 5]]


def test_a_shorter_chunk_is_played_whole_and_ends_the_plan():
    plan = Plan()
    plan.splice(chunk(0, 16), observed_at=0)
    play(plan, 4)
    plan.splice(chunk(3, 10), observed_at=3)
    assert plan.rows_left == 9
    assert play(plan, 10) == [[3, i] for i in range(1, 10)] + [None]


def test_a_splice_that_leaves_a_gap_is_drawn_to_the_end_of_the_plan():
    class Far:
        def start(self, placing: Placing) -> int:
            return placing.plan_end + 5

    plan = Plan(splice=Far())
    plan.splice(chunk(0, 2), observed_at=0)
    plan.splice(chunk(1, 2), observed_at=0)
    assert play(plan, 4) == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_sequential_plays_every_row_and_drops_none():
    plan = Plan(splice=Sequential())
    played = []
    for observed in range(5):
        result = plan.splice(chunk(observed, 4), observed_at=plan.position)
        assert isinstance(result, Spliced)
        assert (result.first, result.dropped) == (0, 0)
        played += play(plan, 3)
    played += play(plan, 6)
    assert played == [[t, i] for t in range(5) for i in range(4)] + [None]


def test_a_row_is_the_callers_own_to_change():
    plan = Plan()
    plan.splice(heights(1.0, 2.0), observed_at=0)
    first = plan.pop()
    assert first is not None
    row = first.row
    row *= 0.5
    assert plan.last is not None
    assert plan.last.tolist() == [1.0]
    assert plan.pop().row.tolist() == [2.0]  # type: ignore[union-attr]
    assert plan.ahead(0, 1).tolist() == [[1.0], [2.0]]  # type: ignore[union-attr]


def test_the_seam_is_the_first_row_played_of_each_chunk():
    plan = Plan()
    seams = []
    plan.splice(chunk(0, 6), observed_at=0)
    for tick in range(6):
        if tick == 3:
            plan.splice(chunk(2, 6), observed_at=2)
        due = plan.pop()
        assert due is not None
        seams.append(due.seam)
    assert seams == [True, False, False, True, False, False]


def test_clearing_forgets_the_rows_and_the_last_one_but_not_the_count():
    plan = Plan()
    plan.splice(chunk(0, 10), observed_at=0)
    play(plan, 4)
    assert plan.clear() == 6
    assert (plan.position, plan.rows_left, plan.last, plan.ahead(2, 3)) == (4, 0, None, None)
    assert plan.pop() is None
    plan.splice(chunk(5, 10), observed_at=4)
    assert play(plan, 1) == [[5, 0]]


def test_the_prefix_begins_at_the_first_row_not_yet_played_when_the_observation_was_taken():
    plan = Plan()
    plan.splice(chunk(0, 20), observed_at=0)
    play(plan, 6)
    observed_at = plan.position
    assert plan.ahead(observed_at, 4)[:4].tolist() == [[0, i] for i in range(6, 10)]  # type: ignore[index]
    play(plan, 5)  # the camera took its time: five rows went by before the request was put together
    assert plan.ahead(observed_at, 4)[:8].tolist() == [[0, i] for i in range(6, 14)]  # type: ignore[index]


def test_the_prefix_holds_what_was_played_where_a_chunk_came_in_between():
    plan = Plan()
    plan.splice(chunk(0, 20), observed_at=0)
    play(plan, 6)
    observed_at = plan.position
    play(plan, 2)
    plan.splice(chunk(6, 20), observed_at=6)
    play(plan, 3)
    prefix = plan.ahead(observed_at, 6)
    assert prefix is not None
    assert prefix[:6].tolist() == [[0, 6], [0, 7], [6, 2], [6, 3], [6, 4], [6, 5]]


def test_the_prefix_crosses_into_a_chunk_that_waits():
    plan = Plan()
    plan.splice(chunk(0, 10), observed_at=0)
    play(plan, 4)
    plan.splice(chunk(3, 20, committed=5), observed_at=3)
    assert plan.ahead(4, 6)[:6].tolist() == [[0, 4], [0, 5], [0, 6], [0, 7], [3, 5], [3, 6]]  # type: ignore[index]


def test_rows_missing_after_the_end_repeat_the_last_one_never_zeros():
    plan = Plan()
    plan.splice(chunk(3, 5), observed_at=0)
    play(plan, 3)
    assert plan.ahead(3, 6).tolist() == [[3, 3]] + [[3, 4]] * 5  # type: ignore[union-attr]


def test_a_long_run_keeps_a_bounded_number_of_chunks():
    plan = Plan()
    for observed in range(2000):
        plan.splice(chunk(observed, 8), observed_at=plan.position)
        plan.pop()
    assert len(plan._chunks) < 300


def test_a_chunk_beyond_max_delta_at_the_seam_is_refused_and_the_old_plan_plays_on():
    plan = Plan(guard=Guard.of(Actions(max_delta=0.5)))
    plan.splice(heights(0.0, 0.1, 0.2, 0.3), observed_at=0)
    play(plan, 2)
    with pytest.raises(ActionError, match=r"row 1, column 0 is a step of 0\.9, max_delta is 0\.5") as refused:
        plan.splice(heights(0.9, 1.0, 1.1, observed=1), observed_at=1)
    assert (refused.value.row, refused.value.column, refused.value.limit) == (1, 0, 0.5)
    assert (plan.newest, plan.rows_left) == (0, 2)
    assert play(plan, 2) == [[0.2], [0.3]]


def test_the_seam_of_a_waiting_chunk_is_checked_against_the_row_before_its_takeover():
    rows = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    ahead = Chunk(np.array([[9.0], [9.0], [9.0], [3.9], [4.9]]), 1, committed=3)  # takes over at position 4
    plan = Plan(guard=Guard.of(Actions(max_delta=1.0)))
    plan.splice(heights(*rows), observed_at=0)
    play(plan, 2)
    assert isinstance(plan.splice(ahead, observed_at=1), Spliced)
    assert play(plan, 4) == [[2.0], [3.0], [3.9], [4.9]]


def test_the_seam_is_checked_where_the_old_plan_runs_dry_before_the_takeover():
    plan = Plan(guard=Guard.of(Actions(max_delta=1.0)))
    plan.splice(heights(0.0, 1.0, 2.0), observed_at=0)
    play(plan, 2)
    # Committed to 4 rows, but the plan reaches one: the seam is row 2 after [2.0], not row 1 after [1.0].
    with pytest.raises(ActionError, match="row 2"):
        plan.splice(Chunk(np.array([[1.0], [1.5], [8.0], [8.0], [8.0]]), 1, committed=4), observed_at=1)


def test_the_first_chunk_and_the_first_after_a_pause_have_no_seam_to_check():
    plan = Plan(guard=Guard.of(Actions(max_delta=0.1)))
    assert isinstance(plan.splice(heights(50.0, 50.0), observed_at=0), Spliced)
    play(plan, 1)
    plan.clear()
    assert isinstance(plan.splice(heights(-50.0, observed=1), observed_at=1), Spliced)


def test_a_guard_that_learned_its_length_holds_for_later_splices():
    plan = Plan()
    plan.splice(heights(0.0), observed_at=0)
    play(plan, 1)
    plan.guarded_by(Guard.of(Actions(max_delta=0.1)))
    with pytest.raises(ActionError):
        plan.splice(heights(0.0, 1.0, observed=1), observed_at=0)


@dataclass
class Ledger:
    """The plan as a plain table of positions: slow, and too simple to be wrong."""

    position: int = 0
    newest: int = -1
    table: dict[int, tuple[int, int]] = field(default_factory=dict)

    def splice(self, observed: int, rows: int, observed_at: int, committed: int) -> str:
        if observed <= self.newest:
            return "older"
        covered = {observed_at + i: (observed, i) for i in range(rows)}
        first = self.position
        while first in self.table and first < observed_at + committed:
            first += 1
        if first not in covered:
            return "passed"
        self.table = {p: entry for p, entry in self.table.items() if p < first}
        self.table |= {p: entry for p, entry in covered.items() if p >= first}
        self.newest = observed
        return "spliced"

    def pop(self) -> tuple[int, int] | None:
        entry = self.table.get(self.position)
        self.position += entry is not None
        return entry


STEP = st.one_of(
    st.just(("tick",)),
    st.just(("tick",)),
    st.just(("observe",)),
    st.tuples(st.just("answer"), st.integers(0, 5), st.integers(1, 12), st.integers(0, 14)),
    st.just(("decay",)),
)


@given(st.lists(STEP, max_size=120))
@settings(max_examples=200, deadline=None)
def test_no_row_is_lost_repeated_or_misplaced_whatever_the_order_of_answers(steps):
    plan, ledger = Plan(), Ledger()
    out: list[tuple[int, int]] = []
    for number, step in enumerate(steps):
        if step[0] == "observe":
            out.append((number, plan.position))
        elif step[0] == "answer" and out:
            observed, observed_at = out.pop(step[1] % len(out))
            result = plan.splice(chunk(observed, step[2], committed=step[3]), observed_at)
            said = result.why if isinstance(result, Dropped) else "spliced"
            assert said == ledger.splice(observed, step[2], observed_at, step[3])
            if isinstance(result, Spliced):
                assert result.chunk.start == observed_at
                assert result.dropped == max(0, plan.position - observed_at)
        elif step[0] == "decay" and plan.rows_left == 0:
            plan.played_otherwise()
            ledger.position += 1
        elif step[0] == "tick":
            position = plan.position
            due = plan.pop()
            entry = ledger.pop()
            assert (None if due is None else tuple(due.row)) == entry
            if due is not None:
                assert due.index == position - due.chunk.start
        assert plan.position == ledger.position
        assert plan.rows_left == sum(p >= plan.position for p in ledger.table)


@given(st.lists(STEP, max_size=80), st.integers(0, 6), st.integers(1, 10))
@settings(max_examples=100, deadline=None)
def test_the_prefix_is_what_is_really_played_unless_a_newer_chunk_comes(steps, late, rows):
    plan = Plan()
    out: list[tuple[int, int]] = []
    for number, step in enumerate(steps):
        if step[0] == "observe":
            out.append((number, plan.position))
        elif step[0] == "answer" and out:
            observed, observed_at = out.pop(step[1] % len(out))
            plan.splice(chunk(observed, step[2], committed=step[3]), observed_at)
        elif step[0] == "tick":
            plan.pop()
    observed_at = plan.position
    played = play(plan, late)
    prefix = plan.ahead(observed_at, rows)
    played = [row for row in [*played, *play(plan, 40)] if row is not None]
    if prefix is None:
        assert not played
        return
    assert len(prefix) == max(rows, len(played))
    assert prefix.tolist() == played + [played[-1]] * (rows - len(played))


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_sequential_plays_every_chunk_whole_and_in_order(deliveries):
    plan = Plan(splice=Sequential())
    played: list[list[float] | None] = []
    for observed, (rows, ticks) in enumerate(deliveries):
        assert isinstance(plan.splice(chunk(observed, rows), observed_at=plan.position), Spliced)
        played += play(plan, ticks)
    played += play(plan, plan.rows_left)
    expected = [[float(t), float(i)] for t, (rows, _) in enumerate(deliveries) for i in range(rows)]
    assert [row for row in played if row is not None] == expected


@pytest.mark.parametrize(
    ("splice", "observed_at", "position", "plan_end", "start"),
    [
        (Aligned(), 5, 9, 20, 5),
        (Aligned(), 0, 0, 0, 0),
        (Sequential(), 5, 9, 20, 20),
        (Sequential(), 5, 9, 9, 9),
        (Sequential(), 5, 9, 4, 9),
    ],
)
def test_where_a_strategy_puts_row_zero(splice, observed_at, position, plan_end, start):
    assert splice.start(Placing(observed_at, position, plan_end, np.zeros((4, 1)))) == start


def test_a_row_due_tells_its_chunk():
    plan = Plan()
    plan.splice(chunk(4, 3), observed_at=0)
    due = plan.pop()
    assert isinstance(due, Due)
    assert (due.chunk.observed, due.index, due.chunk.end) == (4, 0, 3)
