"""Requests and answers on the wire: each of them one write, and none held back for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack
import httpcore
import httpx
import pytest
from echoing import HANG_S
from hypercorn.config import Config

from seqrt.link.connection import SharedReading
from seqrt.link.network import Network, Stream
from seqrt.link.opening import OneConnection
from seqrt.worker.connection import Connection, Context

pytestmark = pytest.mark.anyio

Codes = h2.settings.SettingCodes


class Ends(anyio.abc.ByteStream):
    """One end of a connection in memory: what is written is kept, write by write; what is read is put in."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self._unread: list[bytes] = []
        self._changed = anyio.Event()

    def put(self, data: bytes) -> None:
        self._unread.append(data)
        self._changed.set()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.writes.append(bytes(item))

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        while not self._unread:
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._unread.pop(0)

    async def send_eof(self) -> None: ...

    async def aclose(self) -> None: ...


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(HANG_S):
        while not condition():
            await anyio.lowlevel.checkpoint()


def server() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    connection.initiate_connection()
    return connection


class Client:
    """A raw client of a `Connection`, which serves an app."""

    def __init__(self, stream: Ends) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection()
        self.read = 0

    def ask(self) -> int:
        stream_id: int = self.h2.get_next_available_stream_id()
        head = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "worker")]
        self.h2.send_headers(stream_id, head, end_stream=True)
        self.say()
        return stream_id

    def say(self) -> None:
        self.stream.put(self.h2.data_to_send())

    async def next_write(self) -> list[Any]:
        """The events of the next write that has some of a request's."""
        while True:
            await until(lambda: len(self.stream.writes) > self.read)
            events = self.h2.receive_data(self.stream.writes[self.read])
            self.read += 1
            if any(isinstance(event, (h2.events.ResponseReceived, h2.events.DataReceived)) for event in events):
                return events


async def serve(app: Any, tasks: anyio.abc.TaskGroup, *, window: int = 2**20) -> Client:
    stream = Ends()
    client = Client(stream)
    client.h2.local_settings = h2.settings.Settings(client=True, initial_values={Codes.INITIAL_WINDOW_SIZE: window})
    client.h2.initiate_connection()
    client.say()
    connection = Connection(app, Config(), Context(), stream)
    tasks.start_soon(connection.run)
    return client


async def test_a_request_with_a_body_is_one_write_and_its_end_is_in_its_last_frame() -> None:
    stream = Ends()
    connection = SharedReading(httpcore.Origin(b"http", b"worker", 80), Stream(stream, place="worker:80"))
    fields = [("host", "worker"), ("content-length", "5"), ("x-seq-request-id", "r-1"), ("Accept", "a/b")]

    async def body() -> AsyncIterator[bytes]:
        yield b"12"
        yield b"345"

    other_end, frames = server(), []
    async with anyio.create_task_group() as tasks:
        request = httpcore.Request("POST", "http://worker/act", headers=fields, content=body())
        tasks.start_soon(connection.handle_async_request, request)
        while not any(isinstance(event, h2.events.StreamEnded) for event in frames):
            await until(lambda: len(stream.writes) > 0)
            frames += other_end.receive_data(stream.writes.pop(0))
            if any(isinstance(event, h2.events.RequestReceived) for event in frames):
                break
        first_piece = [event for event in frames if isinstance(event, h2.events.DataReceived)]
        assert [event.data for event in first_piece] == [b"12"], "the head came without the piece behind it"
        await until(lambda: len(stream.writes) > 0)
        rest = other_end.receive_data(stream.writes.pop(0))
        assert [type(event) for event in rest] == [h2.events.DataReceived, h2.events.StreamEnded]
        assert rest[0].stream_ended is not None, "its end was in a frame of its own"
        tasks.cancel_scope.cancel()
    assert not stream.writes
    head = next(event for event in frames if isinstance(event, h2.events.RequestReceived)).headers
    assert dict(head)[b"accept"] == b"a/b"
    kept_out = {field[0] for field in head if isinstance(field, hpack.NeverIndexedHeaderTuple)}
    assert kept_out == {b"content-length", b"x-seq-request-id"}, "what never comes again fills no table"


async def test_the_head_goes_ahead_where_the_other_end_gives_no_room_for_a_body_before_it() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    address = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"

    async def grudging(stream: anyio.abc.SocketStream) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.local_settings = h2.settings.Settings(client=False, initial_values={Codes.INITIAL_WINDOW_SIZE: 0})
        connection.initiate_connection()
        async with stream:
            while True:
                await stream.send(connection.data_to_send())
                for event in connection.receive_data(await stream.receive()):
                    if isinstance(event, h2.events.RequestReceived):
                        connection.increment_flow_control_window(1000, event.stream_id)
                    if isinstance(event, h2.events.StreamEnded):
                        connection.send_headers(event.stream_id, [(":status", "204")], end_stream=True)

    async with (
        listener,
        httpx.AsyncClient(transport=OneConnection(Network(http2=True), http1=False), base_url=address) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, grudging)
        with anyio.fail_after(HANG_S):
            assert (await client.get("/")).status_code == 204  # its settings are there with the answer
            assert (await client.post("/", content=b"x" * 500)).status_code == 204
        tasks.cancel_scope.cancel()


async def test_a_whole_answer_is_one_write() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"rows"})

    async with anyio.create_task_group() as tasks:
        client = await serve(app, tasks)
        client.ask()
        events = await client.next_write()
        assert b"".join(event.data for event in events if isinstance(event, h2.events.DataReceived)) == b"rows"
        assert any(isinstance(event, h2.events.StreamEnded) for event in events)
        tasks.cancel_scope.cancel()


async def test_a_piece_of_a_longer_answer_is_not_held_until_the_next_one() -> None:
    go_on = [anyio.Event() for _ in range(3)]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number, event in enumerate(go_on):
            await send({"type": "http.response.body", "body": b"piece %d" % number, "more_body": True})
            await event.wait()
        await send({"type": "http.response.body", "body": b""})

    async with anyio.create_task_group() as tasks:
        client = await serve(app, tasks)
        client.ask()
        for number, event in enumerate(go_on):
            came = [event for event in await client.next_write() if isinstance(event, h2.events.DataReceived)]
            assert [event.data for event in came] == [b"piece %d" % number]
            event.set()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("window", [5, 40, 2**20])
async def test_pieces_keep_their_order_whatever_room_there_is_for_them(window: int) -> None:
    pieces = [b"%d" % number * size for number, size in enumerate((3, 30, 1, 100, 2, 2))]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with anyio.create_task_group() as tasks:
        client = await serve(app, tasks, window=window)
        asked = {client.ask(), client.ask()}
        got: dict[int, bytes] = dict.fromkeys(asked, b"")
        ended: set[int] = set()
        while ended != asked:
            await until(lambda: len(client.stream.writes) > client.read)
            for event in client.h2.receive_data(client.stream.writes[client.read]):
                if isinstance(event, h2.events.DataReceived):
                    got[event.stream_id] += event.data
                    with suppress(h2.exceptions.StreamClosedError):
                        client.h2.increment_flow_control_window(len(event.data) or 1, event.stream_id)
                ended |= {event.stream_id} if isinstance(event, h2.events.StreamEnded) else set()
            client.read += 1
            client.say()
        assert set(got.values()) == {b"".join(pieces)}
        tasks.cancel_scope.cancel()
