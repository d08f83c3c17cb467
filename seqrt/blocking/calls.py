"""The caller's functions as a run takes them: each is made in the caller's own thread, and awaited in the loop.

A tick crosses over once: ``validate`` and ``act`` go together.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqrt.action.guard import Row
from seqrt.blocking.lane import Cut, Lane
from seqrt.blocking.types import Prediction, Served, inputs_of
from seqrt.robots.lanes import Poster
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.control import Cause, Control

Function = Callable[..., Any]


@dataclass(frozen=True)
class Given:
    """What a caller hands to ``run``; None for what is not given.

    Attributes:
        names: Of the robot's columns, where it is one object that has them.
    """

    observe: Function | None
    act: Function | None
    hold: Function | None = None
    validate: Function | None = None
    on_chunk: Function | None = None
    on_underrun: Function | None = None
    until: Function | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be called here."""
        for name in ("observe", "act", "hold", "validate", "on_chunk", "on_underrun", "until"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TypeError(f"{name}= must be callable, not {type(function).__name__}")
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"{name}= is async, and seqrt.blocking calls plain functions: use seqrt.connect")


def given_of(robot: Any, observe: Any, act: Function | None, **others: Any) -> Given:
    """What is given as one object with ``observe``, ``act`` and ``hold``, or as functions, not both.

    Args:
        robot: The object, None for none.
        observe: A function, or the object.
        act: A function; None for a dry run.
        others: The other functions.

    Raises:
        ValueError: Both, or an object without one of the three.
        TypeError: Something that cannot be called here.
    """
    if robot is None and act is None and not callable(observe) and hasattr(observe, "observe"):
        robot, observe = observe, None
    if isinstance(robot, str):
        raise ValueError(
            f"robot={robot!r}: which of a policy's robots this one is, is connect(…, embodiment={robot!r})"
        )
    if robot is None:
        if observe is None:
            raise ValueError("run() needs observe and act, or a robot")
        return Given(observe, act, **others)
    if observe is not None or act is not None or others.get("hold") is not None:
        raise ValueError("give run() a robot or the functions observe, act and hold, not both")
    missing = [name for name in ("observe", "act", "hold") if not callable(getattr(robot, name, None))]
    if missing:
        raise ValueError(f"{type(robot).__name__} has no {', '.join(missing)}: a robot has observe, act and hold")
    names = getattr(robot, "names", None)
    given = Given(robot.observe, robot.act, **others)
    return replace(given, hold=robot.hold, names=names)


@dataclass(frozen=True)
class Crossing:
    """Where functions go over to the caller's thread, and what they stop.

    Attributes:
        lane: The caller's.
        post: Of the loop.
        control: The run's switch.
        served: Who answers, for predictions.
    """

    lane: Lane
    post: Poster
    control: Callable[[], Control | None]
    served: Served

    def over(self, function: Function, *, first: bool = False, certain: bool = False) -> Function:
        """``function`` to be awaited in the loop; its signature stays as it is."""

        def called(*args: Any) -> Any:
            return self.lane.call(self.post, function, *args, first=first, certain=certain, aside=first)

        return functools.wraps(function)(called)

    def arguments(self, given: Given) -> Mapping[str, Any]:
        """The functions as `seqrt.runtime.policy.Policy.run` takes them."""
        act = None if given.act is None else self.over(self._act(given.act, given.validate), first=True)
        hold = None if given.hold is None else self.over(given.hold, first=True, certain=True)
        # With act, validate has been called before: once over is enough for a tick.
        validate = None if given.validate is None else self.over(given.validate) if act is None else _yes
        observe = None if given.observe is None else self._observe(given.observe)
        others = {
            "validate": validate,
            "on_chunk": None if given.on_chunk is None else self.over(self._on_chunk(given.on_chunk)),
            "on_underrun": None if given.on_underrun is None else self.over(given.on_underrun, first=True),
            "until": None if given.until is None else self.over(given.until),
        }
        if given.names is None:
            return {"observe": observe, "act": act, "hold": hold, **others}
        return {"robot": _Named(observe, act, hold, given.names), **others}

    def _observe(self, observe: Function) -> Function:
        async def observed() -> Any:
            """Handed over when it is awaited: a run times what `observe` does before, and this holds up no loop."""
            return await self.lane.call(self.post, lambda: inputs_of(observe()), first=True)

        return observed

    def _on_chunk(self, on_chunk: Function) -> Function:
        def told(chunk: ActionChunk) -> None:
            on_chunk(Prediction(chunk, self.served))

        return told

    def _act(self, act: Function, validate: Function | None) -> Function:
        if validate is None:
            return act

        def checked(row: Row) -> None:
            if not self._valid(validate, row):
                raise Cut("the row is not sent")
            act(row)

        return checked

    def _valid(self, validate: Function, row: Row) -> bool:
        """Whether the row may be sent; where not, the run has been told why."""
        try:
            cause = None if validate(row.copy()) else Cause("validate")
        except BaseException as error:  # never tolerated as one of act's is
            cause = Cause(f"raised:{type(error).__name__}", self.lane.raised(error))
        control = self.control()
        if control is None:
            return False
        if cause is not None:
            control.stop_soon(cause)
        return control.cause is None  # validate itself may have interrupted


@dataclass(frozen=True)
class _Named:
    """A robot whose columns have names."""

    observe: Function | None
    act: Function | None
    hold: Function | None
    names: Sequence[str]


def _yes(row: Row) -> bool:
    return True
