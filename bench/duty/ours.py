"""Our own loop, driving the benchmark's arm: ``python -m bench.duty.ours --port 4711 --seconds 14``."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

import anyio
import numpy as np

import seqrt
from bench.duty.arm import Arm
from seqrt.action.lagging import Late

LATE: dict[str, Late] = {"stop": seqrt.StopAndGo(), "stretch": seqrt.Stretch(), "lag": seqrt.Lag(max_s=1.0)}


async def drive(arm: Arm, options: argparse.Namespace) -> None:
    """One run of ``options.seconds``."""

    async def observe() -> dict[str, Any]:
        return {"look": np.array(arm.look())}

    async def act(row: Any) -> None:
        arm.move(row)

    async def hold() -> None:
        pass

    async with seqrt.connect(base_url=f"http://127.0.0.1:{options.port}") as policy:
        outcome = await policy.run(
            observe=observe,
            act=act,
            hold=hold,
            validate=lambda row: True,
            max_seconds=options.seconds,
            play=seqrt.Play(in_flight=options.in_flight, late=LATE[options.late]),
        )
    # Both figures were counted from the first observation on; the arm counts from its first row on.
    share = (arm.log[-1][0] - arm.log[0][0]) / outcome.elapsed_s
    arm.acts, arm.inference_s = round(outcome.acts_per_s * outcome.elapsed_s * share), outcome.inference_s * share


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--late", choices=LATE, default="stop")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    arm = Arm()
    anyio.run(drive, arm, options)
    json.dump({"log": arm.log, "acts": arm.acts, "inference_s": arm.inference_s}, sys.stdout)


if __name__ == "__main__":
    main()
