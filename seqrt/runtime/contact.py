"""Whether anybody answers at the other end: what is told when the link is lost, and when it is back."""

from __future__ import annotations

import anyio

from seqrt.errors import LinkLost
from seqrt.link.border import Pinged
from seqrt.runtime.telling import Telling
from seqrt.timeline import events as ev


class Contact:
    """One run's, as far as its acts and the link's own pings show.

    Args:
        telling: Told of it, once each time.
    """

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._down_since: float | None = None

    def hear(self, news: Pinged | LinkLost) -> None:
        """What was found out beside the acts."""
        if isinstance(news, LinkLost):
            self.lost(news)
        else:
            self.answered()
            self._telling.tell(ev.Pinged(at_s=self._telling.at_s(), took_s=news.took_s, act=news.act))

    def lost(self, error: LinkLost) -> None:
        """Nobody answered."""
        if self._down_since is None:
            self._down_since = anyio.current_time()
            self._telling.tell(ev.LinkLost(at_s=self._telling.at_s(), host=error.host, error=str(error)))

    def answered(self) -> None:
        """Somebody did, whatever it was."""
        if self._down_since is not None:
            down_s, self._down_since = anyio.current_time() - self._down_since, None
            self._telling.tell(ev.LinkBack(at_s=self._telling.at_s(), down_s=down_s))
