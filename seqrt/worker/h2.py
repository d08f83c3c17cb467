"""hypercorn's HTTP/2 with windows a robot's pictures fit through, and without what 0.18 gets wrong.

Windows and frame sizes are the receiver's to set: with the protocol's 65,535 bytes an upload moves 64 KiB a round
trip. Memory is bounded by body and episode limits, not by windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import h2.config
import h2.events
import h2.exceptions
import h2.frame_buffer
import h2.settings
import priority
from hypercorn.events import Closed
from hypercorn.protocol.events import Body, EndBody, Response
from hypercorn.protocol.h2 import H2Protocol

from seqrt.wire.heads import PlainEncoder, plain_fields

STREAM_WINDOW: Final = 16 * 2**20
CONNECTION_WINDOW: Final = 64 * 2**20
FRAME_BYTES: Final = 256 * 2**10
PRIORITY_STREAMS: Final = 8192

_DEFAULT_WINDOW: Final = 65_535
_Codes = h2.settings.SettingCodes


class _Frames(h2.frame_buffer.FrameBuffer):  # type: ignore[misc]
    """Frames as they come, not written out: h2 says each of them to a log nobody keeps, all its bytes in hex."""

    def __next__(self) -> Any:
        frame = super().__next__()
        frame._body_repr = str
        return frame


class WorkerH2(H2Protocol):  # type: ignore[misc]  # hypercorn is followed by no type checker
    """One HTTP/2 connection."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                _Codes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                _Codes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
                _Codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                _Codes.MAX_FRAME_SIZE: FRAME_BYTES,
            },
        )
        # h2 reads these when it is made, before the settings above are there.
        self.connection.max_inbound_frame_size = FRAME_BYTES
        self.connection.incoming_buffer = _Frames(server=True)
        # Heads of answers are made in `_send_head`, as they have to be; those of requests are held against the rules.
        self.connection.config = h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.connection.encoder = PlainEncoder()
        self._held: dict[int, bytes] = {}
        # Its default is 1000, and streams that are ending still count: a full connection would break.
        self.priority = priority.PriorityTree(maximum_streams=PRIORITY_STREAMS)

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        """Send the preface, and open the connection's window."""
        await super().initiate(headers, settings)
        self.connection.increment_flow_control_window(CONNECTION_WINDOW - _DEFAULT_WINDOW)
        await self._flush()

    async def handle(self, event: Any) -> None:
        """Take bytes in, or the end of them."""
        await super().handle(event)
        if isinstance(event, Closed):
            # An app that was writing waits for room in a buffer nobody will empty again: 0.18 leaves it waiting, with
            # the connection's task group around it.
            for buffer in list(self.stream_buffers.values()):
                await buffer.close()

    async def send_task(self) -> None:
        """Send what answers wait in their buffers, a stream after the other, whenever there is something."""
        while not self.closed:
            await self._send_held()
            try:
                stream_id = next(self.priority)
            except priority.DeadlockError:
                await self.has_data.wait()
                await self.has_data.clear()
            else:
                await self._send_data(stream_id)

    async def goodbye(self) -> None:
        """Tell the peer that no stream was lost, before the socket closes (GOAWAY)."""
        if not self.closed:
            with suppress(h2.exceptions.ProtocolError):
                self.connection.close_connection()
            await self._flush()

    async def stream_send(self, event: Any) -> None:
        """Take a piece of an answer. Its head waits for the first of its body: one write an answer, not three."""
        if isinstance(event, EndBody) and event.stream_id in self._held:
            await self._send_held(ended=event.stream_id)
            return
        if event.stream_id in self._held:
            await self._send_held()
        if isinstance(event, Response):
            self._send_head(event)
        elif isinstance(event, Body) and self._may_hold(event.stream_id, len(event.data)):
            # Its end usually follows at once and takes it along; else `send_task` does, in the loop's next turn.
            self._held[event.stream_id] = event.data
            await self.has_data.set()
        else:
            await super().stream_send(event)

    def _may_hold(self, stream_id: int, size: int) -> bool:
        """Whether a piece can go out whole, past the buffers: they are empty, and there is room at the client."""
        if any(buffer.buffer for buffer in self.stream_buffers.values()):
            return False
        with suppress(h2.exceptions.ProtocolError):
            room: int = self.connection.local_flow_control_window(stream_id) - sum(map(len, self._held.values()))
            return size <= min(room, int(self.connection.max_outbound_frame_size))
        return False

    async def _send_held(self, *, ended: int | None = None) -> None:
        """Send the pieces that are held; with the last one of ``ended`` goes its end."""
        if not self._held:
            return
        held, self._held = self._held, {}
        for stream_id, data in held.items():
            with suppress(h2.exceptions.ProtocolError):  # closed meanwhile
                self.connection.send_data(stream_id, data, end_stream=stream_id == ended)
        if ended is not None:
            self._forget(ended)
        await self._flush()

    def _forget(self, stream_id: int) -> None:
        self.stream_buffers.pop(stream_id, None)
        with suppress(priority.MissingStreamError):
            self.priority.remove_stream(stream_id)

    def _send_head(self, event: Any) -> None:
        fields = plain_fields([*event.headers, *self.config.response_headers("h2")])
        head = [(b":status", b"%d" % event.status_code), *fields]
        # Raised where the stream or the connection was closed meanwhile: nobody reads the answer.
        with suppress(h2.exceptions.ProtocolError):
            self.connection.send_headers(event.stream_id, head)

    async def _send_data(self, stream_id: int) -> None:
        """Send what one stream has and its window allows; the end of it in the same frame."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is None:
            self.priority.remove_stream(stream_id)
            return
        try:
            room = min(self.connection.local_flow_control_window(stream_id), self.connection.max_outbound_frame_size)
            data = await buffer.pop(max(0, room))
            ended = buffer.complete
            if data or ended:
                self.connection.send_data(stream_id, data, end_stream=ended)
                await self._flush()
            else:
                self.priority.block(stream_id)
        except h2.exceptions.ProtocolError:
            ended = True  # the stream or the connection was closed while this waited
        if ended:
            await buffer.close()
            self._forget(stream_id)

    async def _handle_events(self, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                await self._take(event)
            else:
                await super()._handle_events([event])

    async def _take(self, event: Any) -> None:
        """Hand a piece of a body over; drop it where the request was answered before its body had ended.

        0.18 looks such a stream up and breaks the connection. It is not reset either: a client that is told to stop
        sending may never read the answer.
        """
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            await stream.handle(Body(stream_id=event.stream_id, data=event.data))
        with suppress(h2.exceptions.ProtocolError):
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        await self._flush()
