"""A timer of the Linux kernel that an event loop can wait for like a socket (timerfd_create(2)).

It fires to within some ten microseconds, where asyncio's epoll selector rounds a timeout up to the next millisecond.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from functools import cache
from typing import Any, Final

_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""timerfd's own flags have these values on every architecture (sys/timerfd.h)."""
_SHORTEST_S: Final = 1e-9
"""A delay of 0 would disarm the timer."""


def available() -> bool:
    """Whether this system has timers of this kind."""
    return sys.platform == "linux" and (hasattr(os, "timerfd_create") or _libc() is not None)


class TimerFd:
    """One timer, disarmed; `close` it.

    Attributes:
        fd: Its file descriptor, readable from when the timer has fired until it is set anew: it is never read.

    Raises:
        OSError: The system refuses: no file descriptor left, or there are no such timers.
    """

    def __init__(self) -> None:
        self.fd = _create()

    def fire_after(self, delay_s: float) -> None:
        """Fire once, ``delay_s`` from now, and not when it was going to; at once for a delay that has passed.

        Only to be called in the loop that waits for it: what was set last holds.
        """
        _set(self.fd, max(delay_s, _SHORTEST_S))

    def close(self) -> None:
        """Give the file descriptor back."""
        os.close(self.fd)


if sys.platform == "linux" and sys.version_info >= (3, 13):

    def _create() -> int:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=_FLAGS)

    def _set(fd: int, delay_s: float) -> None:
        os.timerfd_settime(fd, initial=delay_s)

else:

    def _create() -> int:
        libc = _libc()
        if libc is None:
            raise OSError("this system has no timerfd")
        return _checked(libc.timerfd_create(getattr(time, "CLOCK_MONOTONIC", 1), _FLAGS))

    def _set(fd: int, delay_s: float) -> None:
        whole_s = int(delay_s)
        # struct itimerspec: how often it fires again (never), and when first.
        setting = struct.pack("llll", 0, 0, whole_s, max(1, int((delay_s - whole_s) * 1e9)))
        _checked(_libc().timerfd_settime(fd, 0, setting, None))


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@cache
def _libc() -> Any:
    """The C library this interpreter is linked with, if it has such timers.

    PyDLL keeps the interpreter's lock over a call: these do not block, and a lock let go is won back 5 ms later where
    another thread computes.
    """
    try:
        import ctypes

        libc = ctypes.PyDLL(None, use_errno=True)
        libc.timerfd_create.argtypes = [ctypes.c_int, ctypes.c_int]
        libc.timerfd_settime.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    except (ImportError, OSError, AttributeError, TypeError):  # Windows has no library without a name
        return None
    return libc
