"""How many acts each key has made; kept in a file beside the keys, so that a restart forgets none."""

from __future__ import annotations

from seqrt.gateway.keys import Key


class Spending:
    """Counts acts by key, those under way too."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self._reserved: dict[str, int] = {}

    def spent(self, key: Key) -> int:
        """Acts of the key that were answered."""
        return self._spent.get(key.sha256, 0)

    def reserve(self, key: Key) -> bool:
        """Set one act aside; False where all that are left are set aside already."""
        reserved = self._reserved.get(key.sha256, 0)
        if key.acts is not None and self.spent(key) + reserved >= key.acts:
            return False
        self._reserved[key.sha256] = reserved + 1
        return True

    def count(self, key: Key) -> None:
        """An act that was set aside has been answered."""
        self.give_back(key)
        self._spent[key.sha256] = self.spent(key) + 1

    def give_back(self, key: Key) -> None:
        """An act that was set aside was not answered."""
        left = self._reserved.get(key.sha256, 0) - 1
        if left > 0:
            self._reserved[key.sha256] = left
        else:
            self._reserved.pop(key.sha256, None)
