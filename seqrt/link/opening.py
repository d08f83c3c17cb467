"""httpx's transport over one connection to one worker, opened by the first request and kept.

HTTP/2 is agreed on in TLS's handshake, or known beforehand; where it is HTTP/1.1, several connections take its place.
"""

from __future__ import annotations

import ssl
from typing import Final

import anyio
import httpcore
import httpx

from seqrt.link.connection import SharedReading
from seqrt.link.heard import LINE, sent
from seqrt.link.network import Network, Stream

_HTTP1_CONNECTIONS: Final = 16
_HTTP1_POSTS: Final = 4
"""Of those connections, so many at most carry observations: an act never waits for an upload to end."""


class _OneByOne(httpcore.AsyncHTTP11Connection):
    """One request at a time, over HTTP/1.1."""

    async def _send_request_body(self, request: httpcore.Request) -> None:
        await super()._send_request_body(request)
        sent(request.extensions)


class _Opening(httpcore.AsyncHTTPConnection):
    """Opens a connection for the first request, over HTTP/2 wherever that was agreed on.

    httpcore's own counts as failed once any request that waits for it is cancelled or has failed, and is then left by
    the pool; the next one in line opens it nevertheless, and nobody closes what it opened.
    """

    _failure: Exception | None = None

    def __init__(self, origin: httpcore.Origin, pool: _Pool) -> None:
        # Who is known to speak HTTP/1.1 takes one request on this connection: the others open their own meanwhile.
        shared = pool.network.spoken != "HTTP/1.1"
        super().__init__(origin, _NO_TLS, http1=pool.http1, http2=shared, network_backend=pool.network)
        self._pool = pool
        self._request_lock = anyio.Lock(fast_acquire=True)  # type: ignore[assignment]  # entered and left

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send one request, on the connection there is or on a new one."""
        async with self._request_lock:
            if self._failure is not None:
                raise self._failure
            if self._connect_failed:  # who opened it was cancelled
                raise httpcore.ConnectionNotAvailable
            if self._connection is None:
                self._connection = await self._opened(request)
        return await self._connection.handle_async_request(request)

    async def _opened(self, request: httpcore.Request) -> httpcore.AsyncConnectionInterface:
        timeout_s = request.extensions.get("timeout", {}).get("connect")
        host = self._origin.host.decode("ascii")
        try:
            stream = await self._pool.network.connect_tcp(host, self._origin.port, timeout_s)
            if self._origin.scheme == b"https":
                stream = await stream.start_tls(server_hostname=host, timeout=timeout_s)
        except BaseException as error:
            self._connect_failed = True
            self._failure = error if isinstance(error, Exception) else None
            raise
        if (line := request.extensions.get(LINE)) is not None:
            stream.hears(line)
        return self._spoken(stream)

    async def nudge(self) -> None:
        """Send a ping over HTTP/2."""
        if isinstance(self._connection, SharedReading):
            await self._connection.nudge()

    def _spoken(self, stream: Stream) -> httpcore.AsyncConnectionInterface:
        secure: ssl.SSLObject | None = stream.get_extra_info("ssl_object")
        agreed = secure is not None and secure.selected_alpn_protocol() == "h2"
        if agreed or not self._http1:
            self._pool.network.speaks("HTTP/2", stream.place)
            return SharedReading(self._origin, stream, self._keepalive_expiry)
        self._pool.network.speaks("HTTP/1.1", stream.place)
        self._pool.widen()
        return _OneByOne(self._origin, stream, self._keepalive_expiry)


_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Never used: httpcore would read the certificates of the system where it is handed none."""


class _Pool(httpcore.AsyncConnectionPool):
    def __init__(self, network: Network, *, http1: bool) -> None:
        super().__init__(_NO_TLS, max_connections=1, http1=http1, http2=True, network_backend=network)
        self.network, self.http1 = network, http1
        if network.spoken == "HTTP/1.1":
            self.widen()

    def create_connection(self, origin: httpcore.Origin) -> httpcore.AsyncConnectionInterface:
        """A connection that has yet to be opened."""
        return _Opening(origin, self)

    def widen(self) -> None:
        """Let requests go side by side where each takes a connection for itself."""
        self._max_connections = self._max_keepalive_connections = _HTTP1_CONNECTIONS


class OneConnection(httpx.AsyncHTTPTransport):
    """One connection to one worker, opened by the first request and kept; over HTTP/1.1 there are several.

    Args:
        network: Opens its sockets.
        http1: Whether HTTP/1.1 may be spoken where the other end does not agree on HTTP/2; False: HTTP/2 with prior
            knowledge.
    """

    def __init__(self, network: Network, *, http1: bool) -> None:
        super().__init__(_NO_TLS, trust_env=False)
        self._pool = _Pool(network, http1=http1)
        self._network = network
        self._posts = anyio.Semaphore(_HTTP1_POSTS)

    async def nudge(self) -> None:
        """Send a few bytes that mean nothing, unless something is being sent."""
        for connection in self._pool.connections:
            if isinstance(connection, _Opening):
                await connection.nudge()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        if self._network.spoken != "HTTP/1.1" or not request.url.path.endswith("/observe"):
            return await super().handle_async_request(request)
        async with self._posts:
            return await super().handle_async_request(request)
