"""A handle connected to a policy over a scripted network, in virtual time: the whole runtime and the whole worker.

Only the socket is missing: requests are encoded, cross a `LinkTransport`, and are served by the worker's own app.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from seqrt.link.http import HttpLink
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.policies.offload import Offload
from seqrt.runtime.policy import OnLost, Policy
from seqrt.testing.durations import Durations
from seqrt.testing.offload import inline
from seqrt.testing.outages import Kind, Stalls
from seqrt.testing.transport import SOCKET_BUFFER_BYTES, LinkTransport
from seqrt.wire.headers import bearer
from seqrt.worker.app import app

HOST = "worker.test:80"
"""What errors name the worker as."""


@dataclass(frozen=True)
class Connected:
    """Both ends of a link, and the link.

    Attributes:
        policy: The handle a robot is driven with.
        host: The worker's end: its policy and episodes.
        link: The network between them.
    """

    policy: Policy
    host: Host
    link: LinkTransport


def served(policy: object, *, offload: Offload | None = None, limits: HostLimits | None = None) -> Host:
    """A host for ``policy`` that needs no thread; a `Scripted` policy's own durations hold."""
    own: Offload | None = getattr(policy, "offload", None)
    return Host(policy, offload=offload or own or inline(), limits=limits or HostLimits())


@asynccontextmanager
async def connected(
    policy: object,
    *,
    up_s: Durations = 0.0101,
    down_s: Durations = 0.0101,
    in_order: bool = True,
    up_bytes_per_s: float | None = None,
    down_bytes_per_s: float | None = None,
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES,
    outages: Sequence[tuple[float, float, Kind]] = (),
    stalls: Stalls = (),
    lose_request: Callable[[httpx.Request], bool] | None = None,
    lose_answer: Callable[[httpx.Request], bool] | None = None,
    control_hz: float | None = None,
    timeout_s: float = 30.0,
    secret: str | None = None,
    limits: HostLimits | None = None,
    offload: Offload | None = None,
    seed: int = 0,
    embodiment: str | None = None,
    on_lost: OnLost = "stop",
) -> AsyncIterator[Connected]:
    """Serve ``policy`` and connect to it.

    Enter it in the test itself, not in a fixture: the network's tasks live in its task group. Delays should lie off
    the tick grid, as the defaults do.

    Args:
        policy: An object with ``infer``, e.g. `seqrt.testing.policies.Scripted`.
        up_s: One-way delays to the worker.
        down_s: One-way delays back.
        in_order: As over one connection; False: delays are independent, and acts and answers overtake one another.
        up_bytes_per_s: How fast bytes get away to the worker; None: no limit. ``link.set_rate`` changes it.
        down_bytes_per_s: How fast they get away from it.
        socket_buffer_bytes: How many bytes wait at the bottleneck before their sender does.
        outages: ``(from, until, kind)`` in seconds of the loop's clock, see `LinkTransport`.
        stalls: ``(at, for)`` in the same: more outages of the kind "stalled", see `stalls_at_random`.
        lose_request: Which requests never arrive.
        lose_answer: Which answers never come back.
        control_hz: As `seqrt.connect`.
        timeout_s: As `seqrt.connect`.
        secret: The worker asks for it, and the handle sends it.
        limits: Of the worker.
        offload: Runs the policy's code; default: the policy's own ``offload``, else at once.
        seed: Of the network's random cuts.
        embodiment: As `seqrt.connect`.
        on_lost: As `seqrt.connect`.
    """
    host = served(policy, offload=offload, limits=limits)
    await host.start()
    async with LinkTransport(
        app(host, secret=secret),
        up_s=up_s, down_s=down_s, in_order=in_order, outages=outages, stalls=stalls,
        up_bytes_per_s=up_bytes_per_s, down_bytes_per_s=down_bytes_per_s, socket_buffer_bytes=socket_buffer_bytes,
        lose_request=lose_request, lose_answer=lose_answer, seed=seed,
    ) as link:  # fmt: skip
        sent = bearer(secret)

        def new_client() -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=link, base_url="http://worker.test", headers=sent, timeout=None)

        http = HttpLink(new_client, host=HOST, timeout_s=timeout_s, offload=inline())
        handle = Policy(
            http, await http.info(), control_hz=control_hz, timeout_s=timeout_s, offload=inline(),
            embodiment=embodiment, on_lost=on_lost,
        )  # fmt: skip
        try:
            yield Connected(handle, host, link)
        finally:
            await handle.aclose()
