"""When a worker's loop has so much to do that another robot would be one too many."""

from __future__ import annotations

import pytest

from seqrt.worker.loopload import EVERY_S, LoopLoad


def looked(took_s: float, cpu_s: float, looks: int = 20) -> LoopLoad:
    load = LoopLoad()
    for _ in range(looks):
        load.add(took_s, cpu_s)
    return load


@pytest.mark.parametrize(
    ("what", "took_s", "cpu_s", "crowded"),
    [
        ("idle", EVERY_S, 0.001, False),
        ("half busy", EVERY_S, 0.5 * EVERY_S, False),
        ("busy", EVERY_S, 0.85 * EVERY_S, True),
        ("late by its own work", 3 * EVERY_S, 1.5 * EVERY_S, True),
        ("late by others' work", 3 * EVERY_S, 0.3 * EVERY_S, False),
    ],
)
def test_a_loop_is_crowded_when_it_is_at_work_nearly_always_or_late_by_its_own_work(what, took_s, cpu_s, crowded):
    assert looked(took_s, cpu_s).crowded is crowded


def test_a_busy_moment_is_not_a_busy_second():
    load = looked(EVERY_S, 0.001, 15)
    for _ in range(5):
        load.add(EVERY_S, EVERY_S)
    assert not load.crowded
    assert not looked(EVERY_S, EVERY_S, 19).crowded


def test_before_the_first_look_nothing_is_known():
    load = LoopLoad()
    assert (load.share, load.late_s, load.crowded) == (0.0, 0.0, False)
