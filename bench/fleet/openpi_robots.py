"""The same robots for openpi's framing: a WebSocket each, and an act a second that carries all frames since the last.

There is no stream there: 15 observations of two pictures travel in one message. Options and lines as those of
`bench.fleet.robots`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any

import uvloop
import websockets.asyncio.client as ws
from openpi_client import msgpack_numpy

from bench.fleet.pictures import VIEWS, pictures
from bench.fleet.policies import HZ
from bench.fleet.robots import LOST_AFTER_S, Fleet, figures, options_of, tell


async def robot(fleet: Fleet, url: str, phase_s: float) -> None:
    """One robot, until cancelled. The next act waits for the answer, as their client does."""
    async with ws.connect(f"ws://{url}", compression=None, max_size=None) as connection:
        packer = msgpack_numpy.Packer()
        await connection.recv()
        due, step = time.monotonic() + phase_s, 0
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            counts, found = fleet.counts, fleet.found
            found.asked += counts
            if counts:
                found.late.append(max(0.0, time.monotonic() - due))
            frames = [[fleet.seen[(step + n + at) % len(fleet.seen)] for at in range(len(VIEWS))] for n in range(HZ)]
            await connection.send(packer.pack({"frames": frames}))
            answer = msgpack_numpy.unpackb(await connection.recv())
            if counts:
                found.missing += HZ - answer["frames"]
                found.acts.append(time.monotonic() - due)
            due, step = max(due + 1.0, time.monotonic()), step + HZ


async def load(options: Any) -> dict[str, Any]:
    """Run it; what was found."""
    fleet, rng = Fleet(pictures()), random.Random(options.seed)
    tasks = [
        asyncio.create_task(robot(fleet, options.url[n % len(options.url)], rng.random()))
        for n in range(options.robots)
    ]
    await asyncio.sleep(options.ramp + options.warm)
    fleet.counts, began, spent = True, time.monotonic(), time.process_time()
    tell({"counts": True})
    await asyncio.sleep(options.seconds)
    fleet.counts, took, cpu = False, time.monotonic() - began, time.process_time() - spent
    tell({"counts": False})
    until = time.monotonic() + LOST_AFTER_S
    while len(fleet.found.acts) < fleet.found.asked and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return figures(fleet.found, took, cpu, [])


def main() -> None:
    """The command."""
    options = options_of()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    tell(uvloop.run(load(options)))


if __name__ == "__main__":
    main()
