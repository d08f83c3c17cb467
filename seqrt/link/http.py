"""The link to a worker: one HTTP/2 connection, five requests, every failure one of our exceptions.

httpx keeps the connection; deadlines are cancel scopes around each call, because on a shared HTTP/2 connection one
task reads for all and httpx's read timeout is whoever's turn it is (a request with a short one can kill its
neighbour). Whether the other end is alive is another question than how long an answer may take: see `liveness`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote

import anyio
import httpx

from seqrt.errors import InternalError, LinkLost, RemoteError, WireError
from seqrt.link.border import NO_HURRY, LinkStatistics, M, Moved, Outgoing, Pinged, Urgency
from seqrt.link.client import StraightClient
from seqrt.link.line import Line
from seqrt.link.network import Network
from seqrt.link.opening import OneConnection
from seqrt.link.paced import Paced
from seqrt.link.redeclared import must_agree
from seqrt.link.requests import Asked, Requests
from seqrt.link.sender import Sender
from seqrt.link.tending import tend
from seqrt.link.tls import Trust
from seqrt.policies.offload import Offload
from seqrt.wire import codec
from seqrt.wire.headers import bearer
from seqrt.wire.limits import INLINE_BYTES, size_of
from seqrt.wire.messages import (
    ActRequest,
    ActResponse,
    EpisodeEnd,
    ObserveRequest,
    ObserveResponse,
    PolicyInfo,
    Running,
)

T = TypeVar("T")


def clients(
    base_url: str, *, timeout_s: float, key: Callable[[], str | None] | None, fingerprint: str | None = None
) -> Callable[[], httpx.AsyncClient]:
    """What makes httpx clients that hold one HTTP/2 connection each, opened by the first request.

    ``key`` finds the key, for each client anew; None sends none.

    Plain http speaks HTTP/2 with prior knowledge; https agrees on it by ALPN and falls back where a proxy must.

    Raises:
        ValueError: A fingerprint that is none, or with plain http, where nothing is held against it.
    """
    secure = base_url.lower().startswith("https:")
    trust = Trust(fingerprint)
    if fingerprint is not None and not secure:
        raise ValueError(f"fingerprint= is of a certificate, and {base_url} has none: use https:// there, or leave it")
    network = Network(trust if secure else None, http2=not secure)

    def new_client() -> httpx.AsyncClient:
        return StraightClient(
            OneConnection(network, http1=secure),
            base_url=base_url,
            headers=bearer(key() if key is not None else None),
            connect_s=timeout_s,
        )

    return new_client


class HttpLink:
    """A worker reached by httpx. Owns its client, closes it, and takes a new one when the connection failed.

    Args:
        new_client: Makes clients whose base_url is the worker's, see `clients`.
        host: host:port, for errors and logs.
        timeout_s: Bound of every round trip but an act's.
        offload: Where bodies too large for the loop are coded.
        model: The policy asked after, where there are several: a gateway has them, a worker has its own.
        sender: Has observations wait for their turn; None: one of its own.
    """

    def __init__(
        self,
        new_client: Callable[[], httpx.AsyncClient],
        *,
        host: str,
        timeout_s: float,
        offload: Offload,
        model: str | None = None,
        sender: Sender | None = None,
    ) -> None:
        self.host = host
        self._policy = "/policy" if model is None else f"/policy?model={quote(model, safe='')}"
        self._sender = sender or Sender()
        self._requests = Requests(new_client, host, self._sender)
        self._timeout_s = timeout_s
        self._offload = offload
        self._declared: PolicyInfo | None = None

    @property
    def line(self) -> Line:
        """The connection in use."""
        return self._requests.line

    def on_move(self, moved: Moved | None) -> None:
        """There is no other one."""

    @property
    def post_bytes(self) -> int | None:
        """How much a post should hold at the most, one observation aside; None while nothing waits for its turn."""
        return self._sender.post_bytes

    def statistics(self) -> LinkStatistics:
        """What the way up is doing."""
        return replace(self._sender.statistics(), protocol=self.line.protocol)

    async def info(self) -> PolicyInfo:
        """``GET /policy``, which also opens the connection; what later connections have to declare too."""
        line, body = await self._get(self._policy, "policy")
        self._declared = line.info = self._read(lambda: codec.decode_info(body), "policy")
        return self._declared

    async def ready(self) -> None:
        """``GET /healthz``: return when the worker serves.

        Raises:
            Unavailable: It loads, drains, or has failed to load.
        """
        await self._get("/healthz", "healthz")

    async def prepare(self, message: M) -> Outgoing[M]:
        """Encode, off the loop where it is large."""
        size = _size(message)
        if size <= INLINE_BYTES:
            return Outgoing(message, codec.encode(message))
        return Outgoing(message, await self._offload(lambda: codec.encode(message)))

    async def observe(self, post: Outgoing[ObserveRequest], urgency: Urgency = NO_HURRY) -> ObserveResponse:
        """``POST /observe``, when its turn has come."""
        numbers = [frame.seq for frame in post.message.frames]
        if numbers:
            body = await self._posted(Paced(post.body, max(numbers), urgency, self._sender), post.body)
        else:  # what will never come is told in a few bytes, and an act may wait for it
            urgency.begun()
            _, body = await self._requests.send(Asked("POST", "/observe", "observe", post.body), self._timeout_s)
        return self._read(lambda: codec.decode(body, ObserveResponse), "observe")

    async def _posted(self, paced: Paced, body: bytes) -> bytes:
        try:
            await paced.turn()
            asked = Asked("POST", "/observe", "observe", body, paced.pieces)
            _, answer = await self._requests.send(asked, self._timeout_s)
        except BaseException:
            paced.lost()
            raise
        paced.answered()
        return answer

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        """``POST /act``."""
        asked = Asked("POST", "/act", "act", ask.body, act=request_id, media=ask.media)
        line, body = await self._requests.send(asked, deadline_s)
        await self.check(line)
        if len(body) <= INLINE_BYTES:
            return self._read(lambda: codec.decode(body, ActResponse), "act")
        return await self._offload(lambda: self._read(lambda: codec.decode(body, ActResponse), "act"))

    async def end(self, episode_id: str) -> None:
        """``POST /act/episode_end``."""
        body = codec.encode(EpisodeEnd(episode_id=episode_id))
        asked = Asked("POST", "/act/episode_end", "episode_end", body)
        await self._requests.send(asked, self._timeout_s)

    async def tend(self, told: Callable[[Pinged | LinkLost], None]) -> None:
        """Look after the connection, until cancelled."""
        await tend(self, told)

    async def ping(self, line: Line, about: str | None) -> Running:
        """``GET /ping`` over ``line``; asks after the act ``about``."""
        try:
            _, body = await self._get("/ping" if about is None else f"/ping?act={about}", "ping", line)
            return codec.decode(body, Running)
        except RemoteError as error:
            if not error.status:
                raise
        except WireError:
            pass
        return Running()  # refused, or not understood, by somebody who is there

    async def ask(self, asked: Asked, within_s: float | None = None) -> bytes:
        """Any other request; its answer's body.

        Args:
            asked: What is asked.
            within_s: How long it may take; None: as every round trip.
        """
        _, body = await self._requests.send(asked, self._timeout_s if within_s is None else within_s)
        return body

    def read(self, decode: Callable[[], T], phase: str) -> T:
        """What ``decode`` makes of an answer; `InternalError` where it is nothing of the protocol's."""
        return self._read(decode, phase)

    async def weigh(self, body: bytes) -> float:
        """``POST /ping``: bytes that mean nothing; the seconds until the worker had them all and said so."""
        asked = Asked("POST", "/ping", "ping", body)
        began_at = anyio.current_time()
        await self._requests.send(asked, self._timeout_s)
        return anyio.current_time() - began_at

    async def check(self, line: Line) -> None:
        """Read what is declared at the other end of ``line``, once, and hold it against what was declared at first.

        Raises:
            Conflict: It is something else (``details["reason"]`` is "redeclared").
        """
        while line.info is None and self._declared is not None:
            if line.reading is not None:
                await line.reading.wait()
            else:
                await self._read_declared(line)
        if self._declared is not None and line.info is not None:
            must_agree(self._declared, line.info, self.host)

    async def _read_declared(self, line: Line) -> None:
        line.reading = read = anyio.Event()
        try:
            _, body = await self._get(self._policy, "policy", line)
            line.info = self._read(lambda: codec.decode_info(body), "policy")
        finally:
            line.reading = None
            read.set()

    async def give_up(self, line: Line, silent_s: float) -> LinkLost:
        """Leave ``line``, on which nothing has come for so long."""
        return await self._requests.give_up(line, silent_s)

    async def aclose(self) -> None:
        """Close the connection; nothing is asked any more."""
        await self._requests.aclose()

    async def _get(self, path: str, phase: str, line: Line | None = None) -> tuple[Line, bytes]:
        return await self._requests.send(Asked("GET", path, phase), self._timeout_s, line)

    def _read(self, decode: Callable[[], T], phase: str) -> T:
        try:
            return decode()
        except WireError as error:
            raise InternalError(
                f"the answer is not one of the protocol: {error}", status=200, host=self.host, phase=phase
            ) from error


def _size(message: ActRequest | ObserveRequest) -> int:
    if isinstance(message, ObserveRequest):
        return sum(size_of(frame.inputs) for frame in message.frames)
    return size_of(message.inputs)
