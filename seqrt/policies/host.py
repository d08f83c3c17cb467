"""One policy and all the episodes it serves, without HTTP.

In: observe, act and end, from the worker's app or from a runtime in the same process. Out: answers, or errors of
`seqrt.errors` which the worker turns into bodies. The policy's code runs off the loop, one act at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from seqrt.errors import remote_error
from seqrt.policies.acts import Acts
from seqrt.policies.answers import Answers
from seqrt.policies.clock import loop_clock
from seqrt.policies.constructor import Weights
from seqrt.policies.copies import copies_of
from seqrt.policies.declaration import Declaration, declaration_of
from seqrt.policies.endings import Endings
from seqrt.policies.inference import Inference
from seqrt.policies.info import episodes_of, info_of, line_of, load_of, statistics_of
from seqrt.policies.limits import HostLimits
from seqrt.policies.load import Load
from seqrt.policies.offload import Offload
from seqrt.policies.readiness import Readiness, Stage
from seqrt.policies.sample import Sampled
from seqrt.watching.passage import Passage, Watch
from seqrt.wire.limits import FRAMES_A_POST
from seqrt.wire.messages import ActRequest, ActResponse, ObserveRequest, ObserveResponse, PolicyInfo


class Host:
    """Serves one policy object.

    Args:
        policy: An object with ``infer``, or a function; its declaration is read here.
        offload: Runs the policy's code off the loop.
        model: The name it is served under; the declaration's own when empty.
        limits: What it holds, and how long.
        clock: The time, in seconds; the event loop's.
        weights: What ``{weights}`` stands for where further copies are made by the declared constructor.

    Attributes:
        watch: What is counted of its acts, and of the requests of whoever serves it over HTTP.

    Raises:
        DeclarationError: The object cannot be called as a policy is.
    """

    def __init__(
        self,
        policy: object,
        *,
        offload: Offload,
        model: str = "",
        limits: HostLimits = HostLimits(),  # noqa: B008  # frozen
        clock: Callable[[], float] = anyio.current_time,
        weights: Weights = None,
    ) -> None:
        self._declaration = declared = declaration_of(policy)
        self._model = model or declared.name
        self._clock = clock
        self._stopped = False
        self.watch = Watch(loop_clock if clock is anyio.current_time else lambda: clock)
        copies = copies_of(policy, declared, most=limits.copies, weights=weights)
        self._answers = answers = Answers(limits)
        self._line = line = line_of(declared, clock)
        self._crowded: Callable[[], bool] = lambda: False
        self._episodes = episodes = episodes_of(
            declared, limits, copies, lambda live: line.is_full(live) or (live > 0 and self._crowded())
        )
        self._inference = inference = Inference(
            declared, copies=copies, offload=offload, episodes=episodes, answers=answers, clock=clock, watch=self.watch
        )
        self._readiness = Readiness(
            declared, copies=copies, inference=inference, offload=offload, limits=limits, clock=clock
        )
        self._acts = Acts(
            declared, inference=inference, line=line, answers=answers, episodes=episodes, limits=limits, clock=clock
        )
        self._endings = Endings(
            declared, episodes=episodes, answers=answers, line=line, inference=inference, clock=clock
        )

    @property
    def declaration(self) -> Declaration:
        """What the policy declares."""
        return self._declaration

    @property
    def stage(self) -> Stage:
        """The stage it is in: provision_done, load_start, load_done, ready, error or draining."""
        return self._readiness.stage

    @property
    def failure(self) -> str:
        """Why the stage is "error"; "" otherwise."""
        return self._readiness.failure

    def info(self) -> PolicyInfo:
        """What a robot checks before any motion; may be asked before the load has ended."""
        infer_s = self.sampled.infer_s if self.sampled is not None else None
        return info_of(self._declaration, model=self._model, infer_s=infer_s)

    def statistics(self) -> dict[str, int]:
        """What it holds: episodes, acts waiting or running, bytes of observations, answers kept and their bytes.

        And what became of acts so far: ``inferred`` in so many ``calls``, ``late`` ones begun when their robot was dry,
        ``stale`` ones not served since a newer one was there, ``refused`` ones whose turn would not have come in time.
        """
        return statistics_of(self._line.statistics(), self._episodes, self._acts, self._answers, self._inference)

    def load(self) -> Load:
        """What it has to do now: whether there is room for another episode, and how long its acts would wait."""
        return load_of(self._line.statistics(), self._line.wait_s(), self._episodes)

    def position(self, request_id: str, owner: str = "") -> int | None:
        """The place in line of the act of that id, 1 for whoever is next; None where it does not wait for its turn."""
        return self._line.position(request_id, owner)

    @property
    def sampled(self) -> Sampled | None:
        """What came of the policy's sample; None before, and where it has none."""
        return self._readiness.sampled

    async def start(self) -> None:
        """Make the policy ready: its ``load``, ``plan`` and ``warmup``, then its sample acted out.

        Raises:
            ExtraMissing: Declared pictures cannot be decoded with what is installed; the stage is then "error".
            SampleFailed: An act of the sample failed; likewise.
            Exception: What the methods raise; likewise.
        """
        await self._readiness.start()
        if self.sampled is not None:
            self._line.durations.measured(self.sampled.infer_s)

    async def tend(self) -> None:
        """End idle episodes when their time is over, and tell the policy. Runs until cancelled.

        Without it they end when the next request arrives. `seqrt.worker.serving` runs it.
        """
        await self._endings.tend()

    async def stop(self) -> None:
        """End what is live and call the policy's ``shutdown``, once. Nothing is served afterwards."""
        if self._stopped or self.stage not in ("ready", "draining"):
            return
        self._stopped = True
        self._readiness.drain()
        await self._endings.end_all()
        await self._readiness.shut_down()

    def drain(self) -> None:
        """Begin no new episodes (503, ``details.reason`` "draining"); live ones go on.

        Raises:
            Unavailable: It is still being loaded, or failed to: there is nothing to drain.
        """
        self._readiness.must_be_ready()
        self._readiness.drain()
        self._episodes.close()

    def refuse_new_while(self, crowded: Callable[[], bool]) -> None:
        """Refuse new episodes beside live ones (429) while whoever serves this has too much to do itself."""
        self._crowded = crowded

    async def draining(self) -> None:
        """Wait until it begins no new episodes any more, whoever had it `drain`."""
        await self._episodes.closing.wait()

    async def quiet(self) -> None:
        """Wait until no episode is live and no act runs; idle ones end meanwhile. The caller bounds it."""
        await self._endings.quiet(lambda: self._acts.count)

    async def observe(self, request: ObserveRequest, *, owner: str = "") -> ObserveResponse:
        """Keep posted observations; never waits.

        Args:
            request: The post.
            owner: The lease it came under; "" for none.

        Raises:
            InvalidRequest: Over the limits (413, those frames are never to be sent again), or malformed.
            NotFound: The episode belongs to another key.
            Gone: It ended; or the policy has state and this worker has lost it.
            Unavailable: Not ready, no room for another episode, or draining.
        """
        self._readiness.must_be_ready()
        if len(request.frames) > FRAMES_A_POST:
            raise remote_error(
                "invalid_request", f"{len(request.frames)} observations in one post; send at most {FRAMES_A_POST}"
            )
        session = self._episodes.enter(
            request.episode_id,
            owner,
            self._endings.sweep(),
            names_zero=any(frame.seq == 0 for frame in request.frames) or 0 in request.skipped,
            begun=bool(request.begun),
        )
        try:
            session.keep(request.frames, request.skipped, self._episodes.spare_bytes)
        finally:
            self._episodes.touch(session, self._clock())
        return ObserveResponse(through=session.frames.through)

    async def act(
        self,
        request: ActRequest,
        *,
        request_id: str,
        owner: str = "",
        deadline_s: float | None = None,
        source: str = "",
        passage: Passage | None = None,
    ) -> ActResponse:
        """Wait for the observations the act needs and for its turn, infer, and answer.

        An id that is running is waited for, one that ran is answered the same. Cancelled while it waits, the act has
        not run and its id is free; once ``infer`` runs it runs to its end and its answer is kept.

        Args:
            request: The act.
            request_id: Its id; the act runs once under it.
            owner: The lease it came under; "" for none.
            deadline_s: Seconds after which it is given up while it waits.
            source: Where its observations come from, as `moving` is told.
            passage: Its way, of `watch`, where whoever read it began one; it is begun here else.

        Raises:
            InvalidRequest: Malformed, over the limits, or an observation is not what the policy declared.
            Conflict: Observations are missing (``details`` {reason: "frames_missing", from}), or the id was used for
                another body.
            NotFound: The episode belongs to another key.
            Gone: The episode ended or is lost.
            Unavailable: Not ready, too many acts, or out of time before it ran.
            PolicyError: ``infer`` raised.
        """
        if passage is None:
            with self.watch.act(request_id) as begun:
                return await self._act(request, begun, owner, deadline_s, source)
        return await self._act(request, passage, owner, deadline_s, source)

    async def _act(
        self, request: ActRequest, passage: Passage, owner: str, deadline_s: float | None, source: str
    ) -> ActResponse:
        self._readiness.must_be_ready()
        until = self._endings.sweep() + self.patience_s(deadline_s)
        try:
            return await self._acts.act(request, passage=passage, owner=owner, until=until, source=source)
        finally:
            self._endings.notice()

    async def end(self, episode_id: str, *, owner: str = "") -> None:
        """End an episode: what is held for it is freed, acts of it that wait are answered `Gone`.

        Waits until the policy's ``on_episode``, where it has one, was called. An unknown id is no error.

        Raises:
            InvalidRequest: The id is empty or longer than 256 characters.
            NotFound: The episode belongs to another key.
        """
        await self._endings.end(episode_id, owner)

    async def end_of(self, owner: str, *, for_good: bool = True) -> None:
        """End all episodes that were begun under a lease, which is over.

        Args:
            owner: The lease.
            for_good: As `end` does; False: as one that was idle for too long, which may be sent anew under its id
                where the policy has no state.
        """
        await self._endings.end_of(owner, for_good=for_good)

    def episodes_of(self, owner: str) -> int:
        """How many live episodes a lease has."""
        return len(self._episodes.of(owner))

    @property
    def room(self) -> int:
        """How many episodes may be live at once."""
        return self._episodes.most

    def running(self, request_id: str, owner: str = "") -> dict[str, Any]:
        """Where the act of that id is: ``state`` unknown, waiting, running or answered, and for how long, ``for_s``."""
        record = self._answers.held(request_id, owner)
        if record is None:
            return {"state": "unknown", "for_s": 0.0}
        return {"state": record.state, "for_s": max(0.0, self._clock() - record.since)}

    def moving(self, source: str) -> None:
        """Bytes of a post arrive from ``source``: acts that wait for its observations wait on."""
        self._acts.movement.moved(source, self._clock())

    def patience_s(self, deadline_s: float | None) -> float:
        """How long an act that arrives now may take: the declared timeout, and its own deadline where that is less."""
        timeouts = self._declaration.timeouts
        allowed = timeouts.request if self._inference.count else timeouts.startup
        return allowed if deadline_s is None else min(allowed, max(0.0, deadline_s))
