"""One relayed connection: four tasks that read, wait and write, as `seqrt.testing.relay.shaping` says."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel

from seqrt.testing.relay import sockets
from seqrt.testing.relay.shaping import Shaping, Way
from seqrt.testing.relay.window import SenderWindow

RESET: Final = "reset"


class Channel:
    """One direction of the link as the connections' tasks see it.

    Args:
        shaping: What is due when.
        back_s: Gives the other direction's delay: how long an acknowledgement takes.

    Attributes:
        shaping: As given.
        back_s: As given.
        swallows: What arrives is dropped (half open).
        reset_after_bytes: The connection that delivers so many more bytes is reset after the last of them.
        delivered_bytes: How much was delivered.
        swallowed_bytes: How much was dropped.
    """

    def __init__(self, shaping: Shaping, back_s: Callable[[], float]) -> None:
        self.shaping = shaping
        self.back_s = back_s
        self.swallows = False
        self.reset_after_bytes: int | None = None
        self.delivered_bytes = self.swallowed_bytes = 0
        self._changed = anyio.Event()

    @property
    def buffer_bytes(self) -> int:
        """The receive buffer of its senders' sockets."""
        return sockets.buffer_bytes(self.shaping.bytes_per_s)

    def notify(self) -> None:
        """Something about it changed: have who waits look again."""
        self._changed.set()
        self._changed = anyio.Event()

    async def changed(self, until_s: float) -> None:
        """Wait for `notify`, until the loop's time ``until_s``."""
        with anyio.CancelScope(deadline=until_s):
            await self._changed.wait()

    def cut(self, data: bytes) -> tuple[bytes, bool]:
        """What of ``data`` may be delivered, and whether the connection is to be reset then."""
        if self.reset_after_bytes is None:
            return data, False
        data = data[: self.reset_after_bytes]
        self.reset_after_bytes -= len(data)
        if self.reset_after_bytes:
            return data, False
        self.reset_after_bytes = None
        return data, True


class _Lane:
    """One direction of one connection."""

    def __init__(
        self, channel: Channel, source: socket.socket, sink: socket.socket, window: SenderWindow | None
    ) -> None:
        self.channel = channel
        self.source, self.sink = source, sink
        self.way = Way(channel.shaping, window)

    def end_with_reset(self) -> None:
        """Have the receiver told, in its turn, that the connection is gone."""
        self.way.hand_over(anyio.current_time(), b"", RESET)
        self.channel.notify()


class Connection:
    """A client's connection and the relay's own to the target.

    Args:
        client: Its socket.
        target: Its socket.
        up: The direction to the target.
        down: The direction to the client.
        window_model: Model the senders' windows, and the round trip a handshake takes.

    Attributes:
        broken: It ended with a reset.
    """

    def __init__(
        self, client: socket.socket, target: socket.socket, up: Channel, down: Channel, *, window_model: bool
    ) -> None:
        self.broken = False
        self._sockets = (client, target)
        self._up = _Lane(up, client, target, SenderWindow() if window_model else None)
        self._down = _Lane(down, target, client, SenderWindow() if window_model else None)
        self._handshake_s = up.back_s() + down.back_s() if window_model else 0.0
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Relay, until both directions are at an end."""
        with self._scope:
            await anyio.sleep(self._handshake_s)
            async with anyio.create_task_group() as pumps:
                for lane, other in ((self._up, self._down), (self._down, self._up)):
                    pumps.start_soon(self._read, lane)
                    pumps.start_soon(self._write, lane, other)

    def fit_buffers(self) -> None:
        """Give the sockets the receive buffers that the rates ask for."""
        for lane in (self._up, self._down):
            sockets.set_buffer(lane.source, lane.channel.buffer_bytes)

    def reset(self) -> None:
        """Break it at both ends at once."""
        self.broken = True
        for end in self._sockets:
            sockets.abort_on_close(end)
        self._scope.cancel()

    async def _read(self, lane: _Lane) -> None:
        data = b"?"
        while data:
            try:
                data = await self._receive(lane)
            except OSError:
                lane.end_with_reset()
                return
            lane.way.hand_over(anyio.current_time(), data, None if data else "closed")
            lane.channel.notify()

    async def _receive(self, lane: _Lane) -> bytes:
        """What the sender has sent, as far as there is room for it; b"" at its end."""
        while True:
            await anyio.lowlevel.checkpoint()
            now_s = anyio.current_time()
            room_bytes = lane.way.room_bytes(now_s)
            if not room_bytes:
                await lane.channel.changed(lane.way.room_at_s(now_s))
                continue
            try:
                return lane.source.recv(room_bytes)
            except BlockingIOError:
                await anyio.wait_readable(lane.source)

    async def _write(self, lane: _Lane, other: _Lane) -> None:
        gone, end = False, None
        while end is None:
            data, end = lane.way.take(anyio.current_time())
            if not data and end is None:
                await lane.channel.changed(lane.way.due_s())
            elif lane.channel.swallows or lane.way.hole:
                lane.way.hole = True
                lane.channel.swallowed_bytes += len(data)
                self._drop(lane, data)
            elif gone:
                self._drop(lane, data)
            elif not await self._deliver(lane, data):
                gone = True
                other.end_with_reset()
        if not (gone or lane.way.hole):
            self._end(lane.sink, end)

    async def _deliver(self, lane: _Lane, data: bytes) -> bool:
        """Write ``data``; False where the receiver is gone."""
        data, reset = lane.channel.cut(data)
        try:
            await sockets.send_all(lane.sink, data)
        except OSError:
            self._drop(lane, data)
            return False
        lane.channel.delivered_bytes += len(data)
        lane.way.delivered(len(data), anyio.current_time() + lane.channel.back_s())
        lane.channel.notify()
        if reset:
            self.reset()
        return True

    def _drop(self, lane: _Lane, data: bytes) -> None:
        lane.way.dropped(len(data))
        lane.channel.notify()

    def _end(self, sink: socket.socket, end: str) -> None:
        if end == RESET:
            self.reset()
        else:
            with contextlib.suppress(OSError):  # it is gone, which its reader finds
                sink.shutdown(socket.SHUT_WR)
