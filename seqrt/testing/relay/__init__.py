"""`Relay`: a TCP relay that is far away: delay, rate, stalls, faults. In front of any server; see `relay.relay`.

`relay` listens and is told what goes wrong; `connection` reads, waits and writes; `shaping` and `window` decide.
"""

from __future__ import annotations

from seqrt.testing.relay.relay import Relay
from seqrt.testing.relay.statistics import RelayStatistics

__all__ = ["Relay", "RelayStatistics"]
