"""The line before a policy's code: whoever runs dry first, one call at a time, several acts in one where declared.

Of an episode's acts the newest is served where answers depend on the request alone, and those it leaves behind are
passed by: what they would be answered is older than what the robot has by then. Else all are served, oldest first.
No task of its own: the act whose turn it is leads, waits for others where that is worth it, takes them along, and
hands the lead on when its call is over. Whose turn it is decides `seqrt.policies.turns`, when a call begins
`seqrt.policies.gathering`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from seqrt.errors import RemoteError, remote_error
from seqrt.policies.admission import Admission, Running
from seqrt.policies.durations import CallDurations
from seqrt.policies.gathering import begin_at
from seqrt.policies.job import Job
from seqrt.policies.load import LineStatistics
from seqrt.policies.rhythm import Rhythms
from seqrt.policies.room import Room
from seqrt.policies.waitlist import Waitlist


class Line:
    """Who is served next.

    Args:
        most: Acts in one call.
        rejects: An act that finds every place taken is refused at once.
        queue_s: How long one waits in the line at most.
        freshest: Of an episode's acts the newest is served and older ones are passed by; else all are, oldest first.
        clock: The time, in seconds.

    Attributes:
        durations: What calls take, as learnt.
    """

    def __init__(self, *, most: int, rejects: bool, queue_s: float, freshest: bool, clock: Callable[[], float]) -> None:
        self._most = most
        self._queue_s = queue_s
        self._clock = clock
        self._waiting = Waitlist(most=most, freshest=freshest)
        self._running = Running()
        self._taken = False
        self._gathers_since: float | None = None
        self._stirred = anyio.Event()
        self._calls = self._late = 0
        self.durations = CallDurations()
        self._rhythms = Rhythms()
        self._room = Room(most=most, durations=self.durations, rhythms=self._rhythms)
        self._admission = Admission(most=most, rejects=rejects, queue_s=queue_s, durations=self.durations)

    async def pass_through(self, job: Job, until: float, serve: Callable[[list[Job]], Awaitable[None]]) -> None:
        """Wait for the turn of ``job`` and have it served; it has its response or error then, or was passed by.

        Cancelled while it waits, it has not run; once it runs it is waited for.

        Args:
            job: The act.
            until: When it is given up, in the clock's time.
            serve: Serves a batch; called for one batch at a time.

        Raises:
            Unavailable: Full, or its turn would not come in time (``busy``, ``details.position``), or its time was
                over before its turn (``timeout``).
        """
        now = self._clock()
        job.queue(now)
        may_wait_s = min(until - now, self._queue_s)
        self._admission.check(job, self._waiting, self._running, now=now, may_wait_s=may_wait_s)
        self._join(job, now)
        try:
            while not await self._has_turn(job, now + may_wait_s):
                pass
        except BaseException:  # cancelled
            await self._leave(job)
            raise
        if not job.chosen.is_set():
            position = 1 + self._waiting.ahead_of(job)
            self._waiting.remove(job)
            over = until - now <= self._queue_s
            raise out_of_time("other acts are before it") if over else self._admission.waited(position)
        if job.leads:
            await self._lead(job, serve)
        else:
            with anyio.CancelScope(shield=True):  # the leader serves it, and its call cannot be stopped
                await job.done.wait()

    async def between(self, pending: Callable[[], bool], work: Callable[[], Awaitable[None]], until: float) -> None:
        """Have ``work`` done while no act runs: here as soon as nobody is served, or by whoever leads next.

        Args:
            pending: Whether there is anything to do still; `stir` says that this may have changed.
            work: Does it.
            until: When it is left to whoever leads next, in the clock's time.
        """
        while pending() and (left_s := until - self._clock()) > 0:
            if not self._taken:
                self._taken = True
                try:
                    with anyio.CancelScope(shield=True):
                        await work()
                finally:
                    self._free()
                continue
            stirred = self._stirred
            with anyio.move_on_after(left_s):
                await stirred.wait()

    def stir(self) -> None:
        """Wake whoever waits in `between`, or for others to join."""
        self._stirred.set()
        self._stirred = anyio.Event()

    def position(self, request_id: str, owner: str) -> int | None:
        """The place of the act of that id, 1 for whoever is next; None for one that does not wait."""
        for job in self._waiting:
            if job.record is not None and (job.record.request_id, job.record.owner) == (request_id, owner):
                return 1 + self._waiting.ahead_of(job)
        return None

    def is_full(self, episodes: int) -> bool:
        """Whether one more episode beside so many would be one too many."""
        return self._room.is_full(episodes, self._clock())

    def statistics(self) -> LineStatistics:
        """A snapshot; from any thread."""
        refused = self._admission.refused
        return LineStatistics(len(self._waiting), self._running.size, self._calls, self._late, refused)

    def wait_s(self) -> float | None:
        """How long an act that came now would wait, were it the last; None where it is not known what calls take."""
        return self._admission.wait_s(len(self._waiting), self._running, self._clock())

    def _join(self, job: Job, now: float) -> None:
        self._rhythms.heard(job.session, now)
        self._waiting.add(job)
        self._choose()
        if self._gathers_since is not None:
            self.stir()

    async def _has_turn(self, job: Job, until: float) -> bool:
        """Wait for the turn, no longer than ``until``; False where it came and was another's after all."""
        with anyio.move_on_after(until - self._clock()):
            await job.chosen.wait()
        return not job.leads or await self._gathers(job)

    async def _gathers(self, leader: Job) -> bool:
        """Let others join the call while that is worth it; False when another's turn comes before the leader's."""
        while (at := self._begins_at(leader)) > (now := self._clock()):
            stirred = self._stirred
            with anyio.move_on_after(at - now):
                await stirred.wait()
            if not self._waiting.is_next(leader):
                leader.take_turn()
                self._waiting.add(leader)
                self._free()
                return False
        self._gathers_since = None
        return True

    def _begins_at(self, leader: Job) -> float:
        now = self._clock()
        if self._most == 1:
            return now
        if self._gathers_since is None:
            self._gathers_since = now
        here = {leader.session, *(job.session for job in self._waiting)}
        if len(here) >= self._most or any(job.alike != leader.alike for job in self._waiting):
            return now  # full; or one of them waits for this call to be over
        return begin_at(
            now,
            since=self._gathers_since,
            dry_at=min(job.place.dry_at for job in (leader, *self._waiting)),
            count=len(here),
            most=self._most,
            expected=self._rhythms.expected(now, here),
            durations=self.durations,
        )

    async def _lead(self, leader: Job, serve: Callable[[list[Job]], Awaitable[None]]) -> None:
        batch = self._waiting.take_along(leader)
        for job in batch[1:]:
            job.give_turn(leads=False)
        for job in self._waiting.take_passed(batch):
            job.pass_by()
        self._running = running = Running(len(batch), self._clock())
        self._calls += 1
        self._late += sum(job.place.arrived_at < job.place.dry_at < running.began_at for job in batch)
        try:
            # Whoever asked may leave: the policy's code cannot be stopped, and what it answers is kept.
            with anyio.CancelScope(shield=True):
                await serve(batch)
        finally:
            self._is_over(batch)

    def _is_over(self, batch: list[Job]) -> None:
        for job in batch:
            if job.response is None and job.error is None:
                job.error = remote_error("internal", "the act was not served")
            job.done.set()
        now, began_at = self._clock(), self._running.began_at
        self._waiting.account(batch, began_at, now)
        for job in batch:
            self._room.answered(job.place, now)
        self.durations.add(len(batch), now - began_at)
        self._running = Running()
        self._free()

    async def _leave(self, job: Job) -> None:
        if not job.chosen.is_set():
            self._waiting.remove(job)
        elif job.leads:
            self._free()  # its turn had come and it has not begun
        else:
            with anyio.CancelScope(shield=True):
                await job.done.wait()

    def _choose(self) -> None:
        if not self._taken and self._waiting:
            self._taken = True
            self._waiting.take_next().give_turn(leads=True)

    def _free(self) -> None:
        self._taken = False
        if not self._waiting:
            self._gathers_since = None
        self._choose()
        self.stir()


def out_of_time(why: str) -> RemoteError:
    """The 504 of an act that has not run."""
    return remote_error("timeout", f"the act's time was over before it was served: {why}")
