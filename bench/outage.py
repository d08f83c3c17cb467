"""How soon the arm moves again after a second without a link: the whole runtime and worker in virtual time.

    python bench/outage.py                 thirty instants over half a second, three kinds of outage; about a minute

H = 50 at 50 Hz, an inference of 100 ms, 10 ms each way. What is told is the time from the end of the outage to the
first row played, less one round trip (post and act together, inference in it), in ticks: the goal is 2. An outage is
placed where the plan has run dry by its end in most cases; where it has not, the arm never stood.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.outages import Kind
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

HZ: Final = 50.0
ROWS: Final = 50
INFER_S: Final = 0.1003
ONE_WAY_S: Final = 0.0101
ROUND_TRIP_S: Final = INFER_S + 2 * ONE_WAY_S
OUTAGE_S: Final = 1.0
KINDS: Final[tuple[Kind, ...]] = ("refused", "reset", "stalled")


@dataclass(frozen=True)
class Line:
    """One outage.

    Attributes:
        stood: Ticks the arm stood.
        ticks: From the link's return to the first row, less a round trip; None where the arm never stood.
        bursts: Rows sent less than a period after the one before.
        seam: The largest jump at a seam, in ticks of motion.
        misplaced: Rows that do not follow the one before.
        asked: Acts sent in the second after the outage, less those of a second before it.
    """

    stood: int
    ticks: float | None
    bursts: int
    seam: float
    misplaced: int
    asked: int


async def outage(kind: Kind, until_s: float, rows: int = ROWS) -> Line:
    """One outage of a second that ends at ``until_s``."""
    events: list[ev.Event] = []
    policy = Scripted(rows=rows, hz=HZ, infer_s=INFER_S, by="state")
    gaps = [(until_s - OUTAGE_S, until_s, kind)]
    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S, outages=gaps) as there:
        arm = FakeArm(3)
        outcome = await there.policy.run(arm, max_actions=240, validate=lambda row: True, record=events.append)
    ticks = [event for event in events if isinstance(event, ev.Ticked)]
    back = [now.at_s for before, now in pairwise(ticks) if (before.kind, now.kind) == ("starved", "played")]
    asked = [event.at_s for event in events if isinstance(event, ev.Asked)]
    places = [tick.row[0] for tick in ticks if tick.kind == "played" and tick.row is not None]
    return Line(
        stood=outcome.starved_ticks,
        ticks=(back[-1] - until_s - ROUND_TRIP_S) * HZ if back else None,
        bursts=sum(now.at_s - before.at_s < (1 - 1e-6) / HZ for before, now in pairwise(arm.acts)),
        seam=outcome.max_seam_jump or 0.0,
        misplaced=sum(now - before != 1.0 for before, now in pairwise(places)),
        asked=sum(until_s < at_s < until_s + 1 for at_s in asked) - sum(2.0 < at_s < 3.0 for at_s in asked),
    )


async def table(offsets: int = 30) -> None:
    """A line for each kind of outage."""
    print(
        "outage | stood, ticks | moving again, ticks after a round trip: p50 / max | bursts | seam | misplaced | asked"
    )
    for kind in KINDS:
        lines = [await outage(kind, 4.0137 + 0.0173 * i) for i in range(offsets)]
        ticks = sorted(line.ticks for line in lines if line.ticks is not None)
        stood = f"{min(line.stood for line in lines)}-{max(line.stood for line in lines)}"
        cells = (
            kind, stood, f"{ticks[len(ticks) // 2]:.1f} / {ticks[-1]:.1f}", sum(line.bursts for line in lines),
            max(line.seam for line in lines), sum(line.misplaced for line in lines),
            f"{max(line.asked for line in lines):+d} at the most",
        )  # fmt: skip
        print(" | ".join(map(str, cells)), flush=True)


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # each outage is said by the runtime; here that is the point
    virtual.run(table)
