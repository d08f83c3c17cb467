"""Parameters an act may set: declared, told to robots, cast and checked before anything is inferred."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from seqrt.errors import remote_error
from seqrt.policies.terms import Number, Term

MAX_PARAMS: Final = 32

Value: TypeAlias = bool | int | float | str
TypeName: TypeAlias = Literal["int", "float", "bool", "str"]

TYPES: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "str": str}
_WORDS: Final = {"true": True, "false": False, "1": True, "0": False}
_Strict: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr


class InferParam(Term):
    """One parameter of ``infer``.

    Attributes:
        type: "int", "float", "bool" or "str" (the Python types themselves are taken too).
        default: What ``infer`` gets where the act does not say.
        min: The least number allowed, inclusive.
        max: The greatest number allowed, inclusive.
        choices: The values allowed, 1 to 64; None: any.
    """

    type: TypeName
    default: _Strict
    min: Number | None = None
    max: Number | None = None
    choices: Annotated[tuple[_Strict, ...], Field(min_length=1, max_length=64)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _cast(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        named = next((name for name, of in TYPES.items() if data.get("type") is of), data.get("type"))
        data["type"] = named
        if named in TYPES:
            if "default" in data:
                data["default"] = _cast(named, data["default"], "default")
            if isinstance(data.get("choices"), list | tuple):
                data["choices"] = tuple(_cast(named, choice, "choices") for choice in data["choices"])
        return data

    @model_validator(mode="after")
    def _agree(self) -> InferParam:
        if (self.min is not None or self.max is not None) and self.type not in ("int", "float"):
            raise ValueError(f"min and max are for numbers; a {self.type} takes choices")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} lies above max {self.max:g}; write them the other way round")
        if self.choices is not None and len(set(self.choices)) != len(self.choices):
            raise ValueError("choices: a value stands there twice; give each once")
        for where, value in [("default", self.default), *(("choices", choice) for choice in self.choices or ())]:
            if not self.allows(value):
                raise ValueError(f"{where}: {value!r} is not allowed by the declaration itself ({self.allowed})")
        return self

    def allows(self, value: Value) -> bool:
        """Whether a value of the right type lies within."""
        if self.choices is not None and value not in self.choices:
            return False
        if isinstance(value, str):
            return True
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    @property
    def allowed(self) -> str:
        """What may be set, for an error's sentence: ``int from 1 to 10``, ``str, one of 'a', 'b'``."""
        said: str = self.type
        if self.min is not None and self.max is not None:
            said += f" from {self.min:g} to {self.max:g}"
        elif self.min is not None or self.max is not None:
            said += f", at least {self.min:g}" if self.min is not None else f", at most {self.max:g}"
        return said + (f", one of {', '.join(map(repr, self.choices))}" if self.choices is not None else "")


def chosen(params: Mapping[str, InferParam], given: Mapping[str, Any] | None) -> dict[str, Value]:
    """Every parameter's value for one act: what it sets, cast to its type, and the defaults for the rest.

    Numbers given as text are read ("3"), a whole float is an int (3.0), an int a float, "true", "false", 0 and 1 a
    bool, a number a str. Nothing is rounded, and NaN and infinity are no numbers.

    Raises:
        InvalidRequest: A name is not declared or a value is not allowed; says what is.
    """
    for name in given or ():
        if name not in params:
            raise _unknown(name, params)
    return {
        name: _allowed(name, param, given[name]) if given is not None and name in given else param.default
        for name, param in params.items()
    }


def _allowed(name: str, param: InferParam, given: Any) -> Value:
    try:
        value = _cast(param.type, given, name)
    except ValueError:
        value = None
    if value is None or not param.allows(value):
        raise remote_error(
            "invalid_request",
            f"the parameter {name!r} may not be {given!r:.100}: it is {param.allowed}",
            details={"param": name, "allowed": param.model_dump(mode="json", exclude_none=True)},
        )
    return value


def _unknown(name: str, params: Mapping[str, InferParam]) -> Exception:
    near = get_close_matches(str(name), params, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    declared = (
        "the policy declares " + ", ".join(f"{known} ({param.allowed})" for known, param in params.items())
        if params
        else "this policy declares no parameters"
    )
    return remote_error(
        "invalid_request",
        f"the act sets {name!r}; {declared}{hint}",
        details={"params": [str(name)], "declared": sorted(params)},
    )


def _cast(to: str, given: Any, where: str) -> Value:
    """``given`` as the type named; ValueError where that would change what it says."""
    value = given.item() if isinstance(given, np.generic) else given
    cast = {"int": _int, "float": _float, "bool": _bool, "str": _str}[to](value)
    if cast is None:
        raise ValueError(f"{where}: {given!r:.100} is not {'an' if to == 'int' else 'a'} {to}")
    return cast


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    read: int | None = _read(int, value)
    return read


def _float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    read = _read(float, value) if not isinstance(value, int | float) else _read_number(value)
    return read if read is not None and math.isfinite(read) else None


def _read_number(value: int | float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def _str(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read(as_type: type[Any], value: Any) -> Any:
    try:
        return as_type(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
