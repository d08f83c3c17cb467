"""seqrt: drive a robot from a policy that runs on another machine.

`connect` gives a handle, ``await handle.run(...)`` drives the robot; `policy` declares a policy, ``seqrt serve`` runs
it. Importing this loads no server, no plotting, no torch.

Names are fetched from their modules when they are first used (PEP 562): a file that only declares a policy does not
load what drives a robot, and a command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from seqrt import robots
    from seqrt.action.blend import Crossfade, Ramp
    from seqrt.action.declaration import Actions, Parts
    from seqrt.action.lagging import Lag, StopAndGo, Stretch
    from seqrt.action.splice import Aligned, Nearest, Sequential
    from seqrt.action.underrun import Decay, Nothing, RepeatLast, Zeros
    from seqrt.errors import (
        ActionError,
        AlreadyDriven,
        AuthError,
        CallbackTimedOut,
        CallbackTooSlow,
        CertificateRefused,
        CertificateUnusable,
        ChunkExhausted,
        Conflict,
        DeclarationError,
        ExtraMissing,
        FirstStepTooFar,
        Gone,
        HoldFailed,
        InternalError,
        InvalidRequest,
        KeysUnusable,
        LinkLost,
        NotFound,
        ObservationError,
        OutOfCredit,
        PermissionDenied,
        PictureSizeError,
        PolicyError,
        RemoteError,
        SeqrtError,
        StaleObservation,
        Stalled,
        Unavailable,
        WireError,
    )
    from seqrt.observation.camera import Camera
    from seqrt.observation.declaration import Observations, Stream
    from seqrt.observation.fitting import fit_image
    from seqrt.open import connect
    from seqrt.policies.declaration import Timeouts, policy
    from seqrt.policies.episode import Episode
    from seqrt.policies.lifecycle import Hook
    from seqrt.policies.parameters import InferParam
    from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract, View
    from seqrt.policies.sample import SampleFailed
    from seqrt.policies.terms import Concurrency, Tensors
    from seqrt.runtime.chunk import ActionChunk
    from seqrt.runtime.options import Limits, Play
    from seqrt.runtime.policy import Policy, Statistics
    from seqrt.runtime.realtime import realtime
    from seqrt.runtime.robot import Robot
    from seqrt.timeline.outcome import RunOutcome

__version__ = "0.1.0"

_HOMES: Final = {
    "Crossfade": "seqrt.action.blend",
    "Ramp": "seqrt.action.blend",
    "Actions": "seqrt.action.declaration",
    "Parts": "seqrt.action.declaration",
    "Lag": "seqrt.action.lagging",
    "StopAndGo": "seqrt.action.lagging",
    "Stretch": "seqrt.action.lagging",
    "Aligned": "seqrt.action.splice",
    "Nearest": "seqrt.action.splice",
    "Sequential": "seqrt.action.splice",
    "Decay": "seqrt.action.underrun",
    "Nothing": "seqrt.action.underrun",
    "RepeatLast": "seqrt.action.underrun",
    "Zeros": "seqrt.action.underrun",
    "ActionError": "seqrt.errors",
    "AlreadyDriven": "seqrt.errors",
    "AuthError": "seqrt.errors",
    "CallbackTimedOut": "seqrt.errors",
    "CallbackTooSlow": "seqrt.errors",
    "CertificateRefused": "seqrt.errors",
    "CertificateUnusable": "seqrt.errors",
    "ChunkExhausted": "seqrt.errors",
    "Conflict": "seqrt.errors",
    "DeclarationError": "seqrt.errors",
    "ExtraMissing": "seqrt.errors",
    "FirstStepTooFar": "seqrt.errors",
    "Gone": "seqrt.errors",
    "HoldFailed": "seqrt.errors",
    "InternalError": "seqrt.errors",
    "InvalidRequest": "seqrt.errors",
    "KeysUnusable": "seqrt.errors",
    "LinkLost": "seqrt.errors",
    "NotFound": "seqrt.errors",
    "ObservationError": "seqrt.errors",
    "OutOfCredit": "seqrt.errors",
    "PermissionDenied": "seqrt.errors",
    "PictureSizeError": "seqrt.errors",
    "PolicyError": "seqrt.errors",
    "RemoteError": "seqrt.errors",
    "SeqrtError": "seqrt.errors",
    "StaleObservation": "seqrt.errors",
    "Stalled": "seqrt.errors",
    "Unavailable": "seqrt.errors",
    "WireError": "seqrt.errors",
    "Camera": "seqrt.observation.camera",
    "Observations": "seqrt.observation.declaration",
    "Stream": "seqrt.observation.declaration",
    "fit_image": "seqrt.observation.fitting",
    "connect": "seqrt.open",
    "Timeouts": "seqrt.policies.declaration",
    "policy": "seqrt.policies.declaration",
    "Episode": "seqrt.policies.episode",
    "Hook": "seqrt.policies.lifecycle",
    "InferParam": "seqrt.policies.parameters",
    "ActionContract": "seqrt.policies.robot_arm",
    "Embodiment": "seqrt.policies.robot_arm",
    "ObservationContract": "seqrt.policies.robot_arm",
    "View": "seqrt.policies.robot_arm",
    "SampleFailed": "seqrt.policies.sample",
    "Concurrency": "seqrt.policies.terms",
    "Tensors": "seqrt.policies.terms",
    "ActionChunk": "seqrt.runtime.chunk",
    "Limits": "seqrt.runtime.options",
    "Play": "seqrt.runtime.options",
    "Policy": "seqrt.runtime.policy",
    "Statistics": "seqrt.runtime.policy",
    "realtime": "seqrt.runtime.realtime",
    "Robot": "seqrt.runtime.robot",
    "RunOutcome": "seqrt.timeline.outcome",
}

__all__ = [
    "ActionChunk",
    "ActionContract",
    "ActionError",
    "Actions",
    "Aligned",
    "AlreadyDriven",
    "AuthError",
    "CallbackTimedOut",
    "CallbackTooSlow",
    "Camera",
    "CertificateRefused",
    "CertificateUnusable",
    "ChunkExhausted",
    "Concurrency",
    "Conflict",
    "Crossfade",
    "Decay",
    "DeclarationError",
    "Embodiment",
    "Episode",
    "ExtraMissing",
    "FirstStepTooFar",
    "Gone",
    "HoldFailed",
    "Hook",
    "InferParam",
    "InternalError",
    "InvalidRequest",
    "KeysUnusable",
    "Lag",
    "Limits",
    "LinkLost",
    "Nearest",
    "NotFound",
    "Nothing",
    "ObservationContract",
    "ObservationError",
    "Observations",
    "OutOfCredit",
    "Parts",
    "PermissionDenied",
    "PictureSizeError",
    "Play",
    "Policy",
    "PolicyError",
    "Ramp",
    "RemoteError",
    "RepeatLast",
    "Robot",
    "RunOutcome",
    "SampleFailed",
    "SeqrtError",
    "Sequential",
    "StaleObservation",
    "Stalled",
    "Statistics",
    "StopAndGo",
    "Stream",
    "Stretch",
    "Tensors",
    "Timeouts",
    "Unavailable",
    "View",
    "WireError",
    "Zeros",
    "connect",
    "fit_image",
    "policy",
    "realtime",
    "robots",
]


def __getattr__(name: str) -> Any:
    if name == "robots":
        return import_module("seqrt.robots")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'seqrt' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
