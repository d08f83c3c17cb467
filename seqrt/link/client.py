"""httpx's client for one worker: a request is built and sent as it is, its answer handed on as it comes.

Cookies, redirects, authentication by challenge and hooks are for browsing. A worker has none of them, and looking for
them on every request took a quarter of the robot's share of an act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from seqrt.link.opening import OneConnection


class StraightClient(httpx.AsyncClient):
    """Sends requests to one worker over one transport.

    Args:
        transport: Owned by the client.
        base_url: The worker's.
        headers: Of every request.
        connect_s: Bound of opening a connection; nothing else has one here.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport, *, base_url: str, headers: Mapping[str, str], connect_s: float
    ) -> None:
        timeout = httpx.Timeout(None, connect=connect_s)
        super().__init__(transport=transport, base_url=base_url, timeout=timeout, trust_env=False)
        self._straight = transport
        self._timeout_of_each = timeout.as_dict()
        # Identity: a proxy that packs an answer makes a robot's machine unpack it.
        self._fields = {"host": self.base_url.netloc.decode("ascii"), "accept-encoding": "identity", **headers}
        self._urls: dict[str, httpx.URL] = {}

    def build_request(self, method: str, url: httpx.URL | str, *_: Any, **given: Any) -> httpx.Request:
        """A request for a path of the worker's.

        Args:
            method: As HTTP has it.
            url: Below the base URL.
            **given: ``headers``, a mapping, and ``content``, bytes; nothing else.
        """
        content: bytes | None = given.get("content")
        fields = {**self._fields, **(given.get("headers") or {})}
        extensions = {"timeout": self._timeout_of_each}
        if content is not None:
            fields["content-length"] = str(len(content))
        return httpx.Request(
            method, self._url(str(url)), headers=fields, stream=httpx.ByteStream(content or b""), extensions=extensions
        )

    async def send(self, request: httpx.Request, *_: Any, **given: Any) -> httpx.Response:
        """Its answer: whole, or its head only with ``stream=True``, and the caller reads and closes it."""
        answer = await self._straight.handle_async_request(request)
        answer.request = request
        if not given.get("stream"):
            try:
                await answer.aread()
            except BaseException:
                await answer.aclose()
                raise
        return answer

    async def nudge(self) -> None:
        """Send a few bytes that mean nothing, unless something is being sent."""
        if isinstance(self._straight, OneConnection):
            await self._straight.nudge()

    def _url(self, path: str) -> httpx.URL:
        if "?" in path:  # another one each time
            return self._merge_url(path)
        if path not in self._urls:
            self._urls[path] = self._merge_url(path)
        return self._urls[path]
