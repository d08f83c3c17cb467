"""The servers of the tables: ``python -m bench.fleet.servers hypercorn --core 0``.

Each prints its port and serves until its input ends. Of ours, a line of input is answered by one of JSON:
``statistics`` says what the worker holds, ``drain`` drains it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bench.fleet.policies import POLICIES, fed
from seqrt.worker.server import SWITCH_S


def say(what: object) -> None:
    """A line for whoever started this."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def answering(host: Any) -> None:
    """Answer lines until the input ends."""
    import anyio
    import anyio.to_thread

    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        if line.strip() == "drain":
            host.drain()
        gc.collect()
        held = {"tasks": len(anyio.get_running_tasks()), "blocks": sys.getallocatedblocks(), "live_mb": live_mb()}
        say(json.dumps({**host.statistics(), **held}))


def live_mb() -> float:
    """What is in use of what glibc has from the system; 0 elsewhere. Small objects are Python's own: its blocks."""
    fields = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")

    class Told(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_size_t) for name in fields)

    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0.0
    ask.restype = Told
    told = ask()
    return float(told.uordblks + told.hblkhd) / 2**20


def limits(options: argparse.Namespace) -> Any:
    """What the worker holds."""
    from seqrt.policies.limits import HostLimits

    return HostLimits(episodes=options.episodes) if options.episodes else HostLimits()


async def hypercorn(options: argparse.Namespace) -> None:
    """The worker as `seqrt serve` runs it, but that it takes all robots that come."""
    import anyio

    from seqrt.worker.memory import give_back_at_rest
    from seqrt.worker.server import serving

    secret = options.secret or None
    policy = POLICIES[options.policy]()
    async with (
        serving(policy, port=options.port, limits=limits(options), secret=secret) as server,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(give_back_at_rest, server.policy.statistics)
        say(server.port)
        await answering(server.policy)
        tasks.cancel_scope.cancel()


async def granian(options: argparse.Namespace) -> None:
    """The same app and policy behind granian, in this process too, with the worker's windows."""
    from bench.fleet.granian_server import serving

    async with serving(fed(), limits(options)) as (port, host):
        say(port)
        await answering(host)


async def openpi(options: argparse.Namespace) -> None:
    """The shape of openpi's own: an asyncio WebSocket server, the policy called on its loop, an act at a time."""
    import asyncio
    import contextlib
    import time

    import websockets.asyncio.server as ws
    import websockets.exceptions
    from openpi_client import msgpack_numpy

    from bench.fleet.pictures import decoded
    from bench.fleet.policies import INFER_S, answer

    async def session(connection: ws.ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        with contextlib.suppress(websockets.exceptions.ConnectionClosed):
            async for message in connection:
                seen = msgpack_numpy.unpackb(message)["frames"]
                pictures = [decoded(picture) for frame in seen for picture in frame]
                time.sleep(INFER_S)  # noqa: ASYNC251  # as theirs: the loop waits for the policy
                assert all(map(len, pictures))
                await connection.send(packer.pack(answer(len(seen))))

    async with ws.serve(session, "127.0.0.1", 0, compression=None, max_size=None) as server:
        say(next(iter(server.sockets)).getsockname()[1])
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def gateway(options: argparse.Namespace) -> None:
    """A gateway before the workers named."""
    from seqrt.gateway.server import gateway

    async with gateway({"light": options.workers}, secret=options.secret) as server:
        say(server.port)
        import anyio.to_thread

        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


SERVERS: dict[str, Callable[[argparse.Namespace], Awaitable[Any]]] = {
    "hypercorn": hypercorn,
    "granian": granian,
    "openpi": openpi,
    "gateway": gateway,
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=SERVERS)
    parser.add_argument("--core", type=int)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--loop", choices=("asyncio", "uvloop", "trio"), default="asyncio")
    parser.add_argument("--switch-ms", type=float, default=SWITCH_S * 1e3, help="the interpreter's switch interval")
    parser.add_argument("--episodes", type=int, help="live at once; one more is refused")
    parser.add_argument("--policy", choices=POLICIES, default="fed")
    parser.add_argument("--secret", default="")
    parser.add_argument("--workers", nargs="+", default=[], metavar="URL", help="of a gateway")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    sys.setswitchinterval(options.switch_ms / 1e3)
    import anyio

    anyio.run(
        SERVERS[options.what],
        options,
        backend="trio" if options.loop == "trio" else "asyncio",
        backend_options={"use_uvloop": True} if options.loop == "uvloop" else {},
    )


if __name__ == "__main__":
    main()
