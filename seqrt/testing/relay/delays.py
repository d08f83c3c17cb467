"""`Delays`: how long each direction is, as scripts of durations with a seeded jitter on top."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from seqrt.testing.durations import Durations, drawn
from seqrt.testing.outages import Direction


class Delays:
    """The delays of both directions.

    Args:
        jitter_s: Up to this much more, uniform.
        seed: Of the jitter.
        numbers: Refuse scripts that are no numbers: something else asks how long a direction is.

    Raises:
        ValueError: A jitter that is negative or not finite.
    """

    def __init__(self, jitter_s: float, seed: int, *, numbers: bool) -> None:
        if not (math.isfinite(jitter_s) and jitter_s >= 0):
            raise ValueError(f"a jitter of {jitter_s!r} s: finite and not negative")
        self._jitter_s, self._seed, self._numbers = jitter_s, seed, numbers
        self._scripts: dict[Direction, Durations] = {}

    def script(self, direction: Direction, delay_s: Durations) -> Callable[[], float]:
        """Set a direction's delay: what draws it from now on.

        Raises:
            ValueError: A delay that is negative or not finite, or no number where numbers are asked for.
        """
        if self._numbers and not isinstance(delay_s, (int, float)):
            raise ValueError("window_model needs delays that are numbers: acknowledgements take them too")
        draw, rng, jitter_s = drawn(delay_s), random.Random(f"jitter {direction} {self._seed}"), self._jitter_s
        self._scripts[direction] = delay_s
        return (lambda: draw() + rng.uniform(0, jitter_s)) if jitter_s else draw

    def number_s(self, direction: Direction) -> float:
        """A direction's delay where it is a number, without the jitter; 0 for other scripts."""
        delay_s = self._scripts[direction]
        return float(delay_s) if isinstance(delay_s, (int, float)) else 0.0
