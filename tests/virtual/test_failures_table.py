"""Each line of the table in docs/failures.md that a run in virtual time can meet, met.

What has to come out is read from the table itself: exceptions, the outcome's reason and counters, and events.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from answering import Answering, acts, refusal

import seqrt
from seqrt.policies import Timeouts
from seqrt.testing import FakeArm, Faulty, Scripted, Slow
from seqrt.testing.connected import Connected, connected, served
from seqrt.timeline import events as ev
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

TABLE = Path(__file__).parents[2] / "docs" / "failures.md"
TAGS = {kind.__struct_config__.tag for kind in ev.Event.__args__}
SPARING = seqrt.Play(fresh_s=0.4)
"""Asks early enough that a failure costs no row."""
ALONE = seqrt.Play(in_flight=1)


def policy(**script: Any) -> Scripted:
    return Scripted(**{"rows": 20, "dims": 3, "infer_s": 0.1203, "step_size": 0.001, **script})


def nan_in(*calls: int) -> dict[int, tuple[int, int, float]]:
    return dict.fromkeys(calls, (3, 1, math.nan))


class Observing(FakeArm):
    """An arm whose observation ``what`` may change, from number 20 on."""

    def __init__(self, what: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(3)
        self._what = what

    def observe(self) -> Any:
        seen = super().observe()
        return self._what(seen) if len(self.observed) > 20 else seen


def stuck(seen: dict[str, Any]) -> dict[str, Any]:
    return {**seen, "camera": np.zeros((24, 32, 3), np.uint8)}


async def after(seconds: float, *calls: Callable[[], Any]) -> None:
    for call in calls:
        await anyio.sleep(seconds)
        call()


async def restart(ends: Connected, **changed: Any) -> None:
    await anyio.sleep(2.0017)
    ends.link.begin_outage("refused")
    host = served(policy(**changed))
    await host.start()
    ends.link.app = app(host)
    await anyio.sleep(2.0)
    ends.link.end_outage()


async def locked(ends: Connected) -> None:
    await anyio.sleep(2.0017)
    ends.link.app = app(ends.host, secret="another")


async def busy(ends: Connected) -> None:
    await anyio.sleep(2.0017)
    ends.link.app = Answering(ends.link.app, acts({0, 1}, refusal(429, "busy", 1.0)))


class EachFifthAct:
    """Whether a request is one."""

    def __init__(self) -> None:
        self._acts = 0

    def __call__(self, request: httpx.Request) -> bool:
        self._acts += request.url.path == "/act"
        return request.url.path == "/act" and self._acts % 5 == 0


@dataclass
class Met:
    """One way to meet a line of the table: what is served, what is driven, what happens meanwhile."""

    served: Callable[[], Scripted] = policy
    robot: Callable[[FakeArm], Any] = lambda arm: arm
    options: dict[str, Any] = field(default_factory=dict)
    link: dict[str, Any] = field(default_factory=dict)
    meanwhile: Callable[[Connected], Any] | None = None
    holds: int = 1


READS = seqrt.Observations(streams={"state": seqrt.Stream(shape=(3,))})
CASES = {
    "the first observation lacks a key": Met(
        partial(policy, observations=seqrt.Observations(streams={"stats": seqrt.Stream()})), holds=0
    ),
    "robot and policy name other columns": Met(
        partial(policy, actions=seqrt.Actions(key="actions", hz=20, names=("a", "b", "c"))), holds=0
    ),
    "an answer comes late": Met(partial(policy, infer_s=[0.1203, 0.1203, 2.0203, 0.1203]), holds=0),
    "`Limits(first_step)`, `Play(sensor_delay_s)`": Met(
        options={"limits": seqrt.Limits(first_step={"joints": 0.1})}, holds=0
    ),
    "`play` or `limits` asks for": Met(partial(policy, space=None), options={"play": seqrt.Play(substeps=2)}, holds=0),
    "the first row, of the run or after a resume": Met(
        robot=lambda _: FakeArm(3, start=[9.0, 9.0, 9.0]), options={"limits": seqrt.Limits(first_step={"state": 0.1})}
    ),
    "the same with `Decay(stop_s)`": Met(
        partial(policy, infer_s=[0.1203, 0.1203, 2.0203, 0.1203]),
        options={"play": seqrt.Play(underrun=seqrt.Decay(0.3))},
        holds=0,
    ),
    "what is sent in a row's place": Met(
        partial(
            policy,
            infer_s=[0.1203, 60.0],
            actions=seqrt.Actions(key="actions", hz=20, space="delta", bounds=[[1e-6, 9.0]] * 3),
        )
    ),
    "an observation is older than 2 s": Met(partial(policy, rows=80), options={"max_seconds": 4.0}, holds=0),
    "what the arm goes by": Met(
        link={"outages": [(3.0017, math.inf, "silent")]}, options={"limits": seqrt.Limits(max_age_s=1.5)}
    ),
    "an answer comes when its observation": Met(
        partial(policy, infer_s=[2.0203, 0.1203]), options={"limits": seqrt.Limits(max_age_s=1.5)}, holds=0
    ),
    "a camera gives the very same picture": Met(robot=lambda _: Observing(stuck), holds=0),
    "the same for longer than the limit": Met(
        robot=lambda _: Observing(stuck), options={"limits": seqrt.Limits(frozen_s=0.3)}
    ),
    "latency exceeds what a chunk covers": Met(partial(policy, infer_s=0.8203, rows=10), holds=0),
    "the arm stands for want of a row": Met(partial(policy, infer_s=[0.1203, 60.0])),
    "the worker is away for a moment": Met(link={"outages": [(3.0017, 5.0017, "refused")]}, holds=0),
    "the worker stays away": Met(link={"outages": [(3.0017, math.inf, "refused")]}),
    "the worker was restarted": Met(meanwhile=restart, holds=0),
    "the link stands still and comes back": Met(link={"outages": [(3.0017, 6.0017, "stalled")]}, holds=0),
    "the link stands still for less than 2 s": Met(link={"outages": [(3.0017, 4.5017, "stalled")]}, holds=0),
    "one connection falls silent": Met(link={"outages": [(3.0017, math.inf, "half-open")]}, holds=0),
    "all connections fall silent": Met(link={"outages": [(3.0017, math.inf, "silent")]}),
    "an act takes long": Met(partial(policy, infer_s=[0.1203, 0.1203, 6.0203, 0.1203]), holds=0),
    "an act is over its deadline": Met(
        partial(policy, rows=160, infer_s=[0.1203, 0.1203, 3.0203, 0.1203], timeouts=Timeouts(request=2)), holds=0
    ),
    "an act, or its answer, is lost": Met(link={"lose_request": EachFifthAct()}, options={"play": ALONE}, holds=0),
    "behind a new connection": Met(meanwhile=partial(restart, actions=seqrt.Actions(key="actions", hz=30))),
    "a key that was good is refused": Met(meanwhile=locked),
    "the worker is busy": Met(meanwhile=busy, holds=0),
    "the policy raises, rows are left": Met(partial(policy, raise_on={3}), options={"play": SPARING}, holds=0),
    "the policy raises twice in a row and the plan is dry": Met(partial(policy, raise_on=range(3, 99))),
    "a chunk holds NaN": Met(partial(policy, bad_values=nan_in(3)), options={"play": SPARING}, holds=0),
    "the same twice in a row and the plan is dry": Met(partial(policy, bad_values=nan_in(*range(3, 99)))),
    "the first answer holds no rows at all": Met(partial(policy, actions=seqrt.Actions(key="actions", hz=20), rows=0)),
    "`act` raises": Met(robot=lambda arm: Faulty(arm, act_on={10})),
    "`act` raises within tolerance": Met(
        robot=lambda arm: Faulty(arm, act_on={10}), options={"limits": seqrt.Limits(act_errors=1)}, holds=0
    ),
    "`act` takes longer than a period": Met(robot=lambda arm: Slow(arm, act_s=[0.001, 0.1303, 0.001]), holds=0),
    "`act` does not return": Met(robot=lambda arm: Slow(arm, act_s=[0.001, 1e6])),
    "`observe` raises": Met(robot=lambda arm: Faulty(arm, observe_on={10})),
    "`observe` is slow": Met(robot=lambda arm: Slow(arm, observe_s=0.1303), holds=0),
    "`observe` does not return": Met(robot=lambda arm: Slow(arm, observe_s=[0.001] * 10 + [1e6])),
    "an observation in mid-run": Met(partial(policy, observations=READS), robot=lambda arm: Observing(lambda seen: {})),
    "`validate` says no": Met(options={"validate": lambda row: row[0] < 0.05}),
    "`interrupt()`": Met(meanwhile=lambda ends: after(2.0017, ends.policy.interrupt)),
    "`pause()`": Met(meanwhile=lambda ends: after(2.0017, ends.policy.pause, ends.policy.resume)),
    "`hold` raises or hangs where the run ended well": Met(
        robot=lambda arm: Slow(arm, hold_s=1e6), options={"validate": lambda row: row[0] < 0.05}, holds=0
    ),
    "`hold` raises or hangs where something else": Met(
        robot=lambda arm: Faulty(arm, act_on={10}, hold_on={0}), holds=0
    ),
}


def line_of(beginning: str) -> list[str]:
    """The cells of the line that begins so."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {beginning}")]
    assert lines, beginning
    shortest = min(lines, key=lambda line: len(line.split(" | ")[0]))  # "`act` raises" is how two of them begin
    return shortest.strip("| ").split(" | ")


@pytest.mark.parametrize("beginning", CASES)
async def test_what_the_table_says_is_what_happens(beginning: str) -> None:
    case, said = CASES[beginning], line_of(beginning)[2]
    arm, events = FakeArm(3), list[ev.Event]()
    robot = case.robot(arm)
    error: BaseException | None = None
    async with connected(case.served(), **case.link) as ends, anyio.create_task_group() as tasks:
        if case.meanwhile is not None:
            tasks.start_soon(case.meanwhile, ends)
        options = {"validate": lambda row: True, "max_seconds": 20.0, **case.options}
        try:
            outcome = await ends.policy.run(robot, record=events.append, **options)
        except Exception as raised:
            error, outcome = raised, getattr(raised, "outcome", None)
        tasks.cancel_scope.cancel()

    raised_in_table = [name for name in re.findall(r"`(\w+)`", said) if isinstance(getattr(seqrt, name, None), type)]
    if raised_in_table:
        assert type(error).__name__ == raised_in_table[0]
    elif "exception" in said:
        assert isinstance(error, OSError)
    else:
        assert error is None
    for reason in re.findall(r'`reason` "([\w:]+)"', said):
        assert outcome.reason == reason
    told = {event.__struct_config__.tag for event in events}
    assert set(re.findall(r"`(\w+\.\w+)`", said)) & TAGS <= told
    for counter in set(re.findall(r"`(\w+)`", said)) & set(vars(outcome or object)) - {"reason"}:
        assert getattr(outcome, counter)
    assert len(getattr(robot, "holds", arm.holds)) == case.holds
