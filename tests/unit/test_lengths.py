from __future__ import annotations

import pytest

from seqrt.action.lengths import Lengths


@pytest.mark.parametrize(
    ("answers", "without", "with_prefix"),
    [
        ([], None, None),
        ([(16, 0)], 16, 16),
        ([(16, 0), (28, 12)], 16, 28),
        ([(16, 0), (28, 12), (20, 0)], 20, 28),
        ([(30, 0), (12, 8)], 12, 12),  # it answers fewer than it did: so it will without a prefix
    ],
)
def test_an_answer_made_from_committed_rows_has_a_length_of_its_own(answers, without, with_prefix):
    lengths = Lengths()
    for rows, committed in answers:
        lengths.take(rows, committed)
    assert (lengths.without_prefix, lengths.with_prefix) == (without, with_prefix)


def test_what_was_answered_to_a_prefix_decides_for_those_no_longer():
    lengths = Lengths()
    lengths.take(16, 0)
    assert not lengths.known(4)
    lengths.take(24, 8)
    assert [lengths.known(committed) for committed in (4, 8, 9)] == [True, True, False]
