"""How much of the time the arm moves, by what a chunk covers: one request at a time, a refill of 0.79 s.

The four chunks of the refill table (contract, section 7): they cover 2.13 and 1.00 s at 15 Hz, 0.64 and 0.50 s at
50 Hz; an answer takes 0.79 s, 0.128 s of it inference. Virtual time, the whole runtime and the whole worker::

    python bench/refill.py
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np

import seqrt
from seqrt.action.asking import rows_during
from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

REFILL_S, INFER_S = 0.79, 0.128
CHUNKS = ((32, 15.0), (15, 15.0), (32, 50.0), (25, 50.0))
"""Rows and rate."""


@dataclass(frozen=True)
class Refill:
    """One line of the table.

    Attributes:
        rows: H.
        hz: The grid's rate.
        prefetch: Whether the next chunk was asked for while one played.
        by: Whether rows depend on the clock or on the arm's state.
        moving: Share of ticks at which a row was played, over whole chunks.
        theory: The same by arithmetic.
        reversals: Times the commanded position went back.
        age_s: Median age of the observation behind a row.
        acts_per_s: Requests a second.
    """

    rows: int
    hz: float
    prefetch: bool
    by: str
    moving: float
    theory: float
    reversals: int
    age_s: float
    acts_per_s: float


def theory(rows: int, hz: float, *, prefetch: bool) -> float:
    """The share of ticks with a row, one request at a time.

    Asked when dry, a chunk of H rows plays in H + d ticks. Asked at once when the answer before came, two chunks
    play H rows in 2 d ticks where d < H < 2 d (each is half passed when it comes); from H = 2 d on, always.
    """
    d = rows_during(REFILL_S, 1 / hz)
    if not prefetch or rows <= d:
        return rows / (rows + d)
    return min(1.0, rows / (2 * d))


async def refill(rows: int, hz: float, *, prefetch: bool, by: Literal["clock", "state"], chunks: int = 8) -> Refill:
    """Run until ``chunks`` chunks have been played, and measure."""
    events: list[ev.Event] = []
    arm = FakeArm(3)
    one_way_s = (REFILL_S - INFER_S) / 2
    policy = Scripted(rows=rows, hz=hz, infer_s=INFER_S, by=by)
    async with connected(policy, up_s=one_way_s, down_s=one_way_s) as there:
        outcome = await there.policy.run(
            arm,
            validate=lambda row: True,
            until=lambda observation: len(_seams(events)) > chunks,
            play=seqrt.Play(prefetch=prefetch, in_flight=1),
            record=events.append,
        )
    assert outcome.observation_age_s is not None
    return Refill(
        rows=rows,
        hz=hz,
        prefetch=prefetch,
        by=by,
        moving=_moving(events),
        theory=theory(rows, hz, prefetch=prefetch),
        reversals=int((np.diff(arm.rows[:, 0]) < 0).sum()),
        age_s=outcome.observation_age_s.p50,
        acts_per_s=outcome.acts_per_s,
    )


def _seams(events: list[ev.Event]) -> list[int]:
    return [i for i, event in enumerate(events) if isinstance(event, ev.Ticked) and event.seam_jump is not None]


def _moving(events: list[ev.Event]) -> float:
    """From seam to seam, an even number of them: two chunks in a row may play differently many rows."""
    seams = _seams(events)
    whole = [e for e in events[seams[0] : seams[2 * ((len(seams) - 1) // 2)]] if isinstance(e, ev.Ticked)]
    return sum(tick.kind == "played" for tick in whole) / len(whole)


async def table() -> list[Refill]:
    """All of it, in the loop's time."""
    ways: tuple[Literal["clock", "state"], ...] = ("clock", "state")
    return [
        await refill(rows, hz, prefetch=prefetch, by=by)
        for prefetch in (True, False)
        for rows, hz in CHUNKS
        for by in ways
    ]


def text(lines: list[Refill]) -> str:
    """The table as it is printed."""
    head = "covers  rows  rate   prefetch  rows by  moving  theory  reversals  age p50  acts/s"
    return "\n".join(
        [
            head,
            *(
                f"{x.rows / x.hz:5.2f} s  {x.rows:4d}  {x.hz:2.0f} Hz  {'on' if x.prefetch else 'off':8s}  {x.by:7s}"
                f"  {100 * x.moving:5.1f}%  {100 * x.theory:5.1f}%  {x.reversals:9d}"
                f"  {x.age_s:5.2f} s  {x.acts_per_s:6.2f}"
                for x in lines
            ),
        ]
    )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    for backend in virtual.backends():
        print(f"{backend}\n{text(virtual.run(table, backend=backend))}\n")
