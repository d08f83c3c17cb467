"""``module:Policy`` → the object that infers. Used by the command line."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from seqrt.errors import DeclarationError
from seqrt.policies.constructor import Weights, construct
from seqrt.policies.declaration import declared_on

_FORM = "Write it as module:Policy, for example my_robot.policies:Grasp."


def load(target: str, *, weights: Weights = None) -> object:
    """Import ``module:Policy`` and make the policy.

    The current directory is searched first, as uvicorn does. A class is made as its declaration says, without
    arguments where it says nothing; an instance or a function is taken as it is. ``Policy`` may be dotted.

    Args:
        target: ``module:Policy``.
        weights: What ``{weights}`` stands for in a declared constructor: a path, or one a part.

    Raises:
        DeclarationError: No such module or attribute, or the class cannot be made so. What the module's own code
            raises comes through unchanged.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise DeclarationError(f"{target!r} names no policy.", field="target", fix=_FORM)
    found = _attribute(_module(module_name), module_name, path)
    if not isinstance(found, type):
        return found
    declared = declared_on(found)
    return construct(found, declared.written.constructor if declared is not None else None, weights)


def _module(name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        # A module that *it* imports may be the one that is missing: that error is the user's own.
        if missing.name is None or not (name == missing.name or name.startswith(missing.name + ".")):
            raise
        hint = "Leave out the .py and write dots for slashes." if name.endswith(".py") or "/" in name else _FORM
        raise DeclarationError(
            f"there is no module {missing.name!r} (searched from {here}).", field="target", fix=hint
        ) from missing


def _attribute(module: Any, module_name: str, path: str) -> Any:
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as missing:
            raise DeclarationError(f"{module_name} has no {path!r}.", field="target", fix=_FORM) from missing
    return found
