"""The worker of the faults table: ``python -m bench.link.faults_server --rows 160 --hz 20 [--port 4711 --stand-by]``.

Prints its port, and a line for each call of the policy: the numbers of the observations it was handed. With
``--stand-by`` it has everything imported and listens once it reads a line. It ends with its input.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

import seqrt
from seqrt.worker.server import serving

INFER_S = 0.060


def say(line: str) -> None:
    """A line for whoever started this."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def counting(rows: int, hz: float) -> Any:
    """A policy that is fed every frame and tells which it was handed."""
    taken = threading.Lock()

    @seqrt.policy(
        observations=seqrt.Observations(streams={"frame": seqrt.Stream(every=1)}),
        actions=seqrt.Actions(key="actions", hz=hz, open_loop_horizon=rows, space="absolute"),
    )
    class Counting:
        def infer(self, obs: Any) -> dict[str, Any]:
            time.sleep(INFER_S)
            with taken:
                say("served " + " ".join(map(str, obs["steps"])))
            return {"actions": np.zeros((rows, 7), np.float32)}

    return Counting()


async def serve(options: argparse.Namespace) -> None:
    """Until the input ends."""
    async with serving(counting(options.rows, options.hz), port=options.port) as server:
        say(f"port {server.port}")
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--hz", type=float, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stand-by", action="store_true")
    options = parser.parse_args()
    if options.stand_by and not sys.stdin.readline():
        return  # nobody needs it any more
    anyio.run(serve, options)


if __name__ == "__main__":
    main()
