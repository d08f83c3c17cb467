"""What the robot holds of one episode's observations: how long each is kept, what of it is sent, and when.

In: observations, what acts read, what became of posts. Out: loads to post. No waiting and no sending: the uplink does
that. Every step is sent once, and of it only the keys that some act reads; what is not acknowledged yet can be sent
again, to another worker too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import Any, Final

from seqrt.observation.declaration import Observations
from seqrt.observation.window import fed_steps, is_fed, is_windowed, keep_from, lookback
from seqrt.runtime.kept import Kept
from seqrt.runtime.outbox import Load, Outbox
from seqrt.runtime.reads import OpenActs, Reads, looked_for, reads_of
from seqrt.runtime.way import NO_KEYS, Keys
from seqrt.wire.limits import EPISODE_BYTES, FRAMES_AN_EPISODE

BEHIND: Final = 3
"""Fed frames that may wait to be sent under ``when_behind="drop_oldest"``, behind those under way.

More only make what arrives older; bench/README.md, "The link", has figures for 1, 3 and 8.
"""


class Ledger:
    """One episode's observations on the robot.

    Args:
        observations: The declaration, in steps; None for an undeclared policy.
        most: Fed frames kept until an act has read them; one more is skipped.
        most_bytes: The same in bytes.
        first: The first number of the episode, where those below were another episode's.

    Attributes:
        kept: The observations.
        outbox: What is to be posted.
        served: Step of the newest act served; before the first, the number before the episode's own.
        feeding: Whether fed frames are kept and sent: from the first act on.
        refused: Fed frames skipped because the limits of an episode were reached.
        dropped: Queued frames dropped because the link was behind.
        offered: Observations queued to be sent, each counted once.
    """

    def __init__(
        self,
        observations: Observations | None,
        *,
        most: int = FRAMES_AN_EPISODE,
        most_bytes: int = EPISODE_BYTES,
        first: int = 0,
    ) -> None:
        self._observations = observations
        self._lookback, self._fed = lookback(observations), is_fed(observations)
        self._windowed = is_windowed(observations)
        self._drops = observations is not None and observations.when_behind == "drop_oldest"
        looks_back = self._lookback > 0
        self.kept = Kept(copies=looks_back or self._fed, stands_in=looks_back, most=most, most_bytes=most_bytes)
        self._acts = OpenActs()
        self.outbox = Outbox(every_number=not self._windowed)
        self._way = self.outbox.way
        self._begun = False
        self._first, self._told, self.served = first, first - 1, first - 1
        self._feed_from = 0
        self.feeding = False
        self.refused = 0
        self.dropped = 0
        self.offered = 0

    @property
    def previous(self) -> int:
        """What an act names as the step of the act before it: nothing at or below it is fed."""
        return max(self.served, self._feed_from - 1) if self._fed and self.feeding else self.served

    # Observations, in.

    def keep(self, number: int, inputs: Mapping[str, Any]) -> None:
        """Keep one observation, newer than all before; it is not sent yet.

        It stays for as long as a window reaches back, an act that waits reads it, or it is fed and not yet read.
        """
        fed_after = self.previous if self._fed and self.feeding else number
        wanted, read = self._wanted(), self._acts.numbers
        self.kept.drop_below(number - self._lookback, unless=lambda n: n in wanted or n > fed_after)
        self.kept.add(number, inputs)
        if self._fed:
            self.kept.make_room(number - self._lookback, unless=lambda n: n in read or bool(self._way.sent(n)))

    def feed(self, number: int, keys: Keys | None = None) -> None:
        """Send a step that a later act will read; None is all keys."""
        if not self._fed:
            self.send(number, keys)
        elif self.feeding and self.kept.has_room_beside(number):  # one more: the next act's own
            self.send(number, keys)
            self._drop_behind(number)
        elif self.feeding:
            self.refused += 1
            self.outbox.tell([number])
            if not self._lookback:
                self.kept.drop(number)

    def send(self, number: int, keys: Keys | None = None) -> None:
        """Have a kept observation sent, each key of it once; None is all keys."""
        if number not in self.kept:
            return
        keys = frozenset(self.kept[number]) if keys is None else keys & frozenset(self.kept[number])
        fresh = not self._way.sent(number)
        if self._way.queue(number, keys):
            self.offered += fresh
            self.kept.copy_for_sending(number)
            self.outbox.untell(number)

    # Acts.

    def open(self, step: int, *, begun: bool) -> None:
        """An act at ``step`` goes out: have all sent that it reads, and told what of it will never come.

        Until an answer has been seen, steps are sent whole: the worker learns which keys there are.

        Args:
            step: The act's step; its observation is kept.
            begun: An answer of this episode has been seen.
        """
        self.begin_feeding(step)
        self._begun = begun
        if self._windowed:
            at_hand = sorted({*self.kept, *self._way.landed})
            reads = reads_of(self._observations, step, self.previous, at_hand=at_hand, instead_of=self.kept.instead_of)
            self._tell_not_fed(step, reads)
        else:
            reads = {step: None}
            self.outbox.tell(range(self._told + 1, step))
            self._told = max(self._told, step)
        self._acts.open(step, reads)
        self._send_what_is_read(reads)
        if not begun:
            self._name_the_first()
        self._drop_behind(step)

    def serve(self, step: int) -> None:
        """The act at ``step`` was served: what no later act reads goes."""
        self._begun = True
        self.served = max(self.served, step)
        floor = keep_from(self._observations, min((self.served, *self._acts)))
        wanted, read = self._wanted(), self._acts.numbers
        spare = self.kept.drop_below(floor, unless=wanted.__contains__)
        self._way.keep_landed({n for n in self._way.landed if n >= floor or n == spare or n in read})

    def close(self, step: int) -> None:
        """The act at ``step`` is over, answered or not: what it alone reads need not arrive."""
        alone = self._acts.close(step)
        if self._fed and self.feeding:
            alone = {number for number in alone if number <= self.previous}  # the next act reads the others
        self.outbox.let_go(alone)

    def begin_feeding(self, step: int) -> None:
        """Feed from ``step`` on, where nothing is fed yet."""
        if self._fed and not self.feeding:
            self.feeding, self._feed_from = True, step

    def rest(self) -> None:
        """Feed nothing until the next act: the arm stands, and what is seen meanwhile is read by nobody."""
        if self.feeding:
            self.feeding = False
            self.outbox.let_go({*self._way.queued, *self._way.posted} - self._acts.numbers)

    def queue_again(self, number: int) -> Collection[int]:
        """After a 409: queue what the worker lacks, and tell what it will never get.

        Args:
            number: The first number the worker lacks. What acts read below it is there; of the rest nothing is known.

        Returns:
            The numbers on their way that it waits for; none when the worker lacks what never was.
        """
        lacking = self._acts.reads_from(number)
        # Of a step it was not told of, the worker cannot say whether it has what is read in its place.
        unsure = {self.kept.instead_of(n) for n in lacking}
        self._way.keep_landed({n for n in self._acts.numbers - unsure if n < number})
        if not self._windowed:
            # Of an act given up a number may be kept that nobody will send any more.
            self.outbox.tell(
                n for n in range(max(number, self._first), self._told) if n not in lacking and n not in self._way
            )
        self._send_what_is_read(lacking)
        for step in self._acts:
            self._tell_not_fed(step, lacking, number)
        if number == 0 and not self._begun:
            self._name_the_first()
        return [n for n in (*lacking, *self.outbox.told_beside) if n in self._way]

    def move(self) -> None:
        """Another worker is asked from now on: nothing has landed there, and what waiting acts read is sent again."""
        self.queue_again(0 if self._windowed else self.served + 1)

    # Posts, out.

    def is_read(self, numbers: Collection[int]) -> bool:
        """Whether an act that is out reads one of ``numbers``."""
        return any(self._acts.read(number) for number in numbers)

    @property
    def urgent(self) -> list[int]:
        """The observations that wait and that an act which is out reads, the newest first."""
        return sorted(filter(self._acts.read, self._way.queued), reverse=True)

    def refuse(self, load: Load) -> None:
        """A load was refused for good: its numbers are told as never to come."""
        for number in self.outbox.refused(load):
            self.kept.drop(number)

    def give_up_queue(self) -> None:
        """Nothing of what waits will be sent now."""
        self.outbox.give_up(self.outbox.take(self.outbox.waiting, 0))
        self.feeding = False

    # Within.

    def _send_what_is_read(self, reads: Reads) -> None:
        for number, keys in reads.items():
            if number in self.kept:
                self.send(number, keys if self._begun else None)
            elif self._windowed and (keys is None or not keys <= self._way.sent(number)):
                self._tell_missed(number, keys)

    def _tell_missed(self, number: int, keys: Keys | None) -> None:
        """Nothing was taken at ``number``: the worker reads the newest before it, which the same post names.

        Named without keys where they landed: a worker that was restarted since waits for them, and says so. Before the
        first answer nobody can tell that it was: then they go along.
        """
        before = self.kept.instead_of(number)
        if before is None:
            self.outbox.tell([number])
            return
        self.send(before, looked_for(self._observations, keys) if self._begun else None)
        self.outbox.tell_beside(number, before, NO_KEYS if self._begun else frozenset(self.kept[before]))

    def _tell_not_fed(self, step: int, reads: Collection[int], least: int = 0) -> None:
        """Tell the fed steps from ``least`` on that the act at ``step`` does not read: nothing was taken there."""
        for steps in fed_steps(self._observations, step, self.previous):
            missed = [number for number in steps[bisect_left(steps, least) :] if number not in reads]
            later = bisect_left(missed, step - self._lookback + 1)
            self.outbox.tell(missed[:later])
            for number in missed[later:]:  # a later act may look for it
                self._tell_missed(number, NO_KEYS)

    def _name_the_first(self) -> None:
        """An episode is begun by naming its number 0. Of one that begins later the worker waits for nothing before."""
        if (self._windowed or self._first) and not self._way.sent(0):
            self.send(0)
            if 0 not in self.kept:
                self.outbox.tell([0])

    def _drop_behind(self, step: int) -> None:
        """Under "drop_oldest": what waits behind a link that cannot keep up is not sent at all."""
        if not self._drops:
            return
        oldest, read = self.kept.newest - self._lookback, self._acts.numbers
        passed = [n for n in self._way.queued if n < oldest and n not in read]
        waiting = sorted(n for n in self._way.queued if n != step and n not in self._acts)
        for number in passed if not self._fed else waiting[: max(0, len(waiting) - BEHIND)]:
            self.dropped += 1
            if self.outbox.skip(number):
                self.kept.drop(number)

    def _wanted(self) -> set[int]:
        """What acts that wait read, and what is on its way."""
        return self._acts.numbers | self._way.queued.keys() | self._way.posted.keys()
