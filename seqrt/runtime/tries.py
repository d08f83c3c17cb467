"""The tries of one act, from the first that is sent to the one that is answered."""

from __future__ import annotations

import anyio

from seqrt.errors import LinkLost, Unavailable
from seqrt.runtime.asked import Asking
from seqrt.runtime.retrying import FIRST_RETRY_S
from seqrt.runtime.uplink import Uplink


class Tries:
    """One act's, from the first to the one that is answered.

    Attributes:
        asked: The act.
        uplink: Of its episode.
        deadline_s: How long it may take, in seconds from when it was sent.
        wait_s: How long the next wait is.
        smooth: Whether none has failed.
        lacked: The gap that was closed just now: a worker that still names it is not helped by sending again.
        ran_at: The worker that may have run it all the same; None where none can have.
    """

    def __init__(self, asked: Asking, uplink: Uplink, deadline_s: float) -> None:
        self.asked, self.uplink, self.deadline_s = asked, uplink, deadline_s
        self.wait_s, self.smooth = FIRST_RETRY_S, True
        self.lacked: int | None = None
        self.ran_at: str | None = None

    @property
    def left_s(self) -> float:
        """Seconds to its deadline."""
        return self.asked.sent_at + self.deadline_s - anyio.current_time()

    def failed(self, error: Unavailable | None = None) -> None:
        """One has failed; ``error`` where nobody answered."""
        self.smooth, self.lacked = False, None
        if error is not None and self.ran_at is None:
            self.ran_at = _may_have_run_at(error)


def _may_have_run_at(error: Unavailable) -> str | None:
    """The worker that may have run an act all the same; None where it never got there, or was refused."""
    return error.host if isinstance(error, LinkLost) and error.phase == "act" else None
