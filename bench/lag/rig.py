"""One episode as a robot and a worker see it: a plant that goes on by the loop's clock, the policy as it is served."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import anyio
import numpy as np

import seqrt
from bench.lag import worlds
from bench.lag.policy import Views, planned
from bench.lag.strategies import ROWS
from bench.lag.worlds import HZ, PERIOD_S, SUBSTEPS, TICKS, Body, Chances, Plants, Reals


def one(drawn: Chances, e: int) -> Chances:
    """What is drawn for episode ``e`` alone."""
    return Chances(**{f.name: getattr(drawn, f.name)[e : e + 1] for f in fields(drawn)})


class Rig:
    """One episode's robot: a plant that goes on by the loop's clock, whoever looks.

    Attributes:
        over: True once the goal was reached, the obstacle touched or the time is up.
        reached: Whether the goal was.
        touched: Whether the obstacle was.
        ticks: Ticks gone by.
        tip: Where the tip was at each tick's end.
        rest: Where it began, in rows.
    """

    def __init__(self, body: Body, drawn: Chances, *, one_seed: bool) -> None:
        self._body, self._drawn, self._one_seed, self.rest = body, drawn, one_seed, body.rest
        self._plants, self._target = Plants(body, drawn), body.rest[np.newaxis].copy()
        self._t0: float | None = None
        self._done = self._near = self.ticks = 0
        self.over = self.reached = self.touched = False
        self.tip: list[complex] = []

    def observe(self) -> dict[str, Reals]:
        self._go_on()
        tick = min(self.ticks, TICKS - 1)
        q, v = self._plants.seen(tick)
        goal, goal_v = self._drawn.goal_at(self._done / SUBSTEPS)
        drew = 0 if self._one_seed else tick
        return {
            "q": q[0], "v": v[0], "goal": _pair(goal), "goal_v": _pair(goal_v), "obstacle": _pair(self._drawn.obstacle),
            "draw": np.array([self._drawn.side[0, drew], self._drawn.whim[0, drew]]),
        }  # fmt: skip

    def act(self, row: Reals) -> None:
        self._go_on()
        self._target = row[np.newaxis]

    def hold(self) -> None:
        """It holds by itself: its rows are places."""

    def _go_on(self) -> None:
        now = anyio.current_time()
        if self._t0 is None:
            self._t0 = now
        due = round((now - self._t0) / PERIOD_S * SUBSTEPS)
        while self._done < due and not self.over:
            if self._done % SUBSTEPS == 0:
                self._plants.command(self.ticks, self._target)
            self._plants.step(1)
            self._done += 1
            if self._done % SUBSTEPS == 0:
                self._judge()

    def _judge(self) -> None:
        self.ticks += 1
        tip = complex(self._body.tip(self._plants.q)[0])
        self.tip.append(tip)
        goal, _ = self._drawn.goal_at(self.ticks)
        self._near = self._near + 1 if abs(tip - goal[0]) < worlds.REACHED else 0
        self.touched = bool(abs(tip - self._drawn.obstacle[0]) < worlds.RADIUS)
        self.reached = not self.touched and self._near >= worlds.HELD_TICKS
        self.over = self.touched or self.reached or self.ticks >= TICKS


def _pair(z: Any) -> Reals:
    return np.array([z[0].real, z[0].imag])


def policy_of(body: Body, horizon: int, *, prefix: bool) -> Any:
    """The analytic policy as a worker serves it."""
    wide = {"q": body.dims, "v": body.dims, "goal": 2, "goal_v": 2, "obstacle": 2, "draw": 2}
    declare = seqrt.policy(
        name="lag",
        observations=seqrt.Observations(
            streams={key: seqrt.Stream(shape=(size,), dtype="float64") for key, size in wide.items()}
        ),
        actions=seqrt.Actions(key="actions", hz=HZ, open_loop_horizon=horizon, space="absolute"),
    )

    class Plain:
        def infer(self, obs: Any) -> dict[str, Reals]:
            return {"actions": planned(body, views_of(obs["observations"][-1], None, 0), ROWS)[0]}

    class Told:
        def infer(self, obs: Any, *, prefix: Any = None, delay: int | None = None) -> dict[str, Reals]:
            d = 0 if prefix is None else min(delay or 0, len(prefix))
            return {"actions": planned(body, views_of(obs["observations"][-1], prefix, d), ROWS)[0]}

    return declare(Told if prefix else Plain)()


def views_of(seen: Any, prefix: Any, d: int) -> Views:
    """One observation as the policy reads it."""
    q, none = np.asarray(seen["q"])[np.newaxis], np.zeros(1, np.int64)
    rows = np.zeros((1, ROWS, q.shape[1]))
    if prefix is not None:
        rows[0, :d] = np.asarray(prefix)[:d]
    goal, goal_v, obstacle = (np.array([complex(*seen[key])]) for key in ("goal", "goal_v", "obstacle"))
    side, whim = (np.array([float(x)]) for x in seen["draw"])
    return Views(q, np.asarray(seen["v"])[np.newaxis], goal, goal_v, obstacle, side, whim, rows, none + d, none + d,
                 none, none)  # fmt: skip
