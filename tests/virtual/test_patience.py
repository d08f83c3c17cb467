"""Work that is waited for so long, and runs on."""

from __future__ import annotations

import anyio
import pytest

from seqrt.worker.patience import in_time

pytestmark = pytest.mark.anyio


async def work(takes_s: float, ends: list[float], fails: bool = False) -> str:
    await anyio.sleep(takes_s)
    ends.append(anyio.current_time())
    if fails:
        raise ValueError("no")
    return "done"


async def test_what_comes_in_time_is_returned_or_raised() -> None:
    ends: list[float] = []
    async with anyio.create_task_group() as tasks:
        assert await in_time(tasks, lambda: work(0.3, ends), 0.5) == "done"
        failure: ValueError | None = None
        try:
            await in_time(tasks, lambda: work(0.3, ends, fails=True), 0.5)
        except ValueError as raised:
            failure = raised
    assert str(failure) == "no"


@pytest.mark.parametrize("fails", [False, True])
async def test_what_comes_later_is_waited_for_no_longer_and_runs_to_its_end(fails: bool) -> None:
    ends: list[float] = []
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        assert await in_time(tasks, lambda: work(0.9, ends, fails), 0.5) is None
        assert anyio.current_time() - began == pytest.approx(0.5)
        assert not ends
    assert ends[0] - began == pytest.approx(0.9)
