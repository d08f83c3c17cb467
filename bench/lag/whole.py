"""The same episodes through the whole stack: the runtime, the link and the worker; in virtual time, or over HTTP/2.

Fewer of them, several at once. What a robot was sent and when is read off the run's own events, into the same record
the tick loop fills.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import fields
from functools import partial
from typing import Any, Final, Literal

import anyio

import seqrt
from bench.lag import latency, worlds
from bench.lag.core import PLAYED, STARVED, WAITING, Record
from bench.lag.grid import Cell, strategy_of
from bench.lag.measures import Measured, measured
from bench.lag.rig import Rig, one, policy_of
from bench.lag.strategies import ROWS, STRATEGIES, Strategy
from bench.lag.worlds import PERIOD_S, TICKS
from seqrt.action.asking import rows_during
from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.testing.relay import Relay
from seqrt.timeline import events as ev
from seqrt.worker.server import serving

Way = Literal["virtual", "loopback"]
Handles = Callable[[], AbstractAsyncContextManager[Any]]
INFER_S: Final = 0.0301
"""In virtual time; over HTTP/2 it takes what it takes."""
UP_S: Final = 0.0101
OFF_GRID_S: Final = 0.0003
"""More than the typical latency: on the tick grid two orders are right."""
KINDS: Final = {"played": PLAYED, "starved": STARVED, "waiting": WAITING}


def cells(way: Way) -> list[Cell]:
    """What is driven: a constant latency and spikes, in order; over HTTP/2 spikes independent of one another too."""
    named = [s.name for s in STRATEGIES if s.delayed and not s.one_seed and "crossfade, no" not in s.name]
    orders = [("constant", True), ("spikes", True)] + ([("spikes", False)] if way == "loopback" else [])
    return [Cell("point", 0, d, order, 0.12, name) for d, order in orders for name in named]


def play_of(strategy: Strategy, typical_s: float) -> seqrt.Play | None:
    """The strategy as users write it; None where this runtime has not all of it."""
    fresh_s = strategy.fresh_s
    if strategy.spaced is not None:
        fresh_s = (strategy.spaced + rows_during(typical_s, PERIOD_S) + 0.5) * PERIOD_S
    wanted: dict[str, Any] = {"prefetch": strategy.prefetch, "splice": strategy.splice, "fresh_s": fresh_s}
    wanted |= {"seam": strategy.seam, "late": strategy.late, "in_flight": strategy.in_flight}
    known = {f.name for f in fields(seqrt.Play)}
    if "in_flight" not in known and strategy.in_flight > 1:
        return None
    return seqrt.Play(**{key: value for key, value in wanted.items() if key in known})


@asynccontextmanager
async def site(way: Way, policy: Any, delays: Callable[[], float], *, in_order: bool) -> AsyncIterator[Handles]:
    """A worker for ``policy``, and what makes handles to it; answers are as late as ``delays`` says.

    In virtual time inference is part of that, and each handle has a worker to itself.
    """
    if way == "virtual":

        @asynccontextmanager
        async def handle() -> AsyncIterator[Any]:
            back = partial(_back_s, delays)
            async with connected(policy, up_s=UP_S, down_s=back, offload=inline(INFER_S)) as there:
                yield there.policy

        yield handle
        return
    async with AsyncExitStack() as stack:
        if in_order:
            port = (await stack.enter_async_context(serving(policy))).port
            port = (await stack.enter_async_context(Relay(port, down_s=delays))).port
        else:
            port = (await stack.enter_async_context(_delayed(policy, delays))).port
        yield partial(seqrt.connect, base_url=f"http://127.0.0.1:{port}")


def _back_s(delays: Callable[[], float]) -> float:
    return max(0.0, delays() - INFER_S - UP_S)


def _delayed(policy: Any, delays: Callable[[], float]) -> AbstractAsyncContextManager[Any]:
    from seqrt.testing.delayed import Delayed

    return serving(policy, wrap=lambda app: Delayed(app, after_s=delays))


async def drive(
    cell: Cell, way: Way, *, episodes: int, seed: int, at_once: int, each: Callable[[int], None]
) -> Measured:
    """Drive one cell, ``at_once`` episodes side by side; ``each`` hears of every one that is over."""
    body, strategy = worlds.Point(), strategy_of(cell)
    drawn = worlds.chances(body, episodes, seed)
    delays = OFF_GRID_S + latency.drawn(
        cell.distribution, cell.typical_s, episodes=episodes, ticks=TICKS, period_s=PERIOD_S, seed=seed
    )
    horizon = min(ROWS, strategy.horizon(rows_during(cell.typical_s, PERIOD_S)))
    policy = policy_of(body, horizon, prefix=strategy.prefix)
    values = itertools.cycle(delays.ravel().tolist())
    record, gate = Record.blank(episodes, TICKS, body.dims), anyio.Semaphore(at_once)

    async def episode(e: int, handles: Handles) -> None:
        async with gate, handles() as handle:
            rig, events = Rig(body, one(drawn, e), one_seed=strategy.one_seed), list[Any]()
            await handle.run(
                observe=rig.observe, act=rig.act, hold=rig.hold, validate=lambda row: True, record=events.append,
                play=play_of(strategy, cell.typical_s), until=lambda observation: rig.over,
                max_seconds=2 * TICKS * PERIOD_S,
            )  # fmt: skip
            _write(record, e, rig, events)
            each(e)

    async with (
        site(way, policy, lambda: next(values), in_order=cell.in_order) as handles,
        anyio.create_task_group() as tasks,
    ):
        for e in range(episodes):
            tasks.start_soon(episode, e, handles)
    return measured(record, body, INFER_S)


def _write(record: Record, e: int, rig: Rig, events: Iterable[Any]) -> None:
    record.reached[e], record.touched[e], record.ticks[e] = rig.reached, rig.touched, rig.ticks
    record.tip[e, : len(rig.tip)] = rig.tip[:TICKS]
    for event in events:
        if isinstance(event, ev.Asked):
            record.asked[e] += 1
        if not isinstance(event, ev.Ticked) or event.step >= rig.ticks or event.kind not in KINDS:
            continue
        record.kind[e, event.step] = KINDS[event.kind]
        record.seam[e, event.step] = event.seam_jump is not None
        record.age_s[e, event.step] = math.nan if event.age_s is None else event.age_s
        if event.row is not None or event.kind == "waiting":
            record.commands[e, event.step] = rig.rest if event.row is None else event.row


def run(wanted: list[Cell], found: dict[Cell, Measured], way: Way, *, episodes: int, seed: int, at_once: int) -> None:
    """Drive all of ``wanted`` into ``found``, one after the other; what this runtime cannot do yet is said and left.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    for cell in wanted:
        if play_of(strategy_of(cell), cell.typical_s) is None:
            print(f"{cell.strategy}: this runtime has one request in flight", file=sys.stderr)
            continue
        over = itertools.count(1)

        def each(e: int, over: Any = over, cell: Cell = cell) -> None:
            what = f"{len(found) + 1}/{len(wanted)} {cell.strategy}, {cell.distribution}: {next(over)}/{episodes}"
            print(f"\r{what}\033[K", end="", file=sys.stderr, flush=True)

        go = partial(drive, cell, way, episodes=episodes, seed=seed, at_once=at_once, each=each)
        found[cell] = virtual.run(go) if way == "virtual" else anyio.run(go)
    print(file=sys.stderr)
