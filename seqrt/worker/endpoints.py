"""What each endpoint of a worker does, once the request was let in: from its body to the message of its answer."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from seqrt.errors import remote_error
from seqrt.policies.host import Host
from seqrt.policies.offload import Offload
from seqrt.wire.codec import decode_body
from seqrt.wire.leases import LeaseEnd, LeaseRequest
from seqrt.wire.limits import RETRY_S
from seqrt.wire.messages import ActTold, EpisodeEnd, Health, ObserveRequest, Running
from seqrt.worker.bodies import Bodies
from seqrt.worker.call import Call
from seqrt.worker.entry import Entry
from seqrt.worker.granting import Granting
from seqrt.worker.metrics import metrics, metrics_answer

M = TypeVar("M")


class Endpoints:
    """The worker's, but for ``/act``, which outlives its answer (`seqrt.worker.acting`).

    Each takes the request, and returns the message or the `Answer` it is answered with; what they
    raise is a `RemoteError`, or a `WireError` of a body that is none.

    Args:
        host: What serves.
        entry: Who may ask.
        granting: The leases.
        bodies: Reads the requests' bodies.
        aside: Where the page of metrics is made.
    """

    def __init__(self, host: Host, *, entry: Entry, granting: Granting, bodies: Bodies, aside: Offload) -> None:
        self._host, self._entry, self._granting, self._bodies, self._aside = host, entry, granting, bodies, aside

    async def body(self, call: Call) -> bytes:
        """The request's body, whole; acts that wait for its observations wait on while some of it arrives."""
        return await self._bodies.read(call, partial(self._host.moving, call.client))

    async def observe(self, call: Call) -> Any:
        """POST /observe."""
        request = decode_body(await self.body(call), call.content_type, ObserveRequest)
        return await self._host.observe(request, owner=call.owner)

    async def episode_end(self, call: Call) -> Any:
        """POST /act/episode_end."""
        ended = decode_body(await self.body(call), call.content_type, EpisodeEnd)
        await self._host.end(ended.episode_id, owner=call.owner)
        return {}

    async def ping(self, call: Call) -> Any:
        """GET /ping: answers while inference runs; with ?act= it says where that act is."""
        asked = call.query.get("act")
        if not asked:
            return {}
        self._entry.check(call)
        told = self._host.running(asked[0], call.owner)
        state, for_s = told["state"], told["for_s"]
        here = ActTold(running=state in ("waiting", "running"), for_s=for_s, answered=state == "answered")
        return Running(state=state, for_s=for_s, act=here)

    async def weigh(self, call: Call) -> Any:
        """POST /ping: takes a body, whatever it is, for whoever measures the way here."""
        await self.body(call)
        return {}

    async def healthz(self, call: Call) -> Any:
        """GET /healthz: 200 when ready, 503 with the stage."""
        stage = self._host.stage
        if stage == "ready":
            return Health(stage=stage)
        waiting = stage not in ("error", "draining")
        raise remote_error(
            "warming" if waiting else "unavailable",
            {"error": "the policy failed to load", "draining": "the worker is draining"}.get(
                stage, "the policy is being loaded"
            ),
            retry_after_s=RETRY_S,
            details={"stage": stage},
        )

    async def policy(self, call: Call) -> Any:
        """GET /policy: what a robot checks before any motion."""
        return self._host.info()

    async def metrics(self, call: Call) -> Any:
        """GET /metrics: what Prometheus reads."""
        if call.owner:
            raise remote_error("forbidden", "metrics are for whoever runs the worker; they take its own key")
        return await metrics_answer(call, metrics(self._host, leases=self._granting.count), self._aside)

    async def lease(self, call: Call) -> Any:
        """POST /lease: for whoever places robots at this worker."""
        request = await self._by_the_root(call, LeaseRequest)
        granted = await self._granting.grant(request)
        call.level, call.said = logging.DEBUG if request.renew else logging.INFO, {"lease": granted.lease}
        return granted

    async def lease_end(self, call: Call) -> Any:
        """POST /lease/end."""
        ended = await self._by_the_root(call, LeaseEnd)
        await self._granting.end(ended.lease)
        call.level, call.said = logging.INFO, {"lease": ended.lease}
        return {}

    async def drain(self, call: Call) -> Any:
        """POST /drain: what a signal does, for whoever is on another machine; with the worker's own key alone."""
        if not self._entry.is_keyed:
            raise remote_error("forbidden", "a worker without a key is drained by a signal: SIGTERM or Ctrl-C")
        if call.owner:
            raise remote_error("forbidden", "a worker is drained by whoever runs it; this takes its own key")
        self._host.drain()
        call.level = logging.INFO
        return asdict(self._host.load())

    async def _by_the_root(self, call: Call, type: type[M]) -> M:
        """The message of a request that only the worker's own key may make."""
        if call.owner:
            raise remote_error("forbidden", "a lease grants no leases; this takes the worker's own key")
        return decode_body(await self.body(call), call.content_type, type)
