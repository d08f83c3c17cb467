"""Whether observations need more than the way up carries, decided from a while of it and said once.

The uplink tells what it was handed and what became of it; no waiting, no sending.
"""

from __future__ import annotations

from typing import Final

from seqrt.timeline.outcome import UploadBound

WINDOW_S: Final = 3.0
"""How long something has to have waited for its turn, all along."""
_LARGE_BYTES: Final = 256 * 1024
"""An observation of this size that is long on its way says it alone: one stall of the link would not hold up less."""
_LONG_S: Final = 1.0


class Uploading:
    """One run's eye on its uploads.

    Args:
        chunk_s: What a chunk covers: at least one observation has to be there for each. None where it is not declared.
    """

    def __init__(self, chunk_s: float | None) -> None:
        self._chunk_s = _LONG_S if chunk_s is None else chunk_s
        self._since: tuple[float, int] | None = None
        self._said = False

    def look(
        self, at_s: float, *, waits: bool, offered: int, rate: float | None, frame_bytes: int
    ) -> UploadBound | None:
        """After each post: whether the stream has been too much for a while.

        Args:
            at_s: The time.
            waits: Whether an observation waits for its turn.
            offered: Observations handed in to be sent so far.
            rate: What the way up carries, None where it shows no limit.
            frame_bytes: What an observation takes.

        Returns:
            What was found, the first time; None else.
        """
        if rate is None or not waits:
            self._since = None
            return None
        if self._since is None:
            self._since = at_s, offered
        since_s, before = self._since
        if frame_bytes / rate > self._chunk_s:
            return self._say(UploadBound(frame_bytes / self._chunk_s, rate, frame_bytes))
        if at_s - since_s < WINDOW_S:
            return None
        needed = (offered - before) * frame_bytes / (at_s - since_s)
        return self._say(UploadBound(needed, rate, frame_bytes)) if needed > rate else None

    def posted(self, frame_bytes: int, took_s: float, rate: float | None) -> UploadBound | None:
        """An observation that an act waited for has arrived: whether that took longer than its chunk covers.

        Returns:
            What was found, the first time; None else.
        """
        carried = rate or frame_bytes / max(took_s, 1e-3)
        long_s = max(_LONG_S, self._chunk_s)
        if frame_bytes < _LARGE_BYTES or min(took_s, frame_bytes / carried) < long_s:
            return None
        return self._say(UploadBound(frame_bytes / self._chunk_s, carried, frame_bytes))

    def _say(self, bound: UploadBound) -> UploadBound | None:
        if self._said:
            return None
        self._said = True
        return bound
