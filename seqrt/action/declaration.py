"""What a policy declares about its actions: rate, space, names, limits. Written by people, checked by pydantic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

Space = Literal["absolute", "delta", "velocity"]


def _a_number(value: object) -> object:
    if isinstance(value, bool | str | bytes):
        raise ValueError(f"write a number, not {value!r}")
    return value


def _one_or_many(value: object) -> str:
    return "many" if isinstance(value, Iterable) and not isinstance(value, str) else "one"


# Neither truth nor text is a number here: pydantic would read True as 1.0 and "15" as 15.0.
_Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_a_number)]
_Positive = Annotated[float, Field(allow_inf_nan=False, gt=0), BeforeValidator(_a_number)]
_MaxDelta = Annotated[
    Annotated[_Positive, Tag("one")] | Annotated[tuple[_Positive, ...], Tag("many")], Discriminator(_one_or_many)
]


_Column = Annotated[int, Field(ge=0, strict=True)]


class Parts(BaseModel):
    """Columns of a row that are not plain numbers; they are never averaged.

    Attributes:
        gripper: Columns of grippers: the newer row's value is taken.
        quaternion: Columns of quaternions, four after four: turned on the short way.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    gripper: tuple[_Column, ...] = ()
    quaternion: tuple[_Column, ...] = ()

    @model_validator(mode="after")
    def _apart(self) -> Parts:
        if len(self.quaternion) % 4:
            raise ValueError(f"quaternion: {len(self.quaternion)} columns; write four for each quaternion")
        columns = [*self.gripper, *self.quaternion]
        if len(set(columns)) != len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            raise ValueError(f"parts: column {twice} stands there twice")
        return self

    @property
    def farthest(self) -> int:
        """The last column named; -1 for none."""
        return max((*self.gripper, *self.quaternion), default=-1)


class Actions(BaseModel):
    """What the rows of an answer are, and how they are meant to be played.

    Every field is optional; what is declared is held to, before any motion where that is possible.

    Attributes:
        key: Key of the answer that holds the rows `[H, A]`; None: the answer itself is the rows.
        model_key: Key of the answer under which the same rows stand as the model made them, before post-processing
            `[H, M]` (normalised, say). They go back to the policy as the prefix, and are no part of the outputs.
        hz: Rate of the rows, in (0, 1000]. It is the grid of the whole run.
        open_loop_horizon: Rows of a chunk that may be played before a newer one is there; longer answers are cut.
        space: "absolute", "delta" or "velocity"; None: nothing is repeated, blended or interpolated.
        names: One name a column `[A]`; mapped to the robot's own order by name.
        bounds: ``[low, high]`` a column, inclusive. A row outside never reaches ``act``.
        max_delta: Largest change of a column from one row to the next (of a delta: its size), one number for all
            columns or one a column.
        parts: Columns that are grippers or quaternions, for whoever mixes rows.
        mixable: False where absolute rows may not be averaged or interpolated either, as with poses of which nobody
            says which columns turn.
        open_loop: True where rows depend on the clock alone and not on where the arm was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    model_key: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    hz: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), BeforeValidator(_a_number)] | None = None
    open_loop_horizon: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None
    space: Space | None = None
    names: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] | None = None
    bounds: tuple[tuple[_Number, _Number], ...] | None = None
    max_delta: _MaxDelta | None = None
    parts: Parts | None = None
    mixable: Annotated[bool, Field(strict=True)] = True
    open_loop: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _agree(self) -> Actions:
        if self.model_key is not None and self.model_key == self.key:
            raise ValueError(f"model_key and key are both {self.key!r}; the model's own rows stand under another key")
        if self.model_key is not None and self.key is None:
            raise ValueError("model_key needs key beside it: the answer is then a mapping that holds both")
        lengths = {name: len(value) for name, value in self._columnwise().items()}
        for name in [name for name, count in lengths.items() if not count]:
            raise ValueError(f"{name} is empty: one entry a column is needed, or leave it out")
        if self.names is not None and len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"names: {twice!r} stands there twice; give each column a name of its own")
        for column, (low, high) in enumerate(self.bounds or ()):
            if low > high:
                raise ValueError(f"bounds: column {column} has low {low} above high {high}; write [low, high]")
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {count}" for name, count in lengths.items())
            raise ValueError(f"one entry a column is needed in each: {told}")
        beyond = self.parts.farthest if self.parts is not None else -1
        if self.dims is not None and beyond >= self.dims:
            raise ValueError(f"parts: column {beyond} is none of the {self.dims}, counted from 0")
        return self

    def _columnwise(self) -> dict[str, tuple[object, ...]]:
        declared = {"names": self.names, "bounds": self.bounds, "max_delta": self.max_delta}
        return {name: value for name, value in declared.items() if isinstance(value, tuple)}

    @property
    def mixes(self) -> bool:
        """Whether two rows may be averaged or interpolated: a space declared absolute, unless told otherwise."""
        return self.space == "absolute" and self.mixable

    @property
    def dims(self) -> int | None:
        """Columns of a row, A, where ``names``, ``bounds`` or ``max_delta`` say so; else None."""
        return next((len(value) for value in self._columnwise().values()), None)
