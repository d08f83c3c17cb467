"""What a run is told of its posts: landed, failed, refused by the worker, or more than the way up carries."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from seqrt.errors import RemoteError
from seqrt.link.border import Link, Outgoing
from seqrt.runtime.ledger import Ledger
from seqrt.runtime.telling import Telling
from seqrt.runtime.uploading import Uploading
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import UploadBound
from seqrt.wire.messages import ObserveRequest


class Posts:
    """Of one episode. Outside a run nobody is told.

    Args:
        link: Where they go.
        ledger: What is on its way, and what was let go.

    Attributes:
        frame_bytes: What an observation has taken lately.
    """

    def __init__(self, link: Link, ledger: Ledger) -> None:
        self._link, self._ledger = link, ledger
        self._telling: Telling | None = None
        self._uploading, self._dropped_told = Uploading(None), 0
        self._refusal_told = False
        self.frame_bytes = 1

    def begin(self, telling: Telling, chunk_s: float | None) -> None:
        """A run begins.

        Args:
            telling: Told from now on.
            chunk_s: What a chunk covers, where that is declared.
        """
        self._telling, self._uploading = telling, Uploading(chunk_s)

    def over(self) -> None:
        """The run is over."""
        self._telling = None

    def landed(self, post: Outgoing[ObserveRequest], took_s: float) -> None:
        """One was answered."""
        frames, skipped = len(post.message.frames), len(post.message.skipped)
        size = len(post.body)
        self._tell(lambda at: ev.Posted(at_s=at, frames=frames, bytes=size, skipped=skipped, took_s=took_s))

    def failed(self, error: RemoteError) -> None:
        """One was not."""
        self._tell(lambda at: ev.PostFailed(at_s=at, code=error.code, error=str(error)))

    def refused(self, frames: int, detail: str) -> None:
        """Observations are over a limit. One event an episode: where one observation is too large, all are."""
        if not self._refusal_told:
            self._refusal_told = True
            self._tell(lambda at: ev.FramesRefused(at_s=at, frames=frames, detail=detail))

    def look(self, frame_bytes: int, took_s: float, *, waits: bool, read: bool) -> None:
        """Look whether the link keeps up, and tell once when it does not.

        Args:
            frame_bytes: What each observation of the post took that has landed.
            took_s: How long it was on its way.
            waits: Whether an observation waits for its turn.
            read: Whether an act waited for it.
        """
        self.frame_bytes = max(1, frame_bytes)
        rate = self._link.statistics().bytes_per_s
        bound = self._uploading.look(
            anyio.current_time(), waits=waits, rate=rate, offered=self._ledger.offered, frame_bytes=frame_bytes
        )
        if bound is None and read:
            bound = self._uploading.posted(frame_bytes, took_s, rate)
        if bound is not None:
            self._tell_bound(bound)
        dropped = self._ledger.dropped - self._dropped_told
        if dropped:
            self._dropped_told = self._ledger.dropped
            self._tell(lambda at: ev.FramesDropped(at_s=at, frames=dropped))

    def _tell_bound(self, bound: UploadBound) -> None:
        needed, carried, size = bound.needed_bytes_per_s, bound.bytes_per_s, bound.frame_bytes
        self._tell(lambda at: ev.UploadBound(at_s=at, needed_bytes_per_s=needed, bytes_per_s=carried, frame_bytes=size))

    def _tell(self, event: Callable[[float], ev.Event]) -> None:
        if self._telling is not None:
            self._telling.tell(event(self._telling.at_s()))
