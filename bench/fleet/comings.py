"""Robots that come and go: ``python -m bench.fleet.comings --url 127.0.0.1:4711 --robots 16 --episodes 240``.

Each takes a connection, runs for so long, and goes: the first with a goodbye, the next without one, the next in the
middle of a post, and so on; then another comes in its place. Prints a line of JSON at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Iterator
from typing import Any

import uvloop

from bench.fleet.pictures import pictures
from bench.fleet.robots import ACT_EVERY, Fleet, Robot, tell
from bench.fleet.wire import Wire


async def one(fleet: Fleet, host: str, port: int, number: int, seconds: float) -> None:
    """One robot's visit."""
    loop = asyncio.get_running_loop()
    robot = Robot(fleet, f"visit-{os.getpid()}-{number}", Wire(f"{host}:{port}"), random.randrange(ACT_EVERY))
    await loop.create_connection(lambda: robot, host, port)
    await robot.opened()
    robot.begin(loop.time())
    await asyncio.sleep(seconds * random.uniform(0.7, 1.3))
    if number % 3 == 0:
        robot.end()
        await asyncio.sleep(0.2)
        robot.transport.close()
    elif number % 3 == 1:
        robot.stopped = True
        robot.transport.close()
    else:
        robot.stopped = True
        robot.break_off()


async def visits(options: argparse.Namespace) -> dict[str, Any]:
    """All of them; what went wrong."""
    host, _, port = options.url.rpartition(":")
    fleet, left = Fleet(pictures()), iter(range(options.episodes))
    fleet.counts = True

    async def place(left: Iterator[int]) -> None:
        for number in left:
            await one(fleet, host, int(port), number, options.seconds)

    await asyncio.gather(*(place(left) for _ in range(options.robots)))
    return {"codes": fleet.found.codes, "acts": len(fleet.found.acts), "posts": len(fleet.found.posts)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, metavar="HOST:PORT")
    parser.add_argument("--robots", type=int, required=True, help="at once")
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=1.0, help="a visit lasts")
    parser.add_argument("--core", type=int)
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    tell(uvloop.run(visits(options)))


if __name__ == "__main__":
    main()
