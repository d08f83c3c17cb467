"""What stands in for a worker thread in virtual time: the call runs in the loop, after a scripted duration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel

from seqrt.policies.offload import Offload
from seqrt.testing.durations import Durations, drawn

T = TypeVar("T")


def inline(duration_s: Durations = 0.0) -> Offload:
    """An `seqrt.policies.offload.Offload` that sleeps, then calls in the loop; no thread.

    Args:
        duration_s: How long each call takes, in seconds of the loop's clock: a number, a sequence (the last value
            again and again) or a function. A duration of 0 still gives other tasks a turn.

    Returns:
        An async function of one call. As with a thread, a call that has begun runs to its end: a cancellation
        meanwhile is delivered afterwards.
    """
    draw = drawn(duration_s)

    async def offload(call: Callable[[], T], /) -> T:
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(draw())
            result = call()
        return result

    return offload
