"""What a policy is, and how its episodes are served without HTTP: by a worker, or in the robot's own process."""

from __future__ import annotations

from seqrt.policies.constructor import Constructor
from seqrt.policies.declaration import Declaration, Timeouts, declaration_of, policy
from seqrt.policies.episode import Episode
from seqrt.policies.host import Host
from seqrt.policies.lifecycle import BenchmarkHook, Hook, benchmark_hooks, policy_hooks
from seqrt.policies.limits import HostLimits
from seqrt.policies.loading import load
from seqrt.policies.offload import Offload, in_thread
from seqrt.policies.parameters import InferParam
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract, View
from seqrt.policies.sample import SampleFailed
from seqrt.policies.terms import Concurrency, Tensors
from seqrt.policies.written import Written

__all__ = [
    "ActionContract",
    "BenchmarkHook",
    "Concurrency",
    "Constructor",
    "Declaration",
    "Embodiment",
    "Episode",
    "Hook",
    "Host",
    "HostLimits",
    "InferParam",
    "ObservationContract",
    "Offload",
    "SampleFailed",
    "Tensors",
    "Timeouts",
    "View",
    "Written",
    "benchmark_hooks",
    "declaration_of",
    "in_thread",
    "load",
    "policy",
    "policy_hooks",
]
