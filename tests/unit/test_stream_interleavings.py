"""Both ends of one episode, whatever posts, losses, acts, restarts and moves come in between: what infer gets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.errors import RemoteError
from seqrt.observation import Frames, Observations, Stream, is_fed, read
from seqrt.policies.episodes import Episodes
from seqrt.policies.limits import HostLimits
from seqrt.policies.places import Places
from seqrt.policies.session import Session
from seqrt.runtime.ledger import Ledger
from seqrt.runtime.outbox import Load
from seqrt.wire.messages import Frame

DECLARATIONS = {
    "window": Observations(streams={"a": Stream(at=[-4, 0]), "b": Stream()}),
    "parts": Observations(streams={"a": Stream(at=[-5, -2]), "b": Stream(), "c": Stream(at=[-2])}, pad="drop"),
    "fed": Observations(every=1),
    "fed by twos": Observations(every=2),
    "fed beside a window": Observations(streams={"a": Stream(at=[-4, 0]), "b": Stream(every=1), "c": Stream(every=3)}),
    "fed between": Observations(streams={"a": Stream(at=[-4, 0]), "c": Stream(every=3)}),
    "fed between parts": Observations(streams={"a": Stream(at=[-5, -1]), "b": Stream(every=2)}, pad="drop"),
    "whole": Observations(),
    "bare": None,
}
KEYS = "abc"


class Wire:
    """A robot's ledger, a worker's sessions, and the posts between them; nothing waits, everything is told when."""

    def __init__(self, observations: Observations | None) -> None:
        self.observations = observations
        self.ledger = Ledger(observations)
        self.posts: list[tuple[Load, list[Frame], bool]] = []
        self.step, self.begun = -1, False
        self.ideal = Frames()
        self.out: tuple[int, int] | None = None
        self.windows = 0
        self.ran: int | None = None
        self.other = self.new_worker()
        self.restart()

    def new_worker(self) -> Episodes:
        return Episodes(
            self.observations, HostLimits(), idle_s=300, stateful=False, owed=False, places=Places(1, wait_s=0.0)
        )

    def restart(self) -> None:
        self.ran = None
        self.worker = self.new_worker()

    def move(self) -> None:
        """Another worker is gone on with, which may know the episode from before."""
        self.ran = None
        self.worker, self.other = self.other, self.worker
        self.ledger.move()

    def enter(self, *, names_zero: bool, begun: bool) -> Session:
        return self.worker.enter("e", "", 0.0, names_zero=names_zero, begun=begun)

    # The robot.

    def observe(self, *, taken: bool, keys: frozenset[str] | None, asks: bool) -> None:
        self.step += 1
        if not taken and self.step > 0:
            self.ideal.skip([self.step])
            return
        seen = {key: f"{key}{self.step}" for key in KEYS}
        declared = self.observations.streams if self.observations is not None else None
        self.ideal.add(self.step, {key: value for key, value in seen.items() if declared is None or key in declared})
        self.ledger.keep(self.step, {k: v for k, v in seen.items() if declared is None or k in declared})
        if self.out is None and asks:
            self.ledger.open(self.step, begun=self.begun)
            self.out, self.ran = (self.step, self.ledger.previous), None
        elif self.observations is not None and is_fed(self.observations) and not (self.begun and declared):
            self.ledger.feed(self.step)
        elif declared is not None and self.begun and keys:  # before the first answer nothing tells what will be read
            self.ledger.feed(self.step, keys)

    def post(self) -> None:
        load = self.ledger.outbox.take(2, 4096)
        if load.keys or load.skipped:
            frames = [
                Frame(seq=n, inputs={k: v for k, v in self.ledger.kept[n].items() if k in keys})
                for n, keys in load.keys.items()
            ]
            self.posts.append((load, frames, self.begun))

    def give_up(self) -> None:
        if self.out is not None:
            self.ledger.close(self.out[0])
            self.out = None

    # What is between them.

    def deliver(self, which: int, *, acknowledged: bool) -> None:
        if not self.posts:
            return
        load, frames, begun = self.posts[which % len(self.posts)]
        names_zero = any(frame.seq == 0 for frame in frames) or 0 in load.skipped
        self.enter(names_zero=names_zero, begun=begun).keep(frames, load.skipped, 2**30)
        if acknowledged:
            self.posts.remove((load, frames, begun))
            self.ledger.outbox.landed(load)

    def act(self, *, answered: bool) -> bool:
        """Try the act that is out; whether it was served, and the robot knows."""
        if self.out is None:
            return True
        step, previous = self.out
        if not answered and not self.begun:
            self.ledger.queue_again(0)  # the link is lost, and whoever answers next may know nothing
        if self.ran != step:
            session = self.enter(names_zero=step == 0, begun=self.begun)
            session.rebuild(previous if previous >= 0 else None)
            before = session.last_step if previous < 0 else previous
            if not session.is_passed(step, before) and not self._infer(session, step, before, heard=answered):
                return False
            self.ran = step
        if answered:
            self.begun, self.out = True, None
            self.ledger.close(step)
            self.ledger.serve(step)
        return answered

    def _infer(self, session: Session, step: int, before: int, *, heard: bool) -> bool:
        missing = session.missing(step, before)
        if missing is not None:
            session.lost = False
            if heard:
                self.ledger.queue_again(missing)
            return False
        fed_since = max(before, session.last_step)
        got = session.window(step, before)
        expected = read(self.ideal, self.observations, step, fed_since)
        assert (got.steps, got.observations) == (expected.steps, expected.observations)
        session.served(step)
        self.windows += 1
        return True


what_happens = st.integers(0, 2**12 - 1)
"""Four bits say what, eight say how: drawn so because a tree of strategies takes ten times as long."""


def happen(wire: Wire, what: int) -> None:
    kind, how = what % 16, what // 16
    if kind < 6:
        keys = frozenset(key for at, key in enumerate(KEYS) if how >> at & 1)
        wire.observe(taken=how % 5 > 0, keys=keys, asks=how >> 6 > 0)
    elif kind < 8:
        wire.post()
    elif kind < 11:
        wire.deliver(how >> 2, acknowledged=how % 4 > 0)
    elif kind < 14:
        wire.act(answered=how % 4 > 0)
    elif kind == 14:
        wire.give_up()
    elif how % 2:
        wire.restart()
    else:
        wire.move()


@pytest.mark.parametrize("name", DECLARATIONS)
@settings(max_examples=100)
@given(events=st.lists(what_happens, min_size=10, max_size=60))
def test_infer_gets_what_an_ideal_link_would_have_brought_whatever_happens_on_the_way(
    name: str, events: list[int]
) -> None:
    wire = Wire(DECLARATIONS[name])
    wire.observe(taken=True, keys=None, asks=True)
    for what in events:
        happen(wire, what)
    # Then the link is good again: what is out is served, and the next one too.
    for _ in range(2):
        for _ in range(6):
            while wire.ledger.outbox:
                wire.post()
            while wire.posts:
                wire.deliver(0, acknowledged=True)
            if wire.act(answered=True):
                break
        assert wire.out is None
        wire.observe(taken=True, keys=None, asks=True)


@pytest.mark.parametrize("name", DECLARATIONS)
@given(events=st.lists(what_happens, min_size=10, max_size=60))
def test_both_ends_hold_no_more_than_one_window_and_what_no_act_has_read(name: str, events: list[int]) -> None:
    wire = Wire(DECLARATIONS[name])
    wire.observe(taken=True, keys=None, asks=True)
    most = 0
    for what in events:
        try:
            happen(wire, what)
        except RemoteError:
            return
        since_served = wire.step - wire.ledger.served
        most = max(most, len(wire.ledger.kept) - since_served)
    assert most <= 8
