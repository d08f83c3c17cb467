"""Whose turn it is: the robot whose plan runs dry first, within a fair share. Numbers in, an order out.

Earliest deadline first (Liu and Layland 1973, §7): an act is due when its robot runs dry. What a robot says of itself
is believed within bounds, so that nobody waits for ever: at most `MOST_SLACK_S` of slack, never less than none. A
robot that takes more than its share of a worker others wait for is in debt, and its acts count as if they had come
later, by `MOST_DEBT_S` at the most (the postponed deadlines of Abeni and Buttazzo's constant bandwidth server, 1998).
So no act is overtaken by one that came more than `MOST_SLACK_S` + `MOST_DEBT_S` after it, whatever anybody says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, Generic, Protocol, TypeVar

from seqrt.wire.messages import AskPlan

MOST_SLACK_S: Final = 2.0
"""A robot is not taken to have more time than this."""
MOST_DEBT_S: Final = 2.0
"""A robot that took more than its share counts as this much later at the most."""
UNTOLD_S: Final = 0.5
"""What a robot has that says nothing and has been answered before: it may stand, and it may have asked ahead."""


@dataclass(frozen=True, slots=True)
class Place:
    """One act that waits.

    Attributes:
        episode: Its episode.
        who: Whose share of the worker it takes.
        step: Its step.
        arrived_at: When it came into the line.
        dry_at: When its robot runs dry, as far as it says; never before it arrived.
    """

    episode: Hashable
    who: Hashable
    step: int
    arrived_at: float
    dry_at: float


class Waits(Hashable, Protocol):
    """What has a place in line."""

    @property
    def place(self) -> Place:
        """Its place."""
        ...


W = TypeVar("W", bound=Waits)


def dry_in_s(plan: AskPlan | None, *, first: bool) -> float:
    """Seconds until an act's answer is late for its robot, from the act's arrival; at least 0.

    Args:
        plan: What the robot says: ``dry_in_s``, or ``steps_left`` and ``hz``; less its ``net_p95_ms``.
        first: Nothing was answered in its episode yet: a robot that says nothing stands.
    """
    told = _told_s(plan)
    if told is None:
        return 0.0 if first else UNTOLD_S
    network_s = plan.net_p95_ms / 1e3 if plan is not None and plan.net_p95_ms is not None else 0.0
    left_s = told - max(0.0, network_s)
    return max(0.0, left_s) if left_s == left_s else 0.0


def _told_s(plan: AskPlan | None) -> float | None:
    if plan is None:
        return None
    if plan.dry_in_s is not None and not math.isnan(plan.dry_in_s):
        return plan.dry_in_s
    if plan.steps_left is not None and plan.hz is not None and plan.hz > 0:
        return plan.steps_left / plan.hz
    return None


class Turns(Generic[W]):
    """Who is served next. Knows what each robot owes; the acts that wait are handed in.

    Args:
        freshest: Of an episode's acts the newest is served; else the oldest.
    """

    def __init__(self, *, freshest: bool) -> None:
        self._freshest = freshest
        self._paid_until: dict[Hashable, float] = {}

    def due(self, place: Place) -> float:
        """When an act should be served by: the earlier, the sooner its turn comes."""
        arrived_at = place.arrived_at
        counts_from = min(max(arrived_at, self._paid_until.get(place.who, arrived_at)), arrived_at + MOST_DEBT_S)
        return counts_from + min(max(0.0, place.dry_at - arrived_at), MOST_SLACK_S)

    def first(self, waiting: Mapping[W, float]) -> W:
        """Whose turn it is of those that wait, each with when it is `due`; there has to be one. First of `order`."""
        episode = min(waiting, key=waiting.__getitem__).place.episode
        return reduce(self._rather, (one for one in waiting if one.place.episode == episode))

    def order(self, waiting: Mapping[W, float]) -> list[W]:
        """Of each episode the act to be served next, in order; those due at once in the order they are handed in.

        An episode stands where the one of its acts stands that is due first: a newer one, of a robot that asks often,
        neither loses that place nor makes it better.

        Args:
            waiting: The acts that wait, each with when it is `due`.
        """
        turns: dict[Hashable, tuple[tuple[float, int], W]] = {}
        for handed_in, (one, due) in enumerate(waiting.items()):
            place, before = (due, handed_in), turns.get(one.place.episode)
            turns[one.place.episode] = (
                (place, one) if before is None else (min(place, before[0]), self._rather(before[1], one))
            )
        return [one for _, one in sorted(turns.values(), key=_place)]

    def served(self, whose: Collection[Hashable], *, began_at: float, now: float, sharing: int) -> None:
        """A call is over: note what each of those it served took of the worker.

        Args:
            whose: Whose acts were in it, one entry an act.
            began_at: When it began.
            now: The time.
            sharing: How many robots want the worker, these among them: each is owed one part in so many.
        """
        while self._paid_until and next(iter(self._paid_until.values())) <= now:
            del self._paid_until[next(iter(self._paid_until))]
        if sharing <= 1:
            return
        took_s = (now - began_at) / len(whose)
        for who in whose:
            paid_until = max(self._paid_until.pop(who, began_at), began_at) + took_s * sharing
            self._paid_until[who] = min(paid_until, now + MOST_DEBT_S)

    def _rather(self, one: W, other: W) -> W:
        newer, older = (one, other) if one.place.step > other.place.step else (other, one)
        if one.place.step == other.place.step:
            return one  # asked about twice: the one that is there already
        return newer if self._freshest else older


def _place(entry: tuple[tuple[float, int], W]) -> tuple[float, int]:
    return entry[0]
