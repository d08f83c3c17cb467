"""How a run plays and when it stops: the two frozen objects a user hands to `run`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np

from seqrt.action.argument import above_zero, at_least_zero, whole
from seqrt.action.blend import Seam
from seqrt.action.first_step import Distances
from seqrt.action.lagging import Lag, Late, StopAndGo, Stretch
from seqrt.action.player import MOST_SUBSTEPS
from seqrt.action.splice import Aligned, Sequential, Splice
from seqrt.action.underrun import Decay, Underrun
from seqrt.runtime.timerfd import available
from seqrt.runtime.waiting import Tick

IN_FLIGHT: Final = 8
"""The most acts out at once."""


def _positive(name: str, value: object) -> None:
    if value is not None:
        above_zero(name, value)


def _distances(value: object) -> None:
    if not isinstance(value, Mapping) or not value:
        raise TypeError(f"first_step= takes {{key of an observed vector: distance}}, not {value!r}")
    for key, distance in value.items():
        if not isinstance(key, str):
            raise TypeError(f"first_step= takes {{key of an observed vector: distance}}, and {key!r} is no key")
        try:
            array = np.asarray(distance, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.array(math.nan)
        if (
            isinstance(distance, bool)
            or array.ndim > 1
            or not array.size
            or not np.all(np.isfinite(array))
            or not np.all(array > 0)
        ):
            raise ValueError(
                f"first_step[{key!r}] must be a finite distance above 0, or a list with one an entry of the vector, "
                f"not {distance!r}"
            )


def _strategy(name: str, value: object, method: str, instead: str) -> None:
    # Text has a `join` of its own.
    if isinstance(value, type | str | bytes) or not callable(getattr(value, method, None)):
        raise TypeError(f"{name}= takes a strategy object, e.g. {instead}, not {value!r}")


@dataclass(frozen=True)
class Play:
    """How chunks are asked for and played.

    Attributes:
        prefetch: Ask for the next chunk while this one plays; False stops at each chunk's end, as a plain loop does.
        splice: Where a new chunk lies: `Aligned()` goes on at the row whose turn it is by the count of rows played;
            `Nearest()` behind the row closest to the last command (absolute spaces); `Sequential()` plays every row.
        seam: How the first rows of a new chunk are eased: `Crossfade()` or `Ramp(n)`; None plays what the model asked
            for. Of effect in spaces declared absolute alone.
        underrun: What is sent when no row is due: `RepeatLast()`, `Zeros()`, `Nothing()`, or `Decay(stop_s)`, which
            slows down to a stand; None: by the space (absolute repeats, velocity and delta send zeros, undeclared
            sends nothing).
        late: What is done when latency exceeds what a chunk covers: `StopAndGo()` lets the arm stand until the next
            one; `Stretch()` plays rows slower (absolute spaces); `Lag(max_s)` plays them later (policies that declare
            ``open_loop``).
        continuity: "auto" sends the committed rows along where the policy takes ``prefix`` and the delay allows it,
            one act at a time, and has several acts in flight where it does not; "server" demands it; None never does.
        in_flight: The most acts out at once, 1 to 8, of those the worker grants; policies whose answer depends on the
            acts before it get 1.
        seed: Goes with every act of the run, for policies that sample. None: where ``infer`` takes a seed, one drawn
            for the episode, so that successive plans agree; a policy that means to sample anew ignores it.
        substeps: Commands a row: the robot is driven so many times a period of the policy's grid, with what lies
            between two rows (absolute: interpolated, velocity: held, delta: split evenly). 1 to 100.
        fresh_s: Age of an observation at execution to aim for, to the run's last row; None asks as rarely as the
            chunk's length allows, and well within ``Limits.max_age_s`` where that is given.
        sensor_delay_s: How long before ``observe`` is called the world was as it then says: one number, or one a key,
            of which the largest counts, an observation being as old as its oldest part. Ages count from there, and
            rows sent since count as played since.
        actuator_delay_s: How long after ``act`` is called the arm begins to do as it is told. What was sent so long
            before a moment was not to be seen in it yet: rows sent since count as played since.
        tick: How the time of a tick is waited for: "timerfd" by a timer of the kernel (Linux), woken 0.2 to 1.5 ms
            early, 15 % of the wait at the most, the rest spun: other tasks get turns until the last of it (1 ms at the
            most); "sleep" by the loop's own sleep: no spin, up to 2 ms late on asyncio; "auto" the first where there
            is one.
    """

    prefetch: bool = True
    splice: Splice = field(default_factory=Aligned)
    seam: Seam | None = None
    underrun: Underrun | None = None
    late: Late = field(default_factory=StopAndGo)
    continuity: Literal["auto", "server"] | None = "auto"
    in_flight: int = IN_FLIGHT
    seed: int | None = None
    substeps: int = 1
    fresh_s: float | None = None
    sensor_delay_s: float | Mapping[str, float] = 0.0
    actuator_delay_s: float = 0.0
    tick: Tick = "auto"

    def __post_init__(self) -> None:
        """Refuse what means nothing, when it is written and not when it is used."""
        if not isinstance(self.prefetch, bool):
            raise TypeError(f"prefetch= takes True or False, not {self.prefetch!r}")
        if self.continuity not in ("auto", "server", None):
            raise ValueError(f"continuity must be 'auto', 'server' or None, not {self.continuity!r}")
        _strategy("splice", self.splice, "start", "Aligned(), Nearest() or Sequential()")
        if self.seam is not None:
            _strategy("seam", self.seam, "join", "Crossfade() or Ramp(4)")
        if self.underrun is not None:
            for method in ("row", "moves", "check"):  # a subclass of seqrt.action.underrun.Underrun has all three
                _strategy("underrun", self.underrun, method, "RepeatLast(), Zeros(), Nothing() or Decay(0.3)")
        if not isinstance(self.late, StopAndGo | Stretch | Lag):
            raise TypeError(f"late= takes StopAndGo(), Stretch() or Lag(max_s), not {self.late!r}")
        self._check_late()
        whole("in_flight", self.in_flight, 1, IN_FLIGHT)
        if self.seed is not None:
            whole("seed", self.seed, -(2**63), 2**63 - 1)
        if isinstance(self.substeps, bool) or not isinstance(self.substeps, int):
            raise TypeError(f"substeps= takes a whole number, not {self.substeps!r}")
        if not 1 <= self.substeps <= MOST_SUBSTEPS:
            raise ValueError(f"substeps must be 1 to {MOST_SUBSTEPS}, not {self.substeps}")
        if self.tick not in get_args(Tick):
            raise ValueError(f"tick must be 'auto', 'timerfd' or 'sleep', not {self.tick!r}")
        if self.tick == "timerfd" and not available():
            raise ValueError("tick='timerfd' needs Linux; 'auto' sleeps by the event loop where there is no timerfd")
        _positive("fresh_s", self.fresh_s)
        delays = self.sensor_delay_s if isinstance(self.sensor_delay_s, Mapping) else {"": self.sensor_delay_s}
        for key, delay in delays.items():
            at_least_zero(f"sensor_delay_s[{key!r}]" if key else "sensor_delay_s", delay)
        at_least_zero("actuator_delay_s", self.actuator_delay_s)
        if isinstance(self.underrun, Decay) and self.moved_behind_s and self.in_flight > 1:
            # An arm seen in its own slowing down lies between two rows, and chunks in flight beside one another would
            # each be laid off by a part of a row, for ever.
            raise ValueError(
                f"underrun={self.underrun} with a sensor or actuator delay goes with one act at a time: "
                "give in_flight=1, or leave one of the two out"
            )

    def _check_late(self) -> None:
        """Refuse strategies that bridge a wait where there is none, or one that is meant."""
        if not self.prefetch and not isinstance(self.late, StopAndGo):
            raise ValueError(
                f"late={self.late} bridges the wait for the next chunk, which prefetch=False asks for at its end: "
                "leave one of the two out"
            )
        if isinstance(self.late, Lag) and isinstance(self.splice, Sequential):
            raise ValueError(
                "late=Lag(…) has no effect with splice=Sequential(), which plays every row late already: leave late out"
            )

    @property
    def seen_behind_s(self) -> float:
        """How old an observation is when it is taken: the largest sensor delay."""
        delays = self.sensor_delay_s
        return float(max(delays.values(), default=0.0) if isinstance(delays, Mapping) else delays)

    @property
    def moved_behind_s(self) -> float:
        """How long ago a row has been sent whose effect the newest observation shows: both delays together."""
        return self.seen_behind_s + self.actuator_delay_s


@dataclass(frozen=True)
class Limits:
    """When a run stops by itself.

    Attributes:
        startup_timeout_s: How long to wait out a worker that says it is warming up, before the first action.
        max_age_s: How old the observation behind a row, or behind the command of a starved tick, may be when it is
            sent: an older one ends the run with hold, and an answer that comes too late for it is refused. None: no
            limit, and an age beyond 2 s is said once.
        max_stall_s: How long the arm may stand for want of a row after the first action; None: 10 s, and 1 s for an
            undeclared space, where nothing can be sent meanwhile.
        frozen_s: How long rows may move the arm before a picture that does not change at all; longer ends the run
            with hold. None: no limit, and half a second of it is said.
        first_step: ``{key: distance}``: how far the first row, of the run and after each resume, may lie from what the
            observed vector ``key`` holds: one number, or one an entry of that vector. Columns go by name where both
            sides name them, else the vector is as long as a row. For absolute spaces. A row further away is not sent:
            the run ends.
        act_errors: How many times in a row ``act`` may raise; each costs its row. One more ends the run with hold.
        observe_errors: The same of ``observe``; each costs its observation.
    """

    startup_timeout_s: float = 0.0
    max_age_s: float | None = None
    max_stall_s: float | None = None
    frozen_s: float | None = None
    first_step: Distances | None = None
    act_errors: int = 0
    observe_errors: int = 0

    def __post_init__(self) -> None:
        """Refuse what means nothing, when it is written and not when it is used."""
        at_least_zero("startup_timeout_s", self.startup_timeout_s)
        for name in ("max_age_s", "max_stall_s", "frozen_s"):
            _positive(name, getattr(self, name))
        if self.first_step is not None:
            _distances(self.first_step)
        for name in ("act_errors", "observe_errors"):
            whole(name, getattr(self, name), 0)

    def check(self, play: Play) -> None:
        """Refuse ages that cannot be had together with ``play``.

        Raises:
            ValueError: No observation would ever be young enough, or an older one is aimed at than is allowed.
        """
        if self.max_age_s is None:
            return
        if play.seen_behind_s >= self.max_age_s:
            raise ValueError(
                f"Play(sensor_delay_s) makes every observation {play.seen_behind_s:g} s old when it is taken, and "
                f"Limits(max_age_s={self.max_age_s:g}) lets none play: allow more"
            )
        if play.fresh_s is not None and play.fresh_s > self.max_age_s:
            raise ValueError(
                f"Play(fresh_s={play.fresh_s:g}) aims at an age at which Limits(max_age_s={self.max_age_s:g}) ends the "
                "run: aim lower, or leave fresh_s out, which asks often enough"
            )

    def stall_s(self, space: str | None, *, held: bool = False) -> float:
        """The limit in force for a space; ``held``: the arm was told to hold, so nothing has to be sent meanwhile."""
        if self.max_stall_s is not None:
            return self.max_stall_s
        return 10.0 if space is not None or held else 1.0


FROZEN_SAID_S = 0.5
"""For how long rows have moved the arm before a picture that stays the same is said to be frozen."""
HOLD_BOUND_S = 1.0
"""How long ``hold`` may take."""
ACT_BOUND_S = 1.0
"""How long one ``act`` may take before the run stops; beyond a period it is counted as an overrun."""
ACT_ON_STOP_S = 0.1
"""How long a stop waits for an ``act`` in progress."""
END_BOUND_S = 1.0
"""How long telling the worker of an episode's end may take."""
IN_A_ROW = 3
"""Chunks refused, or errors of the policy, in a row that end a run."""
SYNC_SHARE = 0.25
"""Share of a period a synchronous callback may hold the loop for."""
