"""What happened in one episode, tick by tick: a run's events come in; the live view and the pictures read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from seqrt.demo.shapes import Floats
from seqrt.timeline import events as ev


@dataclass(frozen=True)
class Tick:
    """One tick of the run.

    Attributes:
        at_s: When, from the run's begin.
        kind: "played", "starved", "waiting" or "paused".
        rows_left: Rows left in the plan after it.
        seam_jump: Where a new chunk took over: how far its first row lies from the row before, else None.
        moment: Which of the robot's moments it led to.
        coverage: Share of the goal covered then.
    """

    at_s: float
    kind: str
    rows_left: int
    seam_jump: float | None
    moment: int
    coverage: float


@dataclass(frozen=True)
class Request:
    """One act.

    Attributes:
        asked_s: When it went out.
        committed: Rows it promised to play meanwhile, which went along.
        rows_left: Rows left in the plan then.
        answered_s: When its answer came, None so far.
        latency_s: From the start of its observation to the answer.
        infer_s: The policy's share of it.
        used: Whether its rows came into the plan.
    """

    asked_s: float
    committed: int
    rows_left: int
    answered_s: float | None = None
    latency_s: float | None = None
    infer_s: float | None = None
    used: bool = False


@dataclass(frozen=True)
class Chunk:
    """Rows that came into the plan.

    Attributes:
        tick: Number of ticks served when it came.
        rows: From the next one to be played on, `[n, 2]`.
    """

    tick: int
    rows: Floats


class Episode:
    """Gathers a run's events.

    Args:
        world: Gives the number of the robot's newest moment, and the coverage there.

    Attributes:
        ticks: All ticks so far.
        requests: All acts so far, oldest first, by id.
        chunks: All chunks that came into the plan.
        actions: Rows of chunks played.
        underruns: Runs of starved ticks after the first action.
        starved: Starved ticks.
    """

    def __init__(self, world: Callable[[], tuple[int, float]]) -> None:
        self._world = world
        self._came_in: ev.Spliced | None = None
        self.ticks: list[Tick] = []
        self.requests: dict[str, Request] = {}
        self.chunks: list[Chunk] = []
        self.actions = 0
        self.underruns = 0
        self.starved = 0

    @property
    def newest_answered(self) -> Request | None:
        """The newest act that was answered, None before the first."""
        return next((request for request in reversed(self.requests.values()) if request.answered_s is not None), None)

    def add(self, event: ev.Event) -> None:
        """Take in one event, in the order they happened."""
        if isinstance(event, ev.Ticked):
            self._tick(event)
        elif isinstance(event, ev.Asked):
            self.requests[event.request_id] = Request(
                event.at_s, (event.d or 0) if event.prefix else 0, event.rows_left
            )
        elif isinstance(event, ev.Answered):
            self._change(event.request_id, answered_s=event.at_s, latency_s=event.latency_s, infer_s=event.infer_s)
        elif isinstance(event, ev.Spliced):
            self._change(event.request_id, used=True)
            self._came_in = event

    def add_rows(self, rows: Floats) -> None:
        """The rows of the chunk that came in last (a run hands them over right after its event), `[H, 2]`."""
        if self._came_in is not None:
            self.chunks.append(Chunk(len(self.ticks), rows[self._came_in.row :]))

    def _tick(self, event: ev.Ticked) -> None:
        moment, coverage = self._world()
        starved = event.kind == "starved"
        self.actions += event.kind == "played"
        if starved:
            self.starved += 1
            self.underruns += not (self.ticks and self.ticks[-1].kind == "starved")
        self.ticks.append(Tick(event.at_s, event.kind, event.rows_left, event.seam_jump, moment, coverage))

    def _change(self, request_id: str, **changes: float | bool | None) -> None:
        request = self.requests.get(request_id)
        if request is not None:
            self.requests[request_id] = replace(request, **changes)  # type: ignore[arg-type]
