"""An observation held against the declaration: on the robot before it is sent, on the worker before ``infer``.

Whatever disagrees is named with both sides of it, before any motion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.errors import ObservationError
from seqrt.observation.cameras import check_picture
from seqrt.observation.declaration import Observations, Stream


def check(observation: Any, observations: Observations | None) -> Any:
    """The observation as the policy declared it.

    Args:
        observation: What the robot read.
        observations: The declaration. Without streams anything passes as it is.

    Returns:
        A new dict of the declared keys alone, arrays cast where that loses nothing a declared type can hold
        (float64 to float32, integers that fit). Values that need no cast are the ones given, not copies. Pictures are
        held against their cameras by shape alone; what they hold is looked at when they are encoded.

    Raises:
        ObservationError: A declared key is missing, or a value has another shape or a type that cannot be cast; names
            the key and both sides.
    """
    if observations is None or observations.streams is None:
        return observation
    if not isinstance(observation, Mapping):
        raise ObservationError(
            f"the policy reads the keys {_list(observations.streams)}; this observation is a "
            f"{type(observation).__name__}, not a mapping of them",
            expected=list(observations.streams),
            found=type(observation).__name__,
        )
    for key in observations.streams:
        if key not in observation:
            raise _missing(key, observation)
    return {key: check_value(key, observation[key], stream) for key, stream in observations.streams.items()}


def unread(observation: Any, observations: Observations | None) -> list[str]:
    """Keys the robot gives and the policy does not read, sorted: they are never sent. Without streams all are read."""
    if observations is None or observations.streams is None or not isinstance(observation, Mapping):
        return []
    return sorted(str(key) for key in observation if key not in observations.streams)


def check_value(key: str, value: Any, stream: Stream) -> Any:
    """One value held against its stream; as `check`."""
    if stream.camera is not None:
        return check_picture(key, value, stream.camera)
    if stream.shape is None and stream.dtype is None and stream.names is None:
        return value
    array = _array(key, value)
    _check_shape(key, array, stream)
    if stream.dtype is None or array.dtype.name == stream.dtype:
        return array
    return _cast(key, array, np.dtype(stream.dtype))


def _array(key: str, value: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise ObservationError(f"{key!r}: lists of unequal length are no array", key=key, found="ragged") from ragged
    if array.dtype.kind not in "biufc":
        what = type(value).__name__ if array.dtype.kind in "OSU" else str(array.dtype)
        raise ObservationError(
            f"{key!r} is declared as numbers, this observation holds {what}", key=key, expected="numbers", found=what
        )
    return array


def _check_shape(key: str, array: npt.NDArray[Any], stream: Stream) -> None:
    found = list(array.shape)
    if stream.shape is not None and array.shape != stream.shape:
        expected = list(stream.shape)
        raise ObservationError(
            f"{key!r} has shape {found}, the policy declares {expected}{_shape_hint(expected, found)}",
            key=key,
            expected=expected,
            found=found,
        )
    if stream.names is not None and (not found or found[-1] != len(stream.names)):
        raise ObservationError(
            f"{key!r} has shape {found}, the policy names {len(stream.names)} entries ({_list(stream.names)})",
            key=key,
            expected=len(stream.names),
            found=found,
        )


def _shape_hint(expected: list[int], found: list[int]) -> str:
    if [1, *found] == expected:
        return " (add a leading axis: value[None])"
    if [1, *expected] == found:
        return " (drop the leading axis: value[0])"
    if sorted(expected) == sorted(found):
        return " (the axes stand in another order)"
    return ""


def _cast(key: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """To the declared type where every value survives: same kind or wider, in range; floats may lose precision."""
    if not np.can_cast(array.dtype, dtype, casting="same_kind") and not (
        array.dtype.kind in "iu" and dtype.kind in "iu"
    ):
        raise _uncastable(key, array, dtype, "")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise _uncastable(key, array, dtype, f": it holds {low if low < limits.min else high}")
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if dtype.kind in "fc" and np.isinf(cast).any() and not np.isinf(array).any():
        raise _uncastable(key, array, dtype, ": it holds numbers too large for it")
    return cast


def _uncastable(key: str, array: npt.NDArray[Any], dtype: np.dtype[Any], why: str) -> ObservationError:
    return ObservationError(
        f"{key!r} is {array.dtype.name}, the policy declares {dtype.name}, and the one cannot be cast to the other"
        f"{why}",
        key=key,
        expected=dtype.name,
        found=array.dtype.name,
    )


def _missing(key: str, observation: Mapping[Any, Any]) -> ObservationError:
    names = [str(name) for name in observation]
    near = get_close_matches(key, names, n=1, cutoff=0.6) or [
        name for name in names if key.lower() in name.lower() or name.lower() in key.lower()
    ]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ObservationError(
        f"the policy reads {key!r}, this observation has no such key (it has: {_list(names) or 'none'}){hint}",
        key=key,
        expected=key,
        found=names,
    )


def _list(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(map(repr, names[:20]))
    return f"{shown}, and {len(names) - 20} more" if len(names) > 20 else shown
