"""The policy every server of these tables serves: it is fed all frames, and infers a batch in 20 ms off the core.

Inference is a sleep: a GPU's 20 ms, during which the core is the server's, and a batch of any size takes them once.
Decoding the frames, which is the core's work, is real.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import seqrt
from bench.fleet.pictures import SIDE, VIEWS

HZ = 15
LIGHT_HZ = 5
INFER_S = 0.020
ROWS, DIMS = 10, 7
MOST_TOGETHER = 256
IDLE_S = 10.0
ACTIONS = np.linspace(0, 1, ROWS * DIMS, dtype=np.float32).reshape(ROWS, DIMS)


def answer(frames: int) -> dict[str, Any]:
    """A chunk, and how many frames it was made of."""
    return {"actions": ACTIONS, "frames": frames}


def fed(*, idle_s: float = 300.0) -> Any:
    """Fed all frames since the act before, both views; acts share a call."""
    camera = seqrt.Camera(width=SIDE, height=SIDE, codec="jpeg")

    @_declared({view: seqrt.Stream(every=1, camera=camera) for view in VIEWS}, HZ, idle_s=idle_s)
    class Fed:
        def infer(self, asked: list[Any]) -> list[Any]:
            time.sleep(INFER_S)
            return [answer(len(each["observations"])) for each in asked]

    return Fed()


def light() -> Any:
    """Fed one view as it comes, at a rate at which many robots of our own client have room on one core."""

    @_declared({VIEWS[0]: seqrt.Stream(every=1)}, LIGHT_HZ)
    class Light:
        def infer(self, asked: list[Any]) -> list[Any]:
            time.sleep(INFER_S)
            return [answer(len(each["observations"])) for each in asked]

    return Light()


def remembering() -> Any:
    """The same with state, so that an episode cannot be carried to another worker."""

    @_declared({VIEWS[0]: seqrt.Stream(every=1)}, LIGHT_HZ, episodes="shared")
    class Remembering:
        def infer(self, asked: list[Any], *, episode: list[seqrt.Episode]) -> list[Any]:
            time.sleep(INFER_S)
            for each in episode:
                each.state["acts"] = each.state.get("acts", 0) + 1
            return [answer(len(each["observations"])) for each in asked]

    return Remembering()


POLICIES: dict[str, Callable[[], Any]] = {
    "fed": fed,
    "soon-idle": lambda: fed(idle_s=IDLE_S),
    "light": light,
    "remembering": remembering,
}


def _declared(streams: dict[str, seqrt.Stream], hz: float, *, idle_s: float = 300.0, **others: Any) -> Any:
    return seqrt.policy(
        observations=seqrt.Observations(streams=streams),
        actions=seqrt.Actions(key="actions", hz=hz, open_loop_horizon=ROWS, space="absolute"),
        concurrency=seqrt.Concurrency(max_concurrent=MOST_TOGETHER),
        timeouts=seqrt.Timeouts(episode_idle=idle_s),
        **others,
    )
