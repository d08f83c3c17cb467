"""1.3 MB of observations uploaded over 40 ms of round trip: what the worker's HTTP/2 windows are for.

One post of eight 162 KB observations through a userspace relay with 20 ms each way, to the worker as it is served
and to the same app on hypercorn's own settings, in turn; everything on loopback.

    python bench/upload.py         # needs the extra serve
"""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
import numpy as np
from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config

from seqrt.link.http import HttpLink, clients
from seqrt.policies.host import Host
from seqrt.policies.offload import in_thread
from seqrt.testing.relay import Relay
from seqrt.wire.messages import Frame, ObserveRequest
from seqrt.worker.app import app
from seqrt.worker.server import serving

ONE_WAY_S, ROUNDS, FRAMES = 0.020, 15, 8


class Idle:
    """Never asked for anything: only its observations are uploaded."""

    def infer(self, obs: Any) -> None:
        return None


def post(episode: str) -> ObserveRequest:
    rng = np.random.default_rng(0)
    frames = [Frame(seq=n, inputs={"jpeg": rng.bytes(162_500)}) for n in range(FRAMES)]
    return ObserveRequest(episode_id=episode, frames=frames)


async def plain_hypercorn(tasks: Any, stack: AsyncExitStack) -> int:
    host = Host(Idle(), offload=in_thread())
    await host.start()
    config = Config()
    config.bind, config.loglevel = ["127.0.0.1:0"], "ERROR"
    sockets = config.create_sockets()
    port: int = sockets.insecure_sockets[0].getsockname()[1]
    config.create_sockets = lambda: sockets  # type: ignore[method-assign]
    stop = anyio.Event()
    stack.callback(stop.set)
    tasks.start_soon(lambda: hypercorn_serve(app(host), config, shutdown_trigger=stop.wait))  # type: ignore[arg-type]
    return port


async def once(link: HttpLink, turn: int) -> float:
    prepared = await link.prepare(post(f"upload-{turn}"))
    begun = time.perf_counter()
    await link.observe(prepared)
    took = time.perf_counter() - begun
    await link.end(f"upload-{turn}")
    return took


async def main() -> None:
    took: dict[str, list[float]] = {"seqrt's worker": [], "the same app, hypercorn's own settings": []}
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        ours = (await stack.enter_async_context(serving(Idle()))).port
        ports = [ours, await plain_hypercorn(tasks, stack)]
        links = []
        for port in ports:
            relay = await stack.enter_async_context(Relay(port, up_s=ONE_WAY_S, down_s=ONE_WAY_S))
            new_client = clients(f"http://127.0.0.1:{relay.port}", timeout_s=10, key=None)
            link = HttpLink(new_client, host="", timeout_s=30, offload=in_thread())
            stack.push_async_callback(link.aclose)
            links.append(link)
        for turn in range(ROUNDS + 2):
            for name, link in zip(took, links, strict=True):
                seconds = await once(link, turn)
                if turn >= 2:
                    took[name].append(seconds)
    print(f"{FRAMES * 162.5:.0f} KB a post, {2 * ONE_WAY_S * 1e3:.0f} ms round trip, {ROUNDS} posts each in turn\n")
    print("| server | p50 ms | max ms | round trips (p50) |\n|---|---|---|---|")
    for name, times in took.items():
        p50 = statistics.median(times)
        print(f"| {name} | {p50 * 1e3:.1f} | {max(times) * 1e3:.1f} | {p50 / (2 * ONE_WAY_S):.2f} |")


if __name__ == "__main__":
    anyio.run(main)
