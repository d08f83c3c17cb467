"""The plain arguments of `sequence-ai` 0.1.0's ``run`` in our own words. Pure."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from seqrt.action.blend import Ramp
from seqrt.action.splice import Splice
from seqrt.runtime.options import Limits, Play

Options = TypeVar("Options", Play, Limits)


def play_of(
    play: Play | None,
    *,
    prefetch: bool = True,
    smooth_seam: int = 0,
    splice: Splice | None = None,
    seed: int | None = None,
) -> Play:
    """How to play: ``play``, with what was said by a plain argument in its place.

    Args:
        play: As `Policy.run` is given it; None for the defaults.
        prefetch: False stops at each chunk's end.
        smooth_seam: Rows of each later chunk that ramp out of the row executed last; 0 changes none.
        splice: Where a new chunk lies.
        seed: Goes with every act.

    Raises:
        ValueError: Something is said both ways, and differently.
        TypeError: An argument of another kind.
    """
    if isinstance(smooth_seam, bool) or not isinstance(smooth_seam, int) or smooth_seam < 0:
        raise ValueError(f"smooth_seam is a number of rows, 0 or more, not {smooth_seam!r}")
    said: dict[str, Any] = {}
    if prefetch is not True:
        said["prefetch"] = prefetch
    if smooth_seam:
        said["seam"] = Ramp(smooth_seam)
    if splice is not None:
        said["splice"] = splice
    if seed is not None:
        said["seed"] = seed
    return _with(Play() if play is None else play, Play(), said, "play=seqrt.Play")


def limits_of(limits: Limits | None, *, startup_timeout_s: float = 0.0) -> Limits:
    """When to stop: ``limits``, with what was said by a plain argument in its place.

    Raises:
        ValueError: Something is said both ways, and differently.
    """
    said = {"startup_timeout_s": startup_timeout_s} if startup_timeout_s else {}
    return _with(Limits() if limits is None else limits, Limits(), said, "limits=seqrt.Limits")


def params_of(
    params: dict[str, Any] | None, *, action_horizon: int | None = None, return_world_prediction: bool | None = None
) -> dict[str, Any] | None:
    """Values for the policy's parameters; two that 0.1.0 has arguments for among them."""
    named = {"action_horizon": action_horizon, "return_world_prediction": return_world_prediction}
    given = {name: value for name, value in named.items() if value is not None}
    return {**(params or {}), **given} or None


def check_whole(max_actions: Any) -> None:
    """Refused before anything is sent, as all else that is wrong with the arguments.

    Raises:
        ValueError: It is no whole number above 0.
    """
    number = not isinstance(max_actions, bool) and isinstance(max_actions, int | float | np.integer)
    if not number or not max_actions >= 1 or max_actions % 1:
        raise ValueError(f"max_actions must be a whole number above 0, not {max_actions!r}")


def _with(options: Options, defaults: Options, said: dict[str, Any], where: str) -> Options:
    """``options`` with ``said`` in it; unless it says something else already."""
    if type(options) is not type(defaults):
        raise TypeError(f"{where}(…) is what that takes, not {options!r}")
    known = {field.name: getattr(options, field.name) for field in fields(options)}
    for name, value in said.items():
        if known[name] not in (getattr(defaults, name), value):
            raise ValueError(
                f"{name} is said twice, as an argument of its own ({value!r}) and by {where}({name}={known[name]!r}): "
                "leave one out"
            )
    return replace(options, **said) if said else options
