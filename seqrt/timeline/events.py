"""Every event of a run, as msgspec Structs tagged by name: what the outcome is folded from and a recording holds.

``at_s`` is always seconds since the run began, on the loop's monotonic clock.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """What all events share: when.

    Attributes:
        at_s: Seconds since the run began.
    """

    at_s: float


class RunStarted(_Event, frozen=True, kw_only=True, tag="run.started"):
    """The grid begins; nothing has moved yet.

    Attributes:
        run: The run's id.
        hz: The grid's rate.
        first_step: The step at ``at_s`` 0.
        model: What the policy is called.
        host: Where it is, "" for an in-process one.
        space: The declared space of the actions, None where undeclared.
        dry: True when nothing is sent to the motors.
        substeps: Ticks of the robot's a period of the grid.
        parts: Columns of the rows sent that are grippers or quaternions.
    """

    run: str
    hz: float
    first_step: int
    model: str = ""
    host: str = ""
    space: str | None = None
    dry: bool = False
    substeps: int = 1
    parts: tuple[int, ...] = ()


class Observed(_Event, frozen=True, kw_only=True, tag="observation.taken"):
    """An observation was taken at ``step``; ``took_s`` is how long the robot's callback took.

    ``frozen`` counts its pictures that were the same again, where the camera was told to be frozen before.
    """

    step: int
    took_s: float
    frozen: int = 0


class ObservationFrozen(_Event, frozen=True, kw_only=True, tag="observation.frozen"):
    """A picture has stayed the same while rows moved the arm. Said once, until it has changed.

    Attributes:
        step: Number of the observation at which it was noticed.
        key: Where the picture stands in the observation.
        for_s: For how long rows had moved the arm by then.
        frames: Observations by then that showed the same again.
    """

    step: int
    key: str
    for_s: float
    frames: int


class ObservationOld(_Event, frozen=True, kw_only=True, tag="observation.old"):
    """The observation behind a row was older than 2 s when it was played, and no limit is set. Said once."""

    step: int
    age_s: float


class ObservationMissed(_Event, frozen=True, kw_only=True, tag="observation.missed"):
    """No observation was taken at ``steps`` steps up to ``step``: the callback was still busy, gave None or raised."""

    step: int
    steps: int = 1
    error: str | None = None


class Posted(_Event, frozen=True, kw_only=True, tag="frames.posted"):
    """A post was acknowledged.

    Attributes:
        frames: How many frames it held.
        bytes: Size of its body.
        skipped: Numbers it told never to come.
        took_s: From sending to the acknowledgement.
    """

    frames: int
    bytes: int
    skipped: int
    took_s: float


class FramesRefused(_Event, frozen=True, kw_only=True, tag="frames.refused"):
    """The worker refused frames for good (over its limits); their numbers go as skipped."""

    frames: int
    detail: str


class FramesDropped(_Event, frozen=True, kw_only=True, tag="frames.dropped"):
    """Frames that waited behind a link which cannot keep up were not sent at all (``when_behind="drop_oldest"``)."""

    frames: int


class UploadBound(_Event, frozen=True, kw_only=True, tag="upload.bound"):
    """Observations need more than the way up to the worker carries. Said once.

    Attributes:
        needed_bytes_per_s: What they need.
        bytes_per_s: What it carries.
        frame_bytes: What one takes.
    """

    needed_bytes_per_s: float
    bytes_per_s: float
    frame_bytes: int


class Asked(_Event, frozen=True, kw_only=True, tag="act.asked"):
    """A request for a chunk went out.

    Attributes:
        request_id: Its id, the same in the worker's log.
        step: Step of the observation it is to answer.
        d: Rows expected to be played before the answer (None before any estimate).
        s: Ticks between two requests (None before any estimate).
        rows_left: Rows still in the plan.
        prefix: Rows sent along: the committed ones, and what is planned behind them.
        bytes: Size of its body.
    """

    request_id: str
    step: int
    d: int | None
    s: int | None
    rows_left: int
    prefix: int = 0
    bytes: int = 0


class Answered(_Event, frozen=True, kw_only=True, tag="act.answered"):
    """An answer came.

    Attributes:
        request_id: The request's id.
        observed: Step of the newest observation the policy was handed.
        rows: Usable rows, None when the answer was stale.
        latency_s: From the start of the observation to the answer in hand.
        infer_s: The worker's own figure for the inference, None where it gave none.
        queue_s: How long the act waited at the worker, None where it did not say.
    """

    request_id: str
    observed: int
    rows: int | None
    latency_s: float
    infer_s: float | None = None
    queue_s: float | None = None


class AnswerDropped(_Event, frozen=True, kw_only=True, tag="act.dropped"):
    """An answer was not used: "stale", "epoch", "older", "passed"."""

    request_id: str
    why: str


class ChunkRefused(_Event, frozen=True, kw_only=True, tag="chunk.refused"):
    """A chunk may not reach the motors; the plan plays on.

    Attributes:
        request_id: The request's id.
        error: What is wrong with it.
        row: Its row, None for the whole.
        column: Its column, None for the whole row.
    """

    request_id: str
    error: str
    row: int | None = None
    column: int | None = None


class ActFailed(_Event, frozen=True, kw_only=True, tag="act.failed"):
    """An act failed.

    Attributes:
        request_id: The request's id.
        code: The error's code, see `seqrt.errors.ERRORS`.
        error: One sentence.
        retrying: Whether it is sent again under its id.
    """

    request_id: str
    code: str
    error: str
    retrying: bool


class PostFailed(_Event, frozen=True, kw_only=True, tag="frames.failed"):
    """A post failed and is tried again."""

    code: str
    error: str


class LinkLost(_Event, frozen=True, kw_only=True, tag="link.lost"):
    """The connection is down; the plan plays on."""

    host: str
    error: str


class LinkBack(_Event, frozen=True, kw_only=True, tag="link.back"):
    """The connection answered again after ``down_s``."""

    down_s: float


class WorkerChanged(_Event, frozen=True, kw_only=True, tag="link.moved"):
    """Requests go to another worker from now on: ``before`` was lost, or drains."""

    before: str
    host: str


class ActRepeated(_Event, frozen=True, kw_only=True, tag="act.repeated"):
    """An act answered by ``host`` may have run at ``before`` too, whose answer never came."""

    request_id: str
    before: str
    host: str


class EpisodeRestarted(_Event, frozen=True, kw_only=True, tag="episode.restarted"):
    """The worker had lost the episode, and a new one was begun in mid-run; the plan plays on.

    Attributes:
        episode: The new one's id.
        epoch: Answers of an older one are not played.
        host: The worker that said so.
        error: What it said.
        rows_left: Rows of the old plan still to play.
    """

    episode: str
    epoch: int
    host: str
    error: str
    rows_left: int


class Pinged(_Event, frozen=True, kw_only=True, tag="link.pinged"):
    """A ping came back after ``took_s``; ``act``: where the act is that it asked after, as the worker says."""

    took_s: float
    act: str | None = None


class Warming(_Event, frozen=True, kw_only=True, tag="link.warming"):
    """The worker is not ready; the next try follows after ``wait_s``."""

    wait_s: float
    eta_s: float | None = None


class Spliced(_Event, frozen=True, kw_only=True, tag="chunk.spliced"):
    """A chunk came into the plan.

    Attributes:
        request_id: The request's id.
        observed: Step of its observation.
        row: Row it takes over at.
        rows: Its rows.
        dropped: Rows already passed.
        position: Rows played so far.
        blended: Rows from ``row`` on that a seam strategy changed.
        disagreement: Largest distance of its rows, as answered, from those the plan before it played or had planned
            for the same positions, in any column but grippers; None where they share none.
        disagreement_passed: The same of the positions played already: rows dropped against rows played.
        lag: Rows by which it plays late (``Lag``).
    """

    request_id: str
    observed: int
    row: int
    rows: int
    dropped: int
    position: int
    blended: int = 0
    disagreement: float | None = None
    disagreement_passed: float | None = None
    lag: int = 0


class ContinuityChosen(_Event, frozen=True, kw_only=True, tag="continuity.chosen"):
    """Whether committed rows go along, and the figures that decided it.

    Attributes:
        mode: "prefix": they do, one act at a time. "pipelined": they do not, several acts may be out. "aligned": they
            do not, one act at a time.
        d: Rows played before an answer.
        s: Ticks between two requests.
        rows: Rows of a chunk.
    """

    mode: str
    d: int
    s: int
    rows: int


class LatencyExceedsChunk(_Event, frozen=True, kw_only=True, tag="latency.exceeds"):
    """H < d + s: chunks are too short to follow one another without a gap. Said once."""

    latency_s: float
    covers_s: float


class Ticked(_Event, frozen=True, kw_only=True, tag="tick"):
    """A tick was served.

    Attributes:
        step: Its number.
        late_s: How late it began.
        kind: "played" (a row begins), "starved", "waiting" (before the first row) or "paused"; "between" where a
            command on the way to a row was sent, or the command of a starved tick once more (substeps, Stretch).
        rows_left: Rows left after it.
        age_s: Age of the observation behind the row played, None when none was.
        seam_jump: At the first row of a chunk, the jump from the row before to it as it was answered; None elsewhere.
        seam_innovation: There, how far it lies from where the two rows before were going (grippers left out).
        skipped: Whole periods skipped before it; of the robot's, where it has several a step.
        act_s: How long ``act`` took, None when it was not called.
        row: What was sent (in a dry run: what would have been), in the robot's order of columns.
    """

    step: int
    late_s: float
    kind: str
    rows_left: int
    age_s: float | None = None
    seam_jump: float | None = None
    seam_innovation: float | None = None
    skipped: int = 0
    act_s: float | None = None
    row: list[float] | None = None


class CallbackRaised(_Event, frozen=True, kw_only=True, tag="robot.failed"):
    """A callback of the robot raised within its tolerance."""

    callback: str
    error: str


class PauseBegan(_Event, frozen=True, kw_only=True, tag="pause.began"):
    """The run was paused: hold was called and the plan dropped."""

    rows_forgotten: int


class PauseEnded(_Event, frozen=True, kw_only=True, tag="pause.ended"):
    """The run goes on with new observations."""

    epoch: int


class Held(_Event, frozen=True, kw_only=True, tag="hold.called"):
    """``hold`` was called; ``error`` when it raised or did not return in time."""

    took_s: float
    error: str | None = None


class RunEnded(_Event, frozen=True, kw_only=True, tag="run.ended"):
    """Over.

    Attributes:
        reason: "completed", "validate", "interrupted", "stalled", "raised:<Class>".
        error: What ended it, None for an end without an error.
    """

    reason: str
    error: str | None = None


Event: TypeAlias = (
    RunStarted
    | Observed
    | ObservationFrozen
    | ObservationOld
    | ObservationMissed
    | Posted
    | FramesRefused
    | FramesDropped
    | UploadBound
    | Asked
    | Answered
    | AnswerDropped
    | ChunkRefused
    | ActFailed
    | PostFailed
    | LinkLost
    | LinkBack
    | WorkerChanged
    | ActRepeated
    | EpisodeRestarted
    | Pinged
    | Warming
    | Spliced
    | ContinuityChosen
    | LatencyExceedsChunk
    | Ticked
    | CallbackRaised
    | PauseBegan
    | PauseEnded
    | Held
    | RunEnded
)
"""Any event of a run."""
