"""The exceptions under the names that `sequence-ai` 0.1.0's callers import."""

from __future__ import annotations

from seqrt.errors import AuthError, ChunkExhausted, InvalidRequest, OutOfCredit, Unavailable
from seqrt.errors import SeqrtError as SequencesError

__all__ = ["AuthError", "ChunkExhausted", "InvalidRequest", "OutOfCredit", "SequencesError", "Unavailable"]
