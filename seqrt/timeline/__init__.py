"""What happened in a run: events as they happen, the fold that makes the outcome, and the file they are kept in.

`events` and `outcome` are pure. The runtime emits, the fold counts, the recorder writes; report, command line and
tests read the same events, so they cannot disagree.
"""

from seqrt.timeline.events import Event
from seqrt.timeline.outcome import RunOutcome, fold
from seqrt.timeline.recorder import read

__all__ = ["Event", "RunOutcome", "fold", "read"]
