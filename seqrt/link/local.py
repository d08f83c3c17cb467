"""The link to a policy object in this process."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from seqrt.errors import LinkLost
from seqrt.link.border import NO_HURRY, NO_LINK, LinkStatistics, M, Moved, Outgoing, Pinged, Urgency
from seqrt.policies.host import Host
from seqrt.wire.messages import ActRequest, ActResponse, ObserveRequest, ObserveResponse, PolicyInfo


class LocalLink:
    """A policy object in this process: no bytes, no network, the same rules."""

    host = ""
    post_bytes = None

    def __init__(self, host: Host) -> None:
        self._host = host

    def on_move(self, moved: Moved | None) -> None:
        """There is no other one."""

    async def info(self) -> PolicyInfo:
        """What the object declares."""
        return self._host.info()

    async def prepare(self, message: M) -> Outgoing[M]:
        """Nothing to encode."""
        return Outgoing(message)

    async def observe(self, post: Outgoing[ObserveRequest], urgency: Urgency = NO_HURRY) -> ObserveResponse:
        """Hand observations over."""
        urgency.begun()
        return await self._host.observe(post.message)

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        """Run one inference."""
        return await self._host.act(ask.message, request_id=request_id, deadline_s=deadline_s)

    async def tend(self, told: Callable[[Pinged | LinkLost], None]) -> None:
        """There is no connection."""

    async def end(self, episode_id: str) -> None:
        """End an episode."""
        await self._host.end(episode_id)

    def statistics(self) -> LinkStatistics:
        """No way up, nothing that waits."""
        return NO_LINK

    async def aclose(self) -> None:
        """Stop the policy as a worker would: its live episodes end, then its ``shutdown`` is called."""
        # Not bounded: what runs is the policy's code in a thread, which nothing can stop.
        with anyio.CancelScope(shield=True):
            await self._host.stop()
