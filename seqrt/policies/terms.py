"""On what terms a policy serves: time allowed, acts at once, whose state it is, tensors. Written by people."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

EpisodeMode: TypeAlias = Literal["shared", "own"]
"""Whose the state of an episode is: "shared", in `Episode.state` of one copy; "own", on ``self`` of its own copy."""

OnFull: TypeAlias = Literal["queue", "reject"]
"""What an act meets that finds every place taken: it waits, or is told 429 at once."""


class Term(BaseModel):
    """What all declarations of this package share: frozen, and a field that is not known is refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        unknown = [str(name) for name in data if name not in cls.model_fields] if isinstance(data, dict) else []
        if unknown:
            near = get_close_matches(unknown[0], cls.model_fields, n=1)
            known = ", ".join(cls.model_fields)
            meant = f"did you mean {near[0]!r}?" if near else f"it has {known}"
            raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}; {meant}")
        return data


def a_number(value: Any) -> Any:
    """Neither truth nor text is a number here: pydantic would read True as 1.0 and "15" as 15.0."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise ValueError(f"write a number, not {value!r}")
    return value.item() if isinstance(value, np.generic) else value


def a_bool(value: Any) -> Any:
    """True or False themselves; pydantic would read 1 and "yes" as True."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"write True or False, not {value!r}")
    return bool(value)


Bool: TypeAlias = Annotated[bool, BeforeValidator(a_bool)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(a_number)]
Whole: TypeAlias = Annotated[int, Field(strict=True), BeforeValidator(a_number)]


class Timeouts(Term):
    """How long things may take, in seconds.

    Attributes:
        request: One act, from its arrival to its answer.
        startup: The first act, which may compile or warm up.
        episode_idle: How long an episode of which nothing is heard is kept.
    """

    request: Annotated[Number, Field(ge=1, le=3600)] = 300.0
    startup: Annotated[Number, Field(ge=60, le=18_000)] = 1800.0
    episode_idle: Annotated[Number, Field(ge=10, le=86_400)] = 300.0


class Concurrency(Term):
    """Acts of different episodes are inferred together: ``infer`` is handed lists and returns a list.

    Attributes:
        max_concurrent: The most acts in one call, 2 to 256.
        dynamic: True: a call takes the acts that are waiting at that moment, at most ``max_concurrent``. False: every
            call has exactly ``max_concurrent`` entries, the last act's repeated, for models compiled to one size.
    """

    max_concurrent: Annotated[Whole, Field(ge=2, le=256)]
    dynamic: Bool = True


class Tensors(Term):
    """Numeric arrays reach ``infer`` as torch tensors on the policy's device; tensors it answers go back as arrays.

    Attributes:
        batch: Each has a leading axis of 1, as models are trained; False: as it is.
    """

    batch: Bool = True
