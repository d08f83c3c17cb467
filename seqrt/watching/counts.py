"""What a server counts: requests by how they ended, bytes, and where acts spend their time. Numbers alone, no clock.

Labels are closed sets (endpoints, the error table's codes, phases): what is kept has the same size whoever asks.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, get_args

from seqrt.watching.buckets import ACTS, LATENESS, SECONDS, Buckets

Phase = Literal["read", "repeat", "frames", "queue", "infer", "answer"]
"""Where an act is: its body read; waiting for an act of the same id; for observations; for its turn; in the policy's
code; its answer encoded and sent."""

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)

OK: Final = "ok"
"""The code of a request that was answered with what it asked for."""

LEFT: Final = "left"
"""The code of one whose client was gone before an answer."""


class Requests:
    """Requests that are over.

    Attributes:
        ended: How many, by endpoint and code: `OK`, `LEFT`, or an error's.
        received: Bytes of bodies, by endpoint.
        sent: Bytes of answers' bodies, by endpoint.
    """

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    def add(self, endpoint: str, code: str, received: int, sent: int) -> None:
        """One is over."""
        self.ended[endpoint, code] += 1
        self.received[endpoint] += received
        self.sent[endpoint] += sent


class Counts:
    """What one policy's acts come to, and its server's requests.

    Attributes:
        requests: The server's; nothing where the policy is in the robot's own process.
        acts: Acts now, by phase.
        phase_s: What phases took, in seconds; an act of a batch counts the whole call as its own.
        act_s: What acts took in all.
        call_s: What calls of the policy's code took.
        call_acts: Acts in each of them.
        lag_s: By how much turns of the event loop came late.
    """

    def __init__(self) -> None:
        self.requests = Requests()
        self.acts: dict[Phase, int] = dict.fromkeys(PHASES, 0)
        self.phase_s: dict[Phase, Buckets] = {phase: Buckets(SECONDS) for phase in PHASES}
        self.act_s = Buckets(SECONDS)
        self.call_s = Buckets(SECONDS)
        self.call_acts = Buckets(ACTS)
        self.lag_s = Buckets(LATENESS)
