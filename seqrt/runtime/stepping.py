"""The handle's small calls: observe, next_chunk, predict, next_action. One round trip each, no task between them."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections import deque
from typing import Any, TypeAlias

import anyio

from seqrt.action.guard import Row
from seqrt.errors import ActionError, ChunkExhausted, Conflict, Gone, LinkLost, ObservationError
from seqrt.link.border import Link, Outgoing
from seqrt.observation.check import check
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.control import leaf
from seqrt.runtime.declared import Declared
from seqrt.runtime.episode import Episode, explained
from seqrt.runtime.uplink import gap_of
from seqrt.watching.logline import line
from seqrt.watching.spans import robot_act
from seqrt.wire.headers import request_id
from seqrt.wire.messages import ActRequest, ActResponse, AnswerPlan, AskPlan

logger = logging.getLogger(__name__)

Params: TypeAlias = "dict[str, Any] | None"
"""Values for the policy's declared parameters."""


class Stepping:
    """One episode driven call by call: what it holds is the rows not yet handed out.

    Args:
        begins_anew: Where the worker no longer has the episode, another one is begun with the observation asked about.
    """

    def __init__(self, link: Link, declared: Declared, episode: Episode, *, begins_anew: bool = False) -> None:
        self._link, self._declared, self._episode = link, declared, episode
        self._begins_anew = begins_anew
        self._rows: deque[Row] = deque()
        self._rows_are_steps = False
        self._newest = -1

    @property
    def rows_left(self) -> int:
        """Rows that `next_action` hands out before it asks again."""
        return len(self._rows)

    def clear(self) -> None:
        """Forget the rows left: something else has moved the arm."""
        self._rows.clear()

    def moved(self) -> None:
        """Another worker is asked from now on."""
        self._episode.uplink.move()

    async def end(self) -> None:
        """End the episode at the worker."""
        await self._episode.end()

    async def observe(self, observation: Any) -> int:
        """Send one observation under the next number; returns that number."""
        number = self._numbered(observation)
        for tries_left in (2, 1, 0):
            try:
                await self._episode.uplink.flush()
                break
            except (Gone, LinkLost) as error:
                if not tries_left or (isinstance(error, LinkLost) and "next" not in error.details):
                    raise
                if isinstance(error, Gone):
                    self._begin_anew(number, error)
            self._episode.uplink.send(number)
        return number

    def _numbered(self, observation: Any) -> int:
        """Hand one observation to the uplink under the next number."""
        number = self._episode.next_number
        if observation is None:
            raise ObservationError("observe() needs an observation, not None", found=None)
        checked = check(observation, self._declared.observations)
        self._episode.next_number += 1
        self._episode.uplink.keep(number, checked)
        self._episode.uplink.send(number)
        self._newest = number
        return number

    async def next_chunk(self, *, seed: int | None = None, params: Params = None) -> ActionChunk:
        """The chunk for the newest observation sent; it replaces the rows left."""
        if self._newest < 0:
            raise ObservationError("next_chunk() asks about the newest observation: call observe(obs) first")
        return await self._ask(self._newest, seed, params)

    async def predict(self, observation: Any, *, seed: int | None = None, params: Params = None) -> ActionChunk:
        """Send an observation and get its chunk; the step goes on by the rows declared to be played."""
        number = self._numbered(observation)
        chunk = await self._ask(number, seed, params)
        self._episode.next_number = number + max(1, len(self._rows))
        self._rows_are_steps = False
        return chunk

    async def next_action(self, observation: Any = None, *, seed: int | None = None, params: Params = None) -> Row:
        """The next row; an empty buffer asks about ``observation``.

        Raises:
            ChunkExhausted: The buffer is empty and no observation was given.
        """
        if not self._rows:
            if observation is None:
                raise ChunkExhausted("no row is left: call next_action(observation) to get the next chunk")
            number = self._numbered(observation)
            rows = (await self._ask(number, seed, params)).rows  # raises what is wrong with rows that cannot be played
            self._rows = deque(rows)
            self._episode.next_number = number  # each row handed out is a step, the first one is the observation's
            self._rows_are_steps = True
        if self._rows_are_steps:
            self._episode.next_number += 1
        return self._rows.popleft()

    async def _ask(self, number: int, seed: int | None, params: Params) -> ActionChunk:
        """The chunk for observation ``number``; in an episode begun anew, where that is wished for and needed."""
        try:
            return await self._asked(number, seed, params)
        except Gone as error:
            self._begin_anew(number, error)
            return await self._asked(number, seed, params)

    def _begin_anew(self, number: int, error: Gone) -> None:
        """Go on in a new episode whose first observation is ``number``; raises ``error`` where that is not wished."""
        if not self._begins_anew:
            raise explained(error) from error
        observation = self._episode.uplink.kept_as(number)
        self._episode.begin_anew(number)
        self._episode.uplink.keep(number, observation)
        told = f"{error.host} has lost the episode, a new one is begun: {error.detail}"
        logger.warning("%s", line("episode.restarted", error.request_id, episode=self._episode.id).saying(told))

    async def _asked(self, number: int, seed: int | None, params: Params) -> ActionChunk:
        sent_at, rid = anyio.current_time(), request_id(secrets.token_bytes(8))
        uplink = self._episode.uplink
        uplink.send_for(number)
        ask = await self._link.prepare(
            ActRequest(
                call="act",
                seq=number + 1,
                seed=seed,
                episode_id=self._episode.id,
                params=params,
                embodiment=self._declared.embodiment,
                plan=AskPlan(
                    hz=self._declared.grid_hz,
                    previous=uplink.previous,
                    dry_in_s=0.0,  # whoever asks step by step waits for the answer
                    begun=uplink.begun or None,
                    epoch=self._episode.epoch,
                ),
            )
        )
        deadline_s = self._declared.request_s if uplink.begun else self._declared.startup_s
        try:
            with robot_act(rid):
                answer = await self._answer(ask, rid, deadline_s)
        finally:
            uplink.close(number)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("%s", line("act.over", rid, step=number, took_s=anyio.current_time() - sent_at))
        uplink.begun = True
        if answer.plan is not None and answer.plan.stale:
            raise Conflict(
                f"observation {number} was acted on already, or was refused: nothing new is there to act on",
                host=self._link.host,
                phase="act",
                hint="observe() the next one first",
                details={"reason": "nothing_new"},
            )
        uplink.serve_to(number)
        return self._received(answer, number, anyio.current_time() - sent_at, rid)

    async def _answer(self, ask: Outgoing[ActRequest], rid: str, deadline_s: float) -> ActResponse:
        """Send again what the worker lacks, once, and all of it once more where another worker is to be asked."""
        uplink, moved, lacked = self._episode.uplink, False, False
        while True:
            try:
                return await self._sent(ask, rid, deadline_s)
            except LinkLost as error:
                if moved or "next" not in error.details:
                    raise
                moved, lacked = True, False
                uplink.move()  # what was on its way has failed with it
            except Conflict as conflict:
                gap = gap_of(conflict)
                if lacked or gap is None or not uplink.queue_again(gap):
                    raise
                lacked = True

    async def _sent(self, ask: Outgoing[ActRequest], rid: str, deadline_s: float) -> ActResponse:
        """Post what waits and ask, at once: one round trip for both. A link that falls silent is not waited for."""
        try:
            async with anyio.create_task_group() as tending:
                tending.start_soon(self._link.tend, lambda news: None)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._episode.uplink.flush)
                    answer = await self._link.act(ask, rid, deadline_s)
                tending.cancel_scope.cancel()
        except Exception as error:
            first = leaf(error)
            raise first from first.__cause__
        return answer

    def _received(self, answer: ActResponse, number: int, latency_s: float, rid: str) -> ActionChunk:
        plan = answer.plan or AnswerPlan()
        infer_ms = (answer.perf or {}).get("inference_ms")
        chunk = ActionChunk(
            answer.outputs,
            number if plan.t is None else plan.t,
            latency_s,
            infer_ms / 1000 if isinstance(infer_ms, int | float) else None,
            rid,
            tuple(answer.warnings),
            self._declared.actions,
            self._declared.form,
        )
        self._rows.clear()
        self._rows_are_steps = False
        with contextlib.suppress(ActionError):  # predict may return anything; who asks for rows is told what is wrong
            self._rows.extend(chunk.rows)
        return chunk
