"""The worker of the upload tables: ``python -m bench.link.upload_server fed|carried --hz 30 --rows 30 [--drop]``.

Prints its port and serves until its input ends. Inference takes 30 ms and looks at every frame it is handed.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Literal

import anyio
import anyio.to_thread
import numpy as np

import seqrt
from seqrt.worker.server import serving

INFER_S = 0.030


def fed(hz: float, rows: int, *, drop: bool) -> Any:
    """A policy that is fed every frame since the act before."""
    behind: Literal["wait", "drop_oldest"] = "drop_oldest" if drop else "wait"

    @seqrt.policy(
        observations=seqrt.Observations(streams={"frame": seqrt.Stream(every=1)}, when_behind=behind),
        actions=seqrt.Actions(key="actions", hz=hz, open_loop_horizon=rows, space="absolute"),
    )
    class Fed:
        def infer(self, obs: Any) -> dict[str, Any]:
            time.sleep(INFER_S)
            assert all(len(each["frame"]) for each in obs["observations"])
            return {"actions": np.zeros((rows, 7), np.float32)}

    return Fed()


class Carried:
    """A policy whose act brings all frames itself."""

    def infer(self, obs: Any) -> dict[str, Any]:
        time.sleep(INFER_S)
        assert all(len(frame) for frame in obs["frames"])
        return {"actions": np.zeros((30, 7), np.float32)}


async def serve(policy: Any) -> None:
    """Until the input ends."""
    async with serving(policy) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fed", "carried"))
    parser.add_argument("--hz", type=float, default=30.0)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--drop", action="store_true")
    options = parser.parse_args()
    anyio.run(serve, Carried() if options.what == "carried" else fed(options.hz, options.rows, drop=options.drop))


if __name__ == "__main__":
    main()
