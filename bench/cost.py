"""What a tick and a splice cost: the runtime's own actuator and receiver, one call after another, nothing waited for.

Called by `bench/tick.py`. Wall clock and CPU time of the thread, side by side: turns that other processes take are in
the first alone; what a virtual machine's host takes may be in both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np

import seqrt
from seqrt.action.first_step import FirstStep
from seqrt.action.guard import Guard
from seqrt.action.lagging import lag_in_force
from seqrt.action.latency import Latencies
from seqrt.action.machine import Signal, move
from seqrt.action.plan import Plan
from seqrt.action.player import Player
from seqrt.action.schedule import TickSchedule
from seqrt.action.staleness import Staleness
from seqrt.action.underrun import Starving, underrun_for
from seqrt.policies.offload import in_thread
from seqrt.runtime.actuator import Actuator
from seqrt.runtime.asked import Asking, Out, Trouble
from seqrt.runtime.control import Control
from seqrt.runtime.declared import Declared
from seqrt.runtime.moments import Moments
from seqrt.runtime.options import Limits, Play
from seqrt.runtime.receiver import Receiver
from seqrt.runtime.robot import gather
from seqrt.runtime.serving import Served, Serving
from seqrt.runtime.stalling import Stalling
from seqrt.runtime.telling import Telling
from seqrt.runtime.wanted import Bounds
from seqrt.wire.messages import ActResponse, AnswerPlan

DIMS, ROWS, HZ, COUNTED = 7, 50, 50.0, 20_000
APART_S, APART_COUNTED = 0.002, 2_000
CONTROL_ROUNDS = 500
SPACING, DELAY = 25, 6
"""Ticks between two answers, and from an observation to its answer: 19 rows of each plan overlap the next one's."""
ARM = seqrt.Actions(key="actions", hz=HZ, space="absolute", bounds=[(-3.0, 3.0)] * DIMS, max_delta=[0.5] * DIMS)
DECLARED = Declared(
    model="", observations=None, actions=ARM, takes_prefix=False, stateful=False, infer_s=None, request_s=1.0,
    startup_s=1.0, acts_per_s=None,
)  # fmt: skip
WAYS = {
    "": Play(),
    ", Crossfade()": Play(seam=seqrt.Crossfade()),
    ", substeps=4": Play(substeps=4),
}


@dataclass
class Took:
    """What one thing took, each time, in ns."""

    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)

    async def time(self, call: Callable[[], Awaitable[object]]) -> None:
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        await call()
        self.wall_ns.append(time.perf_counter_ns() - wall)
        self.cpu_ns.append(time.thread_time_ns() - cpu)

    def line(self, what: str) -> str:
        wall, cpu = ([sorted(each)[int(q * len(each))] / 1e3 for q in (0.5, 0.99)] for each in self._both)
        return f"| {what} | {len(self.cpu_ns)} | {wall[0]:.1f} / {wall[1]:.1f} | {cpu[0]:.1f} / {cpu[1]:.1f} |"

    @property
    def _both(self) -> tuple[list[int], list[int]]:
        return self.wall_ns, self.cpu_ns


class Nowhere:
    """A robot that costs nothing."""

    def observe(self) -> dict[str, float]:
        return {}

    def act(self, row: Any) -> None:
        return None

    def hold(self) -> None:
        return None


class Rig:
    """A run's plan with those who fill and empty it, as `seqrt.runtime.run.Run` makes them."""

    def __init__(self, play: Play) -> None:
        now = anyio.current_time()
        self.guard, self.moments, self.telling = Guard.of(ARM), Moments(), Telling(now, None, in_thread(), failed=print)
        schedule, control, trouble, staleness = TickSchedule(now, 1 / HZ), Control(), Trouble(), Staleness(None)
        callbacks = gather(Nowhere(), validate=lambda row: True, actions=ARM)
        self.plan = Plan(play.splice, self.guard, play.seam, ARM)
        player, out = Player(self.plan, ARM, substeps=play.substeps), Out()
        serving = Serving(
            link=None, declared=DECLARED, control=control, telling=self.telling, trouble=trouble,  # type: ignore[arg-type]
            limits=Limits(), link_timeout_s=1.0, plan=self.plan, out=out,
        )  # fmt: skip
        self.receiver = Receiver(
            plan=self.plan, player=player, guard=self.guard, moments=self.moments, schedule=schedule,
            declared=DECLARED, callbacks=callbacks, serving=serving, control=control, telling=self.telling,
            latencies=Latencies(), trouble=trouble, epoch=0, out=out, lag=lag_in_force(play.late, HZ),
            staleness=staleness,
        )  # fmt: skip
        stalling = Stalling(
            Limits(), "absolute", 1 / HZ, trouble=trouble, moments=self.moments, host=lambda: "",
        )  # fmt: skip
        self.actuator = Actuator(
            plan=self.plan, player=player, guard=lambda: self.receiver.guard, schedule=schedule,
            substeps=play.substeps, callbacks=callbacks, starving=Starving(underrun_for("absolute"), ARM, 1 / HZ),
            bounds=Bounds(None, None), limits=Limits(), space="absolute", control=control, telling=self.telling,
            trouble=trouble, moments=self.moments, stalling=stalling, renewed=lambda: 0, staleness=staleness,
            first_step=FirstStep(()), tick_by="auto",
        )  # fmt: skip
        self.actuator.state = move(self.actuator.state, Signal.BEGIN)

    def observe(self, step: int) -> Asking:
        """An observation is taken, and asked about."""
        now = anyio.current_time()
        moment = self.moments.begin(step, self.plan.position, now, 0)
        self.moments.add(moment)
        return Asking(f"{step:032x}", moment, now, SPACING, committed=0)


def answered(asked: Asking) -> Served:
    """Joints on their ways, 0.03 rad apart from those of the plan before: what a model's chunks do."""
    at = asked.moment.position + np.arange(ROWS)[:, None]
    rows = np.sin(at / 40 + np.arange(DIMS)) + 0.03 * np.sin(asked.moment.step)
    outputs = {"actions": rows.astype(np.float32)}
    return Served(ActResponse(outputs, {"inference_ms": 80.0}, plan=AnswerPlan(t=asked.moment.step)), smooth=True)


async def timed(play: Play, count: int = COUNTED, *, apart_s: float = 0.0) -> tuple[Took, Took]:
    """Ticks (player, guard, validate, act, event, fold) and splices (rows of an answer, guard, plan, event, fold).

    One right after the other, or ``apart_s`` of sleep between them: a processor that did something else meanwhile
    finds none of it in its caches, as at a robot's tick.
    """
    rig, ticks, splices = Rig(play), Took(), Took()
    asked, step, substeps = rig.observe(0), 0, play.substeps
    await rig.receiver.receive(asked, answered(asked))
    for tick in range(count):
        step, begins = tick // substeps, tick % substeps == 0
        if apart_s:
            await anyio.sleep(apart_s)
        if begins and step % SPACING == SPACING - DELAY:
            asked = rig.observe(step)
        if begins and step and step % SPACING == 0:
            served = answered(asked)
            await splices.time(lambda asked=asked, served=served: rig.receiver.receive(asked, served))  # type: ignore[misc]
        await ticks.time(lambda step=step, begins=begins: rig.actuator._send(step, begins, 1e-5, 0))  # type: ignore[misc]
    outcome = rig.telling.outcome()
    assert outcome.actions == step + 1, "a tick found no row"
    assert outcome.disagreement is not None, "no two plans overlapped"
    assert (outcome.blended_chunks > 0) == (play.seam is not None)
    return ticks, splices


async def control() -> Took:
    """The same work each time, about a tick's worth: how much its p99 is above its p50 is the machine's doing."""
    took = Took()

    async def count() -> None:
        for number in range(CONTROL_ROUNDS):
            math.sqrt(number)

    for _ in range(COUNTED):
        await took.time(count)
    return took


async def cost() -> None:
    print(f"\n{DIMS} joints, H={ROWS}\n\n| what | count | wall p50 / p99 µs | CPU p50 / p99 µs |\n|---|---|---|---|")
    print((await control()).line("control: always the same work"), flush=True)
    for way, play in WAYS.items():
        ticks, splices = await timed(play)
        print(f"{ticks.line('a tick' + way)}\n{splices.line('a splice' + way)}", flush=True)
    ticks, splices = await timed(Play(), APART_COUNTED, apart_s=APART_S)
    print(f"{ticks.line(f'a tick, {APART_S * 1e3:g} ms apart')}\n{splices.line('a splice among these')}")
