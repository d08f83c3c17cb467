from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.action.declaration import Actions, Parts
from seqrt.action.seam import seam_jump
from seqrt.action.underrun import Decay, Nothing, RepeatLast, Starved, Starving, Underrun, Zeros, underrun_for
from seqrt.errors import DeclarationError

LAST = np.array([0.5, -1.0])
ABSOLUTE = Actions(space="absolute")
PERIOD_S = 0.05


def starved(last: np.ndarray | None = LAST) -> Starved:
    return Starved(last, None, 1, PERIOD_S)


def starve(starving: Starving, ticks: int) -> tuple[list[list[float] | None], list[float]]:
    """The commands of so many starved ticks, and how far each moved the arm."""
    told = [starving.command() for _ in range(ticks)]
    return [None if row is None else row.tolist() for row, _ in told], [moves for _, moves in told]


def dry(strategy: Underrun, actions: Actions | None, *rows: list[float]) -> Starving:
    """A plan that has played ``rows`` and is dry now."""
    starving = Starving(strategy, actions, PERIOD_S)
    for row in rows:
        starving.played(np.array(row))
    return starving


@pytest.mark.parametrize(
    ("space", "kind", "sent"),
    [
        ("absolute", RepeatLast, [0.5, -1.0]),
        ("velocity", Zeros, [0.0, 0.0]),
        ("delta", Zeros, [0.0, 0.0]),
        (None, Nothing, None),
    ],
)
def test_what_a_starved_tick_sends_follows_from_the_space(space, kind, sent):
    policy = underrun_for(space)
    assert isinstance(policy, kind)
    row = policy.row(starved())
    assert (None if row is None else row.tolist()) == sent
    assert policy.moves(starved()) == 0.0, "the arm stands: nothing of any plan goes by"


@pytest.mark.parametrize("strategy", [RepeatLast(), Zeros(), Nothing(), Decay(0.3)])
@pytest.mark.parametrize("space", ["absolute", "velocity", "delta"])
def test_before_the_first_row_and_after_a_pause_nothing_is_sent(strategy, space):
    starving = Starving(strategy, Actions(space=space), PERIOD_S)
    assert starve(starving, 2) == ([None, None], [0.0, 0.0])
    starving.played(LAST)
    starving.forget()
    assert starve(starving, 2) == ([None, None], [0.0, 0.0])


@pytest.mark.parametrize("space", ["absolute", "velocity", "delta"])
def test_the_row_sent_is_the_callers_own(space):
    row = underrun_for(space).row(starved())
    assert row is not None
    row += 7.0
    assert LAST.tolist() == [0.5, -1.0]


def test_decay_goes_on_along_the_last_motion_ever_slower_and_then_holds():
    starving = dry(Decay(0.25), ABSOLUTE, [0.0, 3.0], [1.0, 1.0])  # 1 and -2 a tick, five ticks to stop
    rows, moves = starve(starving, 7)
    assert np.array(rows)[:, 0] == pytest.approx([1.8, 2.4, 2.8, 3.0, 3.0, 3.0, 3.0])
    assert np.array(rows)[:, 1] == pytest.approx([-0.6, -1.8, -2.6, -3.0, -3.0, -3.0, -3.0])
    assert moves == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("space", ["velocity", "delta"])
def test_decay_ramps_a_speed_itself_to_zero(space):
    starving = dry(Decay(0.2), Actions(space=space, parts=Parts(gripper=(1,))), [9.0, 1.0], [0.8, 0.3])
    rows, moves = starve(starving, 6)
    assert np.array(rows)[:, 0] == pytest.approx([0.6, 0.4, 0.2, 0.0, 0.0, 0.0])
    assert [row[1] for row in rows] == [0.3] * 6, "a gripper stays as it was told"
    assert moves == pytest.approx([0.75, 0.5, 0.25, 0.0, 0.0, 0.0])


def test_decay_never_goes_past_a_bound_and_leaves_grippers_as_they_were_told():
    actions = Actions(space="absolute", bounds=[[-1.0, 1.0], [0.0, 5.0]], parts=Parts(gripper=(1,)))
    rows, _ = starve(dry(Decay(1.0), actions, [0.7, 0.0], [0.9, 1.0]), 30)
    assert np.array(rows)[:, 0].max() == 1.0
    assert [row[1] for row in rows] == [1.0] * 30


def test_decay_turns_a_quaternion_on_and_keeps_it_one():
    def turned(angle: float) -> list[float]:
        return [math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)]

    actions = Actions(space="absolute", parts=Parts(quaternion=(0, 1, 2, 3)))
    starving = dry(Decay(0.2), actions, turned(0.0), turned(0.2))
    rows, _ = starve(starving, 4)
    assert np.array(rows) == pytest.approx(np.array([turned(0.2 + 0.2 * gone) for gone in (0.75, 1.25, 1.5, 1.5)]))


def test_decay_from_a_single_row_stands_at_once():
    assert starve(dry(Decay(0.5), ABSOLUTE, [1.0]), 2) == ([[1.0], [1.0]], [0.0, 0.0])


def test_what_lies_across_an_underrun_is_no_speed_to_go_on_with():
    starving = dry(Decay(0.5), ABSOLUTE, [0.0], [1.0])
    starve(starving, 20)
    starving.played(np.array([50.0]))
    assert starve(starving, 2) == ([[50.0], [50.0]], [0.0, 0.0])
    starving.played(np.array([50.0]))
    starving.played(np.array([50.5]))
    assert starve(starving, 1)[1] == [pytest.approx(0.9)], "a stop begins anew with each underrun"


@given(
    st.floats(-3, 3),
    st.floats(0.01, 2.0),
    st.floats(0.005, 0.2),
    st.sampled_from(["absolute", "delta", "velocity"]),
)
@settings(deadline=None)
def test_a_decay_never_speeds_up_turns_back_or_lasts_longer_than_it_may(speed, stop_s, period_s, space):
    starving = Starving(Decay(stop_s), Actions(space=space), period_s)
    for row in ([10.0], [10.0 + speed]) if space == "absolute" else ([speed],):
        starving.played(np.array(row))
    ticks = math.ceil(stop_s / period_s)
    rows = np.array(starve(starving, ticks + 3)[0])[:, 0]
    steps = np.diff(np.concatenate([[10.0 + speed], rows])) if space == "absolute" else rows
    assert (np.diff(np.abs(np.concatenate([[speed], steps]))) <= 1e-9).all()
    assert (steps * speed >= -1e-9).all()
    assert steps[ticks:] == pytest.approx(0.0, abs=1e-9)
    if space == "absolute":
        assert abs(rows[-1] - rows[0]) <= abs(speed) * stop_s / period_s / 2 + 1e-9


@pytest.mark.parametrize("stop_s", [0.0, -1.0, math.nan, math.inf])
def test_a_stop_time_that_is_none_is_refused(stop_s):
    with pytest.raises(ValueError, match="stop_s"):
        Decay(stop_s)


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        (None, "actions.space"),
        (Actions(hz=20), "actions.space"),
        (Actions(space="delta", parts=Parts(quaternion=(0, 1, 2, 3))), "actions.parts"),
    ],
)
def test_decay_is_refused_where_a_speed_means_nothing(actions, field):
    with pytest.raises(DeclarationError) as refused:
        Decay(0.3).check(actions)
    assert refused.value.field == field
    assert "Play(underrun=)" in str(refused.value)
    for other in (RepeatLast(), Zeros(), Nothing()):
        other.check(actions)


@pytest.mark.parametrize(
    ("last", "first", "jump"),
    [
        ([0.0, 0.0], [0.1, -0.3], 0.3),
        ([1.0], [1.0], 0.0),
        ([1.0, 2.0], [1.0], None),
        ([], [], None),
        ([1.7e308], [-1.7e308], math.inf),
    ],
)
def test_the_jump_at_a_seam_is_the_largest_of_any_column(last, first, jump):
    measured = seam_jump(np.array(last), np.array(first))
    assert measured == (None if jump is None else pytest.approx(jump))


def test_there_is_no_jump_before_the_first_row():
    assert seam_jump(None, LAST) is None
