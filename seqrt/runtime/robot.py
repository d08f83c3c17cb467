"""What a robot is to a run: three callables, sync or async, and perhaps names. One object or loose callbacks."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.errors import DeclarationError

logger = logging.getLogger(__name__)

Observation = Mapping[str, Any]
Row = npt.NDArray[np.float64]


class Robot(Protocol):
    """A robot as one object. ``names`` (of the columns, in the robot's order) may be None or absent."""

    def observe(self) -> Observation | Awaitable[Observation | None] | None:
        """One moment as the robot sees it: a dict of arrays, numbers and text; None: nothing new this period."""
        ...

    def act(self, row: Row, /) -> object | Awaitable[object]:
        """Send one row, float64 `[A]`, its own to change."""
        ...

    def hold(self) -> object | Awaitable[object]:
        """Stand still, safely. Must bear being called twice."""
        ...


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a callback, whether it is sync or async."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True)
class Callbacks:
    """All that a run may call, checked. Only the actuator calls act, hold, validate and on_underrun.

    Attributes:
        order: For each of the robot's columns, the column of the policy's rows that holds it; None: as they are.
        columns: How many columns the robot has, None where it gives no names.
    """

    observe: Callable[[], Any]
    act: Callable[[Row], Any] | None
    hold: Callable[[], Any] | None
    validate: Callable[[Row], Any] | None
    on_underrun: Callable[..., Any] | None
    on_chunk: Callable[[Any], Any] | None
    until: Callable[[Observation], Any] | None
    order: tuple[int, ...] | None = None
    columns: int | None = None

    def part_columns(self, actions: Actions | None) -> tuple[int, ...]:
        """The robot's columns that are grippers or quaternions."""
        parts = None if actions is None else actions.parts
        columns = () if parts is None else (*parts.gripper, *parts.quaternion)
        return columns if self.order is None else tuple(i for i, c in enumerate(self.order) if c in columns)

    def to_robot(self, row: Row) -> Row:
        """The row in the robot's own order of columns, a copy of its own."""
        return row[list(self.order)] if self.order is not None else row.copy()

    async def underrun(self, starved_s: float) -> bool:
        """Call ``on_underrun``, with the seconds starved if it needs an argument; True when it moved the arm."""
        assert self.on_underrun is not None
        args = (starved_s,) if _needs_argument(self.on_underrun) else ()
        return await called(self.on_underrun, *args) is True


def gather(
    robot: Any = None,
    *,
    observe: Callable[[], Any] | None = None,
    act: Callable[[Row], Any] | None = None,
    hold: Callable[[], Any] | None = None,
    validate: Callable[[Row], Any] | None = None,
    on_underrun: Callable[..., Any] | None = None,
    on_chunk: Callable[[Any], Any] | None = None,
    until: Callable[[Observation], Any] | None = None,
    actions: Actions | None = None,
) -> Callbacks:
    """One robot object or the loose callbacks, not both; what is missing is said here, before any motion.

    Raises:
        ValueError: Both or neither given, or an object without observe, act or hold.
        TypeError: Something that cannot be called.
        DeclarationError: Columns that cannot be mapped by name; a velocity space without ``hold``.
    """
    names: Sequence[str] | None = None
    if robot is not None:
        if observe is not None or act is not None or hold is not None:
            raise ValueError("give run() a robot or the callbacks observe=, act=, hold=, not both")
        missing = [name for name in ("observe", "act", "hold") if not callable(getattr(robot, name, None))]
        if missing:
            raise ValueError(f"{type(robot).__name__} has no {', '.join(missing)}: a robot has observe, act and hold")
        observe, act, hold = robot.observe, robot.act, robot.hold
        names = getattr(robot, "names", None)
    if observe is None:
        raise ValueError("run() needs a robot, or observe= and act=")
    given = {"observe": observe, "act": act, "hold": hold, "validate": validate, "on_underrun": on_underrun}
    for name, callback in {**given, "on_chunk": on_chunk, "until": until}.items():
        if callback is not None and not callable(callback):
            raise TypeError(f"{name}= must be callable, not {type(callback).__name__}")
    for name, callback in (("validate", validate), ("until", until)):
        if callback is not None and _is_async(callback):
            raise TypeError(f"{name}= must be a plain function: it is looked at inside a tick and cannot be awaited")
    _warn(act, hold, validate, actions)
    order = _order(names, actions)
    columns = len(names) if names is not None else None
    return Callbacks(observe, act, hold, validate, on_underrun, on_chunk, until, order, columns)


def _warn(act: object, hold: object, validate: object, actions: Actions | None) -> None:
    if act is None:
        logger.warning("dry run: no act= given, nothing is sent to the robot")
        return
    if hold is None and actions is not None and actions.space == "velocity":
        raise DeclarationError(
            "a velocity space needs hold=: without it the last velocity goes on after the run",
            field="hold",
            fix="Give run() hold=, a function that stops the robot.",
        )
    if hold is None:
        warnings.warn("run() without hold=: nothing stops the robot when the run fails", RuntimeWarning, stacklevel=4)
    if validate is None:
        logger.warning("run() without validate=: what a model answers is not a safe robot command by itself")


def _order(names: Sequence[str] | None, actions: Actions | None) -> tuple[int, ...] | None:
    """For each of the robot's columns, the column of the policy's rows that holds it."""
    declared = actions.names if actions is not None else None
    if names is None or declared is None or tuple(names) == declared:
        return None
    missing, extra = sorted(set(names) - set(declared)), sorted(set(declared) - set(names))
    if missing or extra or len(names) != len(declared):
        raise DeclarationError(
            f"robot and policy name different columns: only the robot has {missing or 'none'}, "
            f"only the policy has {extra or 'none'}",
            field="actions.names",
            fix="Rename them on one side; columns are mapped by name.",
        )
    return tuple(declared.index(name) for name in names)


def _is_async(function: Callable[..., Any]) -> bool:
    called_object = getattr(function, "__call__", None)  # noqa: B004  # an object whose __call__ is async
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called_object)


def _needs_argument(function: Callable[..., Any]) -> bool:
    """Whether it cannot be called without one: a ``hold_position(gain=1.0)`` is not handed seconds as its gain."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones have none
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is p.empty for p in signature.parameters.values())
