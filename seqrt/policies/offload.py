"""The one way off the event loop: a policy's code is called through an `Offload`, a thread in life.

In virtual time `seqrt.testing.offload.inline` stands in its place, with a scripted duration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class Offload(Protocol):
    """Runs a blocking call without holding up the loop; what the call returns or raises comes through.

    A call that has begun runs to its end: a cancellation that arrives meanwhile is delivered afterwards.
    """

    async def __call__(self, call: Callable[[], T], /) -> T:
        """Run ``call`` and return what it returns."""
        ...


def in_thread(limiter_tokens: int = 1) -> Offload:
    """An `Offload` into worker threads.

    Args:
        limiter_tokens: How many calls may run at once; further ones wait, first come first served.
    """
    limiter: anyio.CapacityLimiter | None = None

    async def offload(call: Callable[[], T], /) -> T:
        nonlocal limiter
        if limiter is None:
            limiter = anyio.CapacityLimiter(limiter_tokens)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=False, limiter=limiter)

    return offload
