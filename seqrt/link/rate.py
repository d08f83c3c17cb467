"""What the way up carries, from what was handed to the connection and when posts were answered. PURE: no clock, no I/O.

In: every piece handed over, the end of every post, its answer, round trips of requests that weigh nothing. Out: the
rate in force (None: nothing has to be held back), how large a piece may be, and when the next one may go.

Bytes on one connection keep their order, so the answer to a post says that all bytes before its end have arrived. The
model is one queue: a byte handed over at t leaves it at max(t, when the one before left) + 1/rate, and its answer
comes `floor` later. A post that is answered later than that by more than what is usual, and the next ones too, stood
in a queue: the link was busy all the while, and bytes over time between their answers is its rate. Without such
evidence there is no limit. With one, posts go at 95 % of it; now and then a few pieces are handed over at once, and
how far their answer comes sooner than the model says tells how much more the link carries. That needs no help from
the operating system, and holds through proxies, whose own TCP says nothing of the way behind them.

Sources: the queue as evidence, and its minimum over an interval, CoDel (RFC 8289 §4); rate as bytes over time of a
busy path, and probing it, BBR (draft-cardwell-iccrg-bbr-congestion-control §4.1, §4.3); trains of packets, Keshav,
"Packet-Pair Flow Control".
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from seqrt.link.lowest import Lowest
from seqrt.link.standing import Stood, growth_s, least_s, measured

PACE: Final = 0.95
"""Share of the rate that is used: what is left lets a queue shrink."""
PIECE_S: Final = 0.003
"""What a piece takes on the link: an act waits for one at the most."""
LEAST_PIECE: Final = 4 * 1024
MOST_PIECE: Final = 256 * 1024
_TRAIN_S: Final = 0.009
"""What is handed over at once, now and then, to see how soon it is answered; two pieces at the least."""
_TRAIN_EVERY_S: Final = 0.2
_QUEUE_S: Final = 0.004
"""A wait beyond what is usual, of post after post, that is a queue."""
_NOISY_QUEUE_S: Final = 0.025
"""The same where answers scatter."""
_SPAN_S: Final = 0.1
"""How long answers have to have stood in a queue for a first limit."""
_SOON_S: Final = 0.03
_NOISY_SOON_S: Final = 0.2
"""The same for a queue that grows although a limit is kept; where answers scatter, longer."""
_STANDING_S: Final = 0.25
"""The same for one that does not grow."""
_FORGET_S: Final = 10.0
"""How soon it is forgotten that a first limit was none."""
_UNKNOWN_QUEUE_S: Final = 0.01
"""The same before anything is known of the link."""
_NOISE_S: Final = 0.03
"""Of one answer's scatter no more than this counts."""
_NOISY_S: Final = 0.002
"""Answers that scatter by this are taken for as scattered as any."""
_NOISY_GROWTH_S: Final = 0.015
"""By how much a queue has to have grown there."""
_UP_S: Final = 5.0
_DOWN_S: Final = 1.0
"""How soon a wait is taken for usual, and one that was usual is not any more."""
_FLOOR_S: Final = 10.0
_FLOOR_ANSWERS: Final = 32
"""For how long, and for how many answers, the shortest way there and back stands for the path."""
_UNBELIEVABLE: Final = 6
"""A rate that has sunk so far is learnt anew: a worker that stands still now and then looks like a link that sinks."""
_CHANCE: Final = 0.25
"""How much answers may scatter for one train to be believed alone: a share of `_NOISY_S`."""
_SOMEWHAT: Final = 0.97
"""A queue that stands and does not grow: the rate is a little too high."""
_SURELY: Final = 1.15
_A_LITTLE: Final = 1.02
"""A train that was that much faster than the model is believed at once; less may be chance, and counts for so much."""
_LATE_S: Final = 0.03
"""By how much an answer is late when nothing but what is needed follows until it has come."""
_LATE_UNKNOWN_S: Final = 0.05
_FIRST_BYTES: Final = 256 * 1024
"""What may be unanswered of the rest at the beginning; twice what was answered, as TCP begins."""
_LATE_BYTES: Final = 128 * 1024
"""What may be unanswered of what is needed, where nothing is known of the link and an answer is overdue."""
_FIRST_S: Final = 0.25
"""How long the very first answer may take, where no round trip is known."""


@dataclass(frozen=True)
class _Out:
    """A post handed over whole, unanswered.

    Attributes:
        position: Bytes handed over up to its end.
        ended_s: When its last byte was handed over.
        leaves_s: When that byte leaves the queue, by the model.
        ahead: Bytes that were to leave first then, itself included.
        epoch: Of the rate it was sent at.
    """

    position: int
    ended_s: float
    leaves_s: float
    ahead: float
    epoch: int


class Rate:
    """One connection's way up.

    Attributes:
        bytes_per_s: What it carries; None while nothing has shown a limit.
    """

    def __init__(self, bytes_per_s: float | None = None) -> None:
        self.bytes_per_s = bytes_per_s
        self._handed = 0
        self._piece = 0  # the last one
        self._gone = 0  # of what was handed over: known to have arrived, or nothing will be known of it
        self._free_s = -math.inf  # when the link has sent all that was handed over, by the model
        self._next_s = -math.inf  # when the next piece is due
        self._train_s = -math.inf  # when the next train is due
        self._out: dict[Hashable, _Out] = {}
        self._answered_s = -math.inf  # the last one
        self._floor = Lowest(_FLOOR_S, _FLOOR_ANSWERS)
        self._usual_s = 0.0
        self._jitter_s = 0.0
        self._epoch = 0
        self._last: _Out | None = None
        self._settled_s = 0.0
        self._ratio = 1.0  # of the train before
        self._best = 0.0  # rate of those since nothing was known
        self._on_trial = False  # the rate is new: whether a queue shrinks has yet to be seen
        self._delays_s: tuple[float, ...] = ()  # of the last three answers
        self._run: list[Stood] = []  # answers that stood in a queue, one after another
        self._drained_s: float | None = None  # how long they did before the queue was let drain

    # What may be sent.

    @property
    def piece(self) -> int:
        """Bytes of a piece."""
        rate = self.bytes_per_s
        return MOST_PIECE if rate is None else round(min(MOST_PIECE, max(LEAST_PIECE, rate * PIECE_S)))

    @property
    def unanswered(self) -> int:
        """Bytes handed over and not known to have arrived."""
        return self._handed - self._gone

    def take(self, left: int, now: float) -> int:
        """How many of the ``left`` bytes of a post are handed over next."""
        if self.bytes_per_s is None:
            return left
        if self._train_due(now) and self.piece < left <= self._train:
            return left
        return min(left, self.piece)

    def due(self, left: int, now: float, *, needed: bool) -> float:
        """When the next piece of a post of which ``left`` bytes are to go may be handed over; inf: after an answer.

        Args:
            left: What is left of the post.
            now: The time.
            needed: An act that is out waits for it.
        """
        late = now >= self.late_s()
        if late and not needed:
            return math.inf
        if self.bytes_per_s is None:
            most = max(_FIRST_BYTES, 2 * self._gone) if not needed else _LATE_BYTES if late else math.inf
            return now if not self._out or self.unanswered < most else math.inf
        ahead = 0.0
        if self._train_due(now) and left <= self._train:
            ahead = (self._train - self.piece) / self.bytes_per_s
        return self._next_s - ahead

    def late_s(self) -> float:
        """When the oldest answer that is due is so late that the link stands still, or carries far less."""
        if not self._out:
            return math.inf
        oldest = next(iter(self._out.values()))
        if not self._floor:
            return oldest.ended_s + _FIRST_S
        slack = _LATE_UNKNOWN_S if self.bytes_per_s is None else _LATE_S
        return oldest.leaves_s + self._floor.value + slack + self._usual_s + 2 * self._jitter_s

    # What was sent.

    def handed(self, size: int, now: float) -> None:
        """``size`` bytes were handed to the connection, whatever they are."""
        self._handed += size
        self._piece = size
        rate = self.bytes_per_s
        if rate is None:
            return
        train = size > 1.5 * self.piece or self._next_s > now + self.piece / rate
        if train and self._train_due(now):
            self._train_s = now + max(_TRAIN_EVERY_S, 2 * size / rate)
        self._free_s = max(self._free_s, now) + size / rate
        pace = PACE * rate if now < self.late_s() else rate / 4
        self._next_s = max(self._next_s, now - self.piece / rate) + size / pace

    def ended(self, post: Hashable, now: float) -> None:
        """The last byte of a post was handed over."""
        rate, leaves_s = self.bytes_per_s, max(now, self._free_s)
        ahead = self._piece if rate is None else (leaves_s - now) * rate
        self._out[post] = _Out(self._handed, now, leaves_s, ahead, self._epoch)

    def lost(self, post: Hashable) -> None:
        """No answer to it will come, or one that says nothing."""
        out = self._out.pop(post, None)
        if out is not None:
            self._gone = max(self._gone, out.position)

    def is_idle(self, now: float) -> bool:
        """Whether nothing is on its way that a request would have to wait for."""
        return not self._out and self._free_s <= now

    def round_trip(self, sent_s: float, now: float) -> None:
        """A request of next to no bytes was answered, sent when the way was idle."""
        self._floor.add(now, now - sent_s)

    def answered(self, post: Hashable, now: float) -> None:
        """A post was answered."""
        out = self._out.pop(post, None)
        if out is None or (self._last is not None and out.position < self._last.position):
            return  # overtaken by the answer to a later one, which said all that this one says
        before_s, self._answered_s = self._answered_s, now
        self._last = out
        self._gone = max(self._gone, out.position)
        took, rate = now - out.ended_s, self.bytes_per_s
        self._floor.add(now, took, out.ahead)
        if out.epoch != self._epoch:
            return
        beyond = took - self._floor.value
        if rate is None:
            self._note(out, now, self._stood_s(out, before_s), beyond)
        else:
            said = (out.ahead - self._floor.beside) / rate
            self._note(out, now, beyond - said, beyond - said)
            self._learn_more(out, now, said, beyond)

    # What it means.

    def _note(self, out: _Out, now: float, excess: float, delay: float) -> None:
        """One more answer, later than the model says by ``excess``; ``delay`` is what it took beyond the floor."""
        self._delays_s = (*self._delays_s[-2:], delay)
        if len(self._delays_s) == 3:  # a queue that grows or shrinks does so evenly: that is no jitter
            first, second, third = self._delays_s
            self._jitter_s += (min(_NOISE_S, abs(third - 2 * second + first) / 2) - self._jitter_s) / 8
        if excess <= self._threshold():
            self._settle(excess, now)
            self._run = [Stood(out.position, now, excess)]
            self._drained_s = None
            return
        self._run.append(Stood(out.position, now, excess))
        self._judge(now)

    def _stood_s(self, out: _Out, before_s: float) -> float:
        """How long a post stood in a queue at the least, where nothing is known of the link.

        When it was handed over, the one before was not through. A worker that is busy for a while answers late too, but
        not one post after the other.
        """
        return max(0.0, before_s - self._floor.value - out.ended_s)

    def _threshold(self) -> float:
        least = _UNKNOWN_QUEUE_S if self.bytes_per_s is None else _between(_QUEUE_S, _NOISY_QUEUE_S, self._noise)
        return least + self._usual_s + self._jitter_s

    @property
    def _noise(self) -> float:
        """How much answers scatter, 0 to 1: where they do, more of them and a longer wait are needed to see a queue."""
        return min(1.0, self._jitter_s / _NOISY_S)

    def _settle(self, excess: float, now: float) -> None:
        """What is usual follows what is seen: slowly up, so that a queue that grows is not taken for it."""
        passed, self._settled_s = min(1.0, now - self._settled_s), now
        off = max(0.0, excess) - self._usual_s
        slowly = _FORGET_S if self.bytes_per_s is None else _UP_S if off > 0 else _DOWN_S
        self._usual_s += off * min(1.0, passed / slowly)

    def _judge(self, now: float) -> None:
        """Answers stood in a queue, one after the other: what that says."""
        run, rate = self._run, self.bytes_per_s
        span = run[-1].at_s - run[0].at_s
        if len(run) < (3 if span < _STANDING_S else 2):
            return
        found, least, growth = measured(run), least_s(run), growth_s(run)
        if rate is None:
            if span >= _SPAN_S + 2 * self._jitter_s:
                self._drain(found, least, now)
        elif growth > 0.02 * span + _NOISY_GROWTH_S * self._noise:
            if span >= _between(_SOON_S, _NOISY_SOON_S, self._noise):
                self._drain(min(rate, max(found, rate / 4)), least, now)
        elif span >= _STANDING_S:
            if self._drained_s is not None and least > 0.6 * self._drained_s:
                # Less was sent and it did not shrink: no queue. The way has become longer, or a worker is busy.
                self._usual_s, self._run = least, []
                if self._on_trial:
                    self.bytes_per_s = None
            else:
                self._drain(rate * _SOMEWHAT, least, now)

    def _drain(self, rate: float, least: float, now: float) -> None:
        """From now on this is the rate, and what waits on the link goes first."""
        self._on_trial = self.bytes_per_s is None
        self._best = rate if self._on_trial else max(self._best, rate)
        if rate < self._best / _UNBELIEVABLE:
            self.bytes_per_s, self._run, self._delays_s = None, [], ()
            return
        self.bytes_per_s, self._drained_s = rate, least
        waiting_s = max(0.0, (self._handed - self._run[-1].position) / rate - self._floor.value)
        self._free_s, self._next_s = now + waiting_s, now + waiting_s
        self._run, self._delays_s = [], ()
        self._epoch += 1
        self._train_s = self._free_s + _TRAIN_EVERY_S

    def _learn_more(self, out: _Out, now: float, said: float, took: float) -> None:
        """A train that was answered sooner than the model says: the link carries more.

        Args:
            out: What was answered.
            now: The time.
            said: By how much later than the way itself its answer was to come, by the model.
            took: And by how much later it came.
        """
        rate = self.bytes_per_s
        if rate is None or out.ahead < 1.8 * self.piece or out.epoch != self._epoch:
            return
        ratio = min(2.0, said / max(took, 1e-4))
        before, self._ratio = self._ratio, ratio
        if self._noise > _CHANCE:
            ratio = min(ratio, before)  # one may be chance
        if ratio > _A_LITTLE:
            self._raise(rate * (ratio if ratio > _SURELY else _A_LITTLE))

    def _raise(self, rate: float) -> None:
        self._best = max(self._best, rate)
        self.bytes_per_s = None if rate * PIECE_S >= MOST_PIECE else rate

    @property
    def _train(self) -> float:
        return max(2.0 * self.piece, (_TRAIN_S + 3 * self._jitter_s) * (self.bytes_per_s or 0.0))

    def _train_due(self, now: float) -> bool:
        return now >= self._train_s


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share
