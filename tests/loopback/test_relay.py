from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress

import anyio
import anyio.abc
import pytest
from anyio.abc import SocketAttribute
from echoing import GONE, HANG_S, connect, echoing, receive_all

from seqrt.testing.relay import Relay
from seqrt.testing.relay.__main__ import main, parser, schedule

pytestmark = pytest.mark.anyio


async def test_a_round_trip_takes_both_delays() -> None:
    async with echoing() as echo, Relay(echo.port, up_s=0.02, down_s=0.03) as relay, await connect(relay) as stream:
        took_s = []
        for _ in range(5):
            began_s = time.perf_counter()
            await stream.send(b"act")
            assert await receive_all(stream, 3) == b"act"
            took_s.append(time.perf_counter() - began_s)
    assert min(took_s) >= 0.05


async def test_the_delay_takes_no_throughput() -> None:
    body = bytes(1_300_000)
    async with echoing() as echo, Relay(echo.port, up_s=3600.0) as relay, await connect(relay) as stream:
        with anyio.fail_after(HANG_S):  # with a 64 KiB window a round trip it would take days
            await stream.send(body)
        assert relay.statistics().bytes_up == 0


async def test_segments_keep_their_order_under_jitter() -> None:
    async with AsyncExitStack() as stack:
        echo = await stack.enter_async_context(echoing())
        delays = [0.02, 0.0, 0.01, 0.0]
        relay = await stack.enter_async_context(Relay(echo.port, up_s=delays, jitter_s=0.005, seed=3))
        stream = await stack.enter_async_context(await connect(relay))
        sent = bytes(range(200))
        for byte in sent:
            await stream.send(bytes([byte]))
        assert await receive_all(stream, len(sent)) == sent


async def test_nothing_gets_through_a_stall_and_all_of_it_after() -> None:
    async with echoing() as echo, Relay(echo.port) as relay, await connect(relay) as stream:
        await stream.send(b"a")
        assert await receive_all(stream, 1) == b"a"
        relay.stall()
        await stream.send(b"bc")
        with anyio.move_on_after(0.1) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        relay.resume()
        assert await receive_all(stream, 2) == b"bc"


async def test_stalls_come_by_schedule() -> None:
    async with echoing() as echo:
        began_s = time.perf_counter()
        async with Relay(echo.port, stalls=[(0.0, 0.2)]) as relay, await connect(relay) as stream:
            await stream.send(b"a")
            assert await receive_all(stream, 1) == b"a"
        assert time.perf_counter() - began_s >= 0.2


async def test_a_reset_breaks_both_ends_and_new_connections_are_taken() -> None:
    async with echoing() as echo, Relay(echo.port) as relay:
        async with await connect(relay) as stream:
            await stream.send(b"a")
            await receive_all(stream, 1)
            relay.reset()
            with anyio.fail_after(HANG_S), pytest.raises(anyio.BrokenResourceError):
                await stream.receive()
        async with await connect(relay) as stream:
            await stream.send(b"b")
            assert await receive_all(stream, 1) == b"b"
        statistics = relay.statistics()
        assert (statistics.connections, statistics.resets) == (2, 1)
        assert echo.ends[0] == "BrokenResourceError"


async def test_an_end_of_one_direction_is_passed_on_with_its_delay() -> None:
    async with echoing() as echo, Relay(echo.port, up_s=0.02, down_s=0.02) as relay, await connect(relay) as stream:
        began_s = time.perf_counter()
        await stream.send(b"last")
        await stream.send_eof()
        assert await receive_all(stream, 4) == b"last"
        with anyio.fail_after(HANG_S), pytest.raises(anyio.EndOfStream):
            await stream.receive()
        assert time.perf_counter() - began_s >= 0.04
        assert echo.ends == ["EndOfStream"]


async def test_a_target_that_is_not_there_breaks_the_connection() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        nobody = listener.extra(SocketAttribute.local_port)
    async with Relay(nobody) as relay, await connect(relay) as stream:
        with anyio.fail_after(HANG_S), pytest.raises(GONE):
            await stream.receive()


async def test_a_full_queue_stops_reading_and_loses_nothing() -> None:
    body = bytes(8 * 2**20)
    async with echoing() as echo, Relay(echo.port, queue_bytes=100_000) as relay, await connect(relay) as stream:
        relay.stall()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, body)
            await anyio.wait_all_tasks_blocked()
            relay.resume()
            assert len(await receive_all(stream, len(body))) == len(body)


async def test_leaving_the_relay_closes_its_connections() -> None:
    async with echoing() as echo:
        async with Relay(echo.port) as relay:
            stream = await connect(relay)
            await stream.send(b"a")
            await receive_all(stream, 1)
        async with stream:
            with anyio.fail_after(HANG_S), pytest.raises(GONE):
                await stream.receive()


async def test_what_the_program_raises_beside_the_relay_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Relay(1):
            raise KeyError("mine")


async def test_the_port_is_known_once_it_was_entered() -> None:
    with pytest.raises(RuntimeError, match="enter the Relay"):
        _ = Relay(1).port


async def said_when_stopped(process: anyio.abc.Process) -> str:
    """What the command says of a byte that went through it, and of its end by Ctrl-C."""
    assert process.stdout is not None
    with anyio.fail_after(HANG_S):
        line = (await process.stdout.receive()).decode()
        assert "model" in line
        port = int(line.split()[1].rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            began_s = time.perf_counter()
            await stream.send(b"a")
            assert await receive_all(stream, 1) == b"a"
            assert time.perf_counter() - began_s >= 0.02
        process.send_signal(signal.SIGINT)
        return b"".join([piece async for piece in process.stdout]).decode()


async def test_it_runs_as_a_command_and_says_what_went_through() -> None:
    async with echoing() as echo:
        arguments = ["--to", str(echo.port), "--up-ms", "10", "--down-ms", "10", "--up-mbit", "20", "--window-model"]
        command = [sys.executable, "-m", "seqrt.testing.relay", *arguments]
        async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
            try:
                said = await said_when_stopped(process)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
    assert "stopped" in said
    assert "bytes_up" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "--to"),
        ("--to nowhere", "no port"),
        ("--to 80 --listen 70000", "no port"),
        ("--to 80 --up-ms soon", "no number"),
        ("--to 80 --up-ms nan", "not finite"),
        ("--to 80 --down-ms=-1", "negative"),
        ("--to 80 --up-mbit 0", "leave it out"),
        ("--to 80 --stall 5", "AT:FOR"),
        ("--to 80 --change 3:speed=1", "up-mbit, down-mbit"),
        ("--to 80 --stall 1:5 --stall 2:5", "one after the other"),
        ("--to 80 --half-open 1:5 --half-open 2:5", "half-open spans go one after the other"),
        ("--to 80 --refuse 1:5 --refuse 2:5", "refusals go one after the other"),
        ("--to 0", "1 to 65535"),
    ],
)
def test_the_command_refuses_nonsense_and_says_what_it_wants(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments.split())
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told


async def test_the_commands_schedule_does_what_it_says() -> None:
    options = parser().parse_args(
        ["--to", "80", "--refuse", "3:2", "--half-open", "1:1", "--reset", "4", "--change", "2:up-mbit=8"]
    )
    steps = sorted(schedule(options), key=lambda step: step[0])
    assert [at_s for at_s, _ in steps] == [1, 2, 2, 3, 4, 5]
    async with echoing() as echo, Relay(echo.port) as relay:
        for _, do in steps:
            do(relay)
        async with await connect(relay) as stream:
            began_s = time.perf_counter()
            await stream.send(bytes(100_000))
            await receive_all(stream, 100_000)
            assert time.perf_counter() - began_s >= 0.1
