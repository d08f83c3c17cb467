"""When a lease is to be renewed, by the clock handed in."""

from __future__ import annotations

from itertools import pairwise

from seqrt.link.term import Term


def test_a_lease_is_renewed_when_it_was_asked_to_be_and_never_later_than_half_of_it() -> None:
    assert [Term(10.0, 300.0, every_s).renew_at for every_s in (100.0, 1000.0)] == [110.0, 160.0]
    assert not Term(10.0, 300.0, 100.0).is_due(109.9)
    assert Term(10.0, 300.0, 100.0).is_due(110.0)


def test_it_is_over_when_it_lasted_long_enough() -> None:
    term = Term(10.0, 300.0, 100.0)
    assert [term.is_over(now) for now in (309.9, 310.0)] == [False, True]


def test_renewals_that_fail_are_tried_again_later_and_later_and_several_times_before_it_is_over() -> None:
    for ttl_s in (3.0, 300.0):
        term, tries = Term(0.0, ttl_s, ttl_s / 3), list[float]()
        while not term.is_over(term.renew_at) and len(tries) < 1000:
            tries.append(term.renew_at)
            term.failed(term.renew_at)
        waits = [later - one for one, later in pairwise(tries)]
        assert 5 <= len(tries) <= 40
        assert all(0.0 < wait_s <= 30.0 for wait_s in waits)
