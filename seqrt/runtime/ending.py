"""What the error that ends a run brings with it."""

from __future__ import annotations

from seqrt.errors import SeqrtError
from seqrt.timeline.outcome import RunOutcome


def attach(error: BaseException, outcome: RunOutcome | None, hold_error: SeqrtError | None = None) -> None:
    """Hand the outcome over with the error, as ``outcome``, and what hold raised, as ``hold_error`` and a note.

    Foreign exceptions may refuse attributes: they come out as they are.
    """
    try:
        error.outcome = outcome  # type: ignore[attr-defined]
        if hold_error is not None:
            error.hold_error = hold_error  # type: ignore[attr-defined]
    except AttributeError:
        pass
    if hold_error is not None and hasattr(error, "add_note"):
        error.add_note(f"and on stopping: {hold_error}")
