"""The ten lines: drive a robot from a policy that is served somewhere else.

``seqrt serve examples.my_policy:MyPolicy`` in one terminal, ``python examples/ten_lines.py http://127.0.0.1:8080`` in
another. The robot is a simulated one; yours has calls of its own to read it, to move it and to make it stand still.
"""

from __future__ import annotations

import sys

import anyio

import seqrt
from seqrt.testing import FakeArm


async def main(url: str, max_actions: int = 100) -> None:
    """Drive the arm."""
    arm = FakeArm(2, names=("pan", "tilt"), camera=(48, 64))
    async with seqrt.connect(base_url=url) as policy:
        outcome = await policy.run(
            observe=arm.observe,
            act=arm.act,
            hold=arm.hold,
            validate=lambda row: bool(abs(row).max() <= 1.5),
            max_actions=max_actions,
        )
    print(outcome)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
