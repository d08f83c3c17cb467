"""A gateway's ``/metrics``: its requests and acts, as Prometheus reads them (extra ``metrics``).

Answered on a port of its own, to this machine alone: the gateway's keys are robots', and none of them is an operator's.
"""

from __future__ import annotations

from seqrt.gateway.asked import Gateway
from seqrt.watching.page import Families


def metrics(gateway: Gateway) -> Families:
    """What one gateway's page shows.

    Args:
        gateway: What serves.

    Raises:
        InternalError: The package for it is not installed (``dependency_missing``).
    """
    made, counts = Families("seqrt_gateway"), gateway.watch.counts
    made.gauge("models", "Policies it stands before.", len(gateway.models.all()))
    made.requests(counts.requests)
    made.histogram("act_seconds", "Acts of /v1/act from the request's arrival until the worker's answer.", counts.act_s)
    lag = counts.lag_s
    made.histogram("loop_lag_seconds", "By how much turns of the event loop came late, looked at every 0.25 s.", lag)
    return made
