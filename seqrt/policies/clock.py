"""The running loop's clock as a plain function, read as finely and as cheaply as it can be.

`anyio.current_time` looks up the running loop each time; a tick reads the clock several times, and so does an act.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio


def loop_clock() -> Callable[[], float]:
    """The running loop's clock."""
    return machine_clock() or anyio.current_time


def machine_clock() -> Callable[[], float] | None:
    """The running loop's clock to full precision; None where it is not the machine's: a virtual or a patched one."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        clock = trio.lowlevel.current_clock()
        kind = type(clock)  # trio's own is not public
        own = kind.__name__ == "SystemClock" and kind.__module__.partition(".")[0] == "trio"
        return clock.current_time if own else None
    loop = asyncio.get_running_loop()
    if getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time:
        return time.monotonic
    # uvloop counts whole milliseconds, and only between callbacks, but from the same origin.
    uvloop: Any = sys.modules.get("uvloop")
    return time.monotonic if uvloop is not None and type(loop) is uvloop.Loop else None
