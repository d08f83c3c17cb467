"""Arrays to torch tensors on their way to ``infer``, and back. torch is loaded only for a policy that declares tensors.

Reading and writing happen beside the policy's code, off the event loop.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from seqrt.errors import DeclarationError
from seqrt.policies.terms import Tensors

_NUMERIC: Final = "biufc"


class Conversion:
    """What one copy of a policy is handed, and what it answers.

    Args:
        policy: The policy: its ``device``, else where its parameters (or its ``model``'s) lie, else the CPU.
        tensors: The declaration.

    Raises:
        DeclarationError: torch is not installed.
    """

    def __init__(self, policy: object, tensors: Tensors) -> None:
        try:
            self._torch: Any = importlib.import_module("torch")
        except ModuleNotFoundError as missing:
            raise DeclarationError(
                "the policy declares tensors, which need torch.",
                field="tensors",
                fix='Run: pip install "seqrt[torch]", or leave tensors= out to be handed arrays.',
            ) from missing
        self._policy = policy
        self._batch = tensors.batch

    def handed(self, value: Any) -> Any:
        """A tree with its numeric arrays as tensors of the policy's own (writable, never a view of what was sent).

        float64 becomes float32, a leading axis of 1 stands before the others where declared. Text, plain numbers and
        numpy scalars stay as they are.
        """
        return self._handed(value, device_of(self._policy))

    def _handed(self, value: Any, device: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self._tensor(value, device) if value.dtype.kind in _NUMERIC else value
        if isinstance(value, Mapping):
            return {key: self._handed(inner, device) for key, inner in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._handed(inner, device) for inner in value)
        return value

    def _tensor(self, array: npt.NDArray[Any], device: Any) -> Any:
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 4
        dtype = np.dtype(np.float32) if wide else array.dtype.newbyteorder("=")
        # np.array copies: torch would warn of a read-only array, and share memory with the robot's observation.
        tensor = self._torch.from_numpy(np.array(array, dtype=dtype, order="C"))
        if self._batch:
            tensor = tensor[None]
        return tensor if device is None else tensor.to(device)


def arrays(value: Any) -> Any:
    """A tree with its tensors as arrays, off the device; anything else as it is.

    A type numpy has not (bfloat16) becomes float32. Needs no torch: where there is none there are no tensors.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor"):
        return value
    return _arrays(value, torch)


def _arrays(value: Any, torch: Any) -> Any:
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        try:
            return tensor.numpy()
        except TypeError:
            return tensor.float().numpy()
    if isinstance(value, Mapping):
        return {key: _arrays(inner, torch) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_arrays(inner, torch) for inner in value)
    return value


def device_of(policy: object) -> Any:
    """Where a policy computes: its ``device``, else its parameters', else its ``model``'s; None where nothing says."""
    for holder in (policy, getattr(policy, "model", None)):
        device = getattr(holder, "device", None)
        if device is not None and not callable(device):
            return device
        parameters = getattr(holder, "parameters", None)
        if callable(parameters):
            first = next(iter(parameters()), None)
            if first is not None:
                return getattr(first, "device", None)
    return None
