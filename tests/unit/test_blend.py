"""Seams eased: the ramp, the crossfade and its gate, and what a plan makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt import Play
from seqrt.action.blend import Crossfade, Crossing, Ramp
from seqrt.action.chunk import Chunk, Spliced
from seqrt.action.declaration import Actions, Parts
from seqrt.action.guard import Guard
from seqrt.action.parts import Mixing
from seqrt.action.plan import Plan
from seqrt.errors import ActionError

ABSOLUTE = Actions(space="absolute")


def rows(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, np.newaxis]


def line(start: float, count: int, step: float = 1.0) -> np.ndarray:
    return rows(*(start + step * i for i in range(count)))


def played(plan: Plan, ticks: int) -> list[float]:
    return [float(due.row[0]) for _ in range(ticks) if (due := plan.pop()) is not None]


def under_way(seam: object, *, guard: Guard | None = None, actions: Actions | None = ABSOLUTE, ticks: int = 4) -> Plan:
    """Ten rows 0, 1, 2, … of which some are played."""
    plan = Plan(guard=guard, seam=seam, actions=actions)  # type: ignore[arg-type]
    plan.splice(Chunk(line(0, 10), 0), observed_at=0)
    played(plan, ticks)
    return plan


def test_the_ramp_leads_out_of_the_row_executed_last():
    plan = under_way(Ramp(3))
    result = plan.splice(Chunk(line(20, 5), 1), observed_at=4)
    assert isinstance(result, Spliced)
    assert result.blended == 3
    assert played(plan, 5) == pytest.approx([3 + 17 / 4, 3 + 18 / 2, 3 + 0.75 * 19, 23, 24])


def test_a_chunk_shorter_than_the_ramp_ramps_over_all_of_it():
    plan = under_way(Ramp(8))
    plan.splice(Chunk(line(3, 2, 0.0) + 3, 1), observed_at=4)
    assert played(plan, 2) == pytest.approx([3 + 1.0, 3 + 2.0])


def test_the_first_chunk_and_the_first_after_a_pause_are_not_ramped():
    plan = Plan(seam=Ramp(3), actions=ABSOLUTE)
    plan.splice(Chunk(line(7, 4), 0), observed_at=0)
    assert played(plan, 2) == [7, 8]
    plan.clear()
    plan.splice(Chunk(line(50, 4), 1), observed_at=2)
    assert played(plan, 2) == [50, 51]


def test_a_ramp_does_not_cross_a_change_of_length():
    assert Ramp(2).join(Crossing(np.ones((3, 2)), np.ones((0, 2)), np.ones(3))) is None


def weight(i: int, *, d: int, s: int, horizon: int) -> float:
    """The formula as it stands in the paper."""
    if i < d:
        return 1.0
    if i >= horizon - s:
        return 0.0
    c = (horizon - s - i) / (horizon - s - d + 1)
    return c * (math.exp(c) - 1) / (math.e - 1)


def test_the_crossfade_has_the_weights_of_real_time_chunking():
    horizon, d, s = 12, 3, 4
    plan = Plan(seam=Crossfade(gate=None), actions=ABSOLUTE)
    plan.splice(Chunk(np.ones((horizon, 1)), 0), observed_at=0)
    played(plan, s + d)
    plan.splice(Chunk(np.zeros((horizon, 1)), 1), observed_at=s, spacing=s)
    expected = [weight(i, d=d, s=s, horizon=horizon) for i in range(d, horizon)]
    assert expected[0] > 0.6
    assert expected[horizon - s - d :] == [0.0] * s
    assert played(plan, horizon) == pytest.approx(expected)


def test_a_linear_crossfade_goes_over_in_even_steps():
    crossing = Crossing(rows(0, 0, 0, 0), rows(1, 1, 1), None)
    assert Crossfade("linear", gate=None).join(crossing)[:, 0] == pytest.approx([0.75, 0.5, 0.25])  # type: ignore[index]


def test_a_crossfade_ends_with_the_old_plan_though_the_spacing_says_later_and_at_the_spacing_though_more_is_shared():
    for shared, spacing, blended in ((3, 1, 3), (6, 4, 2), (6, None, 6), (6, 6, None), (6, 9, None), (0, 1, None)):
        crossing = Crossing(line(0, 6), line(0, shared), None, spacing)
        eased = Crossfade().join(crossing)
        assert (None if eased is None else len(eased)) == blended


def test_plans_that_part_are_not_averaged_and_the_new_one_is_taken():
    left = np.array([[i, 0.8 * i] for i in range(10)], dtype=float)
    right = left * [1.0, -1.0]
    assert Crossfade().join(Crossing(right, left, None)) is None
    assert Crossfade(gate=None).join(Crossing(right, left, None)) is not None
    assert Crossfade(gate=2.0).join(Crossing(right, left, None)) is not None


def test_plans_that_run_side_by_side_are_averaged_however_far_apart():
    """The way from one to the other has to be gone anyway; a plant behind its command makes every plan such a one."""
    assert Crossfade(gate=0.1).join(Crossing(line(0, 10), line(3, 10), None)) is not None
    assert Crossfade(gate=0.1).join(Crossing(rows(5, 5, 5), rows(1, 1, 1), None)) is not None


def test_grippers_take_the_newer_value_and_do_not_open_the_gate():
    actions = Actions(space="absolute", parts=Parts(gripper=(1,)))
    plan = Plan(seam=Crossfade(), actions=actions)
    plan.splice(Chunk(np.array([[float(i), 0.0] for i in range(8)]), 0), observed_at=0)
    plan.pop()
    result = plan.splice(Chunk(np.array([[i + 1.5, 100.0 * i] for i in range(8)]), 1), observed_at=1)
    assert isinstance(result, Spliced)
    assert result.blended == 7
    assert [float(due.row[1]) for _ in range(8) if (due := plan.pop())] == [100.0 * i for i in range(8)]


@pytest.mark.parametrize("actions", [None, Actions(), Actions(space="delta"), Actions(space="velocity")])
@pytest.mark.parametrize("seam", [Ramp(4), Crossfade(gate=None)])
def test_rows_of_other_spaces_pass_through(actions, seam):
    plan = under_way(seam, actions=actions)
    result = plan.splice(Chunk(line(20, 5), 1), observed_at=4)
    assert isinstance(result, Spliced)
    assert result.blended == 0
    assert played(plan, 2) == [20, 21]


def test_jump_innovation_and_disagreement_are_of_the_rows_as_they_were_answered():
    plan = under_way(Crossfade(gate=None), ticks=6)
    result = plan.splice(Chunk(line(4, 10) + 2.0, 1), observed_at=4)
    assert isinstance(result, Spliced)
    assert (result.disagreement, result.disagreement_passed) == (2.0, 2.0)
    due = plan.pop()
    assert due is not None
    assert due.row[0] < 8.0
    assert (due.jump, due.innovation) == (3.0, 2.0)
    assert plan.last is not None
    assert plan.last[0] == due.row[0]


def test_a_second_crossfade_starts_from_what_the_first_would_have_played():
    plan = under_way(Crossfade(gate=None))
    plan.splice(Chunk(line(4, 10) + 8.0, 1), observed_at=4)
    would = plan.ahead(4, 10)
    assert would is not None
    plan.splice(Chunk(line(4, 10) - 8.0, 2), observed_at=4)
    eased = Crossfade(gate=None).join(Crossing(line(4, 10) - 8.0, would[:10], None))
    assert plan.ahead(4, 10)[:10].tolist() == eased.tolist()  # type: ignore[index,union-attr]
    assert plan.ahead(4, 10)[0, 0] > 4  # type: ignore[index]


def test_rows_behind_committed_ones_are_the_models_own_and_a_late_answers_are_blended():
    for late, blended in ((0, 0), (2, 4)):
        plan = under_way(Crossfade(gate=None), ticks=4 + late)
        result = plan.splice(Chunk(line(4, 10) + 1.0, 1, committed=0 if late == 0 else 1), observed_at=4)
        assert isinstance(result, Spliced)
        assert result.blended == (6 if late == 0 else blended)
    plan = under_way(Crossfade(gate=None))
    result = plan.splice(Chunk(line(4, 10) + 1.0, 1, committed=3), observed_at=4)
    assert isinstance(result, Spliced)
    assert (result.first, result.blended) == (3, 0)
    assert played(plan, 5) == [4, 5, 6, 8, 9]


def test_the_step_that_is_played_is_held_against_max_delta_and_not_the_raw_one():
    limits = Actions(space="absolute", max_delta=3.0)
    far = Chunk(line(4, 10) + 5.0, 1)
    with pytest.raises(ActionError, match="a step of 6"):
        under_way(None, guard=Guard.of(limits), actions=limits).splice(far, observed_at=4)
    plan = under_way(Crossfade(), guard=Guard.of(limits), actions=limits)
    assert isinstance(plan.splice(far, observed_at=4), Spliced)
    assert max(np.diff([3.0, *played(plan, 10)])) <= 3.0


def test_a_blend_that_breaks_a_limit_is_not_played_but_the_chunks_own_rows_are():
    class Beyond:
        def join(self, crossing: Crossing) -> np.ndarray:
            return crossing.rows[:2] + 100.0

    limits = Actions(space="absolute", bounds=((-50.0, 50.0),))
    plan = under_way(Beyond(), guard=Guard.of(limits), actions=limits)
    result = plan.splice(Chunk(line(4, 10), 1), observed_at=4)
    assert isinstance(result, Spliced)
    assert result.blended == 0
    assert result.chunk.answered is None
    assert played(plan, 2) == [4, 5]


VALUE = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=12),
    st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=12),
    st.integers(0, 8),
    st.one_of(st.none(), st.integers(1, 8)),
    st.sampled_from([Crossfade(gate=None), Crossfade(), Crossfade("linear", 0.5)]),
)
@settings(max_examples=60, deadline=None)
def test_each_blended_row_lies_between_the_old_and_the_new_one_and_the_others_are_the_new_ones(
    before, after, ticks, spacing, seam
):
    plan = Plan(seam=seam, actions=ABSOLUTE)
    plan.splice(Chunk(np.array(before), 0), observed_at=0)
    ticks = min(ticks, len(before))
    for _ in range(ticks):
        plan.pop()
    old = plan.ahead(ticks, 0)
    result = plan.splice(Chunk(np.array(after), 1), observed_at=ticks, spacing=spacing)
    assert isinstance(result, Spliced)
    new = plan.ahead(ticks, 0)
    assert new is not None
    for i, (row, answered) in enumerate(zip(new, np.array(after), strict=True)):
        if i >= result.blended:
            assert row.tolist() == answered.tolist()
            continue
        assert old is not None
        low, high = np.minimum(old[i], answered), np.maximum(old[i], answered)
        assert (row >= low - 1e-9).all()
        assert (row <= high + 1e-9).all()


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_ramp_over_no_rows_is_refused(n):
    with pytest.raises(ValueError, match="first n rows"):
        Ramp(n)


@pytest.mark.parametrize("gate", [0.0, -1.0, math.nan, math.inf])
def test_a_gate_that_means_nothing_is_refused(gate):
    with pytest.raises(ValueError, match="gate must be"):
        Crossfade(gate=gate)


def test_a_schedule_that_is_none_is_refused():
    with pytest.raises(ValueError, match="schedule must be"):
        Crossfade("cosine")  # type: ignore[arg-type]


def test_a_strategy_is_an_object_and_none_is_on_by_default():
    assert Play().seam is None
    for none in (Crossfade, "crossfade", b"crossfade"):  # text has a `join` of its own
        with pytest.raises(TypeError, match=r"Crossfade\(\) or Ramp\(4\)"):
            Play(seam=none)  # type: ignore[arg-type]


def test_quaternions_are_turned_not_averaged():
    parts = Parts(quaternion=(0, 1, 2, 3))
    mixing = Mixing.of(Actions(space="absolute", parts=parts))
    assert mixing is not None
    old, new = np.array([[1.0, 0, 0, 0]] * 3), np.array([[0.0, 0, 0, 1]] * 3)
    eased = Crossfade(gate=None).join(Crossing(new, old, None, mixing=mixing))
    assert eased is not None
    assert np.linalg.norm(eased, axis=1) == pytest.approx(1.0)
