"""The acts that wait for their turn, in its order. No time, no waiting: `seqrt.policies.line` does both."""

from __future__ import annotations

from collections.abc import Iterator

from seqrt.policies.job import Job
from seqrt.policies.turns import Turns


class Waitlist:
    """Acts that wait.

    Args:
        most: Acts in one call.
        freshest: Of an episode's acts the newest is served and older ones are passed by; else all are, oldest first.
    """

    def __init__(self, *, most: int, freshest: bool) -> None:
        self._most = most
        self._freshest = freshest
        self._turns: Turns[Job] = Turns(freshest=freshest)
        self._waiting: dict[Job, float] = {}  # each with when it is due

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Job]:
        """Those that wait, in order of arrival."""
        return iter(self._waiting)

    def add(self, job: Job) -> None:
        """It waits from now on."""
        self._waiting[job] = self._turns.due(job.place)

    def remove(self, job: Job) -> None:
        """It waits no longer."""
        del self._waiting[job]

    def take_next(self) -> Job:
        """Whose turn it is; it waits no longer. There has to be one."""
        job = self._turns.first(self._waiting)
        del self._waiting[job]
        return job

    def is_next(self, job: Job) -> bool:
        """Whether it would be the turn of ``job``, which does not wait now, if it did."""
        return self._turns.first({job: self._turns.due(job.place), **self._waiting}) is job

    def ahead_of(self, job: Job) -> int:
        """Episodes, not the act's own, whose turn comes before that of ``job``, which may wait or not."""
        due = self._turns.due(job.place)
        before = {other.session for other, its_due in self._waiting.items() if its_due <= due}
        return len(before - {job.session})

    def take_along(self, first: Job) -> list[Job]:
        """``first`` and those that may share its call, in turn, at most one of an episode; they wait no longer."""
        batch = [first]
        for job in self._turns.order(self._waiting) if self._most > 1 and self._waiting else ():
            if len(batch) >= self._most:
                break
            if job.session is not first.session and job.alike == first.alike:
                batch.append(job)
                del self._waiting[job]
        return batch

    def take_passed(self, batch: list[Job]) -> list[Job]:
        """The acts that are older than the one of their episode in ``batch``; they wait no longer."""
        if not (self._freshest and self._waiting):
            return []
        steps = {job.session: job.step for job in batch}
        passed = [job for job in self._waiting if job.step < steps.get(job.session, -1)]
        for job in passed:
            del self._waiting[job]
        return passed

    def account(self, batch: list[Job], began_at: float, now: float) -> None:
        """A call is over: whoever was in it took of its share, if others wait."""
        whose = [job.place.who for job in batch]
        sharing = len({*whose, *(job.place.who for job in self._waiting)}) if self._waiting else 1
        self._turns.served(whose, began_at=began_at, now=now, sharing=sharing)
        for job in self._waiting:
            if job.place.who in whose:  # it owes more than before
                self._waiting[job] = self._turns.due(job.place)
