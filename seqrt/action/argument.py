"""Numbers a user writes into an option: refused by name, when they are written, where they mean nothing.

Called by the options' own checks. What numpy calls a number is one; truth and text are none.
"""

from __future__ import annotations

import math
from numbers import Real


def above_zero(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a finite number above 0.

    Raises:
        TypeError: It is no number.
        ValueError: It is another.
    """
    if not _number(name, value, "a finite number above 0") > 0:
        raise ValueError(f"{name} must be a finite number above 0, not {value!r}")


def at_least_zero(name: str, value: object) -> None:
    """Refuse ``value`` unless it is a finite number of seconds, 0 or more.

    Raises:
        TypeError: It is no number.
        ValueError: It is another.
    """
    if not _number(name, value, "a finite number of seconds, 0 or more") >= 0:
        raise ValueError(f"{name} must be a finite number of seconds, 0 or more, not {value!r}")


def whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse ``value`` unless it is a whole number from ``least`` to ``most`` (None: as large as it likes).

    Raises:
        TypeError: It is no whole number.
        ValueError: It is another.
    """
    bounds = f"{least} or more" if most is None else f"from {least} to {most}"
    said = f"{name} must be a whole number, {bounds}, not {value!r}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(said)
    if value < least or (most is not None and value > most):
        raise ValueError(said)


def _number(name: str, value: object, wanted: str) -> float:
    """The number; NaN, which is neither above nor below anything, where it is not finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    number = float(value)
    return number if math.isfinite(number) else math.nan
