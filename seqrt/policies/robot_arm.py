"""The older robot-arm contract as it is declared: one robot's actions and observations, several a policy.

What is held to it, and how, is `seqrt.policies.arm_limits`'s business. New policies write Observations and Actions.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from seqrt.action.declaration import Actions, Space
from seqrt.policies.terms import Bool, Number, Term, Whole

ActionSpace: TypeAlias = Literal["joint_absolute", "joint_delta", "joint_velocity", "ee_absolute", "ee_delta"]
Proprio: TypeAlias = Literal["joint_positions", "joint_velocities", "end_effector_pose", "gripper"]

_Length = Annotated[Whole, Field(ge=1)]
_Name = Annotated[str, Field(min_length=1, max_length=128)]
_Above0 = Annotated[Number, Field(gt=0)]
_SPACES: Final[dict[str, Space]] = {"absolute": "absolute", "delta": "delta", "velocity": "velocity"}


class View(Term):
    """One camera of the robot-arm contract; how its pictures travel is the caller's choice.

    Attributes:
        width: In pixels.
        height: In pixels.
        depth: True for distances, False for colours.
        resize: How other sizes are fitted: "pad" or "stretch".
        filter: How they are resampled.
    """

    width: Annotated[Whole, Field(ge=1, le=8192)]
    height: Annotated[Whole, Field(ge=1, le=8192)]
    depth: Bool = False
    resize: Literal["pad", "stretch"] | None = None
    filter: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] | None = None


class ActionContract(Term):
    """What one robot's rows are; answers are clipped to it, and say so.

    Attributes:
        robot: The robot's name.
        action_space: What a row's values are.
        action_dim: Columns of a row, A.
        control_frequency_hz: Rate of the rows.
        bounds: ``[low, high]`` a column.
        max_delta: Largest change of a column from row to row (of a delta: its size), one for all or one a column.
    """

    robot: _Name
    action_space: ActionSpace
    action_dim: _Length
    control_frequency_hz: _Above0
    bounds: tuple[tuple[Number, Number], ...] | None = None
    max_delta: _Above0 | tuple[_Above0, ...] | None = None

    @model_validator(mode="after")
    def _agree(self) -> ActionContract:
        for name, value in (("bounds", self.bounds), ("max_delta", self.max_delta)):
            if isinstance(value, tuple) and len(value) != self.action_dim:
                raise ValueError(f"{name} has {len(value)} entries for action_dim {self.action_dim}; one a column")
        for column, (low, high) in enumerate(self.bounds or ()):
            if low > high:
                raise ValueError(f"bounds: column {column} has low {low} above high {high}; write [low, high]")
        return self

    @property
    def space(self) -> Space:
        """The space as `seqrt.Actions` calls it."""
        return _SPACES[self.action_space.rpartition("_")[2]]

    def actions(self) -> Actions:
        """The same in today's words, for a robot that asks what it will be answered."""
        # A pose's turning columns are averaged wrongly, and this contract has no word for which they are.
        return Actions(hz=self.control_frequency_hz, space=self.space, mixable=self.action_space != "ee_absolute")


class ObservationContract(Term):
    """What one robot sends: ``{images, proprioception, instruction, state}``, held to this before inference.

    Attributes:
        cameras: The views, each in every observation.
        history: How many pictures of each view, oldest first.
        proprio: Length of each of the robot's own readings.
        state: Length of each further vector.
        instruction: True: there must be one, and not an empty one.
    """

    cameras: dict[_Name, View] = Field(default_factory=dict)
    history: Annotated[Whole, Field(ge=1, le=64)] = 1
    proprio: dict[Proprio, _Length] = Field(default_factory=dict)
    state: dict[_Name, _Length] = Field(default_factory=dict)
    instruction: Bool = False


class Embodiment(Term):
    """One robot a policy can drive; a robot that connects says which.

    Attributes:
        action: Its rows.
        observation: What it sends; None: not checked.
        meta: Anything else, for whoever reads it.
    """

    action: ActionContract
    observation: ObservationContract | None = None
    meta: dict[str, Any] = Field(default_factory=dict)
