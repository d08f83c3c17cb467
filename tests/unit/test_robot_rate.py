"""The robot's rate against the policy's: equal, a whole multiple, or refused with what fits."""

from __future__ import annotations

import dataclasses

import pytest

from seqrt import Play
from seqrt.action.declaration import Actions
from seqrt.action.schedule import TickSchedule
from seqrt.runtime.declared import Declared
from seqrt.wire.messages import PolicyInfo


def declared(hz: float | None) -> Declared:
    return dataclasses.replace(Declared.of(PolicyInfo(protocol=1, model="m"), host=""), actions=Actions(hz=hz))


@pytest.mark.parametrize(
    ("hz", "control_hz", "says"),
    [
        (15, 60, r"are 15 Hz and control_hz=60: leave control_hz out, and drive .* with Play\(substeps=4\)$"),
        (15, 40, r"a whole multiple: 30 Hz with Play\(substeps=2\) or 45 Hz with Play\(substeps=3\)$"),
        (15, 10, r"a whole multiple: 15 Hz or 30 Hz with Play\(substeps=2\)$"),
        (15, 20, r"a whole multiple: 15 Hz or 30 Hz with Play\(substeps=2\)$"),
        (300, 1000, r"a whole multiple: 900 Hz with Play\(substeps=3\)$"),
        (800, 1000, r"a whole multiple: 800 Hz$"),
        (0.1, 1000, r"a whole multiple: 10 Hz with Play\(substeps=100\)$"),
        (1 / 3, 1, r"with Play\(substeps=3\)$"),
    ],
)
def test_another_rate_than_the_rows_own_is_refused_with_what_fits(hz: float, control_hz: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        declared(hz).rate_hz(control_hz)


def test_one_rate_is_taken_whoever_says_it() -> None:
    assert (declared(15).rate_hz(None), declared(15).rate_hz(15), declared(None).rate_hz(20)) == (15, 15, 20)


@pytest.mark.parametrize("substeps", [0, -1, 101])
def test_substeps_outside_1_to_100_are_refused(substeps: int) -> None:
    with pytest.raises(ValueError, match="substeps must be 1 to 100"):
        Play(substeps=substeps)


@pytest.mark.parametrize("substeps", [True, 2.0, "2", None])
def test_substeps_that_are_no_whole_number_are_refused(substeps: object) -> None:
    with pytest.raises(TypeError, match="substeps= takes a whole number"):
        Play(substeps=substeps)  # type: ignore[arg-type]


def test_every_substep_of_a_divided_grid_has_its_place_between_two_deadlines() -> None:
    grid = TickSchedule(12.5, 0.06, first=7)
    fine = grid.divided(4)
    for step in (7, 8, 1007):
        assert fine.deadline(step * 4) == pytest.approx(grid.deadline(step))
        assert fine.deadline(step * 4 + 3) == pytest.approx(grid.deadline(step) + 0.045)
