"""A worker's ``/metrics``: what its host holds and has counted, as Prometheus reads it (extra ``metrics``).

And ``/metrics`` by itself, for a port of its own: a gateway's too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from seqrt.errors import RemoteError
from seqrt.policies.host import Host
from seqrt.policies.readiness import Stage
from seqrt.watching.buckets import Buckets
from seqrt.watching.page import Families, Page, page, warm
from seqrt.worker.answers import Answer, refusal, send_answer
from seqrt.worker.call import Call, unrouted

LAG_EVERY_S: Final = 0.25


def metrics(host: Host, accept: str = "", *, leases: int = 0) -> Page:
    """The page of one worker.

    Args:
        host: What serves.
        accept: The request's ``Accept``.
        leases: How many live.

    Raises:
        InternalError: The package for it is not installed (``dependency_missing``).
    """
    made = Families("seqrt_worker")
    _of_the_worker(made, host)
    made.gauge("leases", "Leases that live.", leases)
    _of_acts(made, host)
    made.requests(host.watch.counts.requests)
    return page(made, accept)


def _of_the_worker(made: Families, host: Host) -> None:
    held, stage = host.statistics(), host.stage
    made.info("", "What is served.", policy=host.info().model)
    stages = {name: float(name == stage) for name in get_args(Stage)}
    made.gauge("stage", "1 for the stage the worker is in; draining: it begins no new episodes.", stages, "stage")
    made.gauge("episodes", "Episodes live now.", held["episodes"])
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
    made.histogram("act_seconds", "Acts from the request's arrival until it is answered.", counts.act_s)
    made.histogram("act_phase_seconds", "The same by phase; an act of a batch has the whole call.", phases, "phase")
    made.histogram("call_seconds", "Calls of the policy's code.", counts.call_s)
    made.histogram("call_acts", "Acts in each of these calls.", counts.call_acts)


def metrics_app(page_of: Callable[[str], Page]) -> Starlette:
    """``/metrics`` alone, asking for no key: for an address that only who may read it can reach.

    Args:
        page_of: The page, for a request's ``Accept``.
    """
    warm()
    route = Route("/metrics", _Alone(page_of), methods=["GET"])
    return Starlette(routes=[route], exception_handlers={HTTPException: unrouted("GET /metrics")})


class _Alone:
    def __init__(self, page_of: Callable[[str], Page]) -> None:
        self._page_of = page_of

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        call = Call(scope, receive)
        try:
            page = self._page_of(call.headers.get("accept", ""))
            answered = Answer(200, page.body, page.media)
        except RemoteError as error:
            answered = refusal(error, call.id)
        await send_answer(send, answered, call.id)


async def measure_lag(lag_s: Buckets) -> None:
    """Look how late the event loop is, until cancelled. `seqrt.worker.serving` runs it."""
    while True:
        due_at = anyio.current_time() + LAG_EVERY_S
        await anyio.sleep_until(due_at)
        lag_s.add(max(0.0, anyio.current_time() - due_at))
