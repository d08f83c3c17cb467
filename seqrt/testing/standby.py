"""A handle connected to several workers, each over a scripted network of its own, in virtual time.

What `seqrt.testing.connected` is for one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from seqrt.link.arriving import Listed
from seqrt.link.doors import Door
from seqrt.link.http import HttpLink
from seqrt.link.workers import Workers
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.runtime.policy import OnLost, Policy
from seqrt.testing.connected import served
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport
from seqrt.worker.app import app


@dataclass(frozen=True)
class OneOf:
    """One of several workers.

    Attributes:
        name: Its host:port, as errors and events name it.
        host: Its policy and episodes.
        link: The network before it.
    """

    name: str
    host: Host
    link: LinkTransport

    async def restart(self, policy: object) -> Host:
        """Put another process in its place: another policy object, no episodes."""
        host = served(policy)
        await host.start()
        self.link.app = app(host)
        return host


@dataclass(frozen=True)
class ConnectedToSeveral:
    """The handle, and the workers in their order.

    Attributes:
        policy: The handle a robot is driven with.
        workers: The workers.
        link: The handle's link.
    """

    policy: Policy
    workers: Sequence[OneOf]
    link: Workers


@asynccontextmanager
async def connected_to(
    *policies: object,
    links: Sequence[Mapping[str, Any]] = (),
    on_lost: OnLost = "stop",
    timeout_s: float = 30.0,
    control_hz: float | None = None,
    limits: HostLimits | None = None,
) -> AsyncIterator[ConnectedToSeveral]:
    """Serve each policy at a worker of its own, ``a.test:80``, ``b.test:80`` …, and connect to all of them.

    Enter it in the test itself, not in a fixture: the networks' tasks live in its task group.

    Args:
        policies: What each worker serves.
        links: What each network is like, as arguments of `LinkTransport`; 10.1 ms each way where nothing is said.
        on_lost: As `seqrt.connect`.
        timeout_s: As `seqrt.connect`.
        control_hz: As `seqrt.connect`.
        limits: Of each worker.
    """
    async with AsyncExitStack() as stack:
        workers = []
        for number, policy in enumerate(policies):
            host = served(policy, limits=limits)
            await host.start()
            how = {"up_s": 0.0101, "down_s": 0.0101, **(links[number] if number < len(links) else {})}
            link = await stack.enter_async_context(LinkTransport(app(host), **how))
            workers.append(OneOf(f"{'abcdefgh'[number]}.test:80", host, link))
        doors = [_door(worker, timeout_s) for worker in workers]
        several = Workers(Listed(doors), timeout_s=timeout_s, keeps_state=on_lost == "stop")
        try:
            handle = Policy(
                several, await several.info(), control_hz=control_hz, timeout_s=timeout_s, offload=inline(),
                on_lost=on_lost,
            )  # fmt: skip
        except BaseException:
            await several.aclose()
            raise
        try:
            yield ConnectedToSeveral(handle, workers, several)
        finally:
            await handle.aclose()


def _door(worker: OneOf, timeout_s: float) -> Door:
    def new_client() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=worker.link, base_url=f"http://{worker.name}", timeout=None)

    return Door(worker.name, lambda: HttpLink(new_client, host=worker.name, timeout_s=timeout_s, offload=inline()))
