"""`Delayed`: a worker whose acts take their time side by side, whatever order they came in.

A worker infers one act at a time, and one connection keeps the order of what it carries. Where a benchmark wants
delays that are independent of one another, over real sockets too, they have to lie inside the worker, around the
inference: there they hold up neither the policy nor the connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from urllib.parse import parse_qs

import anyio

from seqrt.testing.durations import Durations, drawn

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]


class Delayed:
    """An ASGI app around another, each of its requests delayed by itself.

    In virtual time, and over real sockets::

        async with serving(policy, wrap=lambda app: Delayed(app, after_s=jittered(0.12))) as server: ...

    Args:
        app: The worker's app.
        before_s: How long a request waits before the app is told of it: acts may then overtake one another on their
            way to the policy, and older ones are answered stale.
        after_s: How long an answer waits before it is sent: answers may then overtake one another on their way back.
        paths: The requests that are delayed; others pass at once.

    Raises:
        ValueError: A duration that is negative or not finite.
    """

    def __init__(
        self, app: App, *, before_s: Durations = 0.0, after_s: Durations = 0.0, paths: Collection[str] = ("/act",)
    ) -> None:
        self._app = app
        self._before, self._after = drawn(before_s), drawn(after_s)
        self._paths = frozenset(paths)
        self._held: Counter[bytes] = Counter()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope.get("path") not in self._paths:
            await self._app(self._asking_of_none(scope), receive, send)
            return
        request_id = dict(scope["headers"]).get(b"x-seq-request-id", b"")
        self._held[request_id] += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._held[request_id] -= 1

    def _asking_of_none(self, scope: Any) -> Any:
        """A ping that asks after a request that is held back: the worker would say that it never came, or is done."""
        asked = parse_qs(scope.get("query_string", b"")).get(b"act", [b""])[0]
        return {**scope, "query_string": b""} if self._held[asked] else scope

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        waits_s = self._after()  # drawn as the requests come, so that a script means them in that order
        await anyio.sleep(self._before())

        async def later(message: Any) -> None:
            if message["type"] == "http.response.start":
                await anyio.sleep(waits_s)
            await send(message)

        await self._app(scope, receive, later)
