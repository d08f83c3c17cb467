"""`LinkTransport`: an ASGI app behind a network, without sockets, so that it runs in virtual time.

``httpx.ASGITransport`` is kinder than a network: it cancels the app's call with the request, says HTTP/1.1 and hands
bodies over whole and at once. Here the app's call runs in a task of its own and nothing the client does cancels it;
bodies arrive in pieces cut at random places; each direction takes its time, keeps one connection's order, and breaks
when a script says so.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
import httpx

from seqrt.link.heard import LINE, heard, opened, sent
from seqrt.testing.durations import Durations, drawn
from seqrt.testing.exchange import AnswerBody, Exchange, Message
from seqrt.testing.leaving import cancelled
from seqrt.testing.line import Line
from seqrt.testing.outages import Direction, Kind, Stalls, checked_outages

SOCKET_BUFFER_BYTES: Final = 65_536
FRAME_BYTES: Final = 262_144
"""Of a body at most this much goes over before the others' turn comes: what our worker allows an HTTP/2 frame."""

App = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

Delivery = tuple[Callable[[], None], int]
"""What happens when something arrives, and its size in bytes."""


@dataclass(frozen=True)
class LinkStatistics:
    """What went through so far.

    Attributes:
        requests: Requests the client sent; ``requests_to`` has them by path.
        answers: Answers whose last byte reached the client.
        under_way: Requests the client still waits for.
        handlers: Calls of the app that have not returned.
        bytes_up: Bytes of request bodies sent.
        bytes_down: Bytes of answer bodies sent.
        lost: Requests, answers or parts of them that were lost.
        broken: Requests that ended with an exception of httpx.
    """

    requests: int
    requests_to: Mapping[str, int]
    answers: int
    under_way: int
    handlers: int
    bytes_up: int
    bytes_down: int
    lost: int
    broken: int


class LinkTransport(httpx.AsyncBaseTransport):
    """An httpx transport that runs an ASGI app at the far end of a scripted network.

    Enter it (``async with LinkTransport(app, up_s=0.0203) as link:``) around the client: it owns the app's tasks and
    cancels those left over when it is left. ``httpx.AsyncClient`` enters its transport once more; the first one in
    and last one out counts, and has to be one task. On asyncio and trio, in virtual and in real time. There is no
    handshake, no ASGI lifespan and no flow control: `seqrt.testing.relay` has real TCP.

    With a rate, each direction has a bottleneck at its sender's end: the bytes of bodies queue there, all requests in
    one queue, and flow off one after the other (heads weigh nothing). What a kernel would show the sender shows here:
    bodies go over in frames, and a body's next part is taken once no more than ``socket_buffer_bytes`` wait. A stall
    holds the bottleneck too; "silent" loses things only where they would arrive, and the sender feels nothing of it.

    Two messages of different requests are delivered at least 1 µs apart, so that their order holds on trio too.
    Choose delays that lie off the tick grid (0.0203 s, not 0.02 s).

    Args:
        app: The ASGI app. Its attribute may be assigned: a worker that was restarted.
        up_s: One-way delay of each request, in seconds: a number, a sequence (the last value again and again) or a
            function.
        down_s: One-way delay of each answer.
        in_order: Keep one connection's order in each direction. False: independent delays, as over many connections.
        up_bytes_per_s: How fast bytes get away from the client; None: no limit. `set_rate` changes it.
        down_bytes_per_s: How fast they get away from the app.
        socket_buffer_bytes: How many bytes of what was handed over wait at the bottleneck before its sender does.
        outages: ``(start_s, end_s, kind)``, in seconds since the link was entered, one after the other; ``kind`` as
            in `Kind`. ``end_s`` may be ``math.inf``.
        stalls: ``(at_s, for_s)``, more outages of the kind "stalled", e.g. from `stalls_at_random`.
        lose_request: Called with each request: True and it never arrives; no answer comes, no error either.
        lose_answer: Called with each request when its answer begins: True and the app has done its work, but the
            answer never arrives.
        seed: Of the places bodies are cut at.

    Attributes:
        app_errors: What the app raised. The client got a bare 500, or, when the answer had begun,
            ``httpx.RemoteProtocolError``.

    Raises:
        ValueError: A duration that is negative or not finite; outages that overlap or have no such kind.
    """

    def __init__(
        self,
        app: App,
        *,
        up_s: Durations = 0.0,
        down_s: Durations = 0.0,
        in_order: bool = True,
        up_bytes_per_s: float | None = None,
        down_bytes_per_s: float | None = None,
        socket_buffer_bytes: int = SOCKET_BUFFER_BYTES,
        outages: Sequence[tuple[float, float, Kind]] = (),
        stalls: Stalls = (),
        lose_request: Callable[[httpx.Request], bool] | None = None,
        lose_answer: Callable[[httpx.Request], bool] | None = None,
        seed: int = 0,
    ) -> None:
        self.app = app
        self.app_errors: list[Exception] = []
        self._draw_up, self._draw_down = drawn(up_s), drawn(down_s)
        self._up = Line(in_order=in_order, bytes_per_s=up_bytes_per_s)
        self._down = Line(in_order=in_order, bytes_per_s=down_bytes_per_s)
        self._writing_up = anyio.Lock()
        self._socket_buffer_bytes = socket_buffer_bytes
        self._outages = checked_outages(outages, stalls)
        self._lose_request, self._lose_answer = lose_request, lose_answer
        self._rng = random.Random(seed)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._entered = 0
        self._outage: Kind | None = None
        self._under_way: set[Exchange] = set()
        self._handlers: set[Exchange] = set()
        self._connections: set[Any] = set()  # by the extension LINE of their requests
        self._half_open: set[Any] = set()
        self._requests_to: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()

    async def __aenter__(self) -> LinkTransport:
        """Start the network: everything runs in a task group of the caller's task."""
        if self._entered == 0:
            self._tasks = await anyio.create_task_group().__aenter__()
            self._tasks.start_soon(self._up.run, name="link up")
            self._tasks.start_soon(self._down.run, name="link down")
            if self._outages:
                self._tasks.start_soon(self._follow_outages, anyio.current_time(), name="link outages")
        self._entered += 1
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Cancel the handlers that still run, and stop."""
        self._entered -= 1
        if self._entered == 0 and self._tasks is not None:
            tasks, self._tasks = self._tasks, None
            await cancelled(tasks, exc_type, exc_value, traceback)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and wait for the head of its answer. Called by httpx."""
        if self._tasks is None:
            raise RuntimeError("enter the LinkTransport first: async with LinkTransport(app) as link:")
        exchange = Exchange(self._requests_to.total(), request)
        self._requests_to[request.url.path] += 1
        self._under_way.add(exchange)
        try:
            await self._refuse_in_outage()
            self._open(request)
            await self._send_request(exchange)
            head = await self._next_message(exchange)
        except BaseException as error:
            self._let_go(exchange, error)
            raise
        return httpx.Response(
            head["status"],
            headers=list(head.get("headers", [])),
            stream=AnswerBody(lambda: self._next_message(exchange), lambda: self._let_go(exchange, None)),
            extensions={"http_version": b"HTTP/2", "stream_id": 2 * exchange.number + 1},
        )

    def begin_outage(self, kind: Kind) -> None:
        """From now on the connection fails, until `end_outage`; an outage that was on is over."""
        self.end_outage()
        self._outage = kind
        if kind == "stalled":
            self._up.stall()
            self._down.stall()
        elif kind == "half-open":
            self._half_open |= self._connections
        elif kind == "silent":
            self._up.open = self._down.open = False
        else:
            self._break_all(kind)

    def end_outage(self) -> None:
        """The network is well again."""
        self._outage = None
        self._up.open = self._down.open = True
        self._up.resume()
        self._down.resume()

    def set_rate(self, direction: Direction, bytes_per_s: float | None) -> None:
        """Let bytes through at another rate from now on, those that wait too; None: no limit."""
        (self._up if direction == "up" else self._down).set_rate(bytes_per_s)

    def statistics(self) -> LinkStatistics:
        """What went through so far, as a snapshot."""
        return LinkStatistics(
            requests=self._requests_to.total(),
            requests_to=dict(self._requests_to),
            answers=self._counted["answers"],
            under_way=len(self._under_way),
            handlers=len(self._handlers),
            bytes_up=self._counted["bytes_up"],
            bytes_down=self._counted["bytes_down"],
            lost=self._up.lost + self._down.lost + self._counted["lost"],
            broken=self._counted["broken"],
        )

    # The client's end.

    def _open(self, request: httpx.Request) -> None:
        line = request.extensions.get(LINE)
        if line not in self._connections:
            self._connections.add(line)
            opened(request.extensions, None)

    async def _refuse_in_outage(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._outage in ("refused", "reset", "closed"):
            error = _error_of(self._outage)
            await anyio.sleep(self._draw_up() + self._draw_down())
            if self._outage == "refused":
                raise httpx.ConnectError("All connection attempts failed") from ConnectionRefusedError()
            raise error

    async def _send_request(self, exchange: Exchange) -> None:
        exchange.up_s = self._draw_up()
        exchange.request_lost = self._lose_request is not None and self._lose_request(exchange.request)
        self._counted["lost"] += exchange.request_lost
        await self._write(exchange, [(lambda: self._start_handler(exchange), 0)])
        assert isinstance(exchange.request.stream, httpx.AsyncByteStream)
        async for part in exchange.request.stream:
            self._counted["bytes_up"] += len(part)
            for start in range(0, len(part), FRAME_BYTES):
                await self._write(exchange, self._in_pieces(exchange, part[start : start + FRAME_BYTES]))
            if exchange.broken:
                return
        end: Message = {"type": "http.request", "body": b"", "more_body": False}
        await self._write(exchange, [(partial(exchange.at_app.put, end), 0)])
        sent(exchange.request.extensions)

    async def _write(self, exchange: Exchange, deliveries: list[Delivery]) -> None:
        """Hand over to the kernel: with a rate, one writer after the other, each until its bytes are in the buffer."""
        if self._up.bytes_per_s is None and not self._writing_up.locked():
            self._carry_up(exchange, deliveries)
            return
        async with self._writing_up:
            self._carry_up(exchange, deliveries)
            await self._up.room(self._socket_buffer_bytes)

    def _in_pieces(self, exchange: Exchange, frame: bytes) -> list[Delivery]:
        pieces = self._cut(frame)
        messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        return [(partial(exchange.at_app.put, message), len(message["body"])) for message in messages]

    def _carry_up(self, exchange: Exchange, deliveries: list[Delivery]) -> None:
        if exchange.broken:
            return
        for deliver, size_bytes in deliveries:
            arrive = _nowhere if exchange.request_lost else partial(self._arrive, exchange, deliver, at_client=False)
            self._up.carry(arrive, stream=exchange.number, delay_s=exchange.up_s, size_bytes=size_bytes)

    def _arrive(self, exchange: Exchange, deliver: Callable[[], None], *, at_client: bool) -> None:
        if exchange.request.extensions.get(LINE) in self._half_open:
            self._counted["lost"] += 1
            return
        if at_client:
            heard(exchange.request.extensions)
        deliver()

    async def _next_message(self, exchange: Exchange) -> Message:
        read_s = exchange.request.extensions.get("timeout", {}).get("read")
        with anyio.move_on_after(read_s):
            return await exchange.at_client.get()
        raise httpx.ReadTimeout("")

    def _let_go(self, exchange: Exchange, error: BaseException | None) -> None:
        """The client is done with it, or gave it up; the app is not told."""
        if exchange in self._under_way:
            self._under_way.remove(exchange)
            self._counted["broken"] += isinstance(error, httpx.TransportError)
            self._up.forget(exchange.number)

    # The app's end.

    def _start_handler(self, exchange: Exchange) -> None:
        if self._tasks is not None:
            self._handlers.add(exchange)
            self._tasks.start_soon(self._serve, exchange, name=f"app {exchange.request.url.path}")

    async def _serve(self, exchange: Exchange) -> None:
        async def send(message: Message) -> None:
            await anyio.lowlevel.checkpoint()
            self._send_answer(exchange, message)
            await self._down.room(self._socket_buffer_bytes)

        with exchange.handler:
            try:
                await self.app(exchange.scope(), exchange.receive, send)
            except Exception as error:  # as a server does: the request ends with it, the server lives on
                self.app_errors.append(error)
        self._handlers.discard(exchange)
        if not exchange.complete:
            self._end_unanswered(exchange)

    def _end_unanswered(self, exchange: Exchange) -> None:
        """The app returned or raised before its answer was whole."""
        if exchange.began:
            broken = httpx.RemoteProtocolError("<StreamReset stream_id:1, error_code:2, remote_reset:True>")
            self._carry_down(exchange, lambda: exchange.at_client.fail(broken))
        else:
            self._send_answer(exchange, {"type": "http.response.start", "status": 500, "headers": []})
            self._send_answer(exchange, {"type": "http.response.body", "body": b"Internal Server Error"})

    def _send_answer(self, exchange: Exchange, message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.began = True
            exchange.down_s = self._draw_down()
            exchange.answer_lost = self._lose_answer is not None and self._lose_answer(exchange.request)
            self._counted["lost"] += exchange.answer_lost
            self._carry_down(exchange, lambda: exchange.at_client.put(message))
        elif message["type"] == "http.response.body":
            self._send_body(exchange, message.get("body", b""), more=message.get("more_body", False))

    def _send_body(self, exchange: Exchange, body: bytes, *, more: bool) -> None:
        self._counted["bytes_down"] += len(body)
        pieces = self._cut(body) if exchange.request.method != "HEAD" else []
        for piece in pieces:
            self._carry_down(exchange, partial(exchange.at_client.put, _body(piece, more=True)), len(piece))
        if not more:
            exchange.complete = True
            exchange.over.set()
            self._carry_down(exchange, lambda: self._answered(exchange))

    def _answered(self, exchange: Exchange) -> None:
        exchange.at_client.put(_body(b"", more=False))
        self._counted["answers"] += exchange in self._under_way
        self._down.forget(exchange.number)

    def _carry_down(self, exchange: Exchange, deliver: Callable[[], None], size_bytes: int = 0) -> None:
        if not exchange.broken:
            arrive = _nowhere if exchange.answer_lost else partial(self._arrive, exchange, deliver, at_client=True)
            self._down.carry(arrive, stream=exchange.number, delay_s=exchange.down_s, size_bytes=size_bytes)

    def _cut(self, body: bytes) -> list[bytes]:
        """``body`` in one to four pieces of at least a byte."""
        places = sorted({self._rng.randrange(1, len(body)) for _ in range(self._rng.randrange(4))} if body[1:] else ())
        return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True) if start < end]

    # Outages.

    async def _follow_outages(self, entered_s: float) -> None:
        for start_s, end_s, kind in self._outages:
            await anyio.sleep_until(entered_s + start_s)
            self.begin_outage(kind)
            await anyio.sleep_until(entered_s + end_s)
            self.end_outage()

    def _break_all(self, kind: Kind) -> None:
        self._up.clear()
        self._down.clear()
        for exchange in self._under_way | self._handlers:
            exchange.break_off(_error_of(kind))
            if kind == "refused":
                exchange.handler.cancel()


def _nowhere() -> None:
    """Where lost things arrive."""


def _body(piece: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


def _error_of(kind: Kind) -> httpx.TransportError:
    """What httpx raises for a request under way when its connection goes."""
    return httpx.RemoteProtocolError("Server disconnected") if kind == "closed" else httpx.ReadError("")
