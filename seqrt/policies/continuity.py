"""Rows in the model's own space: taken out of an answer for the robot to keep, handed back as the next act's prefix.

A model that works on normalised or delta rows cannot take back what the robot played without undoing its own
post-processing, and what was clipped on the way cannot be undone. So its raw rows travel to the robot
(``plan.rows_model``) and return with the next act (``prefix_space: "model"``). `seqrt.Actions.model_key` declares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.errors import ActionError, RemoteError, remote_error
from seqrt.policies.declaration import Declaration
from seqrt.wire.messages import AskPlan

Rows = npt.NDArray[np.float64]

UNREAD = 'the prefix came as it was played; this policy reads it as its model made it (prefix_space "model")'
"""What the answer warns of where a prefix was left out for its space."""


def prefix_of(declared: Declaration, plan: AskPlan) -> Rows | None:
    """The committed rows an act hands to ``infer``, float64 `[n, A]`, or `[n, M]` where ``model_key`` is declared.

    A policy is handed one space alone, so that it never has to ask which: None where an act brings the other one.

    Raises:
        InvalidRequest: It is no table of finite numbers; or it is in the space of a model that has declared none.
    """
    if plan.prefix is None:
        return None
    prefix = _table(plan.prefix)
    if plan.prefix_space == "model" and not _own_space(declared):
        raise remote_error(
            "invalid_request",
            'the prefix is in the model\'s own space (prefix_space "model"), and this policy declares no such rows',
            hint='send the rows as they are played, prefix_space "action"',
        )
    return None if is_unread(declared, plan) else prefix


def is_unread(declared: Declaration, plan: AskPlan | None) -> bool:
    """Whether an act brings a prefix that is not handed over: in the robot's space, where the model reads its own."""
    return plan is not None and plan.prefix is not None and plan.prefix_space != "model" and _own_space(declared)


def taken_apart(declared: Declaration, outputs: Any) -> tuple[Any, Any]:
    """An answer without the rows under ``model_key``, and those rows; None where none are declared.

    Raises:
        ActionError: The key is missing, or what stands there is not one row of finite numbers for each row played.
    """
    actions = declared.actions
    if actions is None or actions.key is None or actions.model_key is None:
        return outputs, None
    if not isinstance(outputs, Mapping) or actions.model_key not in outputs:
        raise ActionError(f"the answer has no key {actions.model_key!r}, which actions.model_key declares")
    rest = dict(outputs)
    rows = np.array(rest.pop(actions.model_key))  # a copy: the policy may fill the same array anew
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise ActionError(
            f"actions.model_key {actions.model_key!r} must hold finite rows [H, M]; "
            f"it is {rows.dtype.name} {list(rows.shape)}"
        )
    played: Any = rest.get(actions.key)
    if np.shape(played)[:1] != rows.shape[:1]:
        raise ActionError(
            f"actions.model_key {actions.model_key!r} holds {len(rows)} rows; it must hold one for each under "
            f"{actions.key!r}"
        )
    return rest, rows


def _own_space(declared: Declaration) -> bool:
    return declared.actions is not None and declared.actions.model_key is not None


def _table(rows: Any) -> Rows:
    try:
        prefix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as wrong:
        raise _refused(f"plan.prefix is no table of numbers: {wrong}") from wrong
    if prefix.ndim != 2 or not np.isfinite(prefix).all():
        raise _refused(f"plan.prefix must be finite rows [n, A]; its shape is {list(prefix.shape)}")
    return prefix


def _refused(detail: str) -> RemoteError:
    return remote_error("invalid_request", detail)
