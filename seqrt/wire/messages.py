"""Every message that travels, as msgspec Structs: field names and meanings are the contract's.

Unknown fields are refused. `inputs` and `outputs` are trees of dict, list, text, numbers and numpy arrays; how those
become bytes is `seqrt.wire.codec`'s business. Both ends use these same classes.

Our code says ``number`` (of one observation) and ``count`` (one past the newest); on the wire both are ``seq``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

PROTOCOL = 1
"""Major version of what travels; a robot refuses a worker that speaks a newer one."""

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""An observation's number, or a count of them: a true integer, no bool and no text."""

EpisodeId = Annotated[str, Meta(min_length=1, max_length=256)]


class _Message(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, frozen=True):
    """What all messages share: unknown fields refused, defaults not sent, immutable."""


class AskPlan(_Message, frozen=True):
    """What the robot says about its own plan when it asks for the next chunk. All keys optional.

    Attributes:
        session: The run's id, for logs.
        steps_left: Rows the robot still has.
        hz: The grid's rate.
        net_p95_ms: The robot's own estimate of the network's share.
        previous: Step of the act before this one (p of the window rules).
        dry_in_s: When the robot's buffer runs dry, from now.
        begun: True once the robot has seen an answer of this episode.
        prefix: Committed rows, float64 `[n, A]`: prefix[i] lies where row i of the answer will.
        prefix_space: "action" (as played) or "model" (as the worker returned them in ``rows_model``).
        d: Rows of the answer that will have been played when it arrives, in ticks.
        s: Ticks between two requests.
        predicted_state: Where the robot will be when the answer plays.
        want_rows_model: Ask for the rows before post-processing.
        epoch: The client's count, echoed; an answer of an older one is dropped.
    """

    session: str | None = None
    steps_left: int | None = None
    hz: float | None = None
    net_p95_ms: float | None = None
    previous: int | None = None
    dry_in_s: float | None = None
    begun: bool | None = None
    prefix: Any = None
    prefix_space: Literal["action", "model"] | None = None
    d: int | None = None
    s: int | None = None
    predicted_state: Any = None
    want_rows_model: bool | None = None
    epoch: int | None = None


class AnswerPlan(_Message, frozen=True):
    """What the worker says about an answer.

    Attributes:
        t: Number of the newest observation ``infer`` was handed: the splice uses this.
        queue_s: How long the act waited for its turn at the policy, its observations being there.
        rows_model: Rows before post-processing, when asked for.
        stale: True when a newer act of this episode was there, so that this one was not served.
        epoch: The request's, echoed.
        next_send_in_ms: Read, not acted on.
        replace: Read, not acted on.
    """

    t: int | None = None
    queue_s: float | None = None
    rows_model: Any = None
    stale: bool | None = None
    epoch: int | None = None
    next_send_in_ms: float | None = None
    replace: bool | None = None


class ActRequest(_Message, frozen=True):
    """A request for one chunk: with the observation itself (``inputs``), or data-less (``call``) after a post.

    Attributes:
        inputs: The observation. Exactly one of ``inputs`` and ``call``.
        call: "act" for a data-less act.
        seq: With inputs, the observation's number; data-less, the count streamed (one past the newest number).
        seed: For policies that sample.
        episode_id: 1 to 256 characters.
        params: Values for the policy's declared parameters.
        embodiment: Which of several the policy is to drive.
        plan: What the robot says about its own plan.
    """

    inputs: Any | UnsetType = UNSET
    call: Literal["act"] | UnsetType = UNSET
    seq: Number | None = None
    seed: int | None = None
    episode_id: EpisodeId | None = None
    params: dict[str, Any] | None = None
    embodiment: str | None = None
    plan: AskPlan | None = None


class ActResponse(_Message, frozen=True):
    """The answer to an act.

    Attributes:
        outputs: What ``infer`` returned, unchanged but for rows declared to travel in the plan (``rows_model``); None
            when ``plan.stale``.
        perf: ``inference_ms`` and more, in milliseconds.
        usage: Accounting, as the server sees it.
        warnings: What was clipped or cut, in sentences.
        request_id: The request's id.
        action_chunk: Version-1 alias of a robot-arm chunk.
        plan: See `AnswerPlan`.
    """

    outputs: Any
    perf: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    warnings: list[str] = []
    request_id: str | None = None
    action_chunk: dict[str, Any] | None = None
    plan: AnswerPlan | None = None


class Frame(_Message, frozen=True):
    """One observation, or some keys of it, under its number."""

    seq: Number
    inputs: Any


class ObserveRequest(_Message, frozen=True):
    """Observations of one episode, and numbers that will never come.

    Attributes:
        episode_id: 1 to 256 characters.
        frames: At most `seqrt.wire.limits.FRAMES_A_POST` of them.
        skipped: Numbers that will never be sent.
        begun: True once the robot has seen an answer of this episode.
    """

    episode_id: EpisodeId
    frames: list[Frame] = []
    skipped: list[Number] = []
    begun: bool | None = None


class ObserveResponse(_Message, frozen=True, omit_defaults=False):
    """``through``: the highest number up to which every observation is held or told skipped; -1 before the first."""

    through: Annotated[int, Meta(ge=-1)]


class EpisodeEnd(_Message, frozen=True):
    """Ends one episode: everything held for it is freed."""

    episode_id: EpisodeId


class ActTold(Struct, frozen=True, kw_only=True):
    """Where an act is in the words of `sequence-ai`, which takes one that is slow for lost where it is not told so.

    Attributes:
        running: It came, and is not answered yet.
        for_s: Since when, in seconds.
        answered: It is.
    """

    running: bool
    for_s: float
    answered: bool


class Running(_Message, frozen=True):
    """``GET /ping?act=<request id>``: where that act is, and for how long; a bare ping says nothing.

    Attributes:
        state: "unknown", "waiting" (for observations or its turn), "running" or "answered"; None where none was asked
            after.
        for_s: Since when, in seconds.
        act: The same for clients that read it there.
    """

    state: str | None = None
    for_s: float = 0.0
    act: ActTold | None = None


class ErrorBody(_Message, frozen=True):
    """The body of every answer that is not 2xx."""

    detail: str
    code: str
    retryable: bool
    retry_after_s: float | None = None
    request_id: str | None = None
    hint: str | None = None
    details: dict[str, Any] = {}


class PolicyInfo(_Message, frozen=True):
    """``GET /policy``: what a robot checks before any motion. Newer fields of a same-major worker are ignored here.

    Attributes:
        protocol: `PROTOCOL` of the worker.
        model: The name it serves under.
        stateful: True when an episode cannot be carried to another worker.
        observations: The declaration, as plain data; None for an undeclared policy.
        actions: The declaration, as plain data; None for an undeclared policy.
        own_actions: Of a policy of the older form: an answer is "one" action, or a list of "steps".
        timeouts: ``request``, ``startup``, ``episode_idle``, in seconds.
        takes: Which of the reserved names ``infer`` asks for (``prefix``, ``delay``, ``spacing``, ``seed`` …).
        infer_s: Duration of one inference, measured at start; None where it has not been measured.
        acts_in_flight: How many acts of one episode the worker will hold at once.
        acts_at_once: How many it serves at once.
        acts_per_s: The most it wants from one robot; None for no wish.
        params: What acts may set, by name, as plain data.
        episodes: Whose the state of an episode is, "shared" or "own"; None where none is declared.
        embodiments: The robots of the older robot-arm contract, by name, as plain data.
        gateway: A gateway says so of a model it has workers for: which one to go to, ``/v1/act/connect`` there tells.
    """

    protocol: int
    model: str = ""
    stateful: bool = False
    observations: dict[str, Any] | None = None
    actions: dict[str, Any] | None = None
    own_actions: Literal["one", "steps"] | None = None
    timeouts: dict[str, float] = {}
    takes: list[str] = []
    infer_s: float | None = None
    acts_in_flight: int = 1
    acts_at_once: int = 1
    acts_per_s: float | None = None
    params: dict[str, dict[str, Any]] = {}
    episodes: Literal["shared", "own"] | None = None
    embodiments: dict[str, dict[str, Any]] = {}
    gateway: bool = False


class Health(_Message, frozen=True, omit_defaults=False):
    """``GET /healthz``: the stage the worker is in."""

    stage: Literal[
        "provision_start", "heartbeat", "provision_done", "load_start", "load_done", "ready", "error", "draining"
    ]
    detail: str = ""
