"""An HTTP/2 connection whose answers are handed out as soon as they have been read.

In httpcore 1.0 every request that waits for its answer wants to read the socket itself, for all of them, and the lock
for that is passed on in turn. A request whose answer was read by another waits for its turn behind requests that wait
for theirs: with acts and posts 0.2 s apart over a link of 0.7 s, finished answers lay for 0.2 to 0.6 s. Here one
request reads at a time, and after each read everybody looks whether it was theirs.

Nor does an answer wait for uploads, which a slow link keeps in the middle of a write. And what a request that is
given up leaves behind (half a body, half a frame, an answer nobody takes) does the others no harm.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, Iterator
from typing import Any, Final
from weakref import WeakSet

import anyio
import anyio.lowlevel
import h2.config
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import httpcore

from seqrt.link.heard import sent
from seqrt.link.network import CLOSE_S
from seqrt.link.sending import head_of, length_of
from seqrt.link.tcp import is_over
from seqrt.wire.heads import PlainEncoder

_STREAMS: Final = 100
"""What a server is believed to take at once until it says so: RFC 9113 (6.5.2) recommends no smaller number."""
_ANSWER_WINDOW: Final = 2**24
"""How much of an answer a server may send before it is read."""
_ANSWER_FRAME: Final = 2**18
_NOBODY: Final = httpcore.Request("GET", "http://nobody")
"""Waits for no answer."""


class _AnsweredEarly(Exception):
    """The answer is there, or the stream is at an end, before the whole request was sent."""


class _Streams:
    """How many requests a connection takes at once, which its server may change at any time.

    httpcore begins with one until the server's settings are there, a round trip after everything else could be under
    way; and it waits for requests to end, in the task that reads for them, when the server takes back some.
    """

    def __init__(self) -> None:
        self.limit = _STREAMS
        self._open = 0
        self._closed = anyio.Event()

    async def acquire(self) -> None:
        """Open one, as soon as there is room."""
        while self._open >= self.limit:
            await self._closed.wait()
        self._open += 1

    async def release(self) -> None:
        """Close one."""
        self._open -= 1
        self.changed()

    def changed(self) -> None:
        """Have those look again who wait."""
        self._closed.set()
        self._closed = anyio.Event()


class SharedReading(httpcore.AsyncHTTP2Connection):
    """httpcore's connection, read by one request at a time and looked at by all."""

    # Heads are made by `head_of`, as they have to be.
    CONFIG = h2.config.H2Configuration(
        validate_inbound_headers=False, validate_outbound_headers=False, normalize_outbound_headers=False
    )

    def __init__(
        self, origin: httpcore.Origin, stream: httpcore.AsyncNetworkStream, keepalive_expiry: float | None = None
    ) -> None:
        super().__init__(origin, stream, keepalive_expiry)
        self._h2_state.encoder = PlainEncoder()
        # httpcore's own give the loop a turn each, even where nobody holds them: eight of an act's sixteen turns.
        locks: Any = (anyio.Lock(fast_acquire=True) for _ in range(4))
        self._init_lock, self._state_lock, self._read_lock, self._write_lock = locks
        self._reader: httpcore.Request | None = None
        self._has_read = anyio.Event()
        self._sent: WeakSet[httpcore.Request] = WeakSet()
        self._writers = 0  # those who write or wait for their turn to
        self._max_streams_semaphore = self._streams = _Streams()  # type: ignore[assignment]  # acquired and released

    # Opening.

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send one request; the first right behind what opens the connection, before the server has said anything."""
        async with self._init_lock:
            if not self._sent_connection_init and not self.is_closed():
                try:
                    await self._send_connection_init(request)
                except BaseException:
                    with anyio.move_on_after(CLOSE_S, shield=True):
                        await self.aclose()
                    raise
                self._sent_connection_init = True
        return await super().handle_async_request(request)

    async def _send_connection_init(self, request: httpcore.Request) -> None:
        settings = {
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 65_536,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _ANSWER_WINDOW,  # once, not by a frame a request
            h2.settings.SettingCodes.MAX_FRAME_SIZE: _ANSWER_FRAME,
        }
        self._h2_state.max_inbound_frame_size = _ANSWER_FRAME  # h2 looks at the settings when it is made
        self._h2_state.local_settings = h2.settings.Settings(client=True, initial_values=settings)
        del self._h2_state.local_settings[
            h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL
        ]  # of h2's own, and no use here
        self._h2_state.initiate_connection()
        self._h2_state.increment_flow_control_window(_ANSWER_WINDOW)
        await self._write_outgoing_data(request)

    async def _receive_remote_settings_change(self, event: h2.events.RemoteSettingsChanged) -> None:
        changed = event.changed_settings.get(h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS)
        if changed is not None:
            self._streams.limit = min(changed.new_value, _STREAMS)
            self._streams.changed()

    def has_expired(self) -> bool:
        """Whether it was closed while nobody used it: a worker lets idle connections go, and nobody reads that."""
        return super().has_expired() or (self.is_idle() and is_over(self._network_stream.get_extra_info("socket")))

    # Reading, for all.

    async def _receive_events(self, request: httpcore.Request, stream_id: int | None = None) -> None:
        """Read until there may be something for ``stream_id``; the caller looks, and asks again."""
        if self._reader is not None:
            await self._has_read.wait()
            return
        self._reader = request
        try:
            await super()._receive_events(request, stream_id)
        finally:
            self._hand_out(request)

    def _hand_out(self, request: httpcore.Request) -> None:
        if self._reader is request:
            self._reader = None
            self._has_read.set()
            self._has_read = anyio.Event()

    async def _read_incoming_data(self, request: httpcore.Request) -> list[h2.events.Event]:
        events: list[h2.events.Event] = await super()._read_incoming_data(request)
        self._give_back([event for event in events if getattr(event, "stream_id", None) not in self._events])
        return events

    async def _response_closed(self, stream_id: int) -> None:
        self._give_back(self._events.get(stream_id, []))
        await super()._response_closed(stream_id)

    def _give_back(self, unread: list[h2.events.Event]) -> None:
        """Nobody takes these bytes, of a request that was given up: they no longer count against the connection."""
        for event in unread:
            if isinstance(event, h2.events.DataReceived):
                with contextlib.suppress(h2.exceptions.ProtocolError):
                    self._h2_state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    # Writing.

    async def _write_outgoing_data(self, request: httpcore.Request) -> None:
        """Write what there is. Who only has to acknowledge what was read leaves that to those who write."""
        acknowledges = request is self._reader or request in self._sent
        self._hand_out(request)
        if acknowledges and self._writers:
            return
        self._writers += 1
        try:
            async with self._write_lock:
                # Before anything is taken out of h2: a write that is cancelled before it began would lose it.
                await anyio.lowlevel.checkpoint_if_cancelled()
                while data := self._to_write():
                    await self._write(data)
                    if self._writers > 1:
                        break  # whoever is next writes; the last one also what was left to it meanwhile
        finally:
            self._writers -= 1

    async def nudge(self) -> None:
        """Send a ping, unless something is being sent; whole, even if whoever asked for it is cancelled."""
        if self._writers or not self._sent_connection_init or not self.is_available():
            return
        self._h2_state.ping(bytes(8))
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self._write_outgoing_data(_NOBODY)

    def _to_write(self) -> bytes:
        if self._write_exception is not None:
            raise self._write_exception
        data: bytes = self._h2_state.data_to_send()
        return data

    async def _write(self, data: bytes) -> None:
        try:
            await self._network_stream.write(data, None)
        except BaseException as error:
            # Cancelled, too: what was to be sent is gone from h2, and of a frame sent in part the other end waits for
            # the rest. Nothing can follow it on this connection.
            self._connection_error = True
            self._write_exception = error if isinstance(error, Exception) else httpcore.WriteError("cut in mid-write")
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._network_stream.aclose()
            raise

    # A request's body, which may be cut short.

    async def _send_request_headers(self, request: httpcore.Request, stream_id: int) -> None:
        """Send the head; one with a body goes out with its first piece, in the same write."""
        with self._reset_if_cut(stream_id):
            alone = length_of(request) is None
            self._h2_state.send_headers(stream_id, head_of(request), end_stream=alone)
            if alone:
                await self._write_outgoing_data(request)

    async def _send_request_body(self, request: httpcore.Request, stream_id: int) -> None:
        with self._reset_if_cut(stream_id), contextlib.suppress(_AnsweredEarly):
            if (left := length_of(request)) is not None:
                await self._send_pieces(request, stream_id, left)
        self._sent.add(request)
        sent(request.extensions)

    async def _send_pieces(self, request: httpcore.Request, stream_id: int, left: int) -> None:
        """Send a body of ``left`` bytes, its end in the frame of the last of them."""
        ended = False
        assert isinstance(request.stream, AsyncIterable)
        async for piece in request.stream:
            left -= len(piece)
            while piece:
                flow = await self._wait_for_outgoing_flow(request, stream_id)
                frame, piece = (piece, b"") if len(piece) <= flow else (piece[:flow], piece[flow:])
                ended = not left and not piece
                self._h2_state.send_data(stream_id, frame, end_stream=ended)
                await self._write_outgoing_data(request)
        if not ended:
            self._h2_state.end_stream(stream_id)
            await self._write_outgoing_data(request)

    @contextlib.contextmanager
    def _reset_if_cut(self, stream_id: int) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Else the other end waits for the rest, and its streams are numbered. Told with the next thing written.
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._h2_state.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
            raise

    async def _wait_for_outgoing_flow(self, request: httpcore.Request, stream_id: int) -> int:
        """How much may be sent now; waits for more, unless nobody wants it any more."""
        while not (flow := self._outgoing_flow(stream_id)):
            await self._write_outgoing_data(request)  # the other end may wait for this very request's head
            if not self._outgoing_flow(stream_id):  # another may have read meanwhile that there is room
                await self._receive_events(request)
        return flow

    def _outgoing_flow(self, stream_id: int) -> int:
        ends = (h2.events.StreamEnded, h2.events.StreamReset)
        if any(isinstance(event, ends) for event in self._events[stream_id]):
            raise _AnsweredEarly
        return int(min(self._h2_state.local_flow_control_window(stream_id), self._h2_state.max_outbound_frame_size))
