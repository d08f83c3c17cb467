"""What is to be posted of one episode: keys of observations, and numbers that will never come. Queued, then under way.

The ledger puts in what acts read; the uplink takes loads out, and says what became of each. No waiting, no sending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from seqrt.runtime.way import Keys, Way


@dataclass(frozen=True, eq=False)
class Load:
    """What one post carries.

    Attributes:
        keys: The keys it sends of each observation, by number; none of one that is only named.
        told: Numbers that will never come.
        told_beside: Likewise, in the place of which one of these observations is read: told with it or not at all.
    """

    keys: dict[int, Keys]
    told: list[int]
    told_beside: list[int]

    @property
    def skipped(self) -> list[int]:
        """All numbers that will never come."""
        return [*self.told, *self.told_beside]


class Outbox:
    """One episode's loads.

    Args:
        every_number: The worker waits for every number, not only for those a window names.

    Attributes:
        way: Where the keys of each observation are.
    """

    def __init__(self, *, every_number: bool) -> None:
        self._every_number = every_number
        self.way = Way()
        self._skips: list[int] = []
        self._skips_beside: dict[int, list[int]] = {}  # told with that number, or once it is there

    def __bool__(self) -> bool:
        """Whether there is something to post."""
        return bool(self.way.queued or self._skips)

    @property
    def waiting(self) -> int:
        """Observations that wait to be sent."""
        return len(self.way.queued)

    def on_way(self, numbers: Collection[int]) -> bool:
        """Whether some of ``numbers`` is queued or under way."""
        return any(number in self.way for number in numbers)

    def is_unwanted(self, load: Load) -> bool:
        """Whether nobody reads any of its observations any more."""
        return self.way.unwanted.issuperset(load.keys)

    def tell(self, numbers: Iterable[int]) -> None:
        """Have ``numbers`` told as never to come."""
        self._skips.extend(numbers)

    def untell(self, number: int) -> None:
        """``number`` comes after all."""
        if number in self._skips:
            self._skips = [skip for skip in self._skips if skip != number]

    def tell_beside(self, number: int, before: int, keys: Keys) -> None:
        """Have ``number`` told as never to come in one post with ``before``, which is read in its place.

        Args:
            number: What will never come.
            before: What is read instead.
            keys: What goes along of it at the least; without any it is only named.
        """
        self.way.queued.setdefault(before, keys)
        self._skips_beside.setdefault(before, []).append(number)

    @property
    def told_beside(self) -> list[int]:
        """The observations that will take such numbers along."""
        return list(self._skips_beside)

    def take(self, most: int, most_skips: int, first: Collection[int] = ()) -> Load:
        """The next load.

        Args:
            most: How many observations it may hold, of what waits, in the order it was handed in.
            most_skips: How many numbers it may tell beside.
            first: What goes before all others, in this order; it waits.
        """
        keys = self.way.post(list(first)[:most] or list(self.way.queued)[:most])
        beside = [skip for number in keys for skip in self._skips_beside.pop(number, ())]
        pending = sorted(set(self._skips))  # acts that wait for the same number each have it told
        told, self._skips = pending[:most_skips], pending[most_skips:]
        return Load(keys, told, beside)

    def landed(self, load: Load) -> None:
        """A load has arrived."""
        self.way.land(load.keys)
        self._release(load.keys)

    def refused(self, load: Load) -> list[int]:
        """A load was refused for good: its numbers are told as never to come. Those that nothing else posts."""
        self.way.unpost(load.keys)
        self.tell([*load.skipped, *load.keys])
        return [number for number in load.keys if self._unqueued(number)]

    def give_up(self, load: Load) -> None:
        """A load will not be delivered: what a later act needs is queued anew for it."""
        self.way.unpost(load.keys)
        self.tell(load.told)
        if self._every_number:
            self.tell(load.keys)  # of one that did arrive the worker keeps what it has
        for number in load.keys:
            if number not in self.way and not self.way.sent(number):
                self._skips_beside.pop(number, None)  # told anew by the act that reads it

    def let_go(self, numbers: Collection[int]) -> None:
        """Nobody reads these any more: queued ones are not sent, those under way not tried again."""
        queued = {number: self.way.queued.pop(number) for number in [n for n in self.way.queued if n in numbers]}
        self.way.unwanted.update(number for number in numbers if number in self.way.posted)
        if queued:
            self.give_up(Load({n: keys for n, keys in queued.items() if n not in self.way.posted}, [], []))

    def skip(self, number: int) -> bool:
        """Do not send ``number``, which waits, but tell it as never to come; whether nothing else posts it."""
        self.tell([number])
        return self._unqueued(number)

    def _unqueued(self, number: int) -> bool:
        self.way.queued.pop(number, None)
        self._release([number])
        return number not in self.way

    def _release(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self.way:
                self.tell(self._skips_beside.pop(number, ()))
