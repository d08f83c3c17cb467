"""Work that is waited for so long and no longer, and that runs on: the policy's code cannot be stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.abc

T = TypeVar("T")


async def in_time(tasks: anyio.abc.TaskGroup, work: Callable[[], Awaitable[T]], patience_s: float) -> T | None:
    """What ``work`` returns, if it does within ``patience_s``; else None.

    Args:
        tasks: Where it runs, and runs on. What it raises then is nobody's.
        work: Returns anything but None.
        patience_s: How long it is waited for.

    Raises:
        Exception: What it raises in time.
    """
    done = anyio.Event()
    came: list[T | Exception] = []

    async def run() -> None:
        try:
            came.append(await work())
        except Exception as raised:
            came.append(raised)
        finally:
            done.set()

    tasks.start_soon(run)
    with anyio.move_on_after(patience_s):
        await done.wait()
    found = came[0] if came else None
    if isinstance(found, Exception):
        raise found
    return found
