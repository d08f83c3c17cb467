"""What every endpoint of the gateway is handed: the request, and what the endpoints share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

import anyio
import anyio.abc

from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Models
from seqrt.policies.clock import loop_clock
from seqrt.policies.offload import Offload
from seqrt.watching.passage import Watch
from seqrt.wire.headers import FRAMES, JSON, MSGPACK, media_type
from seqrt.wire.limits import BODY_BYTES, INLINE_BYTES
from seqrt.worker.answers import form
from seqrt.worker.asgi import Receive, Scope
from seqrt.worker.bodies import Bodies
from seqrt.worker.call import Call

T = TypeVar("T")


class Asked(Call):
    """One request. It is read and answered in JSON unless it says that it is, or reads, one of our forms.

    Attributes:
        aside: Tasks that may outlive the answer: an act that is answered 504 runs on where it runs.
        origin: Where it was asked, as the client knows it: ``http://gpu:8080``.
    """

    def __init__(self, scope: Scope, receive: Receive, aside: anyio.abc.TaskGroup) -> None:
        super().__init__(scope, receive)
        media = media_type(self.content_type)
        # Whatever else it is called: `curl -d` says that the JSON it sends is a form.
        self.content_type = media if media in (MSGPACK, FRAMES) else JSON
        self.media = form(scope["method"], self.headers.get("accept"), MSGPACK if media == MSGPACK else JSON)
        self.aside = aside
        self.origin = f"{scope.get('scheme', 'http')}://{self.headers.get('host', '')}"


class Gateway:
    """What the endpoints share.

    Args:
        models: The policies there are.
        gate: Who may ask for acts.
        offload: Where bodies too large for the loop are read.
        wall: Seconds since 1970.
        environment: Values that no error may tell where keys are checked, usually ``os.environ.values()``.
        body_bytes: The longest body that is read.

    Attributes:
        models: The policies there are.
        gate: Who may ask for acts.
        wall: Seconds since 1970.
        hide: Values that no error may tell; None where errors are told as they are.
        watch: What is counted of its acts and requests.
    """

    def __init__(
        self,
        models: Models,
        gate: Gate,
        *,
        offload: Offload,
        wall: Callable[[], float],
        environment: Collection[str] = (),
        body_bytes: int = BODY_BYTES,
    ) -> None:
        self.models = models
        self.gate = gate
        self.wall = wall
        self.watch = Watch(loop_clock, "gateway")
        self.hide = environment if gate.is_keyed else None
        self._offload = offload
        self._bodies = Bodies(body_bytes)

    async def body(self, call: Call) -> bytes:
        """The request's body, whole.

        Raises:
            InvalidRequest: It is compressed, or too long (413).
            Unavailable: There is no room for it now (429), or nothing of it arrives any more (504).
        """
        return await self._bodies.read(call)

    async def read(self, size_bytes: int, read: Callable[[], T]) -> T:
        """Run ``read`` on the loop, or off it where what it reads is large."""
        return read() if size_bytes <= INLINE_BYTES else await self._offload(read)


Respond = Callable[[Gateway, Asked], Awaitable[Any]]
"""What answers one request: a message or a tree, which is encoded as the client reads it, or an `Answer`."""
