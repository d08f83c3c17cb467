"""A run's ticks in virtual time, whatever was asked to wait for them, and what a run leaves alone."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import anyio
import pytest

import seqrt
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio


def yes(_: object) -> bool:
    return True


async def ticks(**play: Any) -> tuple[list[tuple[float, int, str]], seqrt.Statistics]:
    told: list[tuple[float, int, str]] = []

    def tell(event: ev.Event) -> None:
        if isinstance(event, ev.Ticked):
            told.append((event.at_s, event.step, event.kind))

    async with connected(Scripted(rows=20, infer_s=0.0703)) as served:
        begun = anyio.current_time()
        await served.policy.run(
            FakeArm(3), validate=yes, max_actions=30, record=tell, play=seqrt.Play(**play)
        )  # fmt: skip
        assert anyio.current_time() > begun
        return told, served.policy.statistics()


async def test_every_way_of_waiting_is_the_same_run_in_virtual_time() -> None:
    slept, statistics = await ticks(tick="sleep")
    automatic, _ = await ticks()
    assert [(step, kind) for _, step, kind in automatic] == [(step, kind) for _, step, kind in slept]
    assert [at_s for at_s, _, _ in automatic] == pytest.approx([at_s for at_s, _, _ in slept])
    assert statistics.tick is not None
    assert (statistics.tick.means, statistics.tick.waits) == ("sleep", len(slept))
    assert statistics.tick.late_s is not None
    assert statistics.tick.late_s.max < 1e-6


async def test_a_run_touches_nothing_of_the_process() -> None:
    def process() -> tuple[Any, ...]:
        thread = (os.sched_getaffinity(0), os.sched_getscheduler(0)) if sys.platform == "linux" else ()
        return (gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval(), *thread)

    before, seen = process(), set()

    async with connected(Scripted(rows=20, infer_s=0.0703)) as served:
        await served.policy.run(
            FakeArm(3), validate=lambda _: bool(seen.add(str(process())) or True), max_actions=5
        )  # fmt: skip
    assert seen == {str(before)}
    assert process() == before
