"""How two rows of one space may be mixed: what a crossfade, a ramp, a substep and a stretched row are made of.

Read off the declaration once a run. Positions are averaged; a gripper is open or closed and takes the newer row's
value; a quaternion turns on the short way. What was not declared absolute is not mixed at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.action.rows import Rows

Row: TypeAlias = npt.NDArray[np.float64]

_NEARLY_EQUAL = 1.0 - 1e-9
"""Cosine of the half angle above which slerp's sines are lost to rounding and a straight line is the same turn."""


@dataclass(frozen=True)
class Mixing:
    """The columns of a row that are not plain numbers.

    Attributes:
        gripper: Columns that are never averaged.
        quaternions: Columns of each quaternion, four a piece, whichever order their numbers stand in.
    """

    gripper: tuple[int, ...] = ()
    quaternions: tuple[tuple[int, int, int, int], ...] = ()

    @classmethod
    def of(cls, actions: Actions | None) -> Mixing | None:
        """The mixing a declaration allows; None where rows may not be mixed (undeclared, delta, velocity)."""
        if actions is None or not actions.mixes:
            return None
        parts = actions.parts
        turns = () if parts is None else parts.quaternion
        return cls(
            gripper=() if parts is None else parts.gripper,
            quaternions=tuple((turns[i], turns[i + 1], turns[i + 2], turns[i + 3]) for i in range(0, len(turns), 4)),
        )

    def mix(self, old: Rows, new: Rows, weight: float | npt.NDArray[np.float64]) -> Rows:
        """Rows between ``old`` and ``new``.

        Args:
            old: `[n, A]`.
            new: `[n, A]`.
            weight: Of the new row, in [0, 1]: one number, or one a row `[n]`. At 0 the row is the old one but for its
                grippers, at 1 the new one.

        Returns:
            float64 `[n, A]`, the caller's own.
        """
        share = np.asarray(weight, dtype=np.float64).reshape(-1, 1)
        mixed = (1.0 - share) * old + share * new
        for turn in self.quaternions:
            mixed[:, turn] = _slerp(old[:, turn], new[:, turn], share)
        if self.gripper:
            mixed[:, self.gripper] = new[:, self.gripper]
        return mixed

    def between(self, old: Row, new: Row, weight: float) -> Row:
        """One row between two, float64 `[A]`: what `mix` makes of them, at a third of its cost inside a tick."""
        row: Row = (1.0 - weight) * old + weight * new
        for turn in self.quaternions:
            row[[*turn]] = _turned([float(old[c]) for c in turn], [float(new[c]) for c in turn], weight)
        if self.gripper:
            row[[*self.gripper]] = new[[*self.gripper]]
        return row


def _turned(old: list[float], new: list[float], share: float) -> list[float]:
    """`_slerp` of two quaternions, without an array."""
    cosine = sum(a * b for a, b in zip(old, new, strict=True))
    sign, cosine = (-1.0 if cosine < 0.0 else 1.0), min(abs(cosine), 1.0)
    from_old, from_new = 1.0 - share, share
    if cosine <= _NEARLY_EQUAL:
        angle = math.acos(cosine)
        from_old, from_new = math.sin(from_old * angle), math.sin(from_new * angle)  # over a sine that cancels below
    turned = [from_old * a + sign * from_new * b for a, b in zip(old, new, strict=True)]
    length = math.hypot(*turned) or 1.0
    return [number / length for number in turned]


def _slerp(old: Rows, new: Rows, share: Rows) -> Rows:
    """Spherical interpolation (Shoemake 1985) of unit quaternions `[n, 4]` on the short way, kept of unit length."""
    cosine = np.sum(old * new, axis=1, keepdims=True)
    short = np.where(cosine < 0.0, -new, new)
    cosine = np.minimum(np.abs(cosine), 1.0)
    angle = np.arccos(cosine)
    sine = np.where(cosine > _NEARLY_EQUAL, 1.0, np.sin(angle))
    from_old = np.where(cosine > _NEARLY_EQUAL, 1.0 - share, np.sin((1.0 - share) * angle) / sine)
    from_new = np.where(cosine > _NEARLY_EQUAL, share, np.sin(share * angle) / sine)
    turned = from_old * old + from_new * short
    length = np.linalg.norm(turned, axis=1, keepdims=True)
    unit: Rows = turned / np.where(length > 0.0, length, 1.0)
    return unit
