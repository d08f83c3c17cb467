"""A robot whose driver blocks, and a camera that is slow: `seqrt.robots.threaded` keeps both off the event loop.

``seqrt serve examples.my_policy:MyPolicy`` in one terminal, ``python examples/blocking_driver.py
http://127.0.0.1:8080`` in another.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt

import seqrt
from seqrt.robots import threaded


class SerialHead:
    """A driver as vendors write them: each call is a packet on a serial line, and returns when the reply is in."""

    names = ("pan", "tilt")

    def __init__(self) -> None:
        self.position = np.zeros(2)
        self.held = False

    def observe(self) -> dict[str, Any]:
        """Read the joints: 8 ms."""
        time.sleep(0.008)
        return {"state": self.position.copy()}

    def act(self, row: npt.NDArray[np.float64]) -> None:
        """Write the goal: 4 ms."""
        time.sleep(0.004)
        self.position = row

    def hold(self) -> None:
        """Write the present position as the goal: 4 ms."""
        time.sleep(0.004)
        self.held = True


class SlowCamera:
    """Eight pictures a second, where the policy's rows are due fifteen times a second."""

    def __init__(self) -> None:
        self._noise = np.random.default_rng(0)

    def read(self) -> npt.NDArray[np.uint8]:
        """Block until the next picture is there: nothing but noise."""
        time.sleep(0.120)
        return self._noise.integers(0, 8, (48, 64, 3), dtype=np.uint8)


async def drive(policy: seqrt.Policy, head: SerialHead, max_actions: int) -> seqrt.RunOutcome:
    """Drive the head.

    The bus has a thread of its own, in which ``observe``, ``act`` and ``hold`` take turns; the camera has another and
    its newest picture is there without waiting. No tick waits for either: steps without a new picture are counted as
    ``frames_skipped``, and how old the picture behind each row was is ``observation_age_s``.
    """
    async with threaded(head, cameras={"camera": SlowCamera().read}) as robot:
        return await policy.run(
            robot,
            validate=lambda row: bool(np.abs(row).max() <= 1.5),
            max_actions=max_actions,
            limits=seqrt.Limits(act_errors=3),  # a servo packet goes missing now and then; four in a row are a fault
        )


async def main(url: str, max_actions: int = 100) -> None:
    """Drive the head by what the worker says."""
    async with seqrt.connect(base_url=url) as policy:
        outcome = await drive(policy, SerialHead(), max_actions)
    print(outcome)
    print(
        f"{outcome.frames_skipped} steps had no new picture; age in s when a row was played:", outcome.observation_age_s
    )


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
