from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from seqrt.testing import LinkTransport, Relay, jittered, stalls_at_random
from seqrt.testing.outages import checked_outages, checked_spans


def test_stalls_at_random_are_apart_as_asked_and_the_same_for_a_seed() -> None:
    stalls = stalls_at_random(every_s=2.0, for_s=0.5, until_s=10_000, seed=4)
    assert stalls == stalls_at_random(every_s=2.0, for_s=0.5, until_s=10_000, seed=4)
    assert stalls != stalls_at_random(every_s=2.0, for_s=0.5, until_s=10_000, seed=5)
    apart = [later - at_s - for_s for (at_s, for_s), (later, _) in itertools.pairwise(stalls)]
    assert min(apart) >= 0
    assert sum(apart) / len(apart) == pytest.approx(2.0, rel=0.1)
    assert stalls[-1][0] < 10_000
    assert {for_s for _, for_s in stalls} == {0.5}


def test_stalls_at_random_last_as_their_script_says() -> None:
    stalls = stalls_at_random(every_s=1.0, for_s=jittered(0.3, seed=1), until_s=60, seed=1)
    assert len({for_s for _, for_s in stalls}) == len(stalls) > 10


def test_the_same_stalls_fit_both_networks() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    stalls = stalls_at_random(every_s=1.0, until_s=20, seed=2)
    LinkTransport(app, stalls=stalls)
    Relay(1, stalls=stalls)


@pytest.mark.parametrize("asked", [{"every_s": 0}, {"every_s": math.nan}, {"every_s": 1, "until_s": math.inf}])
def test_stalls_at_random_that_make_no_sense_are_refused(asked: Any) -> None:
    with pytest.raises(ValueError, match="finite"):
        stalls_at_random(**asked)


@pytest.mark.parametrize("stalls", [[(1.0, 2.0), (2.0, 1.0)], [(-1.0, 2.0)], [(1.0, math.inf)], [(math.nan, 1.0)]])
def test_stalls_that_make_no_sense_are_refused(stalls: Any) -> None:
    with pytest.raises(ValueError, match="stall"):
        checked_spans(stalls)


def test_outages_and_stalls_become_one_list() -> None:
    assert checked_outages([(3.0, 4.0, "reset")], [(1.0, 0.5), (5.0, 1.0)]) == [
        (1.0, 1.5, "stalled"),
        (3.0, 4.0, "reset"),
        (5.0, 6.0, "stalled"),
    ]
    with pytest.raises(ValueError, match="one after the other"):
        checked_outages([(3.0, 4.0, "reset")], [(3.5, 0.1)])
