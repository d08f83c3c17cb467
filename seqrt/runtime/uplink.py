"""Observations on their way to the worker: posted several at a time, sent again when need be.

One an episode. The producer hands observations in (`keep`), whoever knows that they will be read has them sent
(`send`); `serve` does the sending inside a run, `flush` in the caller's task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc

from seqrt.errors import Conflict, InvalidRequest, LinkLost, ObservationError, Unavailable
from seqrt.link.border import Link, Outgoing, Unwanted, Urgency
from seqrt.observation.cameras import cameras_of, encode_cameras
from seqrt.observation.declaration import Observations
from seqrt.policies.offload import Offload
from seqrt.runtime.ledger import Ledger
from seqrt.runtime.outbox import Load
from seqrt.runtime.posts import Posts
from seqrt.runtime.retrying import FIRST_RETRY_S, next_wait_s, reconnect_wait_s
from seqrt.runtime.telling import Telling
from seqrt.runtime.way import Keys
from seqrt.wire.limits import FRAMES_A_POST
from seqrt.wire.messages import Frame, ObserveRequest

_POSTS = 16
"""Posts under way at once: each waits a round trip for its acknowledgement, and 30 a second at 500 ms have to fit."""
_READY: Final = 2
"""Posts that stand ready for a narrow link: what waits behind them waits where it can still be dropped."""
_SKIPS_A_POST = 4096


class Uplink:
    """The stream of one episode, robot to worker.

    Args:
        link: Where it goes.
        episode_id: The episode's id.
        observations: What the policy declares, in steps.
        offload: Where pictures are fitted and encoded.
        first: The first number of the episode, where those below were another episode's.

    Attributes:
        episode_id: The episode's id.
        begun: True once an answer of this episode has been seen.
    """

    def __init__(
        self, link: Link, episode_id: str, observations: Observations | None, offload: Offload, *, first: int = 0
    ) -> None:
        self.episode_id = episode_id
        self.begun = False
        self._link = link
        self._observations, self._offload = observations, offload
        self._ledger = Ledger(observations, first=first)
        self._queued, self._moved, self._back = anyio.Event(), anyio.Event(), anyio.Event()
        self._ready: set[Load] = set()  # taken, and no byte of them has gone
        self._idle = 0  # senders that wait for something to send
        self._refused: set[Load] = set()  # to be sent again
        self._tasks: anyio.abc.TaskGroup | None = None
        self._trying: Load | None = None  # the one post that tries a lost link
        self._down_since = 0.0
        self._posts = Posts(link, self._ledger)

    @property
    def kept(self) -> int:
        """Observations kept."""
        return len(self._ledger.kept)

    @property
    def previous(self) -> int | None:
        """What an act says of the act before it: its step; None before the first."""
        return self._ledger.previous if self._ledger.previous >= 0 else None

    def kept_as(self, number: int) -> Mapping[str, Any]:
        """Observation ``number``, which is kept while an act about it waits."""
        return self._ledger.kept[number]

    def keep(self, number: int, inputs: Mapping[str, Any]) -> None:
        """Keep one observation; it is not sent yet."""
        self._ledger.keep(number, inputs)

    def send_for(self, step: int) -> None:
        """Have all sent that the act at ``step`` needs, and told what of it will never come; its own step is kept."""
        self._ledger.open(step, begun=self.begun)
        self._wake()
        self._overtake()

    def send(self, number: int) -> None:
        """Have a kept observation sent that is fed one by one, whole."""
        self._ledger.begin_feeding(number)
        self._ledger.send(number)
        self._wake()

    def feed(self, number: int, keys: Keys | None) -> None:
        """Have those keys of a kept observation sent that a later act will read; None, or before an answer, all."""
        refused = self._ledger.refused
        self._ledger.feed(number, keys if self.begun else None)
        if self._ledger.refused > refused:
            self._posts.refused(1, "observations since the last act fill what an episode may hold; act more often")
        self._wake()

    def rest(self) -> None:
        """Feed nothing until the next act."""
        self._ledger.rest()
        self._has_moved()

    def close(self, step: int) -> None:
        """The act at ``step`` is over, answered or not: what no other act reads need not arrive."""
        self._ledger.close(step)
        self._has_moved()

    def serve_to(self, step: int) -> None:
        """The act at ``step`` was served: what no later act will read is let go."""
        self.begun = True
        self._ledger.serve(step)

    def queue_again(self, number: int) -> Collection[int]:
        """After a 409: queue what the worker says it lacks, and tell what it will never get.

        Args:
            number: The first number the worker lacks.

        Returns:
            The numbers on their way that it waits for, for `landed`; none when the worker lacks what never was.
        """
        coming = self._ledger.queue_again(number)
        self._wake()
        self._overtake()
        return coming

    def move(self) -> None:
        """Another worker is asked from now on: what waiting acts read is sent there."""
        self._ledger.move()
        self._wake()
        self._overtake()

    async def landed(self, numbers: Collection[int]) -> None:
        """Wait until none of ``numbers`` is on its way any more; `serve` is what moves them."""
        while self._ledger.outbox.on_way(numbers):
            await self._moved.wait()

    async def serve(self, telling: Telling, chunk_s: float | None = None) -> None:
        """Send what is handed in, until cancelled; lost connections and busy workers are tried again.

        Args:
            telling: Told what becomes of it.
            chunk_s: What a chunk covers, where that is declared.
        """
        self._posts.begin(telling, chunk_s)
        try:
            async with anyio.create_task_group() as self._tasks:
                for _ in range(_POSTS):
                    self._tasks.start_soon(self._sender)
        finally:
            self._tasks, self._idle = None, 0
            self._ready.clear()
            self._ledger.give_up_queue()
            self._has_moved()
            self._posts.over()

    async def flush(self) -> None:
        """Send all that was handed in, in the caller's task.

        Raises:
            RemoteError: The first failure; nothing is tried again.
        """
        while self._ledger.outbox:
            load = self._ledger.outbox.take(FRAMES_A_POST, _SKIPS_A_POST)
            try:
                await self._deliver(await self._prepare(load), load)
            except Unwanted:
                self._give_up(load)
            except BaseException:
                self._give_up(load)
                raise

    async def _sender(self) -> None:
        while True:
            self._idle += 1
            while not self._may_take():
                await self._queued.wait()
            self._idle -= 1
            await self._deliver_surely(self._take())

    def _may_take(self) -> bool:
        """Whether a post should be made of what waits now, or later, when something else may have to go first."""
        outbox, narrow = self._ledger.outbox, self._link.post_bytes is not None
        return bool(outbox) and (not narrow or len(self._ready) < _READY or bool(self._ledger.urgent))

    def _take(self) -> Load:
        load = self._ledger.outbox.take(self._most(), _SKIPS_A_POST, self._ledger.urgent)
        if load.keys:
            self._ready.add(load)
        return load

    def _most(self) -> int:
        """Observations a post holds: one while the link keeps up, so that what is needed first arrives first."""
        if self._ledger.outbox.waiting <= _POSTS:
            return 1
        most_bytes = self._link.post_bytes
        return (
            FRAMES_A_POST if most_bytes is None else max(1, min(FRAMES_A_POST, most_bytes // self._posts.frame_bytes))
        )

    def _overtake(self) -> None:
        """What an act that has just gone out needs does not wait for a sender, unless they wait for the worker."""
        while self._tasks is not None and not (self._idle or self._refused) and self._ledger.urgent:
            self._tasks.start_soon(self._deliver_surely, self._take())

    def _begun(self, load: Load) -> None:
        """Its first bytes go: another one may stand ready."""
        self._ready.discard(load)
        self._wake()

    def _give_up(self, load: Load) -> None:
        if self._trying is load:
            self._got_through()
        self._ledger.outbox.give_up(load)
        self._begun(load)
        self._has_moved()

    def _wake(self) -> None:
        self._queued.set()
        self._queued = anyio.Event()

    def _has_moved(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()

    async def _prepare(self, load: Load) -> Outgoing[ObserveRequest]:
        frames = []
        for number, keys in load.keys.items():
            await self._encode(number, keys)
            kept = self._ledger.kept[number]
            frames.append(Frame(seq=number, inputs={key: kept[key] for key in kept if key in keys}))
        return await self._link.prepare(
            ObserveRequest(episode_id=self.episode_id, frames=frames, skipped=load.skipped, begun=self.begun or None)
        )

    async def _encode(self, number: int, keys: Keys) -> None:
        """Fit and encode the pictures to be sent of a kept observation, off the loop, and keep it so for a retry."""
        if keys.isdisjoint(cameras_of(self._observations)):
            return
        part = {key: value for key, value in self._ledger.kept[number].items() if key in keys}
        try:
            encoded = await self._offload(partial(encode_cameras, part, self._observations))
        except ObservationError:
            self._ledger.kept.drop(number)  # it would be refused again; an act that reads it is told so
            raise
        self._ledger.kept.replace(number, {**self._ledger.kept[number], **encoded})

    async def _deliver(self, post: Outgoing[ObserveRequest], load: Load) -> None:
        sent_at = anyio.current_time()

        def begun() -> None:
            nonlocal sent_at
            sent_at = anyio.current_time()
            self._begun(load)

        read = self._ledger.is_read(load.keys)
        urgency = Urgency(lambda: self._ledger.is_read(load.keys), lambda: self._ledger.outbox.is_unwanted(load), begun)
        try:
            await self._link.observe(post, urgency)
        except InvalidRequest as refused:
            if refused.details.get("reason") != "frames_over_limit":
                raise
            self._got_through()
            self._ledger.refuse(load)
            self._posts.refused(len(load.keys), str(refused))
        else:
            self._got_through()
            self._ledger.outbox.landed(load)
            took_s = anyio.current_time() - sent_at
            self._posts.landed(post, took_s)
            if load.keys:
                waits = bool(self._ready or self._ledger.outbox.waiting)
                self._posts.look(len(post.body) // len(load.keys), took_s, waits=waits, read=read)
        self._wake()  # what was told as skipped only after it, or because of it
        self._has_moved()

    async def _deliver_surely(self, load: Load) -> None:
        """Deliver one post, however often it takes; the run's own end is what ends this."""
        wait_s = FIRST_RETRY_S
        try:
            post = await self._prepare(load)
            while True:
                try:
                    return await self._deliver(post, load)
                except Unwanted:
                    return self._give_up(load)
                except Unavailable as error:
                    self._posts.failed(error)
                    if load.keys and self._ledger.outbox.is_unwanted(load):
                        return self._give_up(load)
                    self._refused.add(load)
                    await self._wait(load, wait_s, error)
                    wait_s = next_wait_s(wait_s, error)
        except BaseException:
            self._give_up(load)
            raise
        finally:
            self._refused.discard(load)

    async def _wait(self, load: Load, wait_s: float, error: Unavailable) -> None:
        """Wait before the next try. Of a lost link one post alone tries; the others wait until it got through."""
        if not isinstance(error, LinkLost):
            if self._trying is load:
                self._got_through()
            return await anyio.sleep(max(wait_s, error.retry_after_s or 0.0))
        now = anyio.current_time()
        if self._trying is None:
            self._trying, self._down_since = load, now
        if self._trying is not load:
            return await self._back.wait()  # no deadline: who tries gets through, or gives up and hands it on
        with anyio.move_on_after(reconnect_wait_s(now - self._down_since) if self.begun else wait_s):
            await self._back.wait()

    def _got_through(self) -> None:
        self._trying = None
        self._back.set()
        self._back = anyio.Event()


def gap_of(error: Conflict) -> int | None:
    """The first number a worker lacks, out of its 409; None when the conflict is another one."""
    first = error.details.get("from")
    if error.details.get("reason") != "frames_missing" or not isinstance(first, int):
        return None
    return first
