"""The line before a policy: what an act costs there, and what turns by dryness and calls that wait are worth.

python bench/turns.py cost        CPU time, the policy itself costs nothing; run it on two trees in turn to compare
python bench/turns.py worth       virtual time, the same robots with a rule and without it
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import anyio

from seqrt.policies import Host, policy
from seqrt.policies.terms import Concurrency
from seqrt.testing import virtual
from seqrt.testing.offload import inline
from seqrt.wire.messages import ActRequest, AskPlan

ROUNDS, ACTS = 7, 4000
ALONE_S, MORE_S = 0.1, 0.002
FOR_S = 120.0


@policy()
class Single:
    """One act a call."""

    def infer(self, obs: Any) -> Any:
        return 0.0


@policy(concurrency=Concurrency(max_concurrent=16))
class Batched:
    """Several acts a call."""

    def infer(self, obs: list[Any]) -> list[Any]:
        return [0.0 for _ in obs]


async def at_once(call: Callable[[], Any], /) -> Any:
    """A policy's code that takes no time and no thread."""
    await anyio.lowlevel.checkpoint()
    return call()


async def lasting(call: Callable[[], Any], /) -> Any:
    """A call lasts `ALONE_S`, and `MORE_S` with each act in it."""
    acts = getattr(call, "args", None)
    size = len(acts[1]) if acts is not None and isinstance(acts[1], list) else 1
    return await inline(ALONE_S + MORE_S * size)(call)


async def ask(host: Host, robot: str, step: int, dry_in_s: float) -> None:
    """One act."""
    plan = AskPlan(dry_in_s=dry_in_s, begun=step > 0 or None)
    request = ActRequest(inputs={"x": step}, seq=step, episode_id=robot, plan=plan)
    await host.act(request, request_id=f"r-{hash((robot, step)) & (2**64 - 1):016x}")


async def _cost(made: Any, robots: int) -> float:
    """Microseconds of CPU time an act, each robot asking as soon as it is answered."""
    host = Host(made, offload=at_once)
    await host.start()

    async def drive(robot: str) -> None:
        for step in range(ACTS // robots):
            await ask(host, robot, step, 1.0)

    began_ns = time.thread_time_ns()
    async with anyio.create_task_group() as tasks:
        for number in range(robots):
            tasks.start_soon(drive, f"e{number}")
    return (time.thread_time_ns() - began_ns) / 1e3 / (ACTS // robots * robots)


def cost() -> None:
    """Print the table of costs."""
    print("| robots | one act a call, µs of CPU an act | 16 acts a call, µs of CPU an act |\n|---|---|---|")
    for robots in (1, 4, 16, 64):
        each = [min(anyio.run(_cost, made, robots) for _ in range(ROUNDS)) for made in (Single(), Batched())]
        print(f"| {robots} | {each[0]:.1f} | {each[1]:.1f} |")


class Robot:
    """Asks when ``buffer_s`` before it is dry, again and again, and counts for how long it was dry."""

    def __init__(self, name: str, *, covers_s: float, buffer_s: float, says_s: float | None = None) -> None:
        self.name, self.covers_s, self.buffer_s, self.says_s = name, covers_s, buffer_s, says_s
        self.acts, self.dry_s, self.waited_s = 0, 0.0, 0.0

    async def drive(self, host: Host) -> None:
        """Until the time is over. A chunk covers ``covers_s`` from its observation on."""
        while (now := anyio.current_time()) < FOR_S:
            left_s = self.buffer_s if self.acts else 0.0
            await ask(host, self.name, self.acts, left_s if self.says_s is None else self.says_s)
            took_s = anyio.current_time() - now
            self.dry_s += max(0.0, took_s - left_s) if self.acts else 0.0
            self.waited_s += took_s
            self.acts += 1
            await anyio.sleep(max(0.0, self.covers_s - self.buffer_s - took_s))


def _mixed() -> list[Robot]:
    # Six with long chunks and two with short ones: they want some 95 % of the worker's time.
    longs = [Robot(f"long{n}", covers_s=3.01 + 0.013 * n, buffer_s=1.5) for n in range(6)]
    return longs + [Robot(f"short{n}", covers_s=0.71 + 0.011 * n, buffer_s=0.35) for n in range(2)]


def _fresh() -> list[Robot]:
    return [Robot(f"fresh{n}", covers_s=1.52, buffer_s=1.5) for n in range(8)]


async def _driven(made: Any, robots: list[Robot]) -> Any:
    host = Host(made, offload=lasting)
    await host.start()
    async with anyio.create_task_group() as tasks:
        for number, robot in enumerate(robots):
            await anyio.sleep(0.0131 * number)
            tasks.start_soon(robot.drive, host)
    return host.statistics()


def _row(what: str, made: Any, robots: list[Robot]) -> None:
    virtual.run(_driven, made, robots)
    groups: dict[str, list[Robot]] = {}
    for robot in robots:
        groups.setdefault(robot.name.rstrip("0123456789"), []).append(robot)
    for kind, some in groups.items():
        acts = sum(robot.acts for robot in some)
        took_ms = sum(robot.waited_s for robot in some) / acts * 1e3
        dry = 100 * sum(robot.dry_s for robot in some) / (FOR_S * len(some))
        print(f"| {what} | {len(some)} {kind} | {acts / FOR_S:.1f} | {took_ms:.0f} | {dry:.1f} % |")


def worth() -> None:
    """Print the tables of what the rules are worth."""
    print("| | robots | acts/s | an act takes, ms | dry |\n|---|---|---|---|---|")
    with patch("seqrt.policies.turns.Turns.due", lambda turns, place: place.arrived_at):
        _row("in order of arrival", Single(), _mixed())
    _row("who runs dry first", Single(), _mixed())
    with patch("seqrt.policies.line.begin_at", lambda now, **_: now):
        _row("calls begin at once", Batched(), _fresh())
    _row("calls wait for others", Batched(), _fresh())


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cost", "worth"])
    {"cost": cost, "worth": worth}[parser.parse_args().what]()


if __name__ == "__main__":
    main()
