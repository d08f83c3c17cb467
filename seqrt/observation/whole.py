"""Whole numbers as people declare them: pydantic would take ``True`` and ``15.0`` for one."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def integer(value: Any) -> int:
    """A true integer: numpy's are taken, bools and floats (15.0 too) are not."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise ValueError(f"{value!r} is not an integer; steps, axes and sizes are counted in whole numbers")
    return operator.index(value)
