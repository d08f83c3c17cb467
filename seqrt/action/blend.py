"""How the rows at a seam are eased from the plan before into the new chunk: small strategies with one method.

Called by the plan at a splice, once the seam was measured. None is on by default: what the model asked for is what
the motors get, unless the user says otherwise. Only rows of a space declared absolute come here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from seqrt.action.argument import above_zero
from seqrt.action.guard import Row
from seqrt.action.parts import Mixing
from seqrt.action.rows import Rows
from seqrt.action.seam import Measure

_ROUNDING = 1e-9
"""Of the distance of two plans: what it may change by along them without their drawing apart."""


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth
class Crossing:
    """Two plans where one takes over from the other.

    Attributes:
        rows: The new chunk's rows from the seam on, float64 `[n, A]`, as answered.
        old: What would be played in their place without it `[m, A]`, from the same position on; m may be 0 (the plan
            runs dry there, or its rows are of another length).
        last: The row executed, or to be executed, right before the seam `[A]`; None where it is not known.
        spacing: s, ticks between two requests; None where it is not known.
        mixing: How rows of this space are mixed.
        measure: How far apart two rows are.
    """

    rows: Rows
    old: Rows
    last: Row | None
    spacing: int | None = None
    mixing: Mixing = field(default_factory=Mixing)
    measure: Measure = field(default_factory=Measure)


class Seam(Protocol):
    """Eases a seam.

    One that mixes rows of the plan before says so by an attribute ``overlaps = True``: requests are then sent early
    enough that rows of both plans are left. Where there is none, it needs no more than the row before.
    """

    def join(self, crossing: Crossing) -> Rows | None:
        """Rows to play in place of the first k of ``crossing.rows``: `[k, A]`, k ≤ n; None to play them as they are."""
        ...


@dataclass(frozen=True)
class Ramp:
    """The first n rows of each later chunk ramp out of the row executed last, row i by (i + 1) / (n + 1).

    `sequence-ai` 0.1.0's ``smooth_seam``. It knows nothing of the plan before, so each seam slows the arm down: use
    `Crossfade` where answers come before the plan is played out, this where the arm stops and goes.

    Attributes:
        n: Rows that are changed, 1 or more; fewer where the chunk has fewer.
    """

    n: int

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"Ramp(n) changes the first n rows of a chunk, 1 or more, not {self.n!r}")

    def join(self, crossing: Crossing) -> Rows | None:
        """The ramp; None before the first action and across a change of length."""
        n, last = min(self.n, len(crossing.rows)), crossing.last
        if last is None or not n or last.shape != crossing.rows[0].shape:
            return None
        old = np.broadcast_to(last, (n, len(last)))
        return crossing.mixing.mix(old, crossing.rows[:n], np.arange(1, n + 1) / (n + 1))


@dataclass(frozen=True)
class Crossfade:
    """Over the rows both plans have, from the old one to the new one, by the weights of real-time chunking.

    The old plan's share of row i of the new chunk is W_i = 1 for i < d, c_i (e^{c_i} − 1) / (e − 1) with
    c_i = (H − s − i) / (H − s − d + 1) for d ≤ i < H − s, and 0 after (Black, Galliker and Levine 2025, "Real-time
    execution of action chunking flow policies", soft masking). d is the rows passed at the seam; H − s is cut to where
    the old plan ends. Where no row is shared (the plan had run dry) nothing is changed.

    Gated: the mean of two plans that pass an obstacle on either side runs into it. Where the plans part, the new one is
    taken as it is. How far apart they are at the seam does not count: that way has to be gone anyhow, and an arm behind
    its command makes every two plans run side by side. It is by how much they draw apart over the rows they share.

    Attributes:
        schedule: "exp" for the weights above, "linear" for W_i = c_i.
        gate: How much the two plans may draw apart, over the rows they share, in parts of the way the longer of them
            goes over those rows (the sum of its steps); None mixes whatever comes. On a toy plant (a point that passes
            a disc on a side drawn anew each time) anything from 0.15 to 0.75 does the same.
    """

    schedule: Literal["exp", "linear"] = "exp"
    gate: float | None = 0.5
    overlaps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.schedule not in ("exp", "linear"):
            raise ValueError(f"schedule must be 'exp' or 'linear', not {self.schedule!r}")
        if self.gate is not None:
            above_zero("gate", self.gate)

    def join(self, crossing: Crossing) -> Rows | None:
        """The crossfade; None where no row is shared or the plans part."""
        shared = min(len(crossing.old), len(crossing.rows))
        if crossing.spacing is not None:
            shared = min(shared, len(crossing.rows) - crossing.spacing)
        if shared < 1:
            return None
        old, new = crossing.old[:shared], crossing.rows[:shared]
        if self._part(crossing.measure, old, new):
            return None
        return crossing.mixing.mix(old, new, 1.0 - self._old_share(shared))

    def _old_share(self, shared: int) -> npt.NDArray[np.float64]:
        c = np.arange(shared, 0, -1) / (shared + 1)
        return c if self.schedule == "linear" else c * np.expm1(c) / math.expm1(1.0)

    def _part(self, measure: Measure, old: Rows, new: Rows) -> bool:
        if self.gate is None:
            return False
        both, n = np.concatenate((old, new)), len(old)
        steps = measure.apart(both[1:], both[:-1])  # step n - 1 leads from one plan to the other
        way = max(float(steps[: n - 1].sum()), float(steps[n:].sum()))
        apart = measure.apart(old, new)
        return float(apart.max() - apart[0]) > self.gate * way + _ROUNDING * float(apart[0])
