"""Requests for chunks that are out, and the streak of failures the actuator looks at when the plan runs dry."""

from __future__ import annotations

import math
from dataclasses import dataclass

from msgspec import structs

from seqrt.action.asking import Flight
from seqrt.errors import RemoteError, SeqrtError
from seqrt.runtime.moments import Moment
from seqrt.wire.messages import ActRequest


@dataclass(frozen=True)
class Asking:
    """One request that is out.

    Attributes:
        request_id: Its id.
        moment: Its observation.
        sent_at: When it was sent, on the loop's clock.
        spacing_ticks: The s in force, None before any estimate.
        committed: Committed rows sent along.
        known: How many of them are the plan's; those behind repeat its last one.
        behind: An act of an earlier epoch was still out: this one's turn came later than the next one's will.
        spare: R, as the spacing was reckoned.
    """

    request_id: str
    moment: Moment
    sent_at: float
    spacing_ticks: int | None
    committed: int
    known: int = 0
    behind: bool = False
    spare: int = 1

    @property
    def flight(self) -> Flight:
        """What the rule for asking looks at."""
        return Flight(self.moment.step, self.moment.position)


def in_ms(seconds: float | None) -> float | None:
    """As acts tell durations: milliseconds, to a tenth."""
    return None if seconds is None else round(seconds * 1e3, 1)


def asked_later(message: ActRequest, by_s: float) -> ActRequest:
    """The same act, asked again so many seconds later: its robot is that much nearer to being dry."""
    plan = message.plan
    if plan is None or plan.dry_in_s is None:
        return message
    return structs.replace(message, plan=structs.replace(plan, dry_in_s=max(0.0, plan.dry_in_s - by_s)))


class Out:
    """The requests of a run that are out.

    Attributes:
        all: Each, by its id.
    """

    def __init__(self) -> None:
        self.all: dict[str, Asking] = {}

    def of(self, epoch: int) -> list[Asking]:
        """Those of one epoch."""
        return [asked for asked in self.all.values() if asked.moment.epoch == epoch]

    def oldest(self) -> int | None:
        """The oldest observation asked about, None for none."""
        return min((asked.moment.step for asked in self.all.values()), default=None)

    def is_superseded(self, asked: Asking) -> bool:
        """Whether a newer observation is asked about already."""
        return any(other.moment.step > asked.moment.step for other in self.all.values())


class Trouble:
    """What went wrong last and has not come right since.

    Attributes:
        refused: A refused chunk or an error of the policy, until the next good answer.
        refused_in_a_row: How many there were.
        link: Why the link does not answer, until it does.
        link_since: When that began, on the loop's clock.
        link_tries: Tries since then that came to nothing.
    """

    def __init__(self) -> None:
        self.refused: SeqrtError | None = None
        self.refused_in_a_row = 0
        self.link: RemoteError | None = None
        self.link_since = 0.0
        self.link_tries = 0
        self._late_at = -math.inf

    def no_answer(self, error: RemoteError, now: float) -> None:
        """A try came to nothing: no connection, or a refusal that passes."""
        if self.link is None:
            self.link_since, self.link_tries = now, 0
        self.link = error
        self.link_tries += 1

    def tried(self, error: RemoteError, now: float, more: str = "") -> RemoteError:
        """``error``, which says how often and for how long it was tried, and ``more``."""
        for_s = now - self.link_since
        tries = f"{self.link_tries} tries in {for_s:.1f} s" if self.link_tries > 1 else ""
        return error.again(detail="; ".join(part for part in (error.detail, tries, more) if part))

    def refuse(self, error: SeqrtError) -> None:
        """Another answer that cannot be played."""
        self.refused = error
        self.refused_in_a_row += 1

    def late(self, error: SeqrtError, *, sent_at: float, now: float) -> None:
        """An answer that came too late, or not at all.

        Those asked for before the last such one came waited for the same thing: one stall is one refusal, however many
        were out.
        """
        if sent_at >= self._late_at:
            self._late_at = now
            self.refuse(error)
        else:
            self.refused = error

    def answered(self) -> None:
        """A good answer came."""
        self.refused, self.refused_in_a_row = None, 0
