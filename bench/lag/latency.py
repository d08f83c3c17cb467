"""How late answers are: five distributions around one typical latency, a value for each tick a request may leave at.

Drawn by the tick of sending and not by the number of the request, so that two strategies that ask at the same tick
meet the same delay, however often they asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]

SPIKE_SHARE: Final = 0.05
SPIKE_TIMES: Final = 4.75
"""120 ms typical, up to 570 ms."""
JITTER_SIGMA: Final = 0.4
CALM_S: Final = 2.0
BUSY_S: Final = 0.5
BUSY_TIMES: Final = 3.0
OUTAGE_S: Final = 1.0

Draw = Callable[[np.random.Generator, float, int, int, float], Seconds]


def constant(rng: np.random.Generator, typical_s: float, episodes: int, ticks: int, period_s: float) -> Seconds:
    """Always the same."""
    return np.full((episodes, ticks), typical_s)


def lognormal(rng: np.random.Generator, typical_s: float, episodes: int, ticks: int, period_s: float) -> Seconds:
    """Lognormal around the median: a shared network."""
    return typical_s * rng.lognormal(0.0, JITTER_SIGMA, (episodes, ticks))


def spikes(rng: np.random.Generator, typical_s: float, episodes: int, ticks: int, period_s: float) -> Seconds:
    """One in twenty comes two to 4.75 times as late, the others with little jitter: a garbage collector, a retry."""
    usual = typical_s * rng.lognormal(0.0, 0.1, (episodes, ticks))
    late = typical_s * rng.uniform(2.0, SPIKE_TIMES, (episodes, ticks))
    return np.where(rng.random((episodes, ticks)) < SPIKE_SHARE, late, usual)


def markov(rng: np.random.Generator, typical_s: float, episodes: int, ticks: int, period_s: float) -> Seconds:
    """Two states, calm and busy, two seconds and half a second long on average, busy three times as slow: Wi-Fi."""
    flips = rng.random((episodes, ticks))
    busy = rng.random(episodes) < BUSY_S / (CALM_S + BUSY_S)
    delays = typical_s * rng.lognormal(0.0, 0.1, (episodes, ticks))
    for tick in range(ticks):
        busy ^= flips[:, tick] < period_s / np.where(busy, BUSY_S, CALM_S)
        delays[busy, tick] *= BUSY_TIMES
    return delays


def outage(rng: np.random.Generator, typical_s: float, episodes: int, ticks: int, period_s: float) -> Seconds:
    """The link stands still for a second once an episode, on the way: what is on its way waits it out."""
    usual = typical_s * rng.lognormal(0.0, 0.1, (episodes, ticks))
    begins = rng.uniform(0.3, 1.5, (episodes, 1))
    sent = np.arange(ticks) * period_s
    in_the_way = (sent < begins + OUTAGE_S) & (sent + usual > begins)
    return usual + np.where(in_the_way, begins + OUTAGE_S - np.maximum(sent, begins), 0.0)


DISTRIBUTIONS: Final[dict[str, Draw]] = {
    "constant": constant, "lognormal": lognormal, "spikes": spikes, "markov": markov, "outage": outage,
}  # fmt: skip


def drawn(name: str, typical_s: float, *, episodes: int, ticks: int, period_s: float, seed: int) -> Seconds:
    """Delays `[episodes, ticks]` in seconds, the same for everyone who asks with the same numbers."""
    rng = np.random.default_rng([seed, 7, list(DISTRIBUTIONS).index(name)])
    return DISTRIBUTIONS[name](rng, typical_s, episodes, ticks, period_s)
