"""One act on its way through the line, and what becomes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqrt.errors import RemoteError
from seqrt.policies.answers import Record
from seqrt.policies.session import Session
from seqrt.policies.turns import Place
from seqrt.watching.passage import Passage
from seqrt.wire.messages import ActRequest, ActResponse, AnswerPlan


@dataclass(eq=False)
class Job:
    """One act on its way through the line.

    Attributes:
        request: What was asked.
        session: Its episode.
        step: The act's step.
        previous: The step of the act before it.
        keywords: Reserved names and parameters ``infer`` is handed.
        alike: Acts share a call only where this is equal.
        record: Where its answer is kept; None for an act nobody can ask for again.
        dry_at: When its robot runs dry, in the clock's time.
        passage: Its way through the worker, watched; None for an act of a sample.
        chosen: Its turn has come.
        leads: It is the one that makes the call.
        passed: A newer act of its episode was served in its place; it has neither response nor error.
        queued_at: When it came into the line, its observations being there; None before, and for an act of a sample.
        place: Its place in the line, once it is there.
        done: It has been served.
        response: Its answer; None where it failed.
        error: Why it failed.
        raised: The policy's own exception behind ``error``.
        plan: What the answer says about the plan.
    """

    request: ActRequest
    session: Session
    step: int
    previous: int
    keywords: dict[str, Any]
    alike: Any = None
    record: Record | None = None
    dry_at: float = math.inf
    passage: Passage | None = None
    chosen: anyio.Event = field(default_factory=anyio.Event)
    leads: bool = False
    passed: bool = False
    queued_at: float | None = None
    place: Place = field(init=False)
    done: anyio.Event = field(default_factory=anyio.Event)
    response: ActResponse | None = None
    error: RemoteError | None = None
    raised: BaseException | None = None
    plan: AnswerPlan | None = None

    def queue(self, now: float) -> None:
        """It comes into the line. The owner's acts are one robot's: a lease has one; the root key's are told apart."""
        self.queued_at = now
        who = self.session.owner or self.session
        self.place = Place(self.session, who, self.step, now, max(now, self.dry_at))

    def give_turn(self, *, leads: bool) -> None:
        """Its turn has come."""
        self.leads = leads
        self.chosen.set()

    def take_turn(self) -> None:
        """Another one's turn has come instead."""
        self.leads, self.chosen = False, anyio.Event()

    def pass_by(self) -> None:
        """A newer act of its episode is served in its place."""
        self.passed = True
        self.chosen.set()
        self.done.set()
