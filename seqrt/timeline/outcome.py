"""The outcome of a run: a fold over its events, run as they happen.

It costs the same for a minute and for a day: counters and log-bucketed histograms. Folding a recording gives the
same outcome as the run gave (tested).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from seqrt.timeline import events as ev
from seqrt.timeline.histogram import Histogram, Quantiles
from seqrt.timeline.jerk import JerkRatio
from seqrt.timeline.starved import Starved

_ACT_PERIODS, _ACT_LEAST_S = 2, 0.05
"""How long an ``act`` may take before it is counted: periods of the robot's, and seconds at the least."""


@dataclass(frozen=True)
class UploadBound:
    """Observations needed more than the way up carried.

    Attributes:
        needed_bytes_per_s: What they needed.
        bytes_per_s: What it carried.
        frame_bytes: What one took.
    """

    needed_bytes_per_s: float
    bytes_per_s: float
    frame_bytes: int

    def __str__(self) -> str:
        """What was needed of what there was."""
        return f"upload-bound ({self.needed_bytes_per_s * 8e-6:.2g} of {self.bytes_per_s * 8e-6:.2g} Mbit/s)"


@dataclass(frozen=True)
class RunOutcome:
    """What a run did.

    Attributes:
        actions: Rows of chunks handed to ``act`` (underrun commands not counted).
        chunks: Chunks spliced into the plan.
        elapsed_s: From the first observation to the end.
        reason: "completed", "validate", "interrupted", "stalled" or "raised:<Class>".
        stopped_early: True when ``reason`` is not "completed".
        underruns: Times the plan ran dry after the first action.
        underrun_s: How long the arm stood for it.
        starved_ticks: Ticks of it.
        overruns: Ticks that began late by a period or more (of the robot's, where it has several a step).
        slow_acts: Calls of ``act`` that took longer than two periods (of the robot's) and 50 ms.
        max_seam_jump: Largest jump at a seam, before any blending; None when there was no seam.
        action_space: The declared space, None where undeclared.
        rows_dropped: Rows passed before their chunk came.
        answers_dropped: Answers not used (stale, older, passed, of an earlier epoch).
        refused_chunks: Chunks the guard refused.
        retries: Requests sent again.
        reconnects: Times the connection was lost and came back.
        link_down_s: Seconds without a link, from when it was found lost to the next answer.
        pings: Pings that came back; ``ping_s`` has their round trips.
        worker_changes: Times another worker was gone on with.
        acts_repeated: Acts that may have run at two workers: at the one that was lost before its answer came, and at
            the one that answered.
        episodes_restarted: Times a new episode was begun in mid-run, the worker having lost the one before.
        acts_per_s: Requests for a chunk a second.
        inference_s: Seconds of inference the worker reported, in all.
        bytes_sent: Bodies of acts and posts.
        frames_sent: Observations acknowledged by the worker.
        frames_skipped: Steps at which no observation was taken.
        frozen_frames: Pictures that had stayed the same while rows moved the arm, where a camera was found frozen.
        callback_errors: Times ``act`` or ``observe`` raised within tolerance.
        lag_ticks: The most ticks by which a chunk's rows played late (``Lag``).
        tick_lateness_s: How late ticks began.
        observation_age_s: Age of the observation behind each row, when it was played.
        act_latency_s: From the start of an observation to its answer in hand.
        ping_s: Round trips of pings; None before the first.
        seam_jump: Jumps at seams, in any column, of the rows as they were answered.
        innovation: The same with ordinary motion taken out, |u_c − (2u_{c−1} − u_{c−2})|; grippers left out.
        disagreement: How far each chunk's rows are from those the plan before it played or planned for the same
            positions, the farthest of each chunk, before any blending; grippers left out.
        disagreement_passed: The same of the positions played already: rows dropped against rows played. Where it is
            as large as what the arm moves meanwhile, aligned splicing drops rows that were never made.
        jerk_ratio: Mean jerk of what was played at seams over that inside chunks (1.0: no seam is to be seen), of
            four rows played at ticks that follow one another; grippers and quaternions left out. None where there was
            too little to compare, or no jerk at all.
        blended_chunks: Chunks of which a seam strategy changed rows.
        frames_taken: Observations taken; those that no act reads are not sent.
        frames_dropped: Observations not sent because the link was behind (``when_behind="drop_oldest"``).
        frame_bytes: What an observation sent took, on average, as it was encoded; None where none was sent.
        upload_bound: What observations needed and what the link carried, where that was found too little.
    """

    actions: int
    chunks: int
    elapsed_s: float
    reason: str
    underruns: int = 0
    underrun_s: float = 0.0
    starved_ticks: int = 0
    overruns: int = 0
    max_seam_jump: float | None = None
    action_space: str | None = None
    rows_dropped: int = 0
    answers_dropped: int = 0
    refused_chunks: int = 0
    retries: int = 0
    reconnects: int = 0
    link_down_s: float = 0.0
    pings: int = 0
    worker_changes: int = 0
    acts_repeated: int = 0
    episodes_restarted: int = 0
    acts_per_s: float = 0.0
    inference_s: float = 0.0
    bytes_sent: int = 0
    frames_sent: int = 0
    frames_skipped: int = 0
    frozen_frames: int = 0
    callback_errors: int = 0
    lag_ticks: int = 0
    tick_lateness_s: Quantiles | None = None
    observation_age_s: Quantiles | None = None
    act_latency_s: Quantiles | None = None
    ping_s: Quantiles | None = None
    seam_jump: Quantiles | None = None
    innovation: Quantiles | None = None
    disagreement: Quantiles | None = None
    disagreement_passed: Quantiles | None = None
    jerk_ratio: float | None = None
    blended_chunks: int = 0
    slow_acts: int = 0
    frames_taken: int = 0
    frames_dropped: int = 0
    frame_bytes: float | None = None
    upload_bound: UploadBound | None = None

    @property
    def stopped_early(self) -> bool:
        """True when the run did not reach the end that was asked for."""
        return self.reason != "completed"

    def __str__(self) -> str:
        """One line: what was done, what it cost, how it ended."""
        parts = [f"{self.actions} actions over {self.chunks} chunks in {self.elapsed_s:.1f}s"]
        if self.underruns:
            parts.append(f"{self.underruns} underruns ({self.underrun_s:.2f}s)")
        counted = (
            (self.overruns, "overruns"),
            (self.slow_acts, "slow acts"),
            (self.frozen_frames, "frozen frames"),
            (self.refused_chunks, "chunks refused"),
            (self.worker_changes, "worker changes"),
            (self.episodes_restarted, "episodes restarted"),
            (self.callback_errors, "callback errors"),
        )
        parts += [f"{count} {what}" for count, what in counted if count]
        if self.upload_bound is not None:
            parts.append(str(self.upload_bound))
        return f"RunOutcome({', '.join([*parts, self.reason])})"


class Fold:
    """Takes events one at a time; `outcome` may be asked for at any moment."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._space: str | None = None
        self._hz, self._act_s = 1.0, math.inf
        self._inference_s = 0.0
        self._lag = 0
        self._down_s = 0.0
        self._down_since: float | None = None
        self._starved = Starved()
        self._now_s = 0.0
        self._reason = "running"
        self._late, self._age, self._latency, self._ping = Histogram(), Histogram(), Histogram(), Histogram()
        self._jump, self._innovation = Histogram(), Histogram()
        self._disagreement, self._disagreement_passed = Histogram(), Histogram()
        self._jerk = JerkRatio()
        self._bound: UploadBound | None = None
        self._steps: dict[type, Callable[[Any], None]] = {
            ev.RunStarted: self._started,
            ev.Observed: self._observed,
            ev.ObservationFrozen: lambda e: self._add("frozen", e.frames),
            ev.ObservationMissed: lambda e: self._add("missed", e.steps),
            ev.Posted: self._posted,
            ev.FramesDropped: lambda e: self._add("frames_dropped", e.frames),
            ev.UploadBound: self._upload_bound,
            ev.Asked: self._asked,
            ev.Answered: self._answered,
            ev.AnswerDropped: lambda e: self._add("dropped"),
            ev.ChunkRefused: lambda e: self._add("refused"),
            ev.ActFailed: lambda e: self._add("retries", int(e.retrying)),
            ev.PostFailed: lambda e: self._add("retries"),
            ev.LinkLost: self._lost,
            ev.LinkBack: self._back,
            ev.Pinged: self._pinged,
            ev.WorkerChanged: lambda e: self._add("worker_changes"),
            ev.ActRepeated: lambda e: self._add("acts_repeated"),
            ev.EpisodeRestarted: lambda e: self._add("episodes_restarted"),
            ev.Spliced: self._spliced,
            ev.Ticked: self._ticked,
            ev.CallbackRaised: lambda e: self._add("callback_errors"),
            ev.PauseBegan: self._paused,
            ev.RunEnded: self._ended,
        }

    def add(self, event: ev.Event) -> None:
        """Take in one event, in the order they happened."""
        self._now_s = event.at_s
        step = self._steps.get(type(event))
        if step is not None:
            step(event)

    def outcome(self) -> RunOutcome:
        """The outcome so far; ``reason`` is "running" until the run has ended."""
        count = self._counts
        jump = self._jump.quantiles()
        elapsed = self._now_s
        return RunOutcome(
            actions=count["actions"],
            chunks=count["chunks"],
            elapsed_s=elapsed,
            reason=self._reason,
            underruns=self._starved.underruns,
            underrun_s=self._starved.ticks / self._hz,
            starved_ticks=self._starved.ticks,
            overruns=count["overruns"],
            max_seam_jump=jump.max if jump else None,
            action_space=self._space,
            rows_dropped=count["rows_dropped"],
            answers_dropped=count["dropped"],
            refused_chunks=count["refused"],
            retries=count["retries"],
            reconnects=count["reconnects"],
            link_down_s=self._down_s + (0.0 if self._down_since is None else self._now_s - self._down_since),
            pings=count["pings"],
            worker_changes=count["worker_changes"],
            acts_repeated=count["acts_repeated"],
            episodes_restarted=count["episodes_restarted"],
            acts_per_s=count["asked"] / elapsed if elapsed > 0 else 0.0,
            inference_s=self._inference_s,
            bytes_sent=count["bytes"],
            frames_sent=count["frames"],
            frames_skipped=count["missed"],
            frozen_frames=count["frozen"],
            callback_errors=count["callback_errors"],
            lag_ticks=self._lag,
            tick_lateness_s=self._late.quantiles(),
            observation_age_s=self._age.quantiles(),
            act_latency_s=self._latency.quantiles(),
            ping_s=self._ping.quantiles(),
            seam_jump=jump,
            innovation=self._innovation.quantiles(),
            disagreement=self._disagreement.quantiles(),
            disagreement_passed=self._disagreement_passed.quantiles(),
            jerk_ratio=self._jerk.ratio,
            blended_chunks=count["blended"],
            slow_acts=count["slow_acts"],
            frames_taken=count["observed"],
            frames_dropped=count["frames_dropped"],
            frame_bytes=count["frame_bytes"] / count["frames"] if count["frames"] else None,
            upload_bound=self._bound,
        )

    def _add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def _started(self, event: ev.RunStarted) -> None:
        self._space, self._hz = event.space, event.hz
        self._act_s = max(_ACT_LEAST_S, _ACT_PERIODS / (event.hz * max(1, event.substeps)))
        self._jerk = JerkRatio(event.space, event.parts)

    def _observed(self, event: ev.Observed) -> None:
        self._add("observed")
        self._add("frozen", event.frozen)

    def _asked(self, event: ev.Asked) -> None:
        self._add("asked")
        self._add("bytes", event.bytes)

    def _spliced(self, event: ev.Spliced) -> None:
        self._add("chunks")
        self._add("rows_dropped", event.dropped)
        self._add("blended", int(event.blended > 0))
        if event.disagreement is not None:
            self._disagreement.add(event.disagreement)
        if event.disagreement_passed is not None:
            self._disagreement_passed.add(event.disagreement_passed)
        self._lag = max(self._lag, event.lag)

    def _posted(self, event: ev.Posted) -> None:
        self._add("frames", event.frames)
        self._add("frame_bytes", event.bytes if event.frames else 0)
        self._add("bytes", event.bytes)

    def _upload_bound(self, event: ev.UploadBound) -> None:
        self._bound = UploadBound(event.needed_bytes_per_s, event.bytes_per_s, event.frame_bytes)

    def _answered(self, event: ev.Answered) -> None:
        self._latency.add(event.latency_s)
        self._inference_s += event.infer_s or 0.0

    def _lost(self, event: ev.LinkLost) -> None:
        self._down_since = event.at_s

    def _back(self, event: ev.LinkBack) -> None:
        self._add("reconnects")
        self._down_s += event.down_s
        self._down_since = None

    def _pinged(self, event: ev.Pinged) -> None:
        self._add("pings")
        self._ping.add(event.took_s)

    def _ticked(self, event: ev.Ticked) -> None:
        self._late.add(event.late_s)
        if event.skipped:
            self._add("overruns")
        if event.act_s is not None and event.act_s > self._act_s:
            self._add("slow_acts")
        self._starved.tick(event)
        if event.skipped or event.kind not in ("played", "between"):
            self._jerk.interrupt()
        if event.kind == "played":
            self._add("actions")
            if event.row is not None:
                self._jerk.add(event.row, seam=event.seam_jump is not None)
        if event.age_s is not None:
            self._age.add(event.age_s)
        if event.seam_jump is not None:
            self._jump.add(event.seam_jump)
        if event.seam_innovation is not None:
            self._innovation.add(event.seam_innovation)

    def _paused(self, event: ev.PauseBegan) -> None:
        self._starved.interrupt()

    def _ended(self, event: ev.RunEnded) -> None:
        self._reason = event.reason


def fold(events: Iterable[ev.Event]) -> RunOutcome:
    """The outcome of a recording."""
    folded = Fold()
    for event in events:
        folded.add(event)
    return folded.outcome()
