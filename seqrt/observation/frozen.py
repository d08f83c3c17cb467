"""Pictures that stand still while the arm moves: what a camera that hangs looks like. Pure; cheap enough for a tick.

A sensor's noise makes every picture differ from the one before, so equal bytes are no new picture. But a scene in which
nothing moves may well give equal ones where there is no noise (a simulator), and a camera slower than the grid is seen
twice: so what counts is how many rows have moved the arm while a picture stayed the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import numpy as np
import numpy.typing as npt

LEAST_BYTES: Final = 1024
"""Undeclared arrays, bytes and text below this are no pictures: a resting arm's state may well stay the same."""
_SAMPLES = 24
"""Places an axis of the sample that is compared first: of a noisy picture some of them always change."""
_FEWEST = 3
"""Frames alike, the first included, before a picture is frozen: a camera at a third of the grid's rate gives three."""

_Picture = npt.NDArray[Any] | bytes | str


@dataclass
class _Seen:
    """What is known of one picture.

    Attributes:
        sample: A few of its bytes.
        moved: The count of rows that moved the arm, when it was first seen so.
        whole: A copy of its own; None until a second one had the same sample: a driver may overwrite the first.
        frames: Frames alike, the first included.
        told: Whether it has been called frozen.
    """

    sample: bytes
    moved: int
    whole: bytes | npt.NDArray[Any] | None = None
    frames: int = 1
    told: bool = False


@dataclass(frozen=True)
class Frozen:
    """A picture that is the same as long ago.

    Attributes:
        key: Where it stands in the observation.
        rows: Rows that have moved the arm since it was first seen so.
        frames: Observations that showed it and had not been counted yet: all but the first when it is noticed, then
            one at a time.
        first: True when it is noticed.
    """

    key: str
    rows: int
    frames: int
    first: bool


class FrozenPictures:
    """One run's pictures, each against the one before it.

    Args:
        cameras: Keys declared as cameras: looked at whatever their size.
        rows: Rows that must have moved the arm before a picture that stays the same is called frozen.
    """

    def __init__(self, cameras: Collection[str] = (), *, rows: int = 1) -> None:
        self._cameras = frozenset(cameras)
        self._rows = max(1, rows)
        self._seen: dict[str, _Seen] = {}

    def see(self, observation: Any, moved: int) -> list[Frozen]:
        """Look at one observation.

        Args:
            observation: It; what is no mapping holds no pictures.
            moved: How many rows have moved the arm so far.

        Returns:
            Its pictures that are frozen, mostly none.
        """
        found = (self._look(key, picture, moved) for key, picture in self._pictures(observation))
        return [frozen for frozen in found if frozen is not None]

    def _pictures(self, observation: Any) -> Iterator[tuple[str, _Picture]]:
        for key, value in observation.items() if isinstance(observation, Mapping) else ():
            if isinstance(value, list):  # the robot-arm contract's views
                for index, view in enumerate(value):
                    data = view.get("data") if isinstance(view, Mapping) else view
                    if _is_picture(data, LEAST_BYTES):
                        yield f"{key}[{index}]", data
            elif _is_picture(value, 1 if key in self._cameras else LEAST_BYTES):
                yield key, value

    def _look(self, key: str, picture: _Picture, moved: int) -> Frozen | None:
        whole = picture if isinstance(picture, bytes | str) else _in_memory_order(picture)
        sample = _sample(whole)
        seen = self._seen.get(key)
        if seen is None or seen.sample != sample:
            self._seen[key] = _Seen(sample, moved)
            return None
        seen.frames += 1
        if seen.whole is None:
            seen.whole = _copied(whole)
        elif not _equal(seen.whole, whole):
            self._seen[key] = _Seen(sample, moved, _copied(whole))
            return None
        rows = moved - seen.moved
        if rows < self._rows or seen.frames < _FEWEST:
            return None
        first, seen.told = not seen.told, True
        return Frozen(key, rows, frames=seen.frames - 1 if first else 1, first=first)


def rows_in(seconds: float, period_s: float) -> int:
    """How many rows a moving arm is sent in so many seconds, at least one."""
    return max(1, math.ceil(seconds / period_s - 1e-9))


def _is_picture(value: Any, least_bytes: int) -> TypeGuard[_Picture]:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc" and value.nbytes >= least_bytes
    return isinstance(value, bytes | str) and len(value) >= least_bytes


def _in_memory_order(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers as they lie in memory, a view: channels turned round or axes moved are slow to walk through."""
    flipped = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)]
    ordered: npt.NDArray[Any] = flipped.transpose(np.argsort([-stride for stride in flipped.strides], kind="stable"))
    return ordered


def _sample(whole: _Picture) -> bytes:
    if isinstance(whole, str):
        return whole[:: max(1, len(whole) // 1024)].encode()
    if isinstance(whole, bytes):
        return whole[:: max(1, len(whole) // 1024)]
    return whole[tuple(slice(None, None, max(1, length // _SAMPLES)) for length in whole.shape)].tobytes()


def _copied(whole: _Picture) -> bytes | npt.NDArray[Any]:
    if isinstance(whole, bytes):
        return whole
    return whole.encode() if isinstance(whole, str) else np.array(whole, order="C")


def _equal(before: bytes | npt.NDArray[Any], whole: _Picture) -> bool:
    """Byte for byte: a not-a-number equals itself here."""
    if not isinstance(before, np.ndarray) or not isinstance(whole, np.ndarray):
        return before == (whole.encode() if isinstance(whole, str) else whole)
    if before.shape != whole.shape or before.dtype != whole.dtype:
        return False
    return bool(np.array_equal(_words(before), _words(np.ascontiguousarray(whole))))


def _words(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    flat = array.reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat
