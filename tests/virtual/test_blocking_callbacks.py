"""Callbacks that hold the event loop: refused before motion, or within the first calls, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from seqrt.errors import CallbackTooSlow
from seqrt.testing import FakeArm, Scripted, virtual
from seqrt.testing.connected import connected

pytestmark = pytest.mark.anyio

HZ = 25.0
TOO_LONG_S = 0.02
"""Half a period; a quarter is allowed."""


def yes(_: object) -> bool:
    return True


async def test_a_blocking_observe_is_refused_before_motion_with_the_line_to_write() -> None:
    arm = FakeArm(3)
    looked: list[float] = []

    def observe() -> Any:
        looked.append(0)
        virtual.block(TOO_LONG_S)
        return arm.observe()

    async with connected(Scripted(rows=30, hz=HZ)) as there:
        with pytest.raises(CallbackTooSlow, match=r"run\(seqrt\.robots\.threaded\(robot\), …\)") as caught:
            await there.policy.run(observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=5)
    assert caught.value.callback == "observe"
    assert caught.value.allowed_s == pytest.approx(0.25 / HZ)
    assert caught.value.took_s >= TOO_LONG_S
    assert (arm.acts, arm.holds) == ([], [])
    assert len(looked) == 3, "the best of three: a first call may open things"


async def test_an_observe_that_blocks_at_its_first_call_alone_is_fine() -> None:
    arm = FakeArm(3)

    def observe() -> Any:
        if not arm.observed:
            virtual.block(TOO_LONG_S)
        return arm.observe()

    async with connected(Scripted(rows=30, hz=HZ)) as there:
        outcome = await there.policy.run(observe=observe, act=arm.act, hold=arm.hold, validate=yes, max_actions=5)
    assert outcome.reason == "completed"


async def test_an_act_that_blocks_three_times_in_its_first_ten_ends_the_run_with_hold() -> None:
    arm = FakeArm(3)

    def act(row: Any) -> None:
        arm.act(row)
        if len(arm.acts) in (2, 4, 5, 6):
            virtual.block(TOO_LONG_S)

    async with connected(Scripted(rows=30, hz=HZ)) as there:
        with pytest.raises(CallbackTooSlow, match="threaded") as caught:
            await there.policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=50)
    assert caught.value.callback == "act"
    assert len(arm.acts) == 6, "three in a row"
    assert caught.value.outcome is not None
    assert len(arm.holds) == 1


async def test_an_act_that_blocks_later_or_now_and_then_is_not_stopped_for_it() -> None:
    arm = FakeArm(3)

    def act(row: Any) -> None:
        arm.act(row)
        if len(arm.acts) in (1, 2, 4, 5, 11, 12, 13):
            virtual.block(TOO_LONG_S)

    async with connected(Scripted(rows=30, hz=HZ)) as there:
        outcome = await there.policy.run(observe=arm.observe, act=act, hold=arm.hold, validate=yes, max_actions=14)
    assert outcome.reason == "completed"
