"""One thread at a time drives a handle: who does, and what another is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from seqrt.errors import AlreadyDriven


class Driving:
    """Of one handle.

    Attributes:
        interrupted: What is under way was to end before there was a run to tell; forgotten with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self.interrupted = False

    @property
    def under_way(self) -> bool:
        """Whether anybody drives it."""
        return self._lock.locked()

    @property
    def is_here(self) -> bool:
        """Whether this thread does: it is inside a callback then."""
        return self._thread == threading.get_ident()

    @contextmanager
    def begin(self, what: str) -> Iterator[None]:
        """Drive it within.

        Args:
            what: The method that does.

        Raises:
            AlreadyDriven: Another thread does, or this one, further out.
        """
        if not self._lock.acquire(blocking=False):
            if self.is_here:
                raise AlreadyDriven(
                    f"{what}() was called inside a callback of this Policy's own run, which waits for that callback"
                )
            raise AlreadyDriven(
                f"this Policy is already being driven by another thread, {what}() would mix two plans: one Policy per "
                "control loop, connect() again for this one"
            )
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread, self.interrupted = None, False
            self._lock.release()
