"""A robot's own metrics, counted from the events of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from seqrt.timeline import events as ev
from seqrt.timeline.starved import Starved
from seqrt.watching.buckets import LATENESS, SECONDS, Buckets
from seqrt.watching.page import Families


class RobotMetrics:
    """Counts events as they happen: ``run(record=metrics)``, in as many runs as there are, one after another.

    It is a collector of the ``prometheus-client`` package (extra ``metrics``), which serves it::

        metrics = RobotMetrics()
        prometheus_client.REGISTRY.register(metrics)
        prometheus_client.start_http_server(9465, addr="127.0.0.1")

    A scrape reads numbers alone, from whichever thread it comes; the loop waits for none.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._late_s, self._act_s = Buckets(LATENESS), Buckets(SECONDS)
        self._starved = Starved()
        self._running = False
        self._steps: dict[type, Callable[[Any], None]] = {
            ev.RunStarted: self._run_started,
            ev.RunEnded: self._run_ended,
            ev.Ticked: self._ticked,
            ev.Answered: lambda event: self._act_s.add(event.latency_s),
            ev.Asked: lambda event: self._add("acts"),
            ev.Spliced: lambda event: self._add("chunks"),
            ev.ChunkRefused: lambda event: self._add("refused_chunks"),
            ev.AnswerDropped: lambda event: self._add("dropped_answers"),
            ev.LinkBack: lambda event: self._add("reconnects"),
            ev.PauseBegan: lambda event: self._starved.interrupt(),
        }

    def __call__(self, event: ev.Event) -> None:
        """Count one event."""
        step = self._steps.get(type(event))
        if step is not None:
            step(event)

    def collect(self) -> Iterable[Any]:
        """The families, for a registry of the package.

        Raises:
            InternalError: The package is not installed.
        """
        made, counts = Families("seqrt_robot"), self._counts
        made.gauge("running", "1 while a run drives the robot.", int(self._running))
        made.counter("runs", "Runs that ended, by how.", dict(self._ended), "reason")
        made.counter("actions", "Rows of chunks handed to act.", counts["actions"])
        made.counter("chunks", "Chunks that came into the plan.", counts["chunks"])
        made.counter("acts", "Requests for a chunk.", counts["acts"])
        made.counter("refused_chunks", "Chunks that may not reach the motors.", counts["refused_chunks"])
        made.counter("dropped_answers", "Answers not used.", counts["dropped_answers"])
        made.counter("underruns", "Times the plan ran dry after the first action.", self._starved.underruns)
        made.counter("starved_ticks", "Ticks at which no row was due.", self._starved.ticks)
        made.counter("overruns", "Ticks that began late by a period or more.", counts["overruns"])
        made.counter("reconnects", "Times the connection was lost and came back.", counts["reconnects"])
        made.histogram("tick_lateness_seconds", "How late ticks began.", self._late_s)
        made.histogram("act_seconds", "From an observation's begin to its answer in hand.", self._act_s)
        return made.made

    def _add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def _run_started(self, event: ev.RunStarted) -> None:
        self._running = True
        self._starved.interrupt()

    def _run_ended(self, event: ev.RunEnded) -> None:
        self._running = False
        self._ended[event.reason.partition(":")[0]] += 1  # an exception's class is the program's, and any number

    def _ticked(self, event: ev.Ticked) -> None:
        self._late_s.add(event.late_s)
        if event.skipped:
            self._add("overruns")
        if event.kind == "played":
            self._add("actions")
        self._starved.tick(event)
