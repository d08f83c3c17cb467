"""The sockets of one link: where they lead, how they are set, and what the kernel knows of them.

`connection` opens its connections through a `Network`, which outlives them: what was learnt of one (the address that
worked, the protocol spoken) serves the next.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc
import httpcore
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from seqrt.link.heard import Hears
from seqrt.link.tcp import acknowledge_at_once, configure, is_over
from seqrt.link.tls import Trust, told

logger = logging.getLogger(__name__)

CLOSE_S: Final = 1.0
"""How long closing a socket that is of no use any more may take."""
_OTHER_ADDRESSES_S: Final = 0.25
"""After so long a host's name is looked up anew, beside the address that worked the last time."""

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)  # ssl.SSLError is an OSError


class Explained(Exception):
    """Its text says what to do, or whose it is to say: no hint is due."""


class _NoWayIn(Explained, httpcore.ConnectError):
    pass


class _AnotherProtocol(Explained, httpcore.RemoteProtocolError):
    pass


class Network(httpcore.AsyncNetworkBackend):
    """Opens a link's sockets.

    Args:
        trust: Whom to trust over TLS; None: plain TCP.
        http2: Whether the other end has to speak HTTP/2 from its first byte on, which nobody agreed on beforehand.

    Attributes:
        spoken: The protocol of the newest connection, "HTTP/2" or "HTTP/1.1"; "" before the first.
    """

    def __init__(self, trust: Trust | None = None, *, http2: bool = False) -> None:
        self.trust = trust
        self.spoken = ""
        self._first = _check_http2 if http2 else None
        self._addresses: dict[tuple[str, int], str] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> Stream:
        """A connection without TLS, to the address that worked the last time if it still does.

        Raises:
            httpcore.ConnectError: Nobody is there; says why.
            httpcore.ConnectTimeout: It took longer than ``timeout`` seconds.
        """
        try:
            with anyio.fail_after(timeout):
                raw = await self._connected(host, port, local_address)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"no connection within {timeout:g} s") from error
        except (OSError, UnicodeError) as error:  # a name that no lookup takes
            named = not isinstance(error, socket.gaierror | UnicodeError)
            raise (httpcore.ConnectError if named else _NoWayIn)(_why(error, host)) from error
        configure(raw.extra(SocketAttribute.raw_socket), socket_options or ())
        if (address := raw.extra(SocketAttribute.remote_address, None)) is not None:  # else it was reset by now
            self._addresses[host, port] = str(address[0])
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return Stream(raw, place=place, trust=self.trust, first=self._first)

    async def _connected(self, host: str, port: int, local: str | None) -> anyio.abc.SocketStream:
        known = self._addresses.get((host, port), host)
        if known == host:
            return await anyio.connect_tcp(host, port, local_host=local)
        return await _first_of(
            partial(anyio.connect_tcp, known, port, local_host=local),
            partial(anyio.connect_tcp, host, port, local_host=local),
        )

    def speaks(self, protocol: str, place: str) -> None:
        """Note what a new connection agreed on; say once what HTTP/1.1 costs."""
        if protocol == "HTTP/1.1" != self.spoken:
            logger.warning(
                "%s, or a proxy before it, speaks HTTP/1.1 and no HTTP/2: several connections take the place of one, "
                "and acts no longer overtake observations on a slow link",
                place,
            )
        self.spoken = protocol


class Stream(httpcore.AsyncNetworkStream):
    """One connection's bytes, as httpcore wants them.

    Args:
        raw: The connection, over TLS or not.
        place: host:port, for errors.
        trust: Whom to trust when TLS is started on it.
        first: Is handed the first bytes that come in, and raises if they are nothing that can be read on.
    """

    def __init__(
        self,
        raw: anyio.abc.ByteStream,
        *,
        place: str,
        trust: Trust | None = None,
        first: Callable[[bytes], None] | None = None,
    ) -> None:
        self.place = place
        self._raw, self._trust, self._first = raw, trust, first
        self._socket = raw.extra(SocketAttribute.raw_socket, None)
        self._line: Hears | None = None

    def hears(self, line: Hears) -> None:
        """Have ``line`` told that it is open, and of all bytes that come."""
        self._line = line
        line.opened(self._socket)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes; b"" at the end of them."""
        try:
            with anyio.fail_after(timeout):
                data = await self._raw.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except _GONE as error:
            raise httpcore.ReadError(_cause(error)) from error
        acknowledge_at_once(self._socket)
        if data and self._line is not None:
            self._line.heard()
        if self._first is not None:
            first, self._first = self._first, None
            first(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Hand bytes to the socket, all of them."""
        if not buffer:
            return
        try:
            with anyio.fail_after(timeout):
                await self._raw.send(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except _GONE as error:
            raise httpcore.WriteError(_cause(error)) from error

    async def aclose(self) -> None:
        """Close the socket."""
        await self._raw.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """The same connection over TLS, with somebody who is trusted; closed otherwise, and when cancelled.

        Raises:
            CertificateRefused: The certificate is not the one that is pinned, or nobody vouches for it.
            httpcore.ConnectError: The handshake failed.
            httpcore.ConnectTimeout: It took longer than ``timeout`` seconds.
        """
        trust = self._trust or Trust()
        try:
            with anyio.fail_after(timeout):
                context = ssl_context or await trust.context()
                secure = await TLSStream.wrap(
                    self._raw, ssl_context=context, hostname=server_hostname, standard_compatible=False
                )
            trust.check(secure.extra(TLSAttribute.ssl_object), self.place)
        except BaseException as error:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self.aclose()
            if (telling := _handshake_error(error, trust, self.place, timeout)) is not None:
                raise telling from error
            raise
        return Stream(secure, place=self.place)

    def get_extra_info(self, info: str) -> Any:
        """As httpcore asks for it: "ssl_object", "socket", "client_addr", "server_addr", "is_readable"; else None."""
        if info == "ssl_object":
            return self._raw.extra(TLSAttribute.ssl_object, None)
        if info == "client_addr":
            return self._raw.extra(SocketAttribute.local_address, None)
        if info == "server_addr":
            return self._raw.extra(SocketAttribute.remote_address, None)
        if info == "is_readable":
            return is_over(self._socket)
        return self._socket if info == "socket" else None


async def _first_of(*ways: Callable[[], Any]) -> anyio.abc.SocketStream:
    """What the first way to succeed gives; each is given a start before the next. Raises what the last raised."""
    won: list[anyio.abc.SocketStream] = []
    failures: list[OSError] = []

    async def go(way: Callable[[], Any], over: anyio.Event) -> None:
        try:
            stream = await way()
        except OSError as error:
            failures.append(error)
        else:
            won.append(stream)
            tasks.cancel_scope.cancel()
        over.set()

    try:
        async with anyio.create_task_group() as tasks:
            for way in ways:
                over = anyio.Event()
                tasks.start_soon(go, way, over)
                with anyio.move_on_after(_OTHER_ADDRESSES_S):
                    await over.wait()
    except BaseException:
        await _close(won)
        raise
    await _close(won[1:])
    if not won:
        raise failures[-1]
    return won[0]


async def _close(streams: Iterable[anyio.abc.SocketStream]) -> None:
    for stream in streams:
        await anyio.aclose_forcefully(stream)


def _check_http2(data: bytes) -> None:
    """Raises RemoteProtocolError unless these can be the first bytes of a server's HTTP/2."""
    if data.startswith(b"\x15\x03"):  # a TLS alert
        raise _AnotherProtocol("the port speaks TLS: connect to https:// there")
    if data.startswith(b"HTTP/1."):
        status, _, _ = data.partition(b"\r\n")
        said = data.partition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip()
        raise (_AnotherProtocol if said else httpcore.RemoteProtocolError)(
            f"what answers there speaks HTTP/1.1 and no HTTP/2 ({status.decode('latin-1')[:80]})"
            + (f": {said[:200]}" if said else "")
        )


def _handshake_error(error: BaseException, trust: Trust, place: str, timeout: float | None) -> Exception | None:
    """What an error of a handshake is told as; None where it speaks for itself."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return trust.refusal(error, place)
    if isinstance(error, ssl.SSLError):
        return _NoWayIn(told(error))
    if isinstance(error, TimeoutError):
        return httpcore.ConnectTimeout(f"no end of the TLS handshake within {timeout:g} s")
    if isinstance(error, (anyio.EndOfStream, *_GONE)):
        return _NoWayIn("the connection was closed in the middle of the TLS handshake")
    return None


def _why(error: OSError | UnicodeError, host: str) -> str:
    """Why nobody is there, in a word: anyio says that all attempts failed, and the reason only to those who look."""
    if isinstance(error, socket.gaierror):
        return f"no address is known for the name {host} ({error.strerror})"
    causes = getattr(error.__cause__, "exceptions", None) or [error.__cause__ or error]
    return "; ".join(dict.fromkeys(_cause(cause) for cause in causes))


def _cause(error: BaseException) -> str:
    """The system's word for it, where there is one below what anyio made of it."""
    below = error.__cause__ if isinstance(error.__cause__, OSError) else error
    number = getattr(below, "errno", None)
    return os.strerror(number).lower() if number else str(below) or type(below).__name__
