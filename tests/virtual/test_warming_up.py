"""A model that is being loaded while the blocking face has still to connect."""

from __future__ import annotations

import anyio
import pytest

from seqrt.blocking.warming import warmed_up
from seqrt.errors import LinkLost, RemoteError, remote_error

pytestmark = pytest.mark.anyio


class Loading:
    """Says that it warms up until it is ready."""

    def __init__(self, ready_s: float, retry_after_s: float | None) -> None:
        self.ready_s, self.retry_after_s = ready_s, retry_after_s
        self.asked_at: list[float] = []
        self.begun = anyio.current_time()

    async def connect(self) -> str:
        self.asked_at.append(anyio.current_time() - self.begun)
        if self.asked_at[-1] < self.ready_s:
            raise remote_error("warming", "loading", retry_after_s=self.retry_after_s)
        return "ready"


@pytest.mark.parametrize(
    ("retry_after_s", "asked_at"),
    [(4.0, [0, 4, 8]), (0.2, [0, 1, 2, 3, 4, 5, 6, 7, 8]), (None, [0, 5, 10])],
)
async def test_it_is_asked_again_as_it_says_and_no_more_than_once_a_second(
    retry_after_s: float | None, asked_at: list[float]
) -> None:
    loading = Loading(7.5, retry_after_s)
    assert await warmed_up(loading.connect, 30) == ("ready", pytest.approx(asked_at[-1]))
    assert loading.asked_at == pytest.approx(asked_at)


@pytest.mark.parametrize(("budget_s", "asked"), [(0.0, 1), (3.9, 1), (4.0, 2), (11.9, 3)])
async def test_it_is_given_up_at_once_where_the_next_wait_would_pass_the_budget(budget_s: float, asked: int) -> None:
    loading = Loading(100, 4.0)
    with pytest.raises(RemoteError, match="loading"):
        await warmed_up(loading.connect, budget_s)
    assert len(loading.asked_at) == asked
    assert anyio.current_time() - loading.begun == pytest.approx(4.0 * (asked - 1))


async def test_nothing_else_is_waited_out() -> None:
    async def connect() -> str:
        raise LinkLost("nobody there", code="unavailable")

    with pytest.raises(LinkLost):
        await warmed_up(connect, 100)
