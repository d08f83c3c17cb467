"""A worker's ``/metrics``: what its host holds and has counted, as Prometheus reads it (extra ``metrics``).

And ``/metrics`` by itself, for a port of its own: a gateway's too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, get_args

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError
from seqrt.policies.host import Host
from seqrt.policies.offload import Offload
from seqrt.policies.readiness import Stage
from seqrt.watching.buckets import Buckets
from seqrt.watching.page import Families, page, warm
from seqrt.worker.answers import Answer, refusal, send_answer
from seqrt.worker.call import Call, unrouted

LAG_EVERY_S: Final = 0.25


def metrics(host: Host, *, leases: int = 0) -> Families:
    """What one worker's page shows, read at once; making a `page` of it takes milliseconds and belongs off the loop.

    Args:
        host: What serves.
        leases: How many live.

    Raises:
        InternalError: The package for it is not installed (``dependency_missing``).
    """
    made = Families("seqrt_worker")
    _of_the_worker(made, host)
    made.gauge("leases", "Leases that live.", leases)
    _of_acts(made, host)
    made.requests(host.watch.counts.requests)
    return made


def _of_the_worker(made: Families, host: Host) -> None:
    held, stage = host.statistics(), host.stage
    made.info("", "What is served.", policy=host.info().model)
    stages = {name: float(name == stage) for name in get_args(Stage)}
    made.gauge("stage", "1 for the stage the worker is in; draining: it begins no new episodes.", stages, "stage")
    made.gauge("episodes", "Episodes live now.", held["episodes"])
    made.gauge("episodes_waiting", "New episodes that wait for a place.", held["episodes_waiting"])
    made.gauge("frame_bytes", "Observations held for them, in bytes.", held["frame_bytes"])
    made.gauge("answers", "Answers kept to be given again.", held["answers"])
    made.gauge("answer_bytes", "What these take, in bytes.", held["answer_bytes"])
    lag = host.watch.counts.lag_s
    made.histogram("loop_lag_seconds", "By how much turns of the event loop came late, looked at every 0.25 s.", lag)


def _of_acts(made: Families, host: Host) -> None:
    held, counts = host.statistics(), host.watch.counts
    now = {str(phase): float(acts) for phase, acts in counts.acts.items()}
    phases = {str(phase): buckets for phase, buckets in counts.phase_s.items()}
    made.gauge("acts", "Acts under way, by the phase they are in.", now, "phase")
    made.counter("inferred_acts", "Acts the policy's code has run for.", held["inferred"])
    made.counter("stale_acts", "Acts answered stale: a newer one of their episode was there.", held["stale"])
    made.counter("late_acts", "Acts whose call began when their robot had run dry already.", held["late"])
    made.counter("refused_acts", "Acts sent away: their turn would not have come in time, or did not.", held["refused"])
    made.histogram("act_seconds", "Acts from the request's arrival until it is answered.", counts.act_s)
    made.histogram("act_phase_seconds", "The same by phase; an act of a batch has the whole call.", phases, "phase")
    made.histogram("call_seconds", "Calls of the policy's code.", counts.call_s)
    made.histogram("call_acts", "Acts in each of these calls.", counts.call_acts)


def metrics_app(gathered: Callable[[], Families], offload: Offload) -> Starlette:
    """``/metrics`` alone, asking for no key: for an address that only who may read it can reach.

    Args:
        gathered: What the page shows now.
        offload: Where the page is made.
    """
    warm()
    route = Route("/metrics", _Alone(gathered, offload), methods=["GET"])
    return Starlette(routes=[route], exception_handlers={HTTPException: unrouted("GET /metrics")})


class _Alone:
    def __init__(self, gathered: Callable[[], Families], offload: Offload) -> None:
        self._gathered, self._offload = gathered, offload

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        call = Call(scope, receive)
        try:
            answered = await metrics_answer(call, self._gathered(), self._offload)
        except RemoteError as error:
            answered = refusal(error, call.id)
        await send_answer(send, answered, call.id)


async def metrics_answer(call: Call, made: Families, offload: Offload) -> Answer:
    """The page of ``made``, in the form that the request asks for."""
    told = await offload(partial(page, made, call.headers.get("accept", "")))
    return Answer(200, told.body, told.media)


async def measure_lag(lag_s: Buckets) -> None:
    """Look how late the event loop is, until cancelled. `seqrt.worker.serving` runs it."""
    while True:
        due_at = anyio.current_time() + LAG_EVERY_S
        await anyio.sleep_until(due_at)
        lag_s.add(max(0.0, anyio.current_time() - due_at))
