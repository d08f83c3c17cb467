"""How episodes end: when asked, when idle for too long, all of them when the host stops; and the policy is told.

`seqrt.policies.host` sweeps with each request; what is owed to the policy then (``on_episode``) is paid between acts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

from seqrt.policies.answers import Answers
from seqrt.policies.declaration import Declaration
from seqrt.policies.episodes import Episodes
from seqrt.policies.inference import Inference
from seqrt.policies.lifecycle import Hook
from seqrt.policies.line import Line


class Endings:
    """Ends the episodes of one policy.

    Args:
        declaration: What the policy declares.
        episodes: Its episodes.
        answers: Acts by id; those of an episode go with it.
        line: Where ``on_episode`` waits until no act runs.
        inference: Calls it.
        clock: The time, in seconds.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        episodes: Episodes,
        answers: Answers,
        line: Line,
        inference: Inference,
        clock: Callable[[], float],
    ) -> None:
        self._declaration = declaration
        self._episodes = episodes
        self._answers = answers
        self._line = line
        self._inference = inference
        self._clock = clock
        self._fewer = anyio.Event()

    def sweep(self) -> float:
        """Forget the episodes that are idle for too long, and old answers; returns the time."""
        now = self._clock()
        for session in self._episodes.sweep(now):
            self._answers.forget_episode(session.owner, session.id)
        self._answers.expire(now)
        return now

    async def end(self, episode_id: str, owner: str) -> None:
        """As `Host.end`."""
        if self._episodes.end(episode_id, owner, self.sweep()) is not None:
            self._answers.forget_episode(owner, episode_id)
            self.notice()
        await self._settle()

    async def end_of(self, owner: str, *, for_good: bool) -> None:
        """As `Host.end_of`."""
        for episode_id in self._episodes.of(owner):
            if for_good:
                self._episodes.end(episode_id, owner, self._clock())
            else:
                self._episodes.forget(episode_id)
            self._answers.forget_episode(owner, episode_id)
        self.notice()
        await self._settle()

    async def end_all(self) -> None:
        """End every live episode and tell the policy; none is begun any more."""
        self._episodes.close_all()
        await self._between_acts()

    async def tend(self) -> None:
        """As `Host.tend`."""
        idle_s = self._declaration.timeouts.episode_idle
        while True:
            idle_at = self._episodes.next_idle_at()
            # An episode that begins meanwhile is idle no sooner than this.
            await anyio.sleep(idle_s if idle_at is None else max(1.0, idle_at - self._clock() + 0.001))
            self.sweep()
            await self._settle()

    async def quiet(self, acts: Callable[[], int]) -> None:
        """Wait until no episode is live and no act runs; idle ones end meanwhile.

        Args:
            acts: How many acts wait or run now.
        """
        while acts() or len(self._episodes):
            fewer, idle_at = self._fewer, self._episodes.next_idle_at()
            with anyio.move_on_after(None if idle_at is None else max(0.0, idle_at - self._clock()) + 1.0):
                await fewer.wait()
            self.sweep()
        await self._settle()

    def notice(self) -> None:
        """An act or an episode is over: wake whoever waits in `quiet`."""
        self._fewer.set()
        self._fewer = anyio.Event()

    async def _settle(self) -> None:
        """Have the policy told of the episodes that are over: by this task, or by whoever is served next."""
        if Hook.ON_EPISODE in self._declaration.hooks:
            await self._between_acts()

    async def _between_acts(self) -> None:
        await self._line.between(lambda: bool(self._episodes.over), self._inference.settle_ends, math.inf)
