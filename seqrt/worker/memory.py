"""Memory given back to the system when no robot is served: what was freed is else kept for the next who asks.

glibc returns what lies at the end of its heap alone. Pictures are freed in another order than they came, and what is
left between them keeps a process as large as it was at its most, though nothing of it is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.to_thread

EVERY_S: Final = 5.0


class Rest:
    """Whether a worker came to rest: nothing was served between two looks, after something was."""

    def __init__(self) -> None:
        self._acts = 0
        self._served = False

    def has_come(self, episodes: int, acts: int) -> bool:
        """Look at it.

        Args:
            episodes: Live now.
            acts: Inferred so far.

        Returns:
            True once each time it comes to rest.
        """
        serves = episodes > 0 or acts != self._acts
        self._acts = acts
        came = self._served and not serves
        self._served = serves
        return came


def give_back() -> bool:
    """Give back what is free; blocking, some milliseconds. False where the C library has no such call."""
    import ctypes

    try:
        trim: Any = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return False
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    trim(0)
    return True


async def give_back_at_rest(statistics: Callable[[], Mapping[str, int]]) -> None:
    """Give memory back whenever a worker has come to rest; until cancelled, or there is no way to.

    Args:
        statistics: Of its `Host`.
    """
    rest = Rest()
    while True:
        await anyio.sleep(EVERY_S)
        held = statistics()
        if rest.has_come(held["episodes"], held["inferred"]) and not await anyio.to_thread.run_sync(give_back):
            return
