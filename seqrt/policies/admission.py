"""Which acts are let into the line: those whose turn would come in time. Numbers in, a refusal out.

What is refused is refused at once: the sooner a robot hears of it, the more it can do about it, and nobody who is
served waits for somebody who is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from seqrt.errors import RemoteError, remote_error
from seqrt.policies.durations import CallDurations
from seqrt.policies.job import Job
from seqrt.policies.waitlist import Waitlist
from seqrt.wire.limits import RETRY_S

_LEAST_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """The call that runs.

    Attributes:
        size: Acts in it; 0 for none.
        began_at: When it began.
    """

    size: int = 0
    began_at: float = 0.0


class Admission:
    """Who may wait in the line.

    Args:
        most: Acts in one call.
        rejects: An act that finds every place taken is refused.
        queue_s: How long one waits at most.
        durations: What calls take.

    Attributes:
        refused: How many were sent away.
    """

    def __init__(self, *, most: int, rejects: bool, queue_s: float, durations: CallDurations) -> None:
        self._most = most
        self._rejects = rejects
        self._queue_s = queue_s
        self._durations = durations
        self.refused = 0

    def check(self, job: Job, waiting: Waitlist, running: Running, *, now: float, may_wait_s: float) -> None:
        """Raises Unavailable (``busy``, ``details.position``) where ``job`` would wait longer than it may."""
        if self._rejects and running.size + len(waiting) >= self._most:
            left_s = self._durations.left(running.size, running.began_at, now)
            raise self.busy("every place at the policy is taken", len(waiting) + 1, left_s or RETRY_S)
        wait_s = self.wait_s(len(waiting), running, now)
        if wait_s is None or wait_s <= may_wait_s:
            return
        ahead = waiting.ahead_of(job)
        wait_s = self.wait_s(ahead, running, now) or 0.0
        if wait_s > may_wait_s:
            why = f"the act's turn would come in {wait_s:.3g} s, and it may wait {may_wait_s:.3g} s"
            raise self.busy(why, ahead + 1, wait_s - may_wait_s)

    def wait_s(self, ahead: int, running: Running, now: float) -> float | None:
        """How long an act waits that has so many before it; None where it is not known what calls take."""
        call_s = self._durations.of(self._most)
        if call_s is None:
            return None
        left_s = self._durations.left(running.size, running.began_at, now) if running.size else 0.0
        return left_s + ahead // self._most * call_s

    def waited(self, position: int) -> RemoteError:
        """What an act is answered whose turn has not come all the same."""
        return self.busy(f"the act has waited {self._queue_s:g} s for its turn", position, RETRY_S)

    def busy(self, why: str, position: int, retry_after_s: float) -> RemoteError:
        """The 429 of an act, which is counted."""
        self.refused += 1
        waits_s = max(_LEAST_RETRY_S, retry_after_s)
        return remote_error("busy", why, retry_after_s=waits_s, details={"position": position})
