"""One answer as the user sees it: from `predict`, `next_chunk` and `on_chunk`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqrt.action.declaration import Actions
from seqrt.action.rows import Form, Rows, rows_of


@dataclass(frozen=True)
class ActionChunk:
    """What one act answered.

    Attributes:
        outputs: What ``infer`` returned, unchanged.
        observed: Number of the newest observation it was made from.
        latency_s: From sending (in a run: from the start of the observation) to the answer in hand.
        infer_s: The worker's own figure for the inference, None where it gave none.
        request_id: As robot and worker log it.
        warnings: What was clipped or cut, in sentences.
    """

    outputs: Any
    observed: int
    latency_s: float
    infer_s: float | None
    request_id: str
    warnings: Sequence[str] = ()
    actions: Actions | None = field(default=None, repr=False)
    form: Form | None = field(default=None, repr=False)

    @property
    def rows(self) -> Rows:
        """The playable rows, float64 `[H, A]`, a copy of the caller's own.

        Raises:
            ActionError: The answer holds no numeric rows.
        """
        return np.array(rows_of(self.outputs, self.actions, self.form))

    def __len__(self) -> int:
        """Rows in it."""
        return len(self.rows)
