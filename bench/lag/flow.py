"""The same planner as a flow-matching policy: the two ways it knows are the modes of `examples.flow_policy.Flow`.

What comes with the flow is the noise, a chunk's own deviation from the way, and guidance by the committed rows while
it is integrated (real-time chunking) where the analytic policy is simply told where they lead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from bench.lag.policy import Views, lefts, planned
from bench.lag.worlds import Body, Reals
from examples.flow_policy import Flow

STRAYS: Final = 0.005
"""How far a chunk strays from its way, in metres."""
SURE: Final = 0.01
"""Below that a side is no choice any more."""


@cache
def _flow(rows: int) -> Flow:
    return Flow(rows, scale=0.1, jitter=0.05)


def flowed(body: Body, views: Views, rows: int) -> Reals:
    """Answers `[m, rows, A]`."""
    free = replace(views, delay=np.zeros_like(views.delay), whim=np.zeros_like(views.whim))
    ways = [planned(body, replace(free, side=np.full(len(views.q), side)), rows) for side in (0.0, 1.0 - 1e-12)]
    x, xv = body.tip(views.q), (body.columns(views.q) * views.v).sum(axis=-1)
    left = lefts(x, xv, views.goal, views.obstacle)
    return np.stack([_one(views, m, ways[0][m], ways[1][m], float(left[m])) for m in range(len(left))])


def _one(views: Views, m: int, on_the_left: Reals, on_the_right: Reals, left: float) -> Reals:
    means, weights = np.stack([on_the_left, on_the_right]), np.array([left, 1 - left])
    kept = weights > SURE
    modes = means[kept], STRAYS, weights[kept] / weights[kept].sum()
    d = int(views.delay[m])
    prefix = views.prefix[m, : views.known[m]] if d else None
    chunk = _flow(len(on_the_left)).chunk(
        modes, np.random.default_rng(int(views.number[m])), prefix=prefix, delay=d, spacing=int(views.spacing[m])
    )
    if prefix is not None:
        chunk[:d] = prefix[:d]
    return chunk
