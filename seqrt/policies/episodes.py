"""Which episodes a host has: begun, found again, ended, forgotten when idle. Rule 9 of the contract lives here."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable

import anyio

from seqrt.errors import RemoteError, remote_error
from seqrt.observation.declaration import Observations
from seqrt.policies.limits import HostLimits
from seqrt.policies.places import Key, Places, draining, no_place
from seqrt.policies.session import Session
from seqrt.watching.logline import line

logger = logging.getLogger(__name__)


class Episodes:
    """All episodes of one host, least recently used first, and the ids of those that ended.

    Args:
        observations: The policy's declaration.
        limits: What may be held.
        idle_s: How long an episode of which nothing is heard is kept.
        stateful: Whether the policy has state: then none that was lost can go on.
        owed: Whether something is owed to the policy when one is over: only then is it kept in ``over``.
        places: How many may be live at once, and those that wait; `HostLimits.episodes` where that is less.
        is_full: Whether one more beside so many live ones would be one too many, as far as the policy's time goes.

    Attributes:
        places: As given.
        closing: Set when no new ones are begun any more, see `close`.
        over: Episodes that ended and had acts, until the policy has been told and has its copy back.
    """

    def __init__(
        self,
        observations: Observations | None,
        limits: HostLimits,
        *,
        idle_s: float,
        stateful: bool,
        owed: bool,
        places: Places,
        is_full: Callable[[int], bool] = lambda episodes: False,
    ) -> None:
        self._observations = observations
        self._limits = limits
        self._idle_s = idle_s
        self._stateful = stateful
        self._owed = owed
        self._live: OrderedDict[str, Session] = OrderedDict()
        self._ended: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._bytes = 0
        self._is_full = is_full
        self.places = places
        self.closing = anyio.Event()
        self.over: deque[Session] = deque()

    @property
    def closed(self) -> bool:
        """No new ones are begun."""
        return self.closing.is_set()

    def __len__(self) -> int:
        """Episodes live now."""
        return len(self._live)

    def of(self, owner: str) -> list[str]:
        """The ids of those live now that were begun under a lease."""
        return [session.id for session in self._live.values() if session.owner == owner]

    @property
    def bytes(self) -> int:
        """What all of them hold."""
        return self._bytes

    @property
    def spare_bytes(self) -> int:
        """What they may hold in addition."""
        return self._limits.worker_bytes - self._bytes

    @property
    def most(self) -> int:
        """How many may be live at once."""
        return min(self.places.most, self._limits.episodes)

    @property
    def full(self) -> bool:
        """Whether a new one would be refused, or wait."""
        live = len(self._live)
        return live + len(self.places) >= self.most or self._is_full(live)

    def waits(self, key: Key) -> bool:
        """Whether an act waits that would begin this episode: every place is taken, or others wait for it already."""
        if self.closed or key[1] in self._live or key in self._ended or len(self._live) >= self._limits.episodes:
            return False  # `enter` says what is to be said
        return len(self._live) + self.places.ahead_of(key) >= self.places.most

    def enter(self, episode_id: str, owner: str, now: float, *, names_zero: bool, begun: bool) -> Session:
        """The episode a request belongs to, begun or rebuilt where rule 9 says so.

        Args:
            episode_id: Its id.
            owner: The lease the request came under; "" for the worker's own key, and for none.
            now: The time.
            names_zero: Whether the request carries or names number 0.
            begun: Whether the robot has seen an answer of it.

        Raises:
            InvalidRequest: The id is empty or longer than 256 characters.
            NotFound: It belongs to another key.
            Gone: It ended; or the policy has state and the worker has lost it.
            Unavailable: No room, or the worker takes no new ones.
        """
        _check_id(episode_id)
        session = self._live.get(episode_id)
        if session is None:
            session = self._opened(episode_id, owner, now, names_zero=names_zero, begun=begun)
        if session.owner != owner:
            raise remote_error("not_found", "there is no such episode")
        # Who has a lease has this worker from the first observation on: what is missing is still on its way.
        session.begun = session.begun or names_zero or owner != ""
        session.in_parts = session.in_parts or begun
        if begun and session.fresh and not session.rebuilt:
            # A late post opened it here, its first one perhaps; the robot had its answers from somebody else.
            if self._stateful:
                self.end(episode_id, owner, now)  # it would take the place of the one that is begun instead
            self._must_be_rebuildable()
            session.rebuilt = session.lost = True
        self.touch(session, now)
        return session

    def touch(self, session: Session, now: float) -> None:
        """It was heard of: count its idleness anew, and its bytes. Also counts a session without an episode."""
        session.used_at = now
        if session.ended:
            return
        self._bytes += session.frames.bytes - session.counted_bytes
        session.counted_bytes = session.frames.bytes
        if self._live.get(session.id) is session:
            self._live.move_to_end(session.id)

    def release(self, session: Session) -> None:
        """A session is over: what it holds is let go, and no longer counted."""
        session.let_go()
        self._bytes -= session.counted_bytes
        session.counted_bytes = 0

    def end(self, episode_id: str, owner: str, now: float) -> Session | None:
        """End an episode and remember its id; None where there is none.

        Raises:
            InvalidRequest: The id is empty or longer than 256 characters.
            NotFound: It belongs to another key.
        """
        _check_id(episode_id)
        session = self._live.get(episode_id)
        if session is not None and session.owner != owner:
            raise remote_error("not_found", "there is no such episode")
        # Unknown ids too: the post that begins an episode may still be on its way behind the request that ends it.
        self._ended[owner, episode_id] = now
        self._ended.move_to_end((owner, episode_id))
        while len(self._ended) > self._limits.ended:
            self._ended.popitem(last=False)
        if session is not None:
            self._close(session, "ended")
        return session

    def forget(self, episode_id: str) -> None:
        """Drop a live episode as `sweep` does an idle one."""
        self._close(self._live[episode_id], "released")

    def sweep(self, now: float) -> list[Session]:
        """Forget episodes that are idle and ids that ended long ago; returns the episodes forgotten.

        A forgotten episode has not ended: where the policy has no state the robot may send it anew.
        """
        while self._ended and now - next(iter(self._ended.values())) > self._limits.ended_s:
            self._ended.popitem(last=False)
        idle = []
        for session in self._live.values():
            if now - session.used_at <= self._idle_s:
                break
            if not session.acts:
                idle.append(session)
        for session in idle:
            self._close(session, "idle")
        return idle

    def close(self) -> None:
        """Begin no new ones any more."""
        self.closing.set()
        self.places.tell()

    def close_all(self) -> None:
        """End every live episode; none is begun any more."""
        self.close()
        for session in list(self._live.values()):
            self._close(session, "stopped")

    def next_idle_at(self) -> float | None:
        """When the next episode will have been idle for too long; None when there is none."""
        return next((session.used_at + self._idle_s for session in self._live.values()), None)

    def _opened(self, episode_id: str, owner: str, now: float, *, names_zero: bool, begun: bool) -> Session:
        if (owner, episode_id) in self._ended:
            raise gone("this episode has ended", "ended")
        lost = begun and not names_zero
        if begun:
            self._must_be_rebuildable()
        self.must_be_open()
        self._must_have_room(owner, episode_id)
        session = Session(episode_id, owner, self._observations, self._limits, now)
        session.rebuilt = session.lost = lost
        self._live[episode_id] = session
        return session

    def must_be_open(self) -> None:
        """Raises Unavailable (503, ``details.reason`` "draining") where nothing new is begun."""
        if self.closed:
            raise draining()

    def _must_have_room(self, owner: str, episode_id: str) -> None:
        live, ahead = len(self._live), self.places.ahead_of((owner, episode_id))
        if live >= self._limits.episodes:
            raise no_place("it has no room", ahead)
        if live + ahead >= self.places.most:
            raise no_place(_taken(self.places.most), ahead)
        if self._is_full(live):
            raise no_place("those that are live want all its time", ahead)

    def _must_be_rebuildable(self) -> None:
        if self._stateful:
            raise gone("the worker no longer has this episode, and its policy has state", "lost")

    def _close(self, session: Session, why: str) -> None:
        self.release(session)
        del self._live[session.id]
        if self._owed and session.episode is not None:
            self.over.append(session)
        session.tell()
        self.places.tell()
        _say_ended(session, why)
        if not self._owed:
            session.episode = None


def _say_ended(session: Session, why: str) -> None:
    """The one line an episode has in the log."""
    if logger.isEnabledFor(logging.INFO):
        acts = session.episode.steps if session.episode is not None else 0
        for_s = session.used_at - session.began_at
        logger.info("%s", line("episode.ended", None, episode=session.id, why=why, acts=acts, for_s=for_s))


def _taken(most: int) -> str:
    return f"its policy has state and serves {'one episode' if most == 1 else f'{most} episodes'} at a time"


def gone(detail: str, reason: str) -> RemoteError:
    """The 410 of an episode that cannot go on; ``reason`` "ended" or "lost"."""
    return remote_error("gone", detail, hint="begin a new episode", details={"reason": reason})


def _check_id(episode_id: str) -> None:
    if not 1 <= len(episode_id) <= 256:
        raise remote_error("invalid_request", f"episode_id has {len(episode_id)} characters; write 1 to 256")
