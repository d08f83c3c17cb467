"""Robots of our own client, whole runs of `seqrt.connect`: ``python -m bench.fleet.seats --url http://… --robots 32``.

Prints a line of JSON once all have played a row, and one when all have ended: what each run saw, its times by the
system's clock, so that they can be held against when a worker was drained or killed.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import time
from dataclasses import dataclass, field
from typing import Any

import anyio

import seqrt
from bench.fleet.pictures import VIEWS, pictures
from bench.fleet.robots import tell
from seqrt.timeline import events as ev

_TOLD = (ev.PostFailed, ev.ActFailed, ev.LinkLost, ev.WorkerChanged, ev.EpisodeRestarted, ev.FramesRefused)


@dataclass
class Seat:
    """One robot.

    Attributes:
        host: The worker that served it first.
        played: When each row was.
        holds: When it was held.
        told: What else happened, by name, and when.
        ended: Why, and when.
    """

    seen: list[bytes]
    host: str = ""
    played: list[float] = field(default_factory=list)
    holds: list[float] = field(default_factory=list)
    told: list[tuple[str, float]] = field(default_factory=list)
    ended: tuple[str, float] = ("", 0.0)
    steps: int = 0
    underruns: int = 0
    error: str = ""

    def observe(self) -> dict[str, bytes]:
        self.steps += 1
        return {VIEWS[0]: self.seen[self.steps % len(self.seen)]}

    def act(self, row: Any) -> None:
        self.played.append(time.monotonic())

    def hold(self) -> None:
        self.holds.append(time.monotonic())

    def take(self, event: ev.Event) -> None:
        if isinstance(event, _TOLD):
            self.told.append((type(event).__name__, time.monotonic()))

    async def drive(self, options: argparse.Namespace) -> None:
        """Connect and run, whatever comes of it."""
        try:
            async with seqrt.connect(
                model=options.model, base_url=options.url if len(options.url) > 1 else options.url[0],
                api_key=options.key or None, on_lost=options.on_lost,
            ) as policy:  # fmt: skip
                self.host = policy.statistics().host
                await anyio.sleep(random.random())
                outcome = await policy.run(
                    self,
                    max_seconds=options.seconds,
                    validate=lambda row: True,
                    record=self.take,
                    limits=seqrt.Limits(max_stall_s=options.stall),
                )
            self.underruns, self.ended = outcome.underruns, (outcome.reason, time.monotonic())
        except Exception as error:
            self.ended, self.error = (type(error).__name__, time.monotonic()), str(error)


async def drive(options: argparse.Namespace) -> None:
    """All of them at once."""
    logging.disable(logging.WARNING)
    seen = pictures()
    seats = [Seat(seen) for _ in range(options.robots)]
    async with anyio.create_task_group() as tasks:
        for seat in seats:
            tasks.start_soon(seat.drive, options)
        while not all(seat.played or seat.ended[0] for seat in seats):  # noqa: ASYNC110
            await anyio.sleep(0.1)
        tell({"running": [seat.host for seat in seats]})
    found = [{key: value for key, value in vars(seat).items() if key != "seen"} for seat in seats]
    tell({"seats": found})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", nargs="+", required=True, help="a gateway's, or the workers'")
    parser.add_argument("--model")
    parser.add_argument("--key", default="")
    parser.add_argument("--robots", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--stall", type=float, default=10.0, help="after which a run is given up")
    parser.add_argument("--on-lost", choices=("stop", "restart"), default="stop")
    parser.add_argument("--core", type=int)
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    anyio.run(drive, options)


if __name__ == "__main__":
    main()
