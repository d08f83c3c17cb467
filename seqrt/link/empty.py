"""The link of a seat that no worker sits on yet, since the gateway has named none."""

from __future__ import annotations

from collections.abc import Callable

from seqrt.errors import LinkLost, Unavailable
from seqrt.link.border import NO_HURRY, NO_LINK, LinkStatistics, M, Moved, Outgoing, Pinged, Urgency
from seqrt.link.http import HttpLink
from seqrt.wire.messages import ActRequest, ActResponse, ObserveRequest, ObserveResponse, PolicyInfo


class Empty:
    """Nothing is asked here; what is prepared goes to whoever comes.

    Args:
        http: The way to the gateway.
    """

    post_bytes = None

    def __init__(self, http: HttpLink) -> None:
        self._http = http

    @property
    def host(self) -> str:
        """The gateway's."""
        return self._http.host

    def on_move(self, moved: Moved | None) -> None:
        """Somebody else's."""

    async def info(self) -> PolicyInfo:
        """Not asked here."""
        raise self._nobody()

    async def ready(self) -> None:
        """Not asked here."""
        raise self._nobody()

    async def prepare(self, message: M) -> Outgoing[M]:
        """Encode: the same bytes for each worker."""
        return await self._http.prepare(message)

    async def observe(self, post: Outgoing[ObserveRequest], urgency: Urgency = NO_HURRY) -> ObserveResponse:
        """Not asked here."""
        raise self._nobody()

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        """Not asked here."""
        raise self._nobody()

    async def tend(self, told: Callable[[Pinged | LinkLost], None]) -> None:
        """There is nothing to look after."""

    async def end(self, episode_id: str) -> None:
        """No episode was begun."""

    def statistics(self) -> LinkStatistics:
        """Nothing goes."""
        return NO_LINK

    async def aclose(self) -> None:
        """Nothing is open."""

    def _nobody(self) -> Unavailable:
        return Unavailable("no worker was found yet", code="unavailable", host=self.host, phase="connect")
