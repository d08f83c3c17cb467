"""The same policy behind each peer's own protocol, and a relay in front that is 0.33 s away each way.

``python -m bench.duty.servers seqrt|json|openpi|lerobot --rows 15 --hz 15 --by state`` prints the port and serves
until its input closes. Inference takes 0.128 s and is served one at a time, whoever asks. LeRobot's server is a process
of its own, in the interpreter ``--python`` names: what it reads and writes are pickles of its classes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

import seqrt
from bench.duty.arm import rows
from bench.json_face import json_face
from seqrt.testing.relay import Relay

REFILL_S, INFER_S = 0.79, 0.128
ONE_WAY_S = (REFILL_S - INFER_S) / 2


def policy(count: int, hz: float, by: str) -> Any:
    """The policy as seqrt's worker serves it."""

    @seqrt.policy(
        observations=seqrt.Observations(streams={"look": seqrt.Stream(shape=(2,), dtype="float64")}),
        actions=seqrt.Actions(key="actions", hz=hz, open_loop_horizon=count, space="absolute", open_loop=by == "clock"),
    )
    class Moves:
        def infer(self, obs: Any) -> dict[str, Any]:
            time.sleep(INFER_S)
            look = [float(value) for value in obs["observations"][-1]["look"]]
            return {"actions": np.array(rows(look, count, hz, by))}

        def sample(self) -> list[dict[str, Any]]:
            return [{"look": np.zeros(2)}]

    return Moves()


async def serve_seqrt(count: int, hz: float, by: str) -> None:
    """Our worker over HTTP/2."""
    from seqrt.worker.server import serving

    async with serving(policy(count, hz, by)) as server:
        await relayed(server.port)


async def serve_json(count: int, hz: float, by: str) -> None:
    """The JSON face that `sequence-ai` 0.1.0 speaks, over HTTP/1.1."""
    free = anyio.Lock()

    async def answered(observation: dict[str, Any]) -> list[list[float]]:
        async with free:
            await anyio.sleep(INFER_S)
        return rows(observation["proprioception"]["joint_positions"], count, hz, by)

    async with json_face(answered, model="duty", hz=hz, dims=3, inference_s=INFER_S) as port:
        await relayed(port)


def pack(value: Any) -> Any:
    """An array in msgpack, as openpi packs it."""
    if isinstance(value, np.ndarray):
        return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    return value


def unpack(value: dict[Any, Any]) -> Any:
    """And back."""
    if b"__ndarray__" in value:
        return np.ndarray(buffer=value[b"data"], dtype=np.dtype(value[b"dtype"]), shape=value[b"shape"])
    return value


async def serve_openpi(count: int, hz: float, by: str) -> None:
    """Openpi's WebSocket protocol: one frame each way, in lockstep."""
    import msgpack
    import websockets.asyncio.server as ws

    async def session(connection: ws.ServerConnection) -> None:
        await connection.send(msgpack.packb({}))
        async for frame in connection:
            asked = msgpack.unpackb(frame, object_hook=unpack)
            await anyio.sleep(INFER_S)
            answer = {"actions": np.array(rows([float(v) for v in asked["look"]], count, hz, by))}
            await connection.send(msgpack.packb(answer, default=pack))

    async with ws.serve(session, "127.0.0.1", 0, compression=None, max_size=None) as server:
        await relayed(next(iter(server.sockets)).getsockname()[1])


async def serve_lerobot(count: int, hz: float, by: str, python: str) -> None:
    """LeRobot's gRPC service, in an interpreter that has it."""
    script = str(Path(__file__).with_name("peers_lerobot.py"))
    serve = [python, script, "serve", "--rows", str(count), "--hz", str(hz), "--by", by, "--infer-s", str(INFER_S)]
    async with await anyio.open_process(serve, stdin=subprocess.PIPE, stderr=None) as server:
        assert server.stdout is not None  # its input is a pipe of ours: it ends with us, however we end
        await relayed(int(await server.stdout.receive()))


async def relayed(port: int) -> None:
    """Put the relay in front of ``port``, say where it is, and wait until nobody wants it any more."""
    async with Relay(port, up_s=ONE_WAY_S, down_s=ONE_WAY_S) as relay:
        sys.stdout.write(f"{relay.port}\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


SERVERS: dict[str, Callable[..., Awaitable[None]]] = {
    "seqrt": serve_seqrt,
    "json": serve_json,
    "openpi": serve_openpi,
    "lerobot": serve_lerobot,
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=SERVERS)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--hz", type=float, required=True)
    parser.add_argument("--by", choices=("clock", "state"), required=True)
    parser.add_argument("--python", metavar="PYTHON", help="an interpreter that has the server asked for")
    options = parser.parse_args()
    needs = (options.python,) if options.python else ()
    anyio.run(SERVERS[options.what], options.rows, options.hz, options.by, *needs)


if __name__ == "__main__":
    main()
