"""Acts by request id: one that runs is waited for, one that ran is answered the same. Memory is bounded three ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import anyio

from seqrt.errors import RemoteError
from seqrt.policies.limits import HostLimits
from seqrt.wire.limits import size_of
from seqrt.wire.messages import ActResponse


@dataclass(eq=False)
class Record:
    """One act under its id.

    Attributes:
        owner: The key that asked.
        episode: The episode's id, "" for an act without one.
        request_id: Its id.
        fingerprint: What its body came to; None where bodies cannot be compared.
        state: "waiting" for observations or its turn, "running", "answered", or "refused": its id is free again.
        since: When it came into this state.
        answer: What it was answered, the failure included; None before.
        done: Set when it is answered or refused.
        size: What the answer kept is charged with, in bytes.
    """

    owner: str
    episode: str
    request_id: str
    fingerprint: int | None
    since: float
    state: Literal["waiting", "running", "answered", "refused"] = "waiting"
    answer: ActResponse | RemoteError | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    size: int = 0


class Answers:
    """The acts of all episodes that are going on or were answered a short while ago."""

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._episodes: dict[tuple[str, str], dict[str, Record]] = {}
        self._answered: dict[Record, None] = {}  # in the order they were answered
        self._bytes = 0

    @property
    def kept(self) -> int:
        """How many are kept to be given again."""
        return len(self._answered)

    @property
    def bytes(self) -> int:
        """What the answers kept are charged with."""
        return self._bytes

    def find(self, owner: str, episode: str, request_id: str, now: float) -> Record | None:
        """The act of that id, if it is going on or its answer is still kept."""
        self.expire(now)
        return self._episodes.get((owner, episode), {}).get(request_id)

    def held(self, request_id: str, owner: str) -> Record | None:
        """The act of that id, whichever episode it is of."""
        for records in self._episodes.values():
            record = records.get(request_id)
            if record is not None and record.owner == owner:
                return record
        return None

    def open(self, owner: str, episode: str, request_id: str, fingerprint: int | None, now: float) -> Record:
        """A new act under an id that is free."""
        record = Record(owner, episode, request_id, fingerprint, since=now)
        self._episodes.setdefault((owner, episode), {})[request_id] = record
        return record

    def settle(self, record: Record, answer: ActResponse | RemoteError, now: float) -> None:
        """The act ran: keep what it is answered."""
        record.answer, record.state, record.since = answer, "answered", now
        record.done.set()
        records = self._episodes.get((record.owner, record.episode))
        if records is None or records.get(record.request_id) is not record:
            return  # its episode ended meanwhile
        record.size = _size_of(answer)
        self._bytes += record.size
        self._answered[record] = None
        answered = [kept for kept in records.values() if kept.state == "answered"]
        for kept in sorted(answered, key=lambda r: r.since)[: -self._limits.answers]:
            self._remove(kept)
        self.expire(now)

    def refuse(self, record: Record) -> None:
        """The act did not run: its id is free, whoever waits for it may try in its place."""
        record.state = "refused"
        record.done.set()
        self._remove(record)

    def forget_episode(self, owner: str, episode: str) -> None:
        """Drop everything of one episode."""
        for record in list(self._episodes.get((owner, episode), {}).values()):
            self._remove(record)

    def expire(self, now: float) -> None:
        """Drop what was answered too long ago."""
        while self._answered:
            oldest = next(iter(self._answered))
            if now - oldest.since <= self._limits.answers_s and self._bytes <= self._limits.answer_bytes:
                return
            self._remove(oldest)

    def _remove(self, record: Record) -> None:
        key = (record.owner, record.episode)
        records = self._episodes.get(key, {})
        if records.get(record.request_id) is not record:
            return
        del records[record.request_id]
        self._answered.pop(record, None)
        self._bytes -= record.size
        record.size = 0
        if not records:
            del self._episodes[key]


def _size_of(answer: ActResponse | RemoteError) -> int:
    if isinstance(answer, RemoteError):
        return size_of(answer.details)
    rows_model = answer.plan.rows_model if answer.plan is not None else None
    return size_of(answer.outputs) + (size_of(rows_model) if rows_model is not None else 0)
