"""The tick loop: the real plan, spacing, latency windows and guard, driven without an event loop.

All episodes tick together: plants and policy are computed for all of them at once, each has a `Seat` with a plan of
its own. The order within a tick is the runtime's: answers that have come, the action, a quarter period later the
observation and the decision to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.lag.flow import flowed
from bench.lag.policy import Views, planned
from bench.lag.seat import Seat
from bench.lag.strategies import ROWS, Strategy
from bench.lag.worlds import HELD_TICKS, PERIOD_S, RADIUS, REACHED, SUBSTEPS, Body, Chances, Plants, Reals
from seqrt.action import asking
from seqrt.action.player import Command

INFER_S: Final = 0.03
"""At the worker, part of every latency."""
PLAYED, STARVED, WAITING, OVER = 1, 2, 0, 3


@dataclass(eq=False)
class Record:
    """What happened in ``E`` episodes of ``T`` ticks.

    Attributes:
        commands: What was sent `[E, T, A]`.
        kind: PLAYED, STARVED, WAITING or OVER `[E, T]`.
        seam: Whether the first row of a chunk was played `[E, T]`.
        age_s: Of the observation behind the row played; nan elsewhere `[E, T]`.
        tip: Where the tip was at the tick's end `[E, T]`.
        reached: Whether the goal was `[E]`.
        touched: Whether the obstacle was `[E]`.
        ticks: How long it took `[E]`.
        asked: Requests `[E]`.
    """

    commands: Reals
    kind: npt.NDArray[np.int8]
    seam: npt.NDArray[np.bool_]
    age_s: Reals
    tip: npt.NDArray[np.complex128]
    reached: npt.NDArray[np.bool_]
    touched: npt.NDArray[np.bool_]
    ticks: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]

    @classmethod
    def blank(cls, episodes: int, ticks: int, dims: int) -> Record:
        return cls(
            commands=np.full((episodes, ticks, dims), np.nan),
            kind=np.full((episodes, ticks), OVER, np.int8),
            seam=np.zeros((episodes, ticks), np.bool_),
            age_s=np.full((episodes, ticks), np.nan),
            tip=np.full((episodes, ticks), np.nan, np.complex128),
            reached=np.zeros(episodes, np.bool_),
            touched=np.zeros(episodes, np.bool_),
            ticks=np.full(episodes, ticks),
            asked=np.zeros(episodes, np.int64),
        )


class Driven:
    """All episodes of one cell, being driven.

    Args:
        strategy: How.
        body: What.
        drawn: The episodes.
        latency_s: `[E, T]`, by the tick of sending.
        in_order: Whether an answer waits for those asked for before it.
        behind: Ticks from a command to its effect.
        rows: H.
        infer_s: Part of each latency that is spent at the worker.
    """

    def __init__(
        self,
        strategy: Strategy,
        body: Body,
        drawn: Chances,
        latency_s: Reals,
        *,
        in_order: bool,
        behind: int = 0,
        rows: int = ROWS,
        infer_s: float = INFER_S,
    ) -> None:
        episodes = len(drawn.obstacle)
        d = asking.rows_during(float(np.median(latency_s)), PERIOD_S)
        self._body, self._drawn, self._strategy = body, drawn, strategy
        self._latency_s = latency_s if strategy.delayed else np.zeros_like(latency_s)
        horizon = min(rows, strategy.horizon(d))
        self._seats = [
            Seat(strategy, body.dims, in_order=in_order, horizon=horizon, behind=behind, infer_s=infer_s)
            for _ in range(episodes)
        ]
        self._plants = Plants(body, drawn, behind)
        self._targets = np.tile(body.rest, (episodes, 1))
        self._near = np.zeros(episodes, np.int64)
        self._alive = list(range(episodes))
        self.record = Record.blank(episodes, drawn.ticks, body.dims)

    def run(self, each: Callable[[int], None] = lambda tick: None) -> Record:
        """Drive them to their ends."""
        for tick in range(self._drawn.ticks):
            self._act(tick)
            self._plants.step(1)
            self._ask(tick)
            self._plants.step(SUBSTEPS - 1)
            self._judge(tick)
            each(tick)
            if not self._alive:
                break
        self.record.asked[:] = [seat.asked for seat in self._seats]
        return self.record

    def _act(self, tick: int) -> None:
        now_s, record = tick * PERIOD_S, self.record
        for e in self._alive:
            seat = self._seats[e]
            if seat.next_s <= now_s:
                seat.receive(now_s)
            command = seat.player.next()
            if command is None:
                self._starve(e, tick, seat)
                continue
            self._targets[e] = command.row
            self._played(e, tick, command)
        record.commands[self._alive, tick] = self._targets[self._alive]
        self._plants.command(tick, self._targets)

    def _played(self, e: int, tick: int, command: Command) -> None:
        self.record.kind[e, tick] = PLAYED
        if command.begins:
            self._seats[e].starving.played(command.due.row)
        self.record.seam[e, tick] = command.begins and command.due.seam
        self.record.age_s[e, tick] = tick * PERIOD_S - command.due.chunk.taken_at

    def _starve(self, e: int, tick: int, seat: Seat) -> None:
        if seat.plan.position == 0:
            self.record.kind[e, tick] = WAITING
            return
        self.record.kind[e, tick] = STARVED
        row, moved = seat.starving.command()
        if row is not None:
            seat.plan.played_otherwise(moved, row)
            self._targets[e] = row

    def _ask(self, tick: int) -> None:
        now_s, asked = (tick + asking.OBSERVE_PHASE) * PERIOD_S, []
        for e in self._alive:
            seat = self._seats[e]
            if seat.next_s <= now_s:
                seat.receive(now_s)
            if seat.wants(tick):
                asked.append(e)
        if not asked:
            return
        views = self._views(np.array(asked), tick)
        answers = (flowed if self._strategy.flow else planned)(self._body, views, ROWS)
        for i, e in enumerate(asked):
            self._seats[e].ask(tick, self._latency_s[e, tick], answers[i], int(views.delay[i]))

    def _views(self, asked: npt.NDArray[np.int64], tick: int) -> Views:
        drawn = self._drawn
        q, v = self._plants.seen(tick)
        goal, goal_v = drawn.goal_at(tick + asking.OBSERVE_PHASE)
        prefix = np.zeros((len(asked), ROWS, self._body.dims))
        delay, known, spacing = np.zeros((3, len(asked)), np.int64)
        for i, e in enumerate(asked if self._strategy.prefix else ()):
            rows, delay[i], spacing[i] = self._seats[e].prefix()
            if rows is not None:
                known[i] = min(ROWS, len(rows))
                prefix[i, : known[i]] = rows[: known[i]]
        drew = 0 if self._strategy.one_seed else tick
        return Views(
            q[asked], v[asked], goal[asked], goal_v[asked], drawn.obstacle[asked], drawn.side[asked, drew],
            drawn.whim[asked, drew], prefix, delay, known, spacing, 1024 * asked + drew,
        )  # fmt: skip

    def _judge(self, tick: int) -> None:
        record = self.record
        alive = np.array(self._alive)
        tip = self._body.tip(self._plants.q[alive])
        goal, _ = self._drawn.goal_at(tick + 1)
        record.tip[alive, tick] = tip
        touched = np.abs(tip - self._drawn.obstacle[alive]) < RADIUS
        near = np.abs(tip - goal[alive]) < REACHED
        self._near[alive] = np.where(near, self._near[alive] + 1, 0)
        reached = ~touched & (self._near[alive] >= HELD_TICKS)
        record.touched[alive[touched]] = True
        record.reached[alive[reached]] = True
        over = touched | reached
        if over.any():
            record.ticks[alive[over]] = tick + 1
            self._alive = [e for e, done in zip(self._alive, over, strict=True) if not done]
