"""Is the other end of a connection still there, and an act still with it? Decided here; no waiting and no sending.

In: when bytes came, what is out, pings and their answers. Out: what to do now. `seqrt.link.tending` acts by it. How
long an inference takes has nothing to do with it: a worker answers a ping while it infers.

A connection on which nothing has come for `SILENCE_S` is pinged; when nothing comes for max(`PATIENCE_S`, `ROUND_TRIPS`
round trips) more, it is given up. Any byte is a sign of life, and so is the other end taking what goes before the ping:
on an uplink that is full the ping waits behind it, here and in the system's buffers. A program that stood still has not
listened: the other end has its time from then on, once. Where one connection after the other stays silent, it is not
the connection: each one is given twice the time of the one before.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias

SILENCE_S: Final = 1.0
PATIENCE_S: Final = 1.0
ROUND_TRIPS: Final = 4
MEASURE_S: Final = 2.0
"""Without any silence a ping goes out so often: the round trip is always known."""
LOOK_S: Final = 0.25
"""How often to look whether the other end takes what the ping waits behind."""

_STUCK_S: Final = 10.0
"""How long a ping may wait to be handed over where the system does not tell whether anything is taken meanwhile."""
_STOOD_STILL_S: Final = 0.25
"""Asked so much later than was said, the program stood still: suspended, stopped, or its machine was."""
_EXPECTED_S: Final = 5.0
_MOST_DOUBLINGS: Final = 4
_LATELY: Final = 8
_ANSWERED_S: Final = 1.0
"""How long an act may have been answered before the answer has to be seen here: proxies hold some up for a while."""


@dataclass(frozen=True)
class Ping:
    """Send a ping, and ask after the act ``about`` where one is out."""

    about: str | None


@dataclass(frozen=True)
class Gone:
    """The other end is gone, or the way to it: nothing has come for ``silent_s``."""

    silent_s: float


@dataclass(frozen=True)
class Wait:
    """Nothing to do before ``until``, on the caller's clock."""

    until: float


Step: TypeAlias = "Ping | Gone | Wait"


class Experience:
    """What connections to one worker have been like of late."""

    def __init__(self) -> None:
        self._round_trips: deque[float] = deque(maxlen=_LATELY)
        self._acts: deque[float] = deque(maxlen=_LATELY)
        self._silent_in_a_row = 0

    @property
    def round_trip_s(self) -> float | None:
        """The median of the last pings; None before the first."""
        return median(self._round_trips) if self._round_trips else None

    @property
    def expected_s(self) -> float:
        """How long an act is not asked after: twice the median of the last ones, within a second and five."""
        usual_s = median(self._acts) if self._acts else 0.0
        return min(max(SILENCE_S, 2 * usual_s), _EXPECTED_S)

    def patience_s(self, *, opened: bool) -> float:
        """How long a ping is waited for on a connection, or for the connection itself.

        A try to connect costs nobody anything: that time never grows.
        """
        patience_s = max(PATIENCE_S, ROUND_TRIPS * (self.round_trip_s or 0.0))
        doublings = min(self._silent_in_a_row, _MOST_DOUBLINGS) if opened else 0
        return float(patience_s * 2**doublings)

    def answered(self, took_s: float) -> None:
        """A ping came back."""
        self._round_trips.append(took_s)

    def served(self, took_s: float) -> None:
        """An act was answered."""
        self._acts.append(took_s)

    def was_silent(self) -> None:
        """An open connection was given up: nothing came."""
        self._silent_in_a_row += 1

    def was_answered(self) -> None:
        """A request was answered, whatever it was."""
        self._silent_in_a_row = 0


@dataclass
class _Act:
    out_since: float
    handed_over_at: float = math.inf
    asked_after_at: float = -math.inf
    begun: bool = False  # the answer has


class Liveness:
    """One connection, from the first request on it.

    Args:
        experience: What is known of this worker.

    Attributes:
        is_open: Whether it is open.
    """

    def __init__(self, experience: Experience) -> None:
        self._experience = experience
        self.is_open = False
        self._heard_at = math.inf
        self._pinged_at = -math.inf
        self._ping: Ping | None = None
        self._taken: int | None = None  # bytes, by the other end
        self._taken_with_ping: float = 0
        self._moved_at = -math.inf
        self._due_at, self._excused = math.inf, False
        self._acts: dict[str, _Act] = {}

    # What happens.

    def begin(self, now: float) -> None:
        """The first request goes out, which opens the connection."""
        if self._heard_at == math.inf:
            self._heard_at = now

    def opened(self, now: float) -> None:
        """The connection is open."""
        self.is_open, self._heard_at = True, now

    def refused(self) -> None:
        """It could not be opened, or not again; the next request tries."""
        self.is_open, self._heard_at, self._excused = False, math.inf, False

    def heard(self, now: float) -> None:
        """Bytes came."""
        self._heard_at, self._excused = now, False

    def looked(self, taken_bytes: int | None, now: float) -> None:
        """The other end has taken so many bytes by now, None where nobody knows; those behind the ping do not count."""
        before, self._taken = self._taken, taken_bytes
        if before is not None and taken_bytes is not None and before < min(taken_bytes, self._taken_with_ping):
            self._moved_at = now

    def act_out(self, request_id: str, now: float) -> None:
        """An act goes out."""
        self._acts[request_id] = _Act(now)

    def act_handed_over(self, request_id: str, now: float) -> None:
        """Its last byte was handed over to the network."""
        if request_id in self._acts:
            self._acts[request_id].handed_over_at = now

    def act_begun(self, request_id: str) -> None:
        """Its answer begins."""
        if request_id in self._acts:
            self._acts[request_id].begun = True

    def act_over(self, request_id: str) -> None:
        """It is answered, or given up."""
        self._acts.pop(request_id, None)

    def pinged(self, ping: Ping, now: float) -> None:
        """A ping is sent."""
        self._ping, self._pinged_at, self._taken_with_ping = ping, now, math.inf
        if ping.about in self._acts:
            self._acts[ping.about].asked_after_at = now

    def ping_handed_over(self, waiting_bytes: int, now: float) -> None:
        """It was handed to the system, where so many bytes wait to be taken, itself the last of them."""
        self._taken_with_ping, self._moved_at = (self._taken or 0) + waiting_bytes, now

    def ping_over(self) -> None:
        """The ping was answered, or its time is over."""
        self._ping = None

    def is_lost(self, ping: Ping, state: str | None, for_s: float) -> bool:
        """Whether the act that ``ping`` asked after is not on its way any more, by what the worker says of it.

        One connection keeps the order: an act that was handed over before the ping arrived before it, and the head of
        an answer given before the ping's arrives before it.
        """
        act = self._acts.get(ping.about or "")
        if act is None or act.begun:
            return False
        if state == "unknown":
            return act.handed_over_at + (self._experience.round_trip_s or 0.0) <= self._pinged_at
        return state == "answered" and for_s >= _ANSWERED_S

    def is_silent(self, now: float) -> bool:
        """Whether nothing has come for a while."""
        return now - self._heard_at >= SILENCE_S

    # What to do.

    def decide(self, now: float) -> Step:
        """What to do at ``now``; who is told to wait asks again when that is over."""
        if now - self._due_at > _STOOD_STILL_S and not self._excused:
            self._moved_at, self._excused = now, True  # nobody listened meanwhile: what came lies there unread
        step = self._decide(now)
        self._due_at = step.until if isinstance(step, Wait) else math.inf
        return step

    def _decide(self, now: float) -> Step:
        if self._heard_at == math.inf:
            return Wait(now + SILENCE_S)
        return self._decide_pinged(now) if self._ping is not None or not self.is_open else self._decide_to_ping(now)

    def _decide_pinged(self, now: float) -> Step:
        patience_s = self._experience.patience_s(opened=self.is_open)
        waits_here = self._ping is not None and self._taken_with_ping == math.inf
        if waits_here and self._taken is None:
            patience_s = max(patience_s, _STUCK_S)
        until = max(self._pinged_at, self._moved_at, self._heard_at + SILENCE_S) + patience_s
        if now >= until:
            return Gone(now - self._heard_at)
        behind = self._ping is not None and (self._taken is None or self._taken < self._taken_with_ping)
        return Wait(min(until, now + LOOK_S) if behind else until)

    def _decide_to_ping(self, now: float) -> Step:
        overdue_at, about = self._overdue()
        due = min(self._heard_at + SILENCE_S, self._pinged_at + MEASURE_S, overdue_at)
        return Ping(about) if now >= due else Wait(due)

    def _overdue(self) -> tuple[float, str | None]:
        """When to ask after an act next, and after which."""
        expected_s = self._experience.expected_s
        due = {
            request_id: max(act.out_since + expected_s, act.asked_after_at + SILENCE_S)
            for request_id, act in self._acts.items()
        }
        about = min(due, key=due.__getitem__, default=None)
        return (math.inf, None) if about is None else (due[about], about)
