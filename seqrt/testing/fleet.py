"""Robots, a gateway and the workers it names, each over a scripted network of its own, in virtual time.

What `seqrt.testing.standby` is for workers that a robot knows itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from seqrt.gateway.app import app as gateway_app
from seqrt.gateway.asked import Gateway as Face
from seqrt.gateway.fixedworkers import FixedWorkers
from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Model, Models
from seqrt.gateway.seats import Seats
from seqrt.gateway.sites import RemoteSite
from seqrt.gateway.spending import Spending
from seqrt.link.gateway import Gateway
from seqrt.link.http import HttpLink
from seqrt.link.leased import Leasing
from seqrt.link.workers import Workers
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.runtime.policy import OnLost, Policy
from seqrt.testing.connected import served
from seqrt.testing.offload import inline
from seqrt.testing.outages import Kind
from seqrt.testing.transport import App, LinkTransport
from seqrt.wire.headers import bearer
from seqrt.wire.leases import ConnectAnswer
from seqrt.worker.app import app
from seqrt.worker.granting import Granting, leases_for

ROOT = "of-the-workers"
"""The workers' own key, which no robot ever sees."""

MODEL = "tests/policy"
"""What the gateway calls the policy."""


@dataclass
class LeasedWorker:
    """One of the workers behind the gateway.

    Attributes:
        name: Its host:port, as errors and events name it.
        host: Its policy and episodes.
        link: The network between it and the robots.
        inside: The network between it and the gateway.
    """

    name: str
    host: Host
    link: LinkTransport
    inside: LinkTransport

    def begin_outage(self, kind: Kind) -> None:
        """Nobody gets there any more."""
        self.link.begin_outage(kind)
        self.inside.begin_outage(kind)

    def end_outage(self) -> None:
        """Robots and gateway get there again."""
        self.link.end_outage()
        self.inside.end_outage()

    async def restart(self, policy: object) -> None:
        """Put another process in its place: another policy object, no episodes, no leases."""
        self.host = served(policy)
        await self.host.start()
        self.link.app = self.inside.app = app(self.host, secret=ROOT)


@dataclass
class Fleet:
    """What there is.

    Attributes:
        workers: The workers, in the order the gateway has them.
        gateway: The network between robots and gateway.
        place: Where the gateway puts robots.
        robots: The handles connected so far.
    """

    workers: list[LeasedWorker]
    gateway: LinkTransport
    place: FixedWorkers
    robots: list[Policy] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def connect(self, *, on_lost: OnLost = "stop", timeout_s: float = 30.0) -> Policy:
        """One robot more, as `seqrt.connect` would have it; closed with the fleet."""
        http = HttpLink(
            _clients(self.gateway, "http://gateway.test"),
            host="gateway.test:80", timeout_s=timeout_s, offload=inline(),
        )  # fmt: skip
        info = await http.info()
        leasing = Leasing(Gateway(http, info.model), info, self._open)
        workers = Workers(leasing, timeout_s=timeout_s, keeps_state=on_lost == "stop")
        try:
            robot = Policy(
                workers, await workers.info(), control_hz=None, timeout_s=timeout_s, offload=inline(), on_lost=on_lost
            )
        except BaseException:
            await workers.aclose()
            raise
        self._stack.push_async_callback(robot.aclose)
        self.robots.append(robot)
        return robot

    def _open(self, answer: ConnectAnswer) -> tuple[str, Callable[[], HttpLink]]:
        name = answer.worker_url.removeprefix("http://") + ":80"
        link = next(worker.link for worker in self.workers if worker.name == name)
        clients = _clients(link, answer.worker_url, answer.direct_secret)
        return name, lambda: HttpLink(clients, host=name, timeout_s=30.0, offload=inline())


@asynccontextmanager
async def behind_a_gateway(
    *policies: object,
    links: Sequence[Mapping[str, Any]] = (),
    gateway: Mapping[str, Any] | None = None,
    limits: HostLimits | None = None,
    ttl_s: float | None = None,
    seats: Seats | None = None,
    started: bool = True,
) -> AsyncIterator[Fleet]:
    """Serve each policy at a worker of its own, ``a.test:80``, ``b.test:80`` …, behind one gateway.

    Enter it in the test itself, not in a fixture: the networks' tasks live in its task group.

    Args:
        policies: What each worker serves.
        links: What each network to a worker is like, as arguments of `LinkTransport`; 10.1 ms each way else.
        gateway: What the network to the gateway is like.
        limits: Of each worker.
        ttl_s: How long leases last; None: as long as an episode may be idle.
        seats: Who sits where, and who is in line.
        started: Whether the workers have loaded their policies.
    """
    async with AsyncExitStack() as stack:
        workers, sites = [], []
        for number, policy in enumerate(policies):
            host = served(policy, limits=limits)
            if started:
                await host.start()
            asgi = app(host, secret=ROOT, granting=Granting(host, leases_for(host)))
            url = f"http://{'abcdefgh'[number]}.test"
            link = await _network(stack, asgi, links[number] if number < len(links) else {})
            inside = await _network(stack, asgi, {"up_s": 0.0011, "down_s": 0.0011})
            http = HttpLink(_clients(inside, url, ROOT), host=f"{url[7:]}:80", timeout_s=5.0, offload=inline())
            stack.push_async_callback(http.aclose)
            workers.append(LeasedWorker(f"{url[7:]}:80", host, link, inside))
            sites.append(RemoteSite(http, url=url))
        place = FixedWorkers(sites, seats=seats, ttl_s=ttl_s)
        models = Models([Model(MODEL, [], place=place)])
        face = Face(models, Gate(None, Spending()), offload=inline(), wall=lambda: 0.0)
        front = await _network(stack, gateway_app(face), gateway or {})
        yield Fleet(workers, front, place, _stack=await stack.enter_async_context(AsyncExitStack()))


async def _network(stack: AsyncExitStack, asgi: App, how: Mapping[str, Any]) -> LinkTransport:
    return await stack.enter_async_context(LinkTransport(asgi, **{"up_s": 0.0101, "down_s": 0.0101, **how}))


def _clients(link: LinkTransport, url: str, secret: str | None = None) -> Callable[[], httpx.AsyncClient]:
    return lambda: httpx.AsyncClient(transport=link, base_url=url, headers=bearer(secret), timeout=None)
