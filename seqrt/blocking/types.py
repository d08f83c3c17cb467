"""What `sequence-ai` 0.1.0's callers hold in their hands: observations they build, predictions they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from seqrt.action.rows import Rows
from seqrt.runtime.chunk import ActionChunk as Answered
from seqrt.timeline.outcome import RunOutcome
from seqrt.wire.messages import PolicyInfo

__all__ = ["ActionChunk", "ImageFrame", "Model", "Observation", "Prediction", "Proprioception", "RunOutcome"]


@dataclass
class ImageFrame:
    """One camera's picture.

    Attributes:
        view: Which camera, as the model calls it.
        data: A base64 JPEG or PNG.
        timestamp_ms: When it was taken; orders the pictures of one view.
    """

    view: str
    data: str
    timestamp_ms: int | None = None


@dataclass
class Proprioception:
    """Where the robot says it is; what it does not report is left out, not sent as zeros.

    Attributes:
        joint_positions: One number a joint.
        joint_velocities: The same.
        end_effector_pose: Seven numbers: place, then quaternion.
        gripper: How far it is open.
    """

    joint_positions: list[float]
    joint_velocities: list[float] | None = None
    end_effector_pose: list[float] | None = None
    gripper: float | None = None


@dataclass
class Observation:
    """One moment as a robot-arm policy is shown it. A plain dict does as well: see `seqrt.blocking.Policy.run`."""

    images: list[ImageFrame]
    proprioception: Proprioception
    instruction: str


@dataclass
class ActionChunk:
    """The rows of one answer and what they are.

    Attributes:
        steps: One list of numbers a row, `[H][A]`.
        robot: The robot they are for, "" where the policy names none.
        action_space: What a row's values are, as the policy calls it; "" where it does not say.
        action_dim: A, columns.
        control_frequency_hz: Rows a second.
        covers_seconds: How long they last.
    """

    steps: list[list[float]]
    robot: str
    action_space: str
    action_dim: int
    control_frequency_hz: float
    covers_seconds: float

    def __len__(self) -> int:
        """Rows in it."""
        return len(self.steps)


@dataclass(frozen=True)
class Served:
    """Who answers, as predictions say it.

    Attributes:
        model: The policy's name.
        robot: The robot its rows are for, "" for none named.
        space: What a row's values are, "" where that is not declared.
        hz: Rate of the grid.
    """

    model: str
    robot: str
    space: str
    hz: float


def served_by(info: PolicyInfo, *, model: str | None, embodiment: str | None, hz: float | None) -> Served:
    """What a policy says of the robot it is asked for.

    Args:
        info: What it declares.
        model: The name it was asked for by.
        embodiment: The robot; None takes the only one, where there is one.
        hz: The grid's rate, where the caller gave one.
    """
    robots = info.embodiments
    name = embodiment or (next(iter(robots)) if len(robots) == 1 else None)
    arm = robots.get(name, {}).get("action", {}) if name is not None else {}
    actions = info.actions or {}
    rate_hz = hz or actions.get("hz") or arm.get("control_frequency_hz") or 0.0
    space = arm.get("action_space") or actions.get("space") or ""
    return Served(info.model or model or "", arm.get("robot", ""), space, rate_hz)


@dataclass(frozen=True)
class Prediction:
    """One answer: from ``predict``, ``next_chunk`` and ``on_chunk``.

    Attributes:
        chunk: The answer itself, as the rest of seqrt has it: rows as an array, outputs, latency.
        served: By whom.
    """

    chunk: Answered
    served: Served = field(repr=False)

    @property
    def id(self) -> str:
        """The request's id, as every log line has it."""
        return self.chunk.request_id

    @property
    def model(self) -> str:
        """The policy's name."""
        return self.served.model

    @property
    def rows(self) -> Rows:
        """The playable rows, float64 `[H, A]`, the caller's own. ActionError: the answer holds none."""
        return self.chunk.rows

    @property
    def outputs(self) -> Any:
        """What ``infer`` returned, unchanged."""
        return self.chunk.outputs

    @property
    def action_chunk(self) -> ActionChunk:
        """The rows as lists, with what they are. ActionError: the answer holds none."""
        rows, served = self.chunk.rows, self.served
        steps: list[list[float]] = rows.tolist()
        return ActionChunk(steps, served.robot, served.space, rows.shape[1], served.hz, len(steps) / served.hz)

    @property
    def perf(self) -> dict[str, float]:
        """Milliseconds: ``inference_ms`` at the worker, where it says so, and ``latency_ms`` as measured here."""
        infer_s = self.chunk.infer_s
        measured = {} if infer_s is None else {"inference_ms": infer_s * 1e3}
        return {**measured, "latency_ms": self.chunk.latency_s * 1e3}

    @property
    def usage(self) -> dict[str, Any]:
        """Nothing: a worker counts no tokens. There for callers that log it."""
        return {}

    @property
    def warnings(self) -> Sequence[str]:
        """What was clipped or cut, in sentences."""
        return self.chunk.warnings

    def __len__(self) -> int:
        """Rows in it."""
        return len(self.chunk)


@dataclass
class Model:
    """One entry of a gateway's catalogue.

    Attributes:
        id: Its whole name.
        endpoint: What it is asked by: "act", "chat", "perceive".
        architecture: Its family.
        robot: The robot it drives, None for none named.
        action_dim: Columns of a row.
        action_horizon: Rows of a chunk.
        control_hz: Rows a second.
        camera_views: The cameras it is shown, by name.
        raw: The entry as it came.
    """

    id: str
    endpoint: str
    architecture: str
    robot: str | None = None
    action_dim: int | None = None
    action_horizon: int | None = None
    control_hz: float | None = None
    camera_views: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def short_id(self) -> str:
        """The last part of its name."""
        return self.id.rpartition("/")[2]


def inputs_of(observation: Any) -> Any:
    """What a policy is shown of ``observation``: a dict as it is, a dataclass as one, without what was left None.

    ``gripper`` as one number becomes a list of one: that is what it is on the wire.
    """
    if not is_dataclass(observation) or isinstance(observation, type):
        return observation
    inputs = _plain(observation)
    own = inputs.get("proprioception")
    if isinstance(own, dict) and isinstance(own.get("gripper"), int | float):
        own["gripper"] = [own["gripper"]]
    return inputs


def _plain(value: Any) -> Any:
    """Dataclasses as dicts; what is in them is not copied, pictures are large."""
    if is_dataclass(value) and not isinstance(value, type):
        members = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {name: _plain(member) for name, member in members if member is not None}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value
