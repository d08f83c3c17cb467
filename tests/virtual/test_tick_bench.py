"""What bench/cost times is what a run does, so that its figures stay those of a tick and of a splice."""

from __future__ import annotations

import pytest

from bench import cost

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("way", cost.WAYS)
async def test_each_tick_timed_plays_a_row_and_each_splice_meets_a_plan_that_overlaps(way: str) -> None:
    play = cost.WAYS[way]
    ticks, splices = await cost.timed(play, 100 * play.substeps)
    assert (len(ticks.cpu_ns), len(splices.cpu_ns)) == (100 * play.substeps, 3)
    assert all(part > 0 for part in (*ticks.wall_ns, *splices.wall_ns))
