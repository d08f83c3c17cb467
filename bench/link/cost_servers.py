"""The servers of the cost table, in whichever interpreter has them: ``python cost_servers.py openpi``.

Each answers at once with a chunk [50, 14] float32, prints its port, and then, for every line of its input, the CPU
seconds it has spent so far; it ends with its input. openpi's, GR00T's and the JSON face are minimal ones of our own
that speak the peers' framing (openpi's with openpi-client's packing): the peers' servers are not on the package index.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

ROWS, DIMS = 50, 14


def chunk() -> Any:
    """The answer, [50, 14] float32."""
    import numpy as np

    return np.linspace(0, 1, ROWS * DIMS, dtype=np.float32).reshape(ROWS, DIMS)


def introduce(port: int) -> None:
    """Say the port, and tell the CPU from now on, beside what serves."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    threading.Thread(target=_tell_cpu, daemon=True).start()


def _tell_cpu() -> None:
    for _ in sys.stdin:
        sys.stdout.write(f"{time.process_time()}\n")
        sys.stdout.flush()
    os._exit(0)


async def seqrt_worker() -> None:
    """Our worker, as `seqrt serve` runs it: the policy's code in a thread of its own."""
    import seqrt
    from seqrt.worker.server import serving

    answer = {"actions": chunk()}

    @seqrt.policy(actions=seqrt.Actions(key="actions", hz=15, space="absolute"))
    class Instant:
        def infer(self, obs: Any) -> dict[str, Any]:
            assert obs["picture"].dtype == "uint8"
            return answer

    async with serving(Instant()) as server:
        import anyio

        introduce(server.port)
        await anyio.sleep_forever()


async def openpi() -> None:
    """The shape of openpi's own: an asyncio WebSocket server, the policy called on its loop."""
    import contextlib

    import websockets.asyncio.server as ws
    import websockets.exceptions
    from openpi_client import msgpack_numpy

    rows = chunk()

    async def session(connection: ws.ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        with contextlib.suppress(websockets.exceptions.ConnectionClosed):
            async for frame in connection:
                begun = time.monotonic()
                assert msgpack_numpy.unpackb(frame)["picture"].dtype == "uint8"
                timing = {"infer_ms": (time.monotonic() - begun) * 1000}
                await connection.send(packer.pack({"actions": rows, "server_timing": timing}))

    async with ws.serve(session, "127.0.0.1", 0, compression=None, max_size=None) as server:
        introduce(next(iter(server.sockets)).getsockname()[1])
        await server.serve_forever()


def pack_npy(value: Any) -> Any:
    """GR00T's codec A: an array as the bytes of a .npy file."""
    import io

    import numpy as np

    if not isinstance(value, np.ndarray):
        return value
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": file.getvalue()}


def unpack_npy(value: dict[str, Any]) -> Any:
    """And back."""
    import io

    import numpy as np

    return np.load(io.BytesIO(value["as_npy"]), allow_pickle=False) if "__ndarray_class__" in value else value


async def groot() -> None:
    """The shape of GR00T's: a REP socket, one request after the other, in one thread."""
    import msgpack
    import zmq

    socket, rows = zmq.Context().socket(zmq.REP), chunk()
    introduce(socket.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        asked = msgpack.unpackb(socket.recv(), object_hook=unpack_npy)
        assert asked["data"]["observation"]["video.front"].dtype == "uint8"
        socket.send(msgpack.packb([{"actions": rows}, {}], default=pack_npy))


async def sequence_ai() -> None:
    """What `sequence-ai` 0.1.0 talks to: JSON over HTTP/1.1."""
    import base64

    import anyio

    from bench.json_face import json_face

    rows = chunk().tolist()

    async def answered(observation: dict[str, Any]) -> list[list[float]]:
        base64.b64decode(observation["images"][0]["data"])
        return rows  # type: ignore[no-any-return]

    async with json_face(answered, model="cost", hz=15.0, dims=DIMS, inference_s=0.0) as port:
        introduce(port)
        await anyio.sleep_forever()


SERVERS: dict[str, Callable[[], Awaitable[None]]] = {
    "seqrt": seqrt_worker,
    "openpi": openpi,
    "groot": groot,
    "json": sequence_ai,
}


if __name__ == "__main__":
    import asyncio

    asyncio.run(SERVERS[sys.argv[1]]())  # type: ignore[arg-type]
