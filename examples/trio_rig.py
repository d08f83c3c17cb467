"""Two arms and a camera in one trio nursery: when one of them fails, the others stop, and the arms hold.

``seqrt serve examples.my_policy:MyPolicy`` in one terminal, ``python examples/trio_rig.py http://127.0.0.1:8080`` in
another. A handle drives one robot, so each arm has its own; the worker may be the same.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
import trio

import seqrt
from seqrt.testing import FakeArm

Picture = np.ndarray[Any, np.dtype[np.uint8]]


class Camera:
    """One camera that both arms look through. Its task keeps the newest picture.

    Args:
        read: Waits for the next picture and returns it.
    """

    def __init__(self, read: Callable[[], Awaitable[Picture]]) -> None:
        self._read = read
        self._newest: Picture | None = None
        self._there = trio.Event()

    async def run(self) -> None:
        """Read, until cancelled. What the camera raises ends the whole rig."""
        while True:
            self._newest = await self._read()
            self._there.set()

    async def picture(self) -> Picture:
        """The newest picture; waits for the first."""
        await self._there.wait()
        assert self._newest is not None
        return self._newest


class ArmWithView:
    """An arm, and what the camera sees, as one robot."""

    def __init__(self, arm: FakeArm, camera: Camera) -> None:
        self._arm, self._camera = arm, camera
        self.names, self.act, self.hold = arm.names, arm.act, arm.hold

    async def observe(self) -> dict[str, Any]:
        """The arm's joints and the newest picture."""
        return {**self._arm.observe(), "camera": await self._camera.picture()}


async def drive(
    robots: Mapping[str, ArmWithView], policies: Mapping[str, seqrt.Policy], camera: Camera, *, max_actions: int
) -> dict[str, seqrt.RunOutcome]:
    """Drive all arms at once.

    Returns:
        Each arm's outcome.

    Raises:
        ExceptionGroup: What failed first, an arm or the camera. The others were cancelled, and every arm has held.
    """
    outcomes: dict[str, seqrt.RunOutcome] = {}

    async def drive_one(name: str) -> None:
        outcomes[name] = await policies[name].run(
            robots[name], validate=lambda row: bool(np.abs(row).max() <= 1.5), max_actions=max_actions
        )

    async with trio.open_nursery() as rig:
        rig.start_soon(camera.run)
        async with trio.open_nursery() as arms:
            for name in robots:
                arms.start_soon(drive_one, name)
        rig.cancel_scope.cancel()  # the arms are done: the camera may go
    return {name: outcomes[name] for name in robots}


async def main(url: str, max_actions: int = 60) -> None:
    """Drive two simulated arms that share a simulated camera."""
    noise = np.random.default_rng(0)

    async def read() -> Picture:
        await trio.sleep(1 / 30)
        return noise.integers(0, 8, (48, 64, 3), dtype=np.uint8)

    camera = Camera(read)
    robots = {name: ArmWithView(FakeArm(2, names=("pan", "tilt")), camera) for name in ("left", "right")}
    async with seqrt.connect(base_url=url) as left, seqrt.connect(base_url=url) as right:
        outcomes = await drive(robots, {"left": left, "right": right}, camera, max_actions=max_actions)
    for name, outcome in outcomes.items():
        print(name, outcome)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
