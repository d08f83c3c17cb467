"""Observations made safe to keep: arrays that are somebody else's are copied, views that pin a large body too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from seqrt.wire.limits import size_of

_PLAIN: Final = frozenset({float, int, bool, str, bytes, type(None)})


def owned(inputs: Any) -> Any:
    """``inputs`` as it may be kept for as long as an episode.

    A writable array is the robot's own buffer and may be filled anew under our hands: it is copied. A read-only one is
    a view on the body it came in: it is copied when it would keep much more memory alive than the episode is charged
    with.
    """
    return _copied(inputs, most=2 * size_of(inputs))


def _copied(value: Any, most: int) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        if value.flags.writeable or _backing_bytes(value) > most:
            copy = value.copy()
            copy.flags.writeable = False
            return copy
        return value
    if type(value) is list:
        return [_copied(entry, most) for entry in value]
    if isinstance(value, Mapping):
        return {key: _copied(entry, most) for key, entry in value.items()}
    return tuple(_copied(entry, most) for entry in value) if type(value) is tuple else value


def _backing_bytes(array: npt.NDArray[Any]) -> int:
    """Size of the buffer a view keeps alive."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        return len(base.obj) if isinstance(base.obj, bytes | bytearray) else base.nbytes
    return base.nbytes if isinstance(base, np.ndarray) else len(base) if isinstance(base, bytes | bytearray) else 0
