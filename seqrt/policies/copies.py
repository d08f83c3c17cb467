"""The copies of a policy: one for all episodes, or one an episode, made when needed and given back at its end."""

from __future__ import annotations

from collections.abc import Callable

from seqrt.errors import remote_error
from seqrt.policies.code import Code
from seqrt.policies.constructor import Weights, construct, is_constructible
from seqrt.policies.declaration import Declaration
from seqrt.policies.lifecycle import Hook
from seqrt.wire.limits import RETRY_S


class Copies:
    """A bounded pool. Used by one task at a time, whoever has the policy's code.

    Args:
        first: The copy that is there.
        most: How many there may be.
        make: Makes another; it may take as long as loading does, and runs off the event loop. None: it cannot be.
        shared: One copy serves every episode.
        resettable: ``reset`` makes a used copy as good as new.
    """

    def __init__(
        self, first: Code, *, most: int, make: Callable[[], Code] | None, shared: bool, resettable: bool
    ) -> None:
        self._first: Code | None = first
        self._make = make
        self._shared = shared
        self._resettable = resettable
        self._free = [first]
        self._made = 1
        self._most = most if make is not None else 1

    @property
    def first(self) -> Code:
        """The copy that was there from the start; the only one where all share it."""
        assert (
            self._first is not None
        )  # it is given up by episodes that have copies of their own, and asked for by none
        return self._first

    @property
    def most(self) -> int:
        """How many episodes can have a copy at once."""
        return self._most

    @property
    def all(self) -> list[Code]:
        """The copies that no episode has."""
        return list(self._free)

    def take(self) -> Code | None:
        """A copy for an episode that begins; None: one has to be made first, by `make`."""
        if self._shared:
            return self.first
        if not self._free:
            return None
        copy = self._free.pop()
        if not copy.used or self._resettable or self._make is None:
            return copy
        # What an episode left on it cannot be taken back: it is dropped, so that its memory is free for the next.
        self._made -= 1
        self._first = None if copy is self._first else self._first
        return None

    def make(self) -> Code:
        """One more copy, in the caller's thread.

        Raises:
            Unavailable: There are as many as there may be.
        """
        if self._make is None or self._made >= self._most:
            raise remote_error("busy", "every copy of the policy has an episode", retry_after_s=RETRY_S)
        copy = self._make()
        self._made += 1
        return copy

    def give_back(self, copy: Code) -> None:
        """Its episode is over."""
        if not self._shared:
            self._free.append(copy)


def loaded(copy: Code) -> Code:
    """A copy made ready as the first one was."""
    for hook in (Hook.LOAD, Hook.PLAN, Hook.WARMUP):
        copy.prepare(hook)
    copy.ready_tensors()
    return copy


def copies_of(policy: object, declared: Declaration, *, most: int, weights: Weights) -> Copies:
    """The pool for a policy: its copies are made by its constructor, for ``episodes="own"`` alone."""
    own, cls = declared.written.episodes == "own", type(policy)
    constructor = declared.written.constructor

    def make() -> Code:
        return loaded(Code(construct(cls, constructor, weights), declared))

    return Copies(
        Code(policy, declared),
        most=most if own else 1,
        make=make if own and is_constructible(cls, constructor) else None,
        shared=not declared.stateful or declared.written.episodes == "shared",
        resettable=Hook.RESET in declared.hooks,
    )
