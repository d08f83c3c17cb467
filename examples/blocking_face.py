"""A control program without an event loop: `seqrt.blocking`, each function called in the program's own thread.

``seqrt serve examples.my_policy:MyPolicy`` in one terminal, ``python examples/blocking_face.py http://127.0.0.1:8080``
in another. Ctrl-C stops the head.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import seqrt.blocking as seqrt


class Head:
    """A pan-tilt head with a camera, on a driver that blocks."""

    def __init__(self) -> None:
        self.position = np.zeros(2)
        self._noise = np.random.default_rng(0)

    def read(self) -> dict[str, Any]:
        """Joints and picture: 8 ms."""
        time.sleep(0.008)
        return {"state": self.position.copy(), "camera": self._noise.integers(0, 8, (48, 64, 3), dtype=np.uint8)}

    def write(self, row: npt.NDArray[np.float64]) -> None:
        """A goal: 4 ms."""
        time.sleep(0.004)
        self.position = row

    def stop(self) -> None:
        """The present position as the goal."""
        self.write(self.position)


def main(url: str, max_actions: int = 100) -> None:
    """Drive the head by what the worker says."""
    head = Head()
    with seqrt.connect(base_url=url, api_key="") as policy:
        outcome = policy.run(
            head.read,
            head.write,
            max_actions=max_actions,
            validate=lambda row: bool(np.abs(row).max() <= 1.5),
            hold=head.stop,
        )
    print(outcome)


if __name__ == "__main__":
    main(sys.argv[1])
