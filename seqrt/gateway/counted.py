"""Which acts a budget has paid for already, so that one that is sent again costs nothing more. Pure.

A robot whose answer was lost sends its act again under the same id, and the worker answers it from memory. As long as a
worker may, so long it is known here; by its bytes too, since an id alone would make any other act free.
"""

from __future__ import annotations

import hashlib

from seqrt.gateway.keys import Key
from seqrt.wire.limits import ANSWERS_KEPT_S


class Counted:
    """The acts that were answered and paid for of late."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], tuple[float, bytes]] = {}  # in the order they were answered

    def __len__(self) -> int:
        """How many are known."""
        return len(self._at)

    def add(self, key: Key, act: str, body: bytes, now: float) -> None:
        """One more was answered; ``body`` is what `digest` makes of it."""
        self._forget(now)
        self._at.pop((key.sha256, act), None)
        self._at[key.sha256, act] = now, body

    def has(self, key: Key, act: str, body: bytes | None, now: float) -> bool:
        """Whether an act of that id was; with a body, of that one."""
        self._forget(now)
        found = self._at.get((key.sha256, act))
        return found is not None and body in (None, found[1])

    def _forget(self, now: float) -> None:
        while self._at and now - self._at[oldest := next(iter(self._at))][0] > ANSWERS_KEPT_S:
            del self._at[oldest]


def digest(body: bytes) -> bytes:
    """What tells one body from another."""
    return hashlib.sha256(body).digest()
