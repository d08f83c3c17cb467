"""What happens to the requests that share a connection when one of them, or the connection, comes to a bad end."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest
from anyio.streams.tls import TLSStream
from echoing import HANG_S

from seqrt.link.bodies import Whole
from seqrt.link.http import HttpLink, clients
from seqrt.link.network import Network
from seqrt.link.opening import OneConnection
from seqrt.link.tls import Trust
from seqrt.worker.tls import Certificate

pytestmark = pytest.mark.anyio

WIDE = {"MAX_CONCURRENT_STREAMS": 100, "INITIAL_WINDOW_SIZE": 2**31 - 1, "MAX_FRAME_SIZE": 2**24 - 1}
PEM = Path(__file__).with_name("selfsigned.pem")
BODY = bytes(40 << 20)
"""More than a socket's buffers hold."""

Serve = Callable[["Peer"], Awaitable[None]]


class Peer:
    """A worker's end of one connection, by hand."""

    def __init__(self, stream: anyio.abc.SocketStream, **settings: int) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        if settings:
            codes = {getattr(h2.settings.SettingCodes, name): value for name, value in settings.items()}
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values=codes)
        self.h2.initiate_connection()
        if settings:
            self.h2.increment_flow_control_window(2**31 - 1 - 65535)
        self.opened: list[int] = []
        self.ended: list[int] = []
        self.reset: list[int] = []
        self.answered: set[int] = set()
        self.received: dict[int, int] = {}

    async def flush(self) -> None:
        await self.stream.send(self.h2.data_to_send())

    async def read(self, *, acknowledge: bool = True) -> None:
        """Read once."""
        await self.flush()
        for event in self.h2.receive_data(await self.stream.receive()):
            if isinstance(event, h2.events.RequestReceived):
                self.opened.append(event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.append(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.reset.append(event.stream_id)
            elif isinstance(event, h2.events.DataReceived):
                self.received[event.stream_id] = self.received.get(event.stream_id, 0) + len(event.data)
                if acknowledge:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    async def until(self, reached: Callable[[], bool], **how: bool) -> None:
        """Read until ``reached``."""
        while not reached():
            await self.read(**how)

    async def answer(self, stream_id: int, body: bytes = b"") -> None:
        self.answered.add(stream_id)
        self.h2.send_headers(stream_id, [(":status", "200")])
        while len(body) > 16384:
            while self.h2.local_flow_control_window(stream_id) < 16384:
                await self.read()
            self.h2.send_data(stream_id, body[:16384])
            body = body[16384:]
            await self.flush()
        self.h2.send_data(stream_id, body, end_stream=True)
        await self.flush()

    async def answer_all(self) -> None:
        """Answer whatever comes, until the other end is gone."""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await self.until(lambda: not self.answered.issuperset(self.ended))
                await self.answer(min(set(self.ended) - self.answered))


class Listening:
    """A server that serves its connections one after another by the functions it was given; the last serves on."""

    def __init__(self, *serve: Serve, **settings: int) -> None:
        self._serve, self._settings = list(serve), settings
        self.connections = 0
        self.open = 0

    async def __call__(self, stream: anyio.abc.SocketStream) -> None:
        serve = self._serve[min(self.connections, len(self._serve) - 1)]
        self.connections += 1
        self.open += 1
        async with stream:
            await serve(Peer(stream, **self._settings))
        self.open -= 1


@contextlib.asynccontextmanager
async def listening(server: Callable[[Any], Awaitable[None]]) -> AsyncIterator[str]:
    """The address ``server`` is reached at."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as serving:
        serving.start_soon(listener.serve, server)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        serving.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def connected(
    server: Callable[[Any], Awaitable[None]], *, http1: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    transport = OneConnection(Network(http2=not http1), http1=http1)
    with anyio.fail_after(HANG_S):
        async with (
            listening(server) as address,
            httpx.AsyncClient(transport=transport, base_url=address, timeout=None) as client,
        ):
            yield client


async def upload(client: httpx.AsyncClient, body: bytes) -> httpx.Response:
    """Post it as the link does, in one piece."""
    request = client.build_request("POST", "/", content=body)
    request.stream = Whole(body)
    return await client.send(request)


async def inline(function: Callable[[], Any]) -> Any:
    return function()


@contextlib.asynccontextmanager
async def linked(server: Callable[[Any], Awaitable[None]]) -> AsyncIterator[HttpLink]:
    with anyio.fail_after(HANG_S):
        async with listening(server) as address:
            new = clients(address, timeout_s=HANG_S, key=None)
            link = HttpLink(new, host=address, timeout_s=HANG_S, offload=inline)
            try:
                yield link
            finally:
                await link.aclose()


async def statuses_of(count: int, client: httpx.AsyncClient) -> list[int]:
    """How ``count`` requests at once are answered."""
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await client.get("/")).status_code)

    async with anyio.create_task_group() as asking:
        for _ in range(count):
            asking.start_soon(ask)
    return statuses


async def outcomes_of(count: int, link: HttpLink) -> list[str]:
    """What becomes of ``count`` requests at once."""
    outcomes: list[str] = []

    async def ask() -> None:
        try:
            await link.end("e")
        except Exception as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("answered")

    async with anyio.create_task_group() as asking:
        for _ in range(count):
            asking.start_soon(ask)
    return outcomes


# Some of several are given up


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_whoever_is_cancelled_while_several_wait_the_others_get_their_answers(cancelled: int) -> None:
    all_there, go_on = anyio.Event(), anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: len(peer.ended) == 4)
        all_there.set()
        await go_on.wait()
        for stream_id in peer.ended:
            await peer.answer(stream_id)
        await peer.answer_all()

    scopes = [anyio.CancelScope() for _ in range(4)]
    answered: list[int] = []
    async with connected(Listening(serve)) as client:

        async def ask(number: int) -> None:
            with scopes[number]:
                await client.get("/")
                answered.append(number)

        async with anyio.create_task_group() as asking:
            for number in range(4):
                asking.start_soon(ask, number)
            await all_there.wait()
            scopes[cancelled].cancel()
            await anyio.lowlevel.checkpoint()
            go_on.set()
        assert sorted(answered) == [number for number in range(4) if number != cancelled]


async def test_answers_that_nobody_takes_any_more_do_not_use_up_the_connection() -> None:
    """Sixteen megabytes may be on their way to us; what a cancelled request was sent counts as taken."""
    large = bytes(3 << 20)

    async def serve(peer: Peer) -> None:
        for number in range(8):
            await peer.until(lambda n=number: len(peer.ended) > n)
            there[number].set()
            await given_up[number].wait()
            await peer.answer(peer.ended[number], large)
        await peer.answer_all()

    there = [anyio.Event() for _ in range(8)]
    given_up = [anyio.Event() for _ in range(8)]
    async with connected(Listening(serve)) as client:
        for number in range(8):
            async with anyio.create_task_group() as asking:
                asking.start_soon(client.get, "/")
                await there[number].wait()
                asking.cancel_scope.cancel()
            given_up[number].set()
        assert (await client.get("/")).status_code == 200


async def test_an_upload_given_up_in_the_middle_is_told_to_the_other_end() -> None:
    """Else that end keeps the stream open for its rest, and has no more than a hundred."""
    stuck, told = anyio.Event(), anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: sum(peer.received.values()) == 65535, acknowledge=False)
        stuck.set()
        await peer.until(lambda: bool(peer.reset))
        told.set()
        await peer.answer_all()

    async with connected(Listening(serve)) as client:
        async with anyio.create_task_group() as asking:
            asking.start_soon(upload, client, bytes(100_000))
            await stuck.wait()
            asking.cancel_scope.cancel()
        async with anyio.create_task_group() as asking:
            asking.start_soon(client.get, "/")
            with anyio.fail_after(HANG_S):
                await told.wait()
            asking.cancel_scope.cancel()
    assert told.is_set()


async def test_an_upload_cut_in_the_middle_of_a_frame_leaves_no_half_frame_before_the_next_request() -> None:
    begun, cut = anyio.Event(), anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: bool(peer.opened))
        begun.set()
        await cut.wait()
        await peer.answer_all()

    async with connected(Listening(serve, **WIDE)) as client:
        async with anyio.create_task_group() as asking:
            asking.start_soon(upload, client, BODY)
            await begun.wait()
            await anyio.wait_all_tasks_blocked()  # the socket's buffers are full
            asking.cancel_scope.cancel()
        cut.set()
        with anyio.fail_after(HANG_S):
            assert (await client.get("/")).status_code == 200


# The connection fails


def resets(peer: Peer) -> None:
    raw = peer.stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def goes_away(peer: Peer) -> None:
    peer.h2.close_connection(last_stream_id=peer.ended[-1])


def resets_one(peer: Peer) -> None:
    peer.h2.reset_stream(peer.ended[0], 8)


@pytest.mark.parametrize("fails", [resets, goes_away, resets_one])
async def test_all_that_wait_on_a_connection_that_fails_are_told_and_the_next_request_goes_over_a_new_one(
    fails: Callable[[Peer], None],
) -> None:
    async def serve(peer: Peer) -> None:
        await peer.until(lambda: len(peer.ended) == 5)
        fails(peer)
        await peer.flush()
        if fails is not resets:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await peer.stream.receive()

    server = Listening(serve, lambda peer: peer.answer_all())
    async with linked(server) as link:
        assert await outcomes_of(5, link) == ["LinkLost"] * 5
        await link.end("e")
        assert (server.connections, server.open) == (2, 1)


async def test_requests_the_other_end_says_it_never_looked_at_are_sent_again_over_a_new_connection() -> None:
    async def serve(peer: Peer) -> None:
        await peer.until(lambda: len(peer.ended) == 3)
        await peer.answer(peer.ended[0])
        peer.h2.close_connection(last_stream_id=peer.ended[0])
        await peer.flush()
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await peer.stream.receive()

    server = Listening(serve, lambda peer: peer.answer_all())
    async with linked(server) as link:
        assert await outcomes_of(3, link) == ["answered"] * 3
        assert server.connections == 2


# Uploads


async def test_several_uploads_larger_than_the_window_all_arrive() -> None:
    async def serve(peer: Peer) -> None:
        await peer.answer_all()

    statuses: list[int] = []
    async with connected(Listening(serve)) as client:

        async def post() -> None:
            statuses.append((await upload(client, bytes(300_000))).status_code)

        async with anyio.create_task_group() as asking:
            for _ in range(5):
                asking.start_soon(post)
    assert statuses == [200] * 5


@pytest.mark.parametrize("body", [b"", bytes(100_000)])
async def test_an_answer_does_not_wait_for_an_upload_that_the_link_is_too_slow_for(body: bytes) -> None:
    there, answered = anyio.Event(), anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: len(peer.ended) == 1)
        there.set()
        await peer.until(lambda: len(peer.opened) >= 2)
        await anyio.wait_all_tasks_blocked()  # nothing more is read, and the socket's buffers are full
        await peer.answer(peer.ended[0], body)
        await anyio.sleep_forever()

    async with connected(Listening(serve, **WIDE)) as client:

        async def ask() -> None:
            assert (await client.get("/")).content == body
            answered.set()

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await there.wait()
            for _ in range(2):
                asking.start_soon(upload, client, BODY)
            with anyio.fail_after(HANG_S):
                await answered.wait()
            asking.cancel_scope.cancel()


@pytest.mark.parametrize("refused", [True, False])
async def test_an_upload_that_is_answered_or_reset_before_it_was_sent_ends_then(refused: bool) -> None:
    async def serve(peer: Peer) -> None:
        await peer.until(lambda: sum(peer.received.values()) == 65535, acknowledge=False)
        if refused:
            peer.h2.reset_stream(peer.opened[0], 8)
            await peer.flush()
        else:
            await peer.answer(peer.opened[0])
        await peer.answer_all()

    async with connected(Listening(serve)) as client:
        with anyio.fail_after(HANG_S):
            if refused:
                with pytest.raises(httpx.RemoteProtocolError):
                    await upload(client, bytes(100_000))
            else:
                assert (await upload(client, bytes(100_000))).status_code == 200
            assert (await client.get("/")).status_code == 200


# Opening, over TLS: the handshake can be made to last, or to fail


def secured(serve: Listening, *, agrees: str = "h2", first: Callable[[], Awaitable[None]]) -> Callable[[Any], Any]:
    """``serve`` over TLS; ``first`` comes before the first handshake, and what it raises ends that connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    context.set_alpn_protocols([agrees])
    handshakes = 0

    async def shake_hands(stream: anyio.abc.SocketStream) -> None:
        nonlocal handshakes
        handshakes += 1
        try:
            if handshakes == 1:
                await first()
            secure = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
        except (Unwilling, anyio.BrokenResourceError, anyio.EndOfStream):
            await stream.aclose()
        else:
            async with secure:
                await serve(secure)

    return shake_hands


class Unwilling(Exception):
    """To shake hands."""


@contextlib.asynccontextmanager
async def opening(server: Callable[[Any], Awaitable[None]]) -> AsyncIterator[httpx.AsyncClient]:
    with anyio.fail_after(HANG_S):
        async with listening(server) as address:
            transport = OneConnection(Network(Trust(Certificate(PEM).fingerprint)), http1=True)
            base_url = address.replace("http:", "https:")
            async with httpx.AsyncClient(transport=transport, base_url=base_url, timeout=None) as client:
                yield client


async def test_two_that_open_a_connection_at_once_fail_with_it_and_leave_none_behind() -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def unwilling() -> None:
        begun.set()
        await go_on.wait()
        raise Unwilling

    server, outcomes = Listening(lambda peer: peer.answer_all()), list[str]()

    async def ask(client: httpx.AsyncClient) -> None:
        try:
            await client.get("/")
        except httpx.ConnectError:
            outcomes.append("cannot connect")

    async with opening(secured(server, first=unwilling)) as client:
        async with anyio.create_task_group() as asking:
            for _ in range(3):
                asking.start_soon(ask, client)
            await begun.wait()
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert outcomes == ["cannot connect"] * 3
        assert (await client.get("/")).status_code == 200
        assert (server.connections, server.open) == (1, 1)
        await client.aclose()
        with anyio.fail_after(HANG_S):
            while server.open:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("cancelled", ["who opens", "who waits"])
async def test_one_of_two_that_open_a_connection_is_cancelled_and_the_other_leaves_none_behind(cancelled: str) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def slow() -> None:
        begun.set()
        await go_on.wait()

    server, answered = Listening(lambda peer: peer.answer_all()), list[str]()
    scopes = {"who opens": anyio.CancelScope(), "who waits": anyio.CancelScope()}
    async with opening(secured(server, first=slow)) as client:

        async def ask(who: str) -> None:
            with scopes[who]:
                await client.get("/")
                answered.append(who)

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask, "who opens")
            await begun.wait()
            asking.start_soon(ask, "who waits")
            await anyio.wait_all_tasks_blocked()
            scopes[cancelled].cancel()
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert answered == [who for who in scopes if who != cancelled]
        assert (await client.get("/")).status_code == 200
        assert (server.connections, server.open) == (1, 1)
        await client.aclose()
        with anyio.fail_after(HANG_S):
            while server.open:
                await anyio.lowlevel.checkpoint()


class Http1:
    """Speaks HTTP/1.1, one request a connection at a time; answers once ``ready`` says so of its path."""

    def __init__(self, ready: Callable[[str], Awaitable[object]]) -> None:
        self._ready = ready
        self.asked: list[str] = []
        self.at_once = 0
        self.most = 0

    async def __call__(self, stream: anyio.abc.ByteStream) -> None:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                asked = await stream.receive()
                assert asked.count(b"HTTP/1.1") == 1
                path = asked.split(b" ")[1].decode()
                self.asked.append(path)
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                await self._ready(path)
                self.at_once -= 1
                await stream.send(b"HTTP/1.1 204 No Content\r\n\r\n")


async def at_once() -> None:
    return None


async def test_over_http_1_1_several_that_ask_at_once_do_not_wait_for_each_other() -> None:
    all_there = anyio.Event()

    async def ready(path: str) -> None:
        if server.at_once == 5:
            all_there.set()
        if path == "/act":
            await all_there.wait()

    server, statuses = Http1(ready), list[int]()
    async with opening(secured(server, agrees="http/1.1", first=at_once)) as client:  # type: ignore[arg-type]

        async def ask() -> None:
            statuses.append((await client.get("/act")).status_code)

        async with anyio.create_task_group() as asking:
            for _ in range(5):
                asking.start_soon(ask)
    assert statuses == [204] * 5


async def test_over_http_1_1_no_number_of_observations_under_way_keeps_an_act_waiting() -> None:
    answered = anyio.Event()

    async def ready(path: str) -> None:
        if path == "/observe":
            await answered.wait()

    server = Http1(ready)
    async with opening(secured(server, agrees="http/1.1", first=at_once)) as client:  # type: ignore[arg-type]
        assert (await client.get("/policy")).status_code == 204
        async with anyio.create_task_group() as asking:
            for _ in range(40):
                asking.start_soon(client.get, "/observe")
            while not server.at_once:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert (await client.get("/act")).status_code == 204
            answered.set()
    assert server.asked.count("/observe") == 40


async def test_a_connection_that_was_closed_while_nobody_used_it_is_not_used_again() -> None:
    closed = anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: bool(peer.ended))
        await peer.answer(peer.ended[0])
        peer.h2.close_connection()
        await peer.flush()
        await peer.stream.aclose()
        closed.set()

    server = Listening(serve, lambda peer: peer.answer_all())
    async with linked(server) as link:
        await link.end("e")
        await closed.wait()
        await link.end("e")
        assert server.connections == 2


async def test_requests_do_not_wait_for_the_settings_of_the_server() -> None:
    """Right after a reconnect that would be a round trip for all but the first."""

    async def serve(peer: Peer) -> None:
        peer.h2.data_to_send()  # settings and all: kept back
        while len(peer.ended) < 3:
            for event in peer.h2.receive_data(await peer.stream.receive()):
                if isinstance(event, h2.events.StreamEnded):
                    peer.ended.append(event.stream_id)
            peer.h2.data_to_send()
        late = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        late.initiate_connection()
        await peer.stream.send(late.data_to_send())
        await peer.answer_all()

    async with connected(Listening(serve)) as client:
        assert await statuses_of(3, client) == [200] * 3


async def test_a_server_that_takes_fewer_requests_at_once_than_are_under_way_gets_the_others_later() -> None:
    lowered, asked = anyio.Event(), anyio.Event()

    async def serve(peer: Peer) -> None:
        await peer.until(lambda: len(peer.ended) == 4)
        peer.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        await peer.until(lambda: peer.h2.local_settings.max_concurrent_streams == 1)  # the other end knows by now
        lowered.set()
        await asked.wait()
        most = 4
        while len(peer.answered) < 8:
            await peer.until(lambda: not peer.answered.issuperset(peer.ended))
            waiting = set(peer.ended) - peer.answered
            assert len(waiting) <= max(1, most)
            most = len(waiting) - 1
            await peer.answer(min(waiting))
        await peer.answer_all()

    statuses: list[int] = []

    async def ask(client: httpx.AsyncClient) -> None:
        statuses.extend(await statuses_of(4, client))

    async with connected(Listening(serve)) as client:
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask, client)
            await lowered.wait()
            asking.start_soon(ask, client)
            await anyio.wait_all_tasks_blocked()
            asked.set()
        assert statuses == [200] * 8


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_nudge_sends_a_ping_whole_and_nothing_while_something_is_being_sent(cancelled: bool) -> None:
    pings = 0

    async def serve(peer: Peer) -> None:
        nonlocal pings
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await peer.flush()
                for event in peer.h2.receive_data(await peer.stream.receive()):
                    pings += isinstance(event, h2.events.PingReceived)
                    if isinstance(event, h2.events.StreamEnded):
                        await peer.answer(event.stream_id)

    server = Listening(serve)
    transport = OneConnection(Network(http2=True), http1=False)
    with anyio.fail_after(HANG_S):
        async with (
            listening(server) as address,
            httpx.AsyncClient(transport=transport, base_url=address, timeout=None) as client,
        ):
            await transport.nudge()  # nothing is open
            assert (await client.get("/")).status_code == 200
            with anyio.CancelScope() as scope:
                if cancelled:
                    scope.cancel()
                await transport.nudge()
            assert (await client.get("/")).status_code == 200
            assert (pings, server.connections) == (1, 1)
