"""What a policy declares about its observations: which keys, from which steps. People write it, pydantic checks it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from seqrt.observation.camera import Camera
from seqrt.observation.whole import integer

MAX_STREAMS = 64
MAX_OFFSETS = 256


def _number(value: Any) -> int | float:
    """A count of steps or a time: integers stay integers; bools, NaN and infinities are no numbers here."""
    if hasattr(value, "__index__"):
        return integer(value)
    if not isinstance(value, float | np.floating) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number of steps or seconds")
    return float(value)


def _listed(value: Any) -> Any:
    # The fields are Sequences, so that type checkers let people write lists; what is kept is a tuple.
    return tuple(value) if isinstance(value, list | np.ndarray) else value


_Offset = Annotated[int | float, BeforeValidator(_number), Field(le=0, ge=-(2**31))]
_Every = Annotated[int | float, BeforeValidator(_number), Field(gt=0, le=2**31)]
_Axis = Annotated[int, BeforeValidator(integer), Field(ge=1, le=2**31)]
_Name = Annotated[str, Field(min_length=1, max_length=128)]


class Stream(BaseModel):
    """One key of the observation, and the steps it is read at.

    Attributes:
        at: Offsets to the act's own step: 1 to 256 unique numbers ≤ 0, kept sorted. ``[-15, 0]`` is the frame of
            fifteen steps ago and the newest. The act's own step unless given; None beside ``every``.
        every: > 0, in the place of ``at``: the key is fed. An act at step t reads t, t - every, t - 2 · every … down
            to the step of the act before it, which is left out.
        shape: Shape of the array, each axis ≥ 1; ``[]`` is one number. None: not checked.
        dtype: numpy name of the array's type ("float32", "uint8" …). None: as the robot gives it.
        names: One name an entry of the last axis.
        camera: The picture it holds. It says shape and type by itself; a ``shape`` or ``dtype`` beside it must be
            that of the array the policy is handed (`Camera.shape`, `Camera.dtype`), and ``names`` have no meaning.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: Annotated[Sequence[_Offset], BeforeValidator(_listed), Field(min_length=1, max_length=MAX_OFFSETS)] | None = (
        0,
    )
    every: _Every | None = None
    shape: Annotated[Sequence[_Axis], BeforeValidator(_listed), Field(max_length=64)] | None = None
    dtype: str | None = None
    names: Annotated[Sequence[_Name], BeforeValidator(_listed), Field(min_length=1)] | None = None
    camera: Camera | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """Sort the offsets and write the dtype by its name, before the fields are frozen."""
        if not isinstance(data, dict):
            return data
        data = _read_one_way(dict(data))
        at = data.get("at")
        if isinstance(at, list | tuple | np.ndarray):
            steps = [_number(offset) for offset in at]
            if len(set(steps)) != len(steps):
                raise ValueError(f"at: {sorted(steps)} names an offset twice; give each once")
            data["at"] = tuple(sorted(steps))
        if data.get("dtype") is not None:
            data["dtype"] = _dtype_name(data["dtype"])
        return data

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = dump(self)
        if self.at is None:
            plain.pop("at", None)
        return plain

    @model_validator(mode="after")
    def _agree(self) -> Stream:
        if self.camera is not None:
            _check_picture(self, self.camera)
        if self.names is None:
            return self
        if len(set(self.names)) != len(self.names):
            raise ValueError("names: each entry needs a name of its own")
        if self.shape is not None and (not self.shape or self.shape[-1] != len(self.names)):
            raise ValueError(
                f"names: {len(self.names)} names for the last axis of shape {list(self.shape)}; give one an entry"
            )
        return self


class Observations(BaseModel):
    """What a policy reads: windows of declared keys, or (without ``streams``) the whole observation.

    ``infer`` is handed ``{"observations": [...], "steps": [...]}``, oldest first. A policy that declares no
    Observations at all is handed its inputs bare.

    Attributes:
        streams: The keys and where they are read; only these are sent. None: the whole observation.
        every: > 0, without streams: the whole observation is fed, each that many steps since the last act. None: that
            of the act's step alone.
        pad: What a step before the first observation reads: "repeat_first" the first one, "drop" nothing.
        when_behind: What the robot does with frames its link cannot keep up with. "wait" sends all of them in order,
            and acts wait for theirs. "drop_oldest" drops queued frames before they are sent and tells their numbers
            as skipped. A frame read through ``at`` is behind when no act that is out and no later one reads it; a fed
            one when more than `seqrt.runtime.ledger.BEHIND` fed frames wait to be sent, the oldest first, an act's
            own step never.
        unit: What offsets are counted in: "steps" of the grid, whole numbers, or "seconds", rounded to the nearest
            step (half to even) at the grid's rate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: Annotated[dict[str, Stream], Field(min_length=1, max_length=MAX_STREAMS)] | None = None
    every: _Every | None = None
    pad: Literal["repeat_first", "drop"] = "repeat_first"
    when_behind: Literal["wait", "drop_oldest"] = "wait"
    unit: Literal["steps", "seconds"] = "steps"

    @model_validator(mode="after")
    def _readable(self) -> Observations:
        streams = self.streams or {}
        if streams and self.every is not None:
            raise ValueError("every: the whole observation or streams of it, not both; give each stream its `every`")
        for key in streams:
            if not 1 <= len(key) <= 128 or key != key.strip():
                raise ValueError(f"streams: {key!r} is no key; write 1 to 128 characters with no blanks around them")
        if streams and all(stream.at is not None and stream.at[-1] != 0 for stream in streams.values()):
            raise ValueError("streams: no key reads offset 0, the observation the act is about; add 0 to one `at`")
        if self.unit == "steps":
            _check_whole(self.every, "every")
            for key, stream in streams.items():
                for value in (*(stream.at or ()), stream.every):
                    _check_whole(value, key)
        return self


def _check_picture(stream: Stream, camera: Camera) -> None:
    if stream.names is not None:
        raise ValueError("names: a picture's entries have none; leave names out beside camera")
    if stream.shape is not None and tuple(stream.shape) != camera.shape:
        raise ValueError(
            f"shape: {list(stream.shape)}, but this camera's pictures are handed over as {list(camera.shape)}; leave "
            "shape out beside camera"
        )
    if stream.dtype is not None and stream.dtype != camera.dtype:
        raise ValueError(
            f"dtype: {stream.dtype}, but this camera's pictures are handed over as {camera.dtype}; leave dtype out "
            "beside camera, and choose by its layout"
        )


def _read_one_way(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("every") is None:
        return {name: value for name, value in data.items() if name != "at" or value is not None}
    if data.get("at") is not None:
        raise ValueError("every: a key is read `at` its offsets or fed `every` so many steps, not both")
    return {**data, "at": None}


def _check_whole(value: int | float | None, what: str) -> None:
    if isinstance(value, float):
        raise ValueError(f"{what}: {value!r} is not an integer; steps are counted whole, or declare unit='seconds'")


def _dtype_name(value: Any) -> str:
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError) as unknown:
        raise ValueError(f"dtype: numpy knows no type {value!r}") from unknown
    if dtype.kind not in "biufc" or dtype.names is not None:
        raise ValueError(f"dtype: {value!r} is not a numeric type; leave dtype out for text and other values")
    return str(dtype.name)
