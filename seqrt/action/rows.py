"""From what ``infer`` returned to rows `[H, A]`: the declared key, numeric, rectangular, cut at the horizon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions
from seqrt.errors import ActionError

Rows: TypeAlias = npt.NDArray[np.float64]

Form: TypeAlias = Literal["one", "steps"]
"""The older ``own_actions``: what an answer without `Actions` is, one action or a list of them."""

_DECLARE = "declare actions= on the policy, with the key its rows stand under"
_TEXT = (str, bytes, bytearray, memoryview)
_INSTEAD = "declare actions= in place of own_actions=, with the key its rows stand under"
_ANSWER = "answer with numbers in an array [H, A]"


def rows_of(outputs: Any, actions: Actions | None, form: Form | None = None) -> Rows:
    """The playable rows of one answer.

    Args:
        outputs: What ``infer`` returned. Declared: rows `[H, A]` under ``actions.key`` (or the answer itself); only
            that key is looked at. Undeclared: a 2-D array or a list of equal lists is read row by row, a 1-D one or
            a single number is a single action.
        actions: The declaration, or None.
        form: What a policy of the older form says of its answers, never beside ``actions``. "one": one action, a
            number or the values of a row. "steps": a list of them, each a row or, of a robot of one column, a number.

    Returns:
        float64 `[H, A]`, H ≥ 1, at most ``open_loop_horizon`` rows; a read-only copy: a policy in this process may
        fill the same array anew at its next ``infer`` while these rows still play.

    Raises:
        ActionError: Key missing, no rows, ragged, not two axes, not numeric, not of the form. Finiteness and limits
            are `seqrt.action.guard`'s business.
    """
    where = "the answer" if actions is None or actions.key is None else f"actions.key {actions.key!r}"
    remedy = _ANSWER if actions is not None else _DECLARE if form is None else _INSTEAD
    array = _numeric(_picked(outputs, actions, remedy), where, remedy)
    if not array.size:
        raise ActionError(f"{where} holds no rows (shape {list(array.shape)}); {remedy}")
    if form is not None:
        array = _formed(array, form)
    elif actions is None and array.ndim < 2:
        array = array.reshape(1, -1)
    if array.ndim != 2:
        remedy = _reshape(array) if actions is not None else f"{_reshape(array)}, or {remedy}"
        raise ActionError(f"rows must be [H, A], {where} has shape {list(array.shape)}; {remedy}")
    horizon = None if actions is None else actions.open_loop_horizon
    rows: Rows = np.array(array[:horizon], dtype=np.float64)
    rows.setflags(write=False)
    return rows


def model_rows_of(answered: object, rows: int) -> Rows | None:
    """An answer's rows in the model's own space, as many as are played; None where they are not that."""
    if not isinstance(answered, np.ndarray) or answered.ndim != 2 or len(answered) < rows:
        return None
    model = np.asarray(answered[:rows], np.float64)
    return model if np.isfinite(model).all() else None


def _formed(array: npt.NDArray[Any], form: Form) -> npt.NDArray[Any]:
    if form == "steps" and array.ndim == 1:
        return array[:, None]
    if form == "one" and array.ndim < 2:
        return array.reshape(1, -1)
    if (form == "one" and array.ndim == 2 and len(array) > 1) or (form == "steps" and array.ndim == 0):
        meant = "one action, the answer is a list" if form == "one" else "a list of actions, the answer is one"
        other = "steps" if form == "one" else "one"
        raise ActionError(
            f'own_actions="{form}" means {meant} (shape {list(array.shape)}); declare own_actions="{other}"'
        )
    return array


def _picked(outputs: Any, actions: Actions | None, remedy: str) -> Any:
    if actions is not None and actions.key is not None:
        if not isinstance(outputs, Mapping):
            raise ActionError(
                f"actions.key is {actions.key!r} but the answer is {_kind(outputs)}, not a mapping with that key"
            )
        if actions.key not in outputs:
            raise ActionError(
                f"the answer has no key {actions.key!r} (it has: {_keys(outputs)}); set actions.key to the right one"
            )
        return outputs[actions.key]
    if isinstance(outputs, Mapping):
        remedy = remedy if actions is None else "set actions.key to the one its rows stand under"
        raise ActionError(f"the answer is a mapping (keys: {_keys(outputs)}) and no key is declared; {remedy}")
    return outputs


def _numeric(value: Any, where: str, remedy: str) -> npt.NDArray[Any]:
    if not isinstance(value, np.ndarray | np.generic | int | float | Sequence) or isinstance(value, _TEXT):
        raise ActionError(f"rows must be numbers, {where} holds {_kind(value)}; {remedy}")
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise ActionError(f"{where} holds rows of unequal length; {remedy}") from ragged
    if array.dtype.kind not in "fiu":
        held = f"an array of {array.dtype}" if isinstance(value, np.ndarray) else _odd(value)
        raise ActionError(f"rows must be numbers, {where} holds {held}; {remedy}")
    return array


def _odd(value: Any) -> str:
    """The kind of the first thing in nested lists that is no number."""
    odd = (leaf for leaf in _leaves(value) if isinstance(leaf, bool) or not isinstance(leaf, int | float | np.number))
    return next(map(_kind, odd), "an integer past 64 bits")


def _leaves(value: Any) -> Iterator[Any]:
    if not isinstance(value, Sequence) or isinstance(value, _TEXT):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _reshape(array: npt.NDArray[Any]) -> str:
    """What to return instead."""
    if array.ndim > 2 and array.shape[0] == 1:
        return "return it without the leading axis of 1"
    if array.ndim < 2:
        return "for a single action return [action], a chunk of one row"
    return "one axis of steps, one of columns"


def _keys(outputs: Mapping[Any, Any]) -> str:
    return ", ".join(sorted(map(str, outputs))) or "none"


def _kind(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "nothing" if value is None else "text"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
