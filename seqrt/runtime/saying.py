"""What a run lives with, said in the log: chunks refused, acts failed, callbacks that raised, a link that is down.

Before the first chunk an act that is only tried again is said too: the arm stands for it, and somebody waits there.

Handed every event by `Telling`. Each kind is said at once and then rarely, ``more=`` being how often it has happened
since: a policy that fails at every other act must not fill a disk. The timeline has each of them, and so has the log
at DEBUG, but for ticks and observations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from seqrt.timeline import events as ev
from seqrt.watching.logline import Line, line
from seqrt.watching.seldom import Seldom

logger = logging.getLogger(__name__)

_NO_LINES: Final = (ev.Ticked, ev.Observed, ev.RunEnded)
"""Too many for a log; and a run's end, which `seqrt.runtime.run` says."""

_NOT_YET, _PLAYS_ON = "nothing has moved yet", "the plan plays on"


def _failed(event: ev.ActFailed, arm: str) -> str | None:
    if event.retrying and (arm is _PLAYS_ON or event.code == "conflict"):
        return None
    how = "is tried again" if event.retrying else "failed"
    return f"an act {how} ({event.code}), {arm}: {event.error.splitlines()[0] if event.error else ''}"


def _upload_bound(event: ev.UploadBound, arm: str) -> str:
    needed, carried, size = event.needed_bytes_per_s, event.bytes_per_s, event.frame_bytes
    return (
        f"upload-bound: observations need {needed * 8e-6:.2g} Mbit/s and the link carries {carried * 8e-6:.2g}; of "
        f"{size / 1e3:.0f} kB each {carried / size:.2g} a second would fit, or as many as now of "
        f"{size * carried / needed / 1e3:.0f} kB. Declare a smaller Camera, a lower quality or a sparser Stream, or "
        'when_behind="drop_oldest"'
    )


_SENTENCES: Final[dict[type, Callable[[Any, str], str | None]]] = {
    ev.ActFailed: _failed,
    ev.CallbackRaised: lambda event, _: f"{event.callback} raised, which is tolerated so often in a row: {event.error}",
    ev.ChunkRefused: lambda event, arm: f"a chunk is refused, {arm}: {event.error}",
    ev.EpisodeRestarted: lambda event, _: f"{event.host} has lost the episode, a new one is begun: {event.error}",
    ev.UploadBound: _upload_bound,
    ev.LinkLost: lambda event, arm: f"the link to {event.host} is down, {arm}: {event.error}",
}


class Saying:
    """One run's voice in the log."""

    def __init__(self) -> None:
        self._seldom = Seldom()
        self._arm = _NOT_YET

    def hear(self, event: ev.Event) -> None:
        """Say it, count it, or leave it."""
        kind = type(event)
        if kind not in _NO_LINES and logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s", as_line(event))
        if kind is ev.Spliced:
            self._arm = _PLAYS_ON
        if (write := _SENTENCES.get(kind)) is None or (sentence := write(event, self._arm)) is None:
            return
        more = self._seldom.due(kind, event.at_s)
        if more is not None:
            name, request_id = event.__struct_config__.tag, getattr(event, "request_id", None)
            logger.warning("%s", line(str(name), request_id, more=more or None).saying(sentence))


def as_line(event: ev.Event) -> Line:
    """An event as a line of the log: its name, its request's id, and all else that it says."""
    told = {name: getattr(event, name) for name in event.__struct_fields__ if name != "request_id"}
    return line(str(event.__struct_config__.tag), getattr(event, "request_id", None), **told)
