"""What is compared: small descriptions of how chunks are asked for and spliced, made of the runtime's own objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from seqrt.action.blend import Crossfade, Ramp, Seam
from seqrt.action.lagging import Lag, Late, StopAndGo, Stretch
from seqrt.action.splice import Aligned, Nearest, Placing, Sequential, Splice

MATCHED_TICKS: Final = 20
"""Between two requests of every strategy compared: 2.5 acts a second at 50 Hz."""
ROWS: Final = 50


@dataclass(frozen=True)
class AtArrival:
    """Row 0 at the tick the answer comes: what a loop does that does not know about time."""

    def start(self, placing: Placing) -> int:
        """Now."""
        return placing.position


@dataclass(frozen=True)
class Strategy:
    """One way of playing.

    Attributes:
        name: As the tables call it.
        splice: Where a new chunk lies.
        seam: How its first rows are eased.
        prefetch: Whether the next chunk is asked for while one plays.
        in_flight: n.
        spaced: Ticks between two requests; None: as `seqrt.action.asking` says.
        horizon: Rows of an answer that are played (``open_loop_horizon``); a function of d.
        prefix: Whether the committed rows go along.
        fresh_s: As `Play`.
        one_seed: Whether every act carries the same seed (``Play(seed=…)``).
        late: What is done where latency exceeds the chunk.
        delayed: False: answers come at once (the oracle).
        told_behind: Whether the runtime is told that the arm is behind its command (``actuator_delay_s``).
        flow: Whether the policy is the flow of ``examples/flow_policy.py``.
        about: A line for people.
    """

    name: str
    splice: Splice = field(default_factory=Aligned)
    seam: Seam | None = None
    prefetch: bool = True
    in_flight: int = 1
    spaced: int | None = MATCHED_TICKS
    horizon: Callable[[int], int] = lambda d: ROWS
    prefix: bool = False
    fresh_s: float | None = None
    one_seed: bool = False
    late: Late = field(default_factory=StopAndGo)
    delayed: bool = True
    told_behind: bool = False
    flow: bool = False
    about: str = ""


ORACLE: Final = Strategy("oracle", delayed=False, about="answers come at once, d = 0")
ALIGNED: Final = Strategy("aligned", about="rows passed meanwhile are dropped")
STRATEGIES: Final[tuple[Strategy, ...]] = (
    ORACLE,
    Strategy("aligned + prefix", prefix=True, about="the committed rows go along, the policy goes on from them"),
    Strategy("aligned + prefix, one seed", prefix=True, one_seed=True, about="and every act carries one seed"),
    Strategy("fresh", in_flight=8, spaced=None, fresh_s=0.25, about="aligned, pipelined, fresh_s=0.25"),
    Strategy("fresh, one seed", in_flight=8, spaced=None, fresh_s=0.25, one_seed=True, about="and one seed"),
    Strategy("aligned + crossfade", seam=Crossfade(), about="gated: not where the plans part"),
    Strategy("aligned + crossfade, no gate", seam=Crossfade(gate=None), about="mixes whatever comes"),
    ALIGNED,
    Strategy("aligned + ramp", seam=Ramp(5), about="five rows out of the last one sent"),
    Strategy("nearest", splice=Nearest(), about="behind the passed row closest to the last command"),
    Strategy("aligned, one seed", one_seed=True, about="every act carries one seed"),
    Strategy(
        "aligned + crossfade, one seed", seam=Crossfade(), one_seed=True,
        about="gated, and every act carries one seed",
    ),
    Strategy(
        "sync", prefetch=False, spaced=None, horizon=lambda d: max(3, MATCHED_TICKS - d),
        about="stop and go: asked for when the plan is dry, at the matched rate",
    ),
    Strategy("sync, whole chunks", prefetch=False, spaced=None, about="stop and go, all 50 rows: fewer requests"),
    Strategy("not aligned", splice=AtArrival(), about="row 0 at arrival"),
    Strategy(
        "append", splice=Sequential(), spaced=None, horizon=lambda d: MATCHED_TICKS,
        about="every row plays, one chunk behind another",
    ),
    Strategy("one in flight", spaced=None, about="aligned, depth 1, as rarely as H allows"),
    Strategy("as shipped, one seed", in_flight=8, spaced=None, one_seed=True, about="of a policy that takes a seed"),
    Strategy("as shipped", in_flight=8, spaced=None, about="Play(): aligned, as rarely as H allows with a spare"),
)  # fmt: skip
"""In the order that is expected of them."""
FLOW: Final[tuple[Strategy, ...]] = (
    Strategy("flow: oracle", flow=True, delayed=False, about="answers come at once"),
    Strategy("flow: aligned + guidance", flow=True, prefix=True, about="guided by the old plan"),
    Strategy("flow: aligned, one seed", flow=True, one_seed=True, about="the same noise for each chunk of an episode"),
    Strategy("flow: aligned + crossfade", flow=True, seam=Crossfade(), about="gated"),
    Strategy("flow: aligned", flow=True, about="new noise for each chunk"),
)
"""The same world, its two ways answered by a flow-matching policy."""
_SHORT: Final = Strategy(
    "stop and go", in_flight=8, spaced=None, one_seed=True, about="Play(): what is due, then stand"
)
SHORT: Final[tuple[Strategy, ...]] = (
    _SHORT,
    replace(_SHORT, name="stretch", late=Stretch(), about="slower, so that a chunk lasts"),
    replace(_SHORT, name="lag", late=Lag(1.0), about="later, by as much as a chunk is too short"),
)
"""For chunks that are shorter than the latency, with one seed."""


def by_name(name: str) -> Strategy:
    """The strategy called ``name``.

    Raises:
        KeyError: There is none.
    """
    return {strategy.name: strategy for strategy in (*STRATEGIES, *FLOW, *SHORT)}[name]


def told(strategy: Strategy) -> Strategy:
    """The same, the runtime told how far the arm is behind."""
    return replace(strategy, name=f"{strategy.name}, told", told_behind=True)
