"""`Relay`: a TCP relay on loopback that is far away: delay, rate, stalls and faults. In front of any server.

Real sockets and real time, on asyncio and trio; also a command::

    python -m seqrt.testing.relay --listen 9000 --to 8080 --up-ms 20 --down-ms 20 --up-mbit 20

Each direction is a bottleneck that all connections share, where bytes queue and flow off at a rate, and a delay line
behind it. Nothing is dropped: a full queue stops reading, and the sender feels it when the kernel's buffers are full.
Timers have a resolution of a millisecond and are rounded up (epoll): a delay comes out 0 to 1.5 ms longer than asked,
on an idle machine; a rate does not, since what is late is written together.

TCP's own behaviour over the distance (windows that grow a round trip at a time, retransmissions) does not show, since
TCP to the relay is on loopback. `window_model` puts a model of the sender's window in its place; say so with whatever
is measured with it.
"""

from __future__ import annotations

import logging
import math
import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final

import anyio
import anyio.abc

from seqrt.testing.durations import Durations
from seqrt.testing.leaving import cancelled
from seqrt.testing.outages import Direction, Stalls, checked_spans
from seqrt.testing.relay import sockets
from seqrt.testing.relay.connection import Channel, Connection
from seqrt.testing.relay.delays import Delays
from seqrt.testing.relay.schedule import Action, checked_schedule, in_turn
from seqrt.testing.relay.shaping import Shaping
from seqrt.testing.relay.statistics import RelayStatistics

logger = logging.getLogger(__name__)

QUEUE_BYTES: Final = 262_144
"""100 ms at 20 Mbit/s: a router's, and not a short one."""
BURST_S: Final = (0.2, 0.5)
"""How long a direction stands still when a segment was lost: from Linux's least timeout up."""


class Relay:
    """Relays TCP from a port of its own to ``target_port``, over a link that is as long, narrow and bad as asked.

    ``async with Relay(server.port, up_s=0.02, down_s=0.02) as relay:`` listens on ``relay.port``; leaving it closes
    every connection.

    Args:
        target_port: Where to.
        target_host: Where to.
        port: Where to listen; 0 for any free port.
        host: Address to listen on.
        up_s: One-way delay of each segment from client to target: a number, a sequence (the last value again and
            again) or a function. Order is kept: a segment waits for those before it.
        down_s: One-way delay from target to client.
        jitter_s: Up to this much more a segment, uniform, each way.
        up_bytes_per_s: Rate of the bottleneck to the target, for all connections together; None: no limit.
        down_bytes_per_s: Rate of the one to the clients.
        queue_bytes: The most that waits at a bottleneck. In front of it the relay's kernel hides 3 to 6 KB at 5
            Mbit/s, 9 to 13 KB at 20, 56 to 59 KB at 100 from a connection's sender (measured on Linux 6.18), and the
            sender's own kernel what it pleases: several hundred KB without SO_SNDBUF, as on a real link.
        stalls: ``(at_s, for_s)`` since the relay was entered: nothing gets through meanwhile; all of it does after.
        bursts_every_s: Mean time from one burst to the next, at random, in each direction by itself: what arrives
            stands still for 200 to 500 ms and then comes at once, in order, as when a segment was lost and sent
            again. None: none.
        window_model: Let a model of a sender's TCP window decide how much is read: ten segments to begin with, twice
            as much each round trip while it is used, back to ten in a pause; and let a connection take a round trip.
            Delays have to be numbers then.
        schedule: What else is done when, in seconds since the relay was entered: ``[(5.0, Relay.reset)]``,
            ``[(5.0, lambda relay: relay.set_rate("up", 125_000))]``.
        seed: Of the jitter and the bursts.

    Raises:
        ValueError: A time, rate or size that makes no sense.
    """

    def __init__(
        self,
        target_port: int,
        *,
        target_host: str = "127.0.0.1",
        port: int = 0,
        host: str = "127.0.0.1",
        up_s: Durations = 0.0,
        down_s: Durations = 0.0,
        jitter_s: float = 0.0,
        up_bytes_per_s: float | None = None,
        down_bytes_per_s: float | None = None,
        queue_bytes: int = QUEUE_BYTES,
        stalls: Stalls = (),
        bursts_every_s: float | None = None,
        window_model: bool = False,
        schedule: Sequence[tuple[float, Action[Relay]]] = (),
        seed: int = 0,
    ) -> None:
        if bursts_every_s is not None and not (math.isfinite(bursts_every_s) and bursts_every_s > 0):
            raise ValueError(f"bursts every {bursts_every_s!r} s: finite and above zero, or None for none")
        self._target_at, self._listen_at = (target_host, target_port), (host, port)
        self._seed, self._window_model = seed, window_model
        self._delays = Delays(jitter_s, seed, numbers=window_model)
        self._channels: dict[Direction, Channel] = {
            "up": Channel(Shaping(float, up_bytes_per_s, queue_bytes), lambda: self._delays.number_s("down")),
            "down": Channel(Shaping(float, down_bytes_per_s, queue_bytes), lambda: self._delays.number_s("up")),
        }
        self.set_delay("up", up_s)
        self.set_delay("down", down_s)
        stalled = in_turn(checked_spans(stalls), Relay.stall, Relay.resume)
        self._schedule = checked_schedule([*schedule, *stalled])
        self._bursts_every_s = bursts_every_s
        self._tasks: anyio.abc.TaskGroup | None = None
        self._held = ExitStack()
        self._target: sockets.Address | None = None
        self._place: sockets.Address | None = None
        self._listener: socket.socket | None = None
        self._connections: set[Connection] = set()
        self._breaks = 0
        self._connected = self._resets = self._bursts = 0

    @property
    def port(self) -> int:
        """The port it listens on. RuntimeError before it was entered."""
        if self._place is None:
            raise RuntimeError("enter the Relay first: async with Relay(...) as relay:")
        return self._place[1][1]

    async def __aenter__(self) -> Relay:
        """Listen, in a task group of the caller's task.

        Raises:
            OSError: There is no such target, or the port is taken.
        """
        self._target = await sockets.resolved(*self._target_at)
        family, place = await sockets.resolved(*self._listen_at)
        keeper = self._held.enter_context(sockets.bound((family, place)))  # has the port while nobody listens
        self._place = (family, keeper.getsockname()[:2])
        self._tasks = await anyio.create_task_group().__aenter__()
        self.listen()
        self._tasks.start_soon(self._follow, anyio.current_time(), name="relay schedule")
        if self._bursts_every_s is not None:
            for direction, channel in self._channels.items():
                rng = random.Random(f"bursts {direction} {self._seed}")
                self._tasks.start_soon(self._burst, channel, self._bursts_every_s, rng, name="relay bursts")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection and stop listening."""
        if self._tasks is None:
            return
        tasks, self._tasks = self._tasks, None
        with self._held:
            await cancelled(tasks, exc_type, exc_value, traceback)

    def stall(self) -> None:
        """Let nothing through, in either direction, until `resume`: a link that went silent."""
        for channel in self._channels.values():
            channel.shaping.stall(anyio.current_time())
            channel.notify()

    def resume(self) -> None:
        """Let what waited through, and all that comes."""
        for channel in self._channels.values():
            channel.shaping.resume(anyio.current_time())
            channel.notify()

    def reset(self) -> None:
        """Break every connection at both ends at once (RST). New ones are taken."""
        self._breaks += 1
        for connection in list(self._connections):
            connection.reset()

    def reset_after(self, size_bytes: int, direction: Direction = "up") -> None:
        """Break the connection that delivers the next ``size_bytes``, after the last of them: within a body, say."""
        if size_bytes <= 0:
            raise ValueError(f"reset_after({size_bytes}): at least one byte; reset() breaks connections now")
        self._channels[direction].reset_after_bytes = size_bytes

    def half_open(self, direction: Direction | None = None) -> None:
        """Swallow what arrives, in one direction or both, until `mend`: sockets stay open and nobody is told.

        The relay goes on reading, so that sends succeed, as far as the rate and the window model let them. A
        connection that lost something stays so, since a stream with a hole in it is no use; others, and new ones, are
        whole after `mend`. Connections can be made meanwhile.
        """
        for name in self._channels if direction is None else [direction]:
            self._channels[name].swallows = True

    def mend(self) -> None:
        """Deliver what arrives again, after `half_open`."""
        for channel in self._channels.values():
            channel.swallows = False

    def refuse(self) -> None:
        """Break every connection and refuse new ones at once, until `listen`: the server is gone."""
        if self._listener is not None:
            sockets.unlisten(self._listener)
            self._listener = None
        self.reset()

    def listen(self) -> None:
        """Take connections again, on the same port: the server is back."""
        if self._tasks is None or self._place is None:
            raise RuntimeError("enter the Relay first: async with Relay(...) as relay:")
        if self._listener is None:
            self._listener = sockets.listening(self._place, self._channels["up"].buffer_bytes)
            self._tasks.start_soon(self._accept, self._listener, name=f"relay {self.port}")

    def set_rate(self, direction: Direction, bytes_per_s: float | None) -> None:
        """Go on at another rate, for what waits too; None: no limit."""
        channel = self._channels[direction]
        channel.shaping.set_rate(anyio.current_time(), bytes_per_s)
        channel.notify()
        for connection in self._connections:
            connection.fit_buffers()

    def set_delay(self, direction: Direction, delay_s: Durations) -> None:
        """Go on with another delay, for what is read from now on; it stays behind what was read before.

        Raises:
            ValueError: A delay that is negative or not finite, or no number with ``window_model``.
        """
        self._channels[direction].shaping.draw = self._delays.script(direction, delay_s)

    def statistics(self) -> RelayStatistics:
        """What went through so far, as a snapshot."""
        up, down = self._channels["up"], self._channels["down"]
        return RelayStatistics(
            connections=self._connected,
            open=len(self._connections),
            bytes_up=up.delivered_bytes,
            bytes_down=down.delivered_bytes,
            resets=self._resets,
            swallowed_bytes=up.swallowed_bytes + down.swallowed_bytes,
            bursts=self._bursts,
            most_queued_up_bytes=up.shaping.most_queued_bytes,
            most_queued_down_bytes=down.shaping.most_queued_bytes,
        )

    async def _accept(self, listener: socket.socket) -> None:
        with listener:
            while listener is self._listener:
                try:
                    client = await sockets.accept(listener)
                except OSError:
                    if listener is self._listener:
                        raise
                    return
                assert self._tasks is not None
                self._tasks.start_soon(self._relay, client, self._breaks, name="relay connection")

    async def _relay(self, client: socket.socket, breaks: int) -> None:
        self._connected += 1
        assert self._target is not None
        with client:
            try:
                target = await sockets.connect(
                    self._target, self._channels["down"].buffer_bytes
                )  # no deadline: the kernel's, as for any client
            except OSError as error:
                logger.warning("relay: nobody at %s:%d (%s)", *self._target_at, error)
                sockets.abort_on_close(client)
                self._resets += 1
                return
            with target:
                if self._breaks != breaks:  # all were broken while this one was being made
                    sockets.abort_on_close(client)
                    sockets.abort_on_close(target)
                    self._resets += 1
                    return
                await self._run(Connection(client, target, *self._channels.values(), window_model=self._window_model))

    async def _run(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._resets += connection.broken

    async def _follow(self, entered_s: float) -> None:
        for at_s, action in self._schedule:
            await anyio.sleep_until(entered_s + at_s)
            action(self)

    async def _burst(self, channel: Channel, every_s: float, rng: random.Random) -> None:
        while True:
            await anyio.sleep(rng.expovariate(1 / every_s))
            channel.shaping.begin_burst()
            self._bursts += 1
            await anyio.sleep(rng.uniform(*BURST_S))
            channel.shaping.end_burst()
            channel.notify()
