"""Scripted durations: how long a leg of the network, an inference or a read takes, one value after another.

A script is one of: a number (always that), a sequence (one value a call, the last one from then on), or a function
without arguments that is called each time. `jittered` and `spiky` make seeded functions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

Durations = float | Sequence[float] | Callable[[], float]
"""Seconds, as a number, a sequence or a function; see the module's text."""


def drawn(durations: Durations) -> Callable[[], float]:
    """The script as a function that gives the next duration.

    Raises:
        ValueError: Here for a number or a sequence, at the call for a function: a duration that is negative or not
            finite, or an empty sequence.
    """
    if callable(durations):
        function = durations
        return lambda: _checked(function())
    values = [_checked(value) for value in (durations if isinstance(durations, Sequence) else [durations])]
    if not values:
        raise ValueError("a sequence of durations needs at least one")
    rest = iter(values)
    last = values[-1]
    return lambda: next(rest, last)


def jittered(median_s: float, sigma: float = 0.2, *, seed: int = 0) -> Callable[[], float]:
    """Lognormal durations around a median.

    Args:
        median_s: Half of the durations are shorter.
        sigma: Standard deviation of the logarithm; 0.2 is about 20 %.
        seed: Of the random numbers.
    """
    rng = random.Random(seed)
    return lambda: rng.lognormvariate(math.log(median_s), sigma)


def spiky(usual: Durations, late: Durations, *, chance: float = 0.05, seed: int = 0) -> Callable[[], float]:
    """``usual`` durations, and with a ``chance`` of 0..1 one from ``late`` instead."""
    rng = random.Random(seed)
    draw_usual, draw_late = drawn(usual), drawn(late)
    return lambda: draw_late() if rng.random() < chance else draw_usual()


def _checked(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"a duration of {value!r} s: it has to be finite and not negative")
    return float(value)
