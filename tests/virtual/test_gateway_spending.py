"""When what keys spent is written down: soon after an act, and never lost when the gateway ends in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from seqrt.gateway.keys import Key, hash_of
from seqrt.gateway.spending import FLUSH_S, Spending, flush, kept, read_spent
from seqrt.testing.offload import inline

pytestmark = pytest.mark.anyio
T = TypeVar("T")

KEY = Key(name="a", sha256=hash_of(b"a"), acts=9)


def count(spending: Spending) -> None:
    assert spending.reserve(KEY)
    spending.count(KEY)


async def test_an_act_is_written_down_soon_after_it_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "spent"
    with kept(path) as spending:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flush, spending, path, inline())
            for acts in (1, 2):
                await anyio.sleep(10.0)
                count(spending)
                await anyio.sleep(FLUSH_S + 0.0101)
                assert read_spent(path) == {KEY.sha256: acts}
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("after_s", [0.0, 0.1, FLUSH_S + 0.1])
async def test_an_act_counted_before_the_gateway_ends_is_written_down_whenever_that_is(
    after_s: float, tmp_path: Path
) -> None:
    async def thread_that_is_not_free(call: Callable[[], T], /) -> T:
        await anyio.sleep(1.0)  # a cancellation arrives here, before anything is written
        return call()

    path = tmp_path / "spent"
    with kept(path) as spending:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flush, spending, path, thread_that_is_not_free)
            count(spending)
            await anyio.sleep(after_s)
            tasks.cancel_scope.cancel()
    assert read_spent(path) == {KEY.sha256: 1}
