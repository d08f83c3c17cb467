"""What goes on for long is said at once and then rarely, with how often it has happened since."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

EVERY_S: Final = 10.0
"""How long a kind is silent once it was said."""


class Seldom:
    """Decides what is said, kind by kind: trouble at every act must not fill a disk.

    Args:
        every_s: How long a kind is silent once it was said.
    """

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._said_at: dict[Hashable, float] = {}
        self._unsaid: dict[Hashable, int] = {}

    def due(self, kind: Hashable, now: float) -> int | None:
        """Whether ``kind`` is said at ``now``, in seconds: how many were not said since the last that was; else None.

        Kinds are few: each is remembered.
        """
        said_at = self._said_at.get(kind)
        if said_at is not None and now - said_at < self._every_s:
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return None
        self._said_at[kind] = now
        return self._unsaid.pop(kind, 0)
