"""One client of the cost table, in whichever interpreter has it: ``python cost_callers.py openpi 4711``.

Reads orders from its input, ``<bytes> <calls>`` a line, and answers each with a line of JSON: what every call took, and
the CPU this process spent on them all. Between two orders it stands still, so that clients can take turns. LeRobot's is
in `cost_lerobot`, which is this script's twin in LeRobot's own interpreter.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

ROWS, DIMS = 50, 14


def orders() -> Iterator[tuple[bytes, int]]:
    """The observation's payload and how often to send it, order by order."""
    for line in sys.stdin:
        size, calls = map(int, line.split())
        yield bytes(n * 7919 % 251 for n in range(size)), calls


def tell(took_s: list[float], cpu_s: float) -> None:
    """Answer an order."""
    sys.stdout.write(json.dumps({"took_s": took_s, "cpu_s": cpu_s}) + "\n")
    sys.stdout.flush()


def answer(call: Callable[[], Any], calls: int) -> None:
    """Time ``calls`` of ``call``, one after the other."""
    took, spent = [], time.process_time()
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    tell(took, time.process_time() - spent)


async def answer_async(call: Callable[[], Awaitable[Any]], calls: int) -> None:
    """The same for a call to await."""
    took, spent = [], time.process_time()
    for _ in range(calls):
        begun = time.perf_counter()
        await call()
        took.append(time.perf_counter() - begun)
    tell(took, time.process_time() - spent)


# Ours.


async def seqrt_act(port: int) -> None:
    """An act that carries its observation, over `HttpLink`: the same work as the peers' one call."""
    import numpy as np

    from seqrt.link.http import HttpLink, clients
    from seqrt.policies.offload import in_thread
    from seqrt.wire.messages import ActRequest

    new_client = clients(f"http://127.0.0.1:{port}", timeout_s=5, key=None)
    link, number = HttpLink(new_client, host="", timeout_s=5, offload=in_thread()), 0
    await link.info()
    for payload, calls in orders():
        seen = {"picture": np.frombuffer(payload, np.uint8)}

        async def act(seen: dict[str, Any] = seen) -> None:
            nonlocal number
            number += 1
            # Without an episode: nothing is kept there from one act to the next, as with the peers.
            ask = await link.prepare(ActRequest(inputs=seen))
            got = await link.act(ask, f"r-{number:016x}", 5.0)
            assert got.outputs["actions"].shape == (ROWS, DIMS)

        await answer_async(act, calls)
    await link.aclose()


async def seqrt_ahead(port: int) -> None:
    """What the handle does: the observation posted, the act without data beside it."""
    import numpy as np

    import seqrt

    async with seqrt.connect(base_url=f"http://127.0.0.1:{port}") as policy:
        for payload, calls in orders():
            seen = {"picture": np.frombuffer(payload, np.uint8)}

            async def act(seen: dict[str, Any] = seen) -> None:
                assert len(await policy.predict(seen)) == ROWS

            await answer_async(act, calls)


# The peers'.


def openpi(port: int) -> None:
    """openpi-client's own `WebsocketClientPolicy`."""
    import numpy as np
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    policy = WebsocketClientPolicy("127.0.0.1", port)
    for payload, calls in orders():
        seen = {"picture": np.frombuffer(payload, np.uint8)}

        def act(seen: dict[str, Any] = seen) -> None:
            assert policy.infer(seen)["actions"].shape == (ROWS, DIMS)

        answer(act, calls)


def groot(port: int) -> None:
    """GR00T's framing: a REQ socket, msgpack, arrays as .npy files."""
    import msgpack
    import numpy as np
    import zmq
    from cost_servers import pack_npy, unpack_npy  # type: ignore[import-not-found]  # beside this file

    socket = zmq.Context().socket(zmq.REQ)
    socket.connect(f"tcp://127.0.0.1:{port}")
    for payload, calls in orders():
        seen = {"video.front": np.frombuffer(payload, np.uint8)}

        def act(seen: dict[str, Any] = seen) -> None:
            asked = {"endpoint": "get_action", "data": {"observation": seen, "options": None}}
            socket.send(msgpack.packb(asked, default=pack_npy))
            actions, _ = msgpack.unpackb(socket.recv(), object_hook=unpack_npy)
            assert actions["actions"].shape == (ROWS, DIMS)

        answer(act, calls)


def sequence_ai(port: int) -> None:
    """`sequence-ai` 0.1.0: the payload as base64 in JSON, over HTTP/1.1."""
    import base64
    import warnings

    import sequence_ai
    from sequence_ai.types import ImageFrame, Observation, Proprioception

    warnings.simplefilter("ignore")
    with sequence_ai.connect(model="cost", api_key="none", base_url=f"http://127.0.0.1:{port}") as policy:
        for payload, calls in orders():

            def act(payload: bytes = payload) -> None:
                frame = ImageFrame("front", base64.b64encode(payload).decode())
                seen = Observation([frame], Proprioception(joint_positions=[0.0]), "")
                assert len(policy.predict(seen).action_chunk) == ROWS

            answer(act, calls)


ASYNC: dict[str, Callable[[int], Awaitable[None]]] = {"seqrt_act": seqrt_act, "seqrt_ahead": seqrt_ahead}
SYNC: dict[str, Callable[[int], None]] = {"openpi": openpi, "groot": groot, "sequence_ai": sequence_ai}


def main() -> None:
    """The command: `<client> <port>`."""
    name, port = sys.argv[1], int(sys.argv[2])
    if name in SYNC:
        SYNC[name](port)
        return
    import anyio

    anyio.run(ASYNC[name], port)


if __name__ == "__main__":
    main()
