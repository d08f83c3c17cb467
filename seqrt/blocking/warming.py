"""Waits out a model that is being loaded where the handle itself has still to be connected: nothing moves yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from seqrt.errors import Unavailable

T = TypeVar("T")

_WAIT_S: Final = 5.0
"""How long is waited between two tries where nobody says for how long."""


async def warmed_up(connect: Callable[[], Awaitable[T]], budget_s: float) -> tuple[T, float]:
    """What ``connect`` gives once it no longer says that the model warms up, and the seconds spent on it.

    Args:
        connect: Tried again after each wait.
        budget_s: The most to spend; given up at once where the next wait would pass it.

    Raises:
        Unavailable: What was said last.
    """
    begun = anyio.current_time()
    while True:
        try:
            return await connect(), anyio.current_time() - begun
        except Unavailable as error:
            wait_s = max(1.0, error.retry_after_s or _WAIT_S)
            if not error.warming or anyio.current_time() - begun + wait_s > budget_s:
                raise
        await anyio.sleep(wait_s)
