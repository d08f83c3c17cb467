"""Which keys of which steps the acts that are not over read, as the robot knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from seqrt.observation.declaration import Observations
from seqrt.observation.window import fed_keys, resolve
from seqrt.runtime.way import NO_KEYS, Keys

Reads = Mapping[int, Keys | None]
"""Keys by step; None is the whole observation."""


class OpenActs:
    """The acts that wait for their answer, by step, and what each of them reads."""

    def __init__(self) -> None:
        self._reads: dict[int, Reads] = {}

    def __contains__(self, step: int) -> bool:
        """Whether an act at ``step`` waits."""
        return step in self._reads

    def __iter__(self) -> Iterator[int]:
        """Their steps."""
        return iter(list(self._reads))

    @property
    def numbers(self) -> set[int]:
        """The observations some act reads."""
        return set().union(*self._reads.values())

    def read(self, number: int) -> bool:
        """Whether some act reads observation ``number``."""
        return any(number in reads for reads in self._reads.values())

    def open(self, step: int, reads: Reads) -> None:
        """An act goes out."""
        self._reads[step] = reads

    def close(self, step: int) -> set[int]:
        """An act is over; the observations that it alone read."""
        return set(self._reads.pop(step, {})) - self.numbers

    def reads_from(self, number: int) -> Reads:
        """What they read from observation ``number`` on, ascending."""
        found: dict[int, Keys | None] = {}
        for reads in self._reads.values():
            for n, keys in reads.items():
                if n >= number:
                    _add(found, n, keys)
        return dict(sorted(found.items()))


def reads_of(
    observations: Observations | None,
    step: int,
    previous: int,
    *,
    at_hand: Sequence[int],
    instead_of: Callable[[int], int | None],
) -> Reads:
    """What the act at ``step`` reads of a window: what is at hand, and what it looks for though nothing was taken.

    Fed steps that are not at hand are left out: there may be very many.

    Args:
        observations: The declaration, in steps.
        step: The act's step.
        previous: The step of the act before it.
        at_hand: The observations there are, ascending.
        instead_of: What is read in the place of a step at which nothing was taken; None for one that was.
    """
    reads: dict[int, Keys | None] = {}
    for entry in resolve(observations, step, previous, among=at_hand):
        _add(reads, entry.step, entry.keys)
    for number, keys in list(reads.items()):
        before = instead_of(number)
        if before is not None:
            _add(reads, before, looked_for(observations, keys))
    return reads


def looked_for(observations: Observations | None, keys: Keys | None) -> Keys:
    """Of ``keys`` those that are read from the step before where theirs was missed; fed ones are left out."""
    return NO_KEYS if keys is None else keys - fed_keys(observations)


def _add(reads: dict[int, Keys | None], number: int, keys: Keys | None) -> None:
    known = reads.get(number, NO_KEYS)
    reads[number] = None if keys is None or known is None else known | keys
