"""The JSON schema of everything a policy may declare; ``seqrt schema`` prints it."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from seqrt.action.declaration import Actions
from seqrt.observation.camera import Camera
from seqrt.observation.declaration import Observations, Stream
from seqrt.policies.constructor import Constructor
from seqrt.policies.parameters import InferParam
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract
from seqrt.policies.terms import Concurrency, Tensors, Timeouts
from seqrt.policies.written import Written

_DECLARATIONS: Final[dict[str, type[BaseModel]]] = {
    "Policy": Written,
    "Observations": Observations,
    "Stream": Stream,
    "Camera": Camera,
    "Actions": Actions,
    "Tensors": Tensors,
    "InferParam": InferParam,
    "Concurrency": Concurrency,
    "Timeouts": Timeouts,
    "Constructor": Constructor,
    "Embodiment": Embodiment,
    "ActionContract": ActionContract,
    "ObservationContract": ObservationContract,
}


def schemas() -> dict[str, Any]:
    """Each declaration's JSON schema (draft 2020-12) under its name; "Policy" is the whole of one."""
    return {name: model.model_json_schema() for name, model in _DECLARATIONS.items()}
