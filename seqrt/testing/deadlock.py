"""What virtual time says when nothing can happen any more: every task waits, and no timer is left."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from seqrt.errors import SeqrtError

GRACE_LOOKS = 1000
"""How often a loop that has nothing else to wait for looks whether a thread or a socket has woken it, a millisecond
apart. Looks are counted and not seconds: a process that is stopped for a while, threads and all, has not waited."""
LOOK_S: Final = 0.001
"""Real seconds between two of them."""

_LOOPS: Final = frozenset({"anyio", "asyncio", "trio"})


class Deadlock(SeqrtError):
    """Every task waits and no timer is left: nothing can happen any more. The message says where each task waits."""


def other_threads() -> bool:
    """Whether a thread lives that could call into this one's loop."""
    return threading.active_count() > 1


def deadlock_text(now_s: float, places: Iterable[str]) -> str:
    """The message: the virtual time, and a line for each task."""
    lines = "".join(f"\n  {place}" for place in places)
    return f"at {now_s:.6f} s every task waits, and no timer, thread or socket will wake one:{lines}"


def innermost(coroutine: Any) -> str:
    """The frames a suspended coroutine stands in, innermost last; the event loop's own are left out."""
    frames: list[tuple[bool, str]] = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"
            frames.append((frame.f_globals.get("__name__", "").partition(".")[0] in _LOOPS, place))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    own = [place for of_the_loop, place in frames if not of_the_loop]
    return " > ".join(own[-3:] or [place for _, place in frames[-1:]]) or "not started"
