"""What a relay does to a connection: rates, faults, and that what does come is what was sent, in order."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from echoing import GONE, HANG_S, connect, echoing, receive_all, until

from seqrt.testing.fixtures import relayed  # noqa: F401
from seqrt.testing.relay import Relay

pytestmark = pytest.mark.anyio
RATE = 1_000_000.0


async def send(stream: SocketStream, body: bytes) -> None:
    """Send, as far as the connection lives."""
    try:
        await stream.send(body)
    except GONE:
        return


async def test_what_was_sent_comes_back_in_order_under_every_fault_that_loses_nothing() -> None:
    body = random.Random(1).randbytes(200_000)
    async with echoing() as echo:
        bad = Relay(
            echo.port,
            up_s=[0.02, 0.0, 0.01, 0.0],
            down_s=0.005,
            jitter_s=0.01,
            up_bytes_per_s=RATE,
            down_bytes_per_s=2 * RATE,
            queue_bytes=20_000,
            stalls=[(0.05, 0.1), (0.2, 0.03)],
            bursts_every_s=0.1,
            schedule=[
                (0.1, lambda relay: relay.set_rate("up", 3 * RATE)),
                (0.12, lambda relay: relay.set_delay("up", 0.0)),
            ],
            seed=5,
        )
        async with bad as relay, await connect(relay) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, body)
            assert await receive_all(stream, len(body)) == body
            assert relay.statistics().bursts > 0
            assert relay.statistics().swallowed_bytes == relay.statistics().resets == 0


async def test_nothing_comes_faster_than_the_rate_allows_whoever_sends_it() -> None:
    came = 0

    async def one(relay: Relay, began_s: float) -> None:
        nonlocal came
        async with await connect(relay) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, bytes(100_000))
            mine = 0
            while mine < 100_000:
                size = len(await stream.receive())
                mine, came = mine + size, came + size
                assert came <= RATE * (time.perf_counter() - began_s - 0.02)

    async with echoing() as echo, Relay(echo.port, up_s=0.02, up_bytes_per_s=RATE) as relay:
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as tasks:
                began_s = time.perf_counter()
                for _ in range(3):
                    tasks.start_soon(one, relay, began_s)
    assert came == 300_000


async def test_the_way_back_has_a_rate_of_its_own() -> None:
    async with echoing() as echo, Relay(echo.port, down_bytes_per_s=RATE) as relay, await connect(relay) as stream:
        began_s = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, bytes(100_000))
            await receive_all(stream, 100_000)
        assert time.perf_counter() - began_s >= 0.1


async def test_a_queue_holds_no_more_than_it_is_allowed_and_its_sender_waits() -> None:
    async with AsyncExitStack() as stack:
        echo = await stack.enter_async_context(echoing())
        relay = await stack.enter_async_context(Relay(echo.port, up_bytes_per_s=10_000.0, queue_bytes=50_000))
        stream = await stack.enter_async_context(await connect(relay))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(stream.send, bytes(8 * 2**20))
        await until(lambda: relay.statistics().most_queued_up_bytes > 45_000)
        with anyio.move_on_after(0.1) as receiving:
            await receive_all(stream, 8 * 2**20)
        assert receiving.cancelled_caught
        assert relay.statistics().most_queued_up_bytes <= 50_000
        tasks.cancel_scope.cancel()


async def test_another_rate_holds_for_what_waits() -> None:
    body = random.Random(2).randbytes(100_000)
    async with AsyncExitStack() as stack:
        echo = await stack.enter_async_context(echoing())
        relay = await stack.enter_async_context(Relay(echo.port, up_bytes_per_s=10.0))
        stream = await stack.enter_async_context(await connect(relay))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(stream.send, body)
        await until(lambda: relay.statistics().most_queued_up_bytes > 0)
        relay.set_rate("up", None)
        assert await receive_all(stream, len(body)) == body  # at 10 bytes/s: in three hours


async def test_another_delay_holds_for_what_comes() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        relay.set_delay("down", 0.05)
        began_s = time.perf_counter()
        await stream.send(b"a")
        await receive_all(stream, 1)
        assert time.perf_counter() - began_s >= 0.05


async def test_half_open_swallows_all_and_nobody_is_told_and_a_new_connection_is_whole() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        await stream.send(b"a")
        assert await receive_all(stream, 1) == b"a"
        relay.half_open()
        await stream.send(b"bc")
        await until(lambda: relay.statistics().swallowed_bytes == 2)
        relay.mend()
        await stream.send(b"d")
        await until(lambda: relay.statistics().swallowed_bytes == 3)
        assert (bytes(echo.received), echo.ends) == (b"a", [])
        async with await connect(relay) as other:
            await other.send(b"e")
            assert await receive_all(other, 1) == b"e"
        assert relay.statistics().resets == 0


async def test_half_open_in_one_direction_lets_the_other_through() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        relay.half_open("down")
        await stream.send(b"ab")
        await until(lambda: relay.statistics().swallowed_bytes == 2)
        assert bytes(echo.received) == b"ab"
        with anyio.move_on_after(0.05) as waiting:
            await stream.receive()
        assert waiting.cancelled_caught


async def test_half_open_the_server_never_hears_that_its_client_is_gone() -> None:
    async with echoing() as echo, Relay(echo.port) as relay:
        relay.half_open("up")
        async with await connect(relay) as stream:
            await stream.send(b"a")
        await until(lambda: relay.statistics().swallowed_bytes == 1)
        async with await connect(relay) as other:  # by now the end of the first has come, too
            await other.send(b"b")
            await until(lambda: relay.statistics().swallowed_bytes == 2)
            assert (echo.ends, relay.statistics().open) == ([], 2)


async def test_refused_means_that_nobody_listens_until_the_server_is_back_on_its_port() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        await stream.send(b"a")
        await receive_all(stream, 1)
        port = relay.port
        relay.refuse()
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await connect_once(port)
        with anyio.fail_after(HANG_S), pytest.raises(GONE):
            await stream.receive()
        relay.listen()
        async with await connect(relay) as again:
            await again.send(b"b")
            assert await receive_all(again, 1) == b"b"
        assert (relay.port, relay.statistics().resets) == (port, 1)


async def test_a_connection_that_is_still_being_made_is_broken_with_the_others() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        while not relay.statistics().connections:
            await anyio.lowlevel.checkpoint()
        relay.refuse()
        with anyio.fail_after(HANG_S), pytest.raises(GONE):
            await stream.receive()


async def connect_once(port: int) -> None:
    try:
        async with await anyio.connect_tcp("127.0.0.1", port):
            pass
    except OSError as error:
        cause = error if isinstance(error, ConnectionRefusedError) else error.__cause__
        raise ConnectionRefusedError from cause if isinstance(cause, ConnectionRefusedError) else error


async def test_a_reset_after_so_many_bytes_hits_the_middle_of_a_body() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        relay.reset_after(50_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, stream, b"x" * 200_000)
            with pytest.raises(anyio.BrokenResourceError):
                await receive_all(stream, 200_000)
        await until(lambda: echo.ends == ["BrokenResourceError"])
        assert len(echo.received) <= 50_000
        assert (relay.statistics().bytes_up, relay.statistics().resets) == (50_000, 1)
        async with await connect(relay) as other:
            await other.send(b"b")
            assert await receive_all(other, 1) == b"b"


async def test_a_target_that_resets_is_told_with_the_delay() -> None:
    async def slam(stream: SocketStream) -> None:
        await stream.receive()
        linger = struct.pack("ii", 1, 0)
        stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await stream.aclose()

    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(listener.serve, slam)
        relay = await stack.enter_async_context(Relay(listener.extra(SocketAttribute.local_port), down_s=0.05))
        stream = await stack.enter_async_context(await connect(relay))
        began_s = time.perf_counter()
        await stream.send(b"a")
        with anyio.fail_after(HANG_S), pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
        assert time.perf_counter() - began_s >= 0.05
        tasks.cancel_scope.cancel()


async def test_the_schedule_does_each_thing_in_its_turn() -> None:
    done: list[str] = []

    def note(name: str, relay: Relay) -> None:
        done.append(name)

    schedule = [(0.02, partial(note, "second")), (0.0, partial(note, "first")), (0.03, Relay.refuse)]
    async with echoing() as echo, Relay(echo.port, schedule=schedule) as relay, await connect(relay) as stream:
        with anyio.fail_after(HANG_S), pytest.raises(GONE):
            await stream.receive()
        assert done == ["first", "second"]
        with pytest.raises(ConnectionRefusedError):
            await connect_once(relay.port)


async def test_with_the_window_model_a_body_takes_its_round_trips() -> None:
    async with echoing() as echo, Relay(echo.port, up_s=0.03, down_s=0.03, window_model=True) as relay:
        began_s = time.perf_counter()
        async with await connect(relay) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, bytes(24_000))
            await receive_all(stream, 24_000)
        # One to connect, one until the window opens to the rest, and one there and back.
        assert time.perf_counter() - began_s >= 3 * 0.06


async def test_a_half_open_link_stops_a_sender_with_the_window_model() -> None:
    async with AsyncExitStack() as stack:
        echo = await stack.enter_async_context(echoing())
        relay = await stack.enter_async_context(Relay(echo.port, window_model=True))
        stream = await stack.enter_async_context(await connect(relay))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        relay.half_open()
        tasks.start_soon(stream.send, bytes(8 * 2**20))
        await until(lambda: relay.statistics().swallowed_bytes > 0)
        with anyio.move_on_after(0.1):
            await stream.receive()
        assert relay.statistics().swallowed_bytes <= 14_480
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"up_bytes_per_s": 0}, "above zero"),
        ({"queue_bytes": 0}, "at least one"),
        ({"bursts_every_s": 0}, "above zero"),
        ({"stalls": [(1, 2), (2, 1)]}, "one after the other"),
        ({"schedule": [(-1, Relay.reset)]}, "not negative"),
        ({"window_model": True, "up_s": [0.1, 0.2]}, "numbers"),
        ({"jitter_s": -1.0}, "jitter"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Relay(1, **wrong)  # type: ignore[arg-type]


async def test_a_relay_is_to_be_entered_before_it_listens() -> None:
    with pytest.raises(RuntimeError, match="enter the Relay"):
        Relay(1).listen()


async def test_a_port_that_is_taken_is_the_systems_own_error() -> None:
    async with echoing() as echo:
        with pytest.raises(OSError, match="in use"):
            async with Relay(1, port=echo.port):
                pass


async def test_a_fixture_enters_relays_and_leaves_them_with_the_test(
    relayed: Callable[[Relay], Awaitable[Relay]],  # noqa: F811
) -> None:
    async with echoing() as echo:
        relay = await relayed(Relay(echo.port, up_s=0.02))
        async with await connect(relay) as stream:
            await stream.send(b"a")
            assert await receive_all(stream, 1) == b"a"
