"""The first row of a run against where the robot is: further than the user allows, and nothing moves.

A model's first answer may be any pose. What comes in is the user's ``Limits(first_step={key: distance})``, each
observation as the robot gave it, and the row that would be the first. Asked by the actuator, fed by the producer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.action.guard import Row
from seqrt.errors import ActionError, DeclarationError, FirstStepTooFar, ObservationError

Distances = Mapping[str, float | Sequence[float]]

_ROUNDING = 2.0**-23
"""Relative slack, the last bit of a float32: a state is seldom more exact."""


@dataclass(eq=False)
class Near:
    """One observed vector a row is held against.

    Attributes:
        key: Its key in the observation.
        distance: The furthest a column may be from it: one number, or one an entry of the vector.
        columns: Columns of the row, and for each the entry of the vector that observes it. None: the same, in order.
        names: Names of the row's columns for messages, None where none are declared.
        quaternions: Columns of the row that are quaternions, four after four: of two opposite ones, which are the same
            turn, the nearer one counts.
    """

    key: str
    distance: npt.NDArray[np.float64]
    columns: dict[int, int] | None = None
    names: tuple[str, ...] | None = None
    quaternions: tuple[int, ...] = ()
    _seen: Row | None = field(default=None, init=False)

    def see(self, observation: Mapping[str, Any]) -> None:
        """Remember what an observation says.

        Raises:
            ObservationError: It has no such key, or no vector of numbers there.
        """
        self._seen = vector(observation, self.key)

    def check(self, row: Row, index: int) -> None:
        """Hold ``row`` `[A]` against what was seen last.

        Raises:
            FirstStepTooFar: A column lies further from it than allowed, or what was seen is not finite.
            ActionError: The row has another length than the vector.
        """
        assert self._seen is not None  # the run's first observation was seen before anything moves
        if self.columns is None and len(row) != len(self._seen):
            raise ActionError(
                f"Limits(first_step): {self.key!r} observes {len(self._seen)} numbers and a row has {len(row)}; name "
                "them on both sides (Stream(names=), Actions(names=)), or give the key of a vector as long as a row",
                row=index,
            )
        pairs = self.columns or dict(enumerate(range(len(row))))
        seen = self._turned(row, pairs)
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.abs(row[list(pairs)] - seen)
            allowed = np.broadcast_to(self.distance, self._seen.shape)[list(pairs.values())]
            # What is not finite does not fit: its distance is none, or without end.
            fits = far <= allowed + _ROUNDING * (np.abs(row[list(pairs)]) + allowed)
        if not fits.all():
            worst = int(np.flatnonzero(~fits)[0])
            self._refuse(row, index, list(pairs)[worst], float(seen[worst]), float(allowed[worst]))

    def _turned(self, row: Row, pairs: dict[int, int]) -> Row:
        """What was seen, a number a pair; quaternions on the row's side."""
        assert self._seen is not None
        seen: Row = self._seen[list(pairs.values())]
        at = {column: place for place, column in enumerate(pairs)}
        for first in range(0, len(self.quaternions), 4):
            turn = self.quaternions[first : first + 4]
            places = [at[column] for column in turn if column in at]
            if len(places) == 4 and float(row[list(turn)] @ seen[places]) < 0:
                seen[places] = -seen[places]
        return seen

    def _refuse(self, row: Row, index: int, column: int, seen: float, allowed: float) -> None:
        name = f"column {column}" + (f" ({self.names[column]})" if self.names is not None else "")
        value = float(row[column])
        raise FirstStepTooFar(
            f"the first row (row {index} of its chunk) would take {name} to {value:.9g}, {self.key!r} shows it at "
            f"{seen:.9g}: further than Limits(first_step) allows, {allowed:.9g}. Move the arm nearer, or look for "
            "other units or another order of columns",
            row=index,
            column=column,
            value=value,
            limit=allowed,
            key=self.key,
            observed=seen,
        )


class FirstStep:
    """All the vectors of one run.

    Args:
        near: One a key.

    Attributes:
        unheld: Names of columns no vector observes: they may go anywhere. Empty without names.
    """

    def __init__(self, near: Sequence[Near], unheld: Sequence[str] = ()) -> None:
        self._near = tuple(near)
        self.unheld = tuple(unheld)

    @classmethod
    def of(
        cls,
        distances: Distances | None,
        actions: Actions | None,
        names: Mapping[str, Sequence[str] | None],
        observation: Mapping[str, Any],
    ) -> FirstStep:
        """Hold what the user asks for against declaration and first observation, before any motion.

        Args:
            distances: ``Limits.first_step``; None holds nothing.
            actions: The declaration of the rows.
            names: Names of the entries of observed vectors, by key, where they are declared.
            observation: The run's first, as the robot gave it.

        Raises:
            DeclarationError: The actions are not declared absolute: a distance from a state means nothing.
            ObservationError: No such key, no vector there, or one that does not fit the row or the distances.
        """
        if not distances:
            return cls(())
        if actions is None or actions.space != "absolute":
            space = (None if actions is None else actions.space) or "undeclared"
            raise DeclarationError(
                f"Limits(first_step) is the distance of a row from a state, and the actions' space is {space}",
                field="actions.space",
                fix='Declare Actions(space="absolute") where rows are targets, or leave first_step out.',
            )
        near = [_near(key, distance, actions, names.get(key), observation) for key, distance in distances.items()]
        held = {column for each in near for column in each.columns or ()}
        everywhere = actions.names is None or any(each.columns is None for each in near)
        unheld = [] if everywhere else [name for i, name in enumerate(actions.names or ()) if i not in held]
        made = cls(near, unheld)
        made.see(observation)
        return made

    def see(self, observation: Mapping[str, Any]) -> None:
        """Remember what an observation says of where the robot is.

        Raises:
            ObservationError: A vector is missing in it.
        """
        for each in self._near:
            each.see(observation)

    def check(self, row: Row, index: int) -> None:
        """Hold the row that would be the first `[A]` against each vector, as seen last.

        Raises:
            ActionError: It is too far (`FirstStepTooFar`), or of another length.
        """
        for each in self._near:
            each.check(row, index)


def vector(observation: Any, key: str) -> Row:
    """The numbers under ``key``, float64 `[n]`, a copy.

    Raises:
        ObservationError: There is no such key, or no vector of numbers.
    """
    if not isinstance(observation, Mapping) or key not in observation:
        has = ", ".join(map(repr, observation)) if isinstance(observation, Mapping) else type(observation).__name__
        raise ObservationError(
            f"Limits(first_step) names {key!r}, and the observation has no such key (it has: {has})", key=key
        )
    try:
        found = np.array(observation[key], dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.ndim != 1 or not found.size:
        raise ObservationError(
            f"Limits(first_step) names {key!r}, which holds no vector of numbers (shape {list(found.shape)})",
            key=key,
            expected="a vector",
            found=list(found.shape),
        )
    return found


def _near(
    key: str,
    distance: float | Sequence[float],
    actions: Actions,
    names: Sequence[str] | None,
    observation: Mapping[str, Any],
) -> Near:
    seen = vector(observation, key)
    allowed = np.asarray(distance, dtype=np.float64)
    if allowed.ndim and allowed.shape != seen.shape:
        raise ObservationError(
            f"Limits(first_step) gives {allowed.size} distances for {key!r}, which holds {seen.size} numbers",
            key=key,
            expected=seen.size,
            found=allowed.size,
        )
    columns = _by_name(key, actions, names)
    if columns is None and actions.dims is not None and actions.dims != seen.size:
        raise ObservationError(
            f"Limits(first_step): {key!r} observes {seen.size} numbers and a row has {actions.dims}; name them on both "
            "sides (Stream(names=), Actions(names=)), or give the key of a vector as long as a row",
            key=key,
            expected=actions.dims,
            found=seen.size,
        )
    quaternions = actions.parts.quaternion if actions.parts is not None else ()
    return Near(key, allowed, columns, actions.names, quaternions)


def _by_name(key: str, actions: Actions, names: Sequence[str] | None) -> dict[int, int] | None:
    """Which entry of the vector observes which column; None where one side has no names."""
    if names is None or actions.names is None:
        return None
    entries = {name: entry for entry, name in enumerate(names)}
    columns = {column: entries[name] for column, name in enumerate(actions.names) if name in entries}
    if not columns:
        raise ObservationError(
            f"Limits(first_step): {key!r} observes {', '.join(names)}, and no column of a row has one of these names "
            f"({', '.join(actions.names)})",
            key=key,
            expected=list(actions.names),
            found=list(names),
        )
    return columns
