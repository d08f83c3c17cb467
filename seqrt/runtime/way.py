"""Where the keys of each observation are on their way to the worker: queued, in a post, landed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

Keys = frozenset[Any]

NO_KEYS: Final[Keys] = frozenset()


class Way:
    """Keys by number, in three places; a key of a number is in one of them at the most.

    Attributes:
        queued: To be sent, in this order.
        posted: In posts that are under way.
        landed: Acknowledged, for as long as it matters.
        unwanted: Numbers in posts that nobody reads any more.
    """

    def __init__(self) -> None:
        self.queued: dict[int, Keys] = {}
        self.posted: dict[int, Keys] = {}
        self.landed: dict[int, Keys] = {}
        self.unwanted: set[int] = set()

    def __contains__(self, number: int) -> bool:
        """Whether some key of ``number`` is queued or in a post."""
        return number in self.queued or number in self.posted

    def sent(self, number: int) -> Keys:
        """The keys of ``number`` that are queued, in a post or landed."""
        return self.queued.get(number, NO_KEYS) | self.posted.get(number, NO_KEYS) | self.landed.get(number, NO_KEYS)

    def queue(self, number: int, keys: Keys) -> bool:
        """Queue what is not sent yet of ``keys``; whether there was anything."""
        self.unwanted.discard(number)
        new = keys - self.sent(number)
        if new:
            self.queued[number] = self.queued.get(number, NO_KEYS) | new
        return bool(new)

    def post(self, numbers: Collection[int]) -> dict[int, Keys]:
        """Move numbers that are queued into a post; ascending."""
        taken = {number: self.queued.pop(number) for number in sorted(numbers)}
        for number, keys in taken.items():
            self.posted[number] = self.posted.get(number, NO_KEYS) | keys
        return taken

    def land(self, taken: Mapping[int, Keys]) -> None:
        """A post was acknowledged."""
        for number, keys in taken.items():
            self.landed[number] = self.landed.get(number, NO_KEYS) | keys
        self.unpost(taken)

    def unpost(self, taken: Mapping[int, Keys]) -> None:
        """A post is no longer under way."""
        for number, keys in taken.items():
            left = self.posted.pop(number, NO_KEYS) - keys
            if left:
                self.posted[number] = left
            else:
                self.unwanted.discard(number)

    def keep_landed(self, numbers: Collection[int]) -> None:
        """Remember of ``numbers`` alone what has landed."""
        self.landed = {number: keys for number, keys in self.landed.items() if number in numbers}
