"""An act's passage through whoever serves it: the one seam that its times, its spans and its log line come from.

The app that reads an act begins it, each who takes it over says ``passage.enter(phase)``, and it is in exactly one
phase at a time. What that costs is measured by ``python bench/watching.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from seqrt.errors import RemoteError, WireError
from seqrt.watching.counts import LEFT, OK, Counts, Phase
from seqrt.watching.spans import NOWHERE, Span, tracing


class Passage:
    """One act, from its arrival until it is answered.

    Attributes:
        request_id: Its id.
        clock: The time, in seconds.
        code: How it ends: `OK`, `LEFT`, or an error's code.
        span: Its span; of no tracing where the program has none.
        took_s: Seconds of each phase it has left, in order.
    """

    __slots__ = (
        "_began_at",
        "_counts",
        "_in_phase",
        "_phase",
        "_since",
        "clock",
        "code",
        "request_id",
        "span",
        "took_s",
    )

    def __init__(self, request_id: str, counts: Counts, clock: Callable[[], float], span: Span) -> None:
        self.request_id = request_id
        self.code = OK
        self.span = span
        self.took_s: dict[Phase, float] = {}
        self._counts, self.clock = counts, clock
        self._phase: Phase | None = None
        self._in_phase: Span = NOWHERE
        self._began_at = self._since = clock()

    def enter(self, phase: Phase) -> None:
        """It is in ``phase`` from now on, and no longer where it was."""
        self.enter_at(phase, self.clock())

    def enter_at(self, phase: Phase, now: float) -> None:
        """The same, where the time has been read already: for all acts of a call at once."""
        if phase == self._phase:
            return
        self._leave(now)
        self._phase = phase
        self._counts.acts[phase] += 1
        self._in_phase = self.span.phase(phase)

    def over(self) -> None:
        """It is answered, or nobody waits for it any more."""
        now = self.clock()
        self._leave(now)
        self._counts.act_s.add(now - self._began_at)
        self.span.end(self.code)

    def told(self) -> dict[str, float]:
        """What each phase so far took, for a log line: ``{"queue_s": 0.004}``."""
        return {f"{phase}_s": seconds for phase, seconds in self.took_s.items()}

    def _leave(self, now: float) -> None:
        phase, since = self._phase, self._since
        self._since, self._phase = now, None
        if phase is None:
            return
        self._in_phase.end(OK)
        self._counts.acts[phase] -= 1
        self._counts.phase_s[phase].add(now - since)
        self.took_s[phase] = self.took_s.get(phase, 0.0) + now - since


class Watch:
    """Watches the acts of one policy.

    Args:
        clock: Finds the clock of the loop that an act is served in; its time is in seconds.
        where: Who serves it, as its span is called: "worker", "gateway".

    Attributes:
        counts: What they came to.
    """

    def __init__(self, clock: Callable[[], Callable[[], float]], where: str = "worker") -> None:
        self.counts = Counts()
        self._clock, self._where = clock, where

    @contextmanager
    def act(self, request_id: str, headers: Mapping[str, str] | None = None) -> Iterator[Passage]:
        """Watch one act within; its span is the current one there.

        Args:
            request_id: Its id.
            headers: Of the request that brought it; the robot's span is its parent. None in the robot's own process.
        """
        found = tracing()
        span = found.served_act(self._where, request_id, headers) if found is not None else NOWHERE
        passage = Passage(request_id, self.counts, self._clock(), span)
        try:
            with span.current():
                yield passage
        except BaseException as raised:
            if passage.code == OK:
                passage.code = _code_of(raised)
            raise
        finally:
            passage.over()

    @contextmanager
    def call(self, passages: Sequence[Passage]) -> Iterator[None]:
        """Watch one call of the policy's code for those acts; none are there for an act of its sample."""
        if not passages:
            yield
            return
        clock = passages[0].clock
        began_at = clock()
        for passage in passages:
            passage.enter_at("infer", began_at)
        self.counts.call_acts.add(len(passages))
        try:
            with passages[0].span.infer([(passage.request_id, passage.span) for passage in passages]):
                yield
        finally:
            now = clock()
            self.counts.call_s.add(now - began_at)
            for passage in passages:
                passage.enter_at("answer", now)


def _code_of(raised: BaseException) -> str:
    if isinstance(raised, RemoteError):
        return raised.code
    if isinstance(raised, WireError):
        return "invalid_request"
    return "internal" if isinstance(raised, Exception) else LEFT
