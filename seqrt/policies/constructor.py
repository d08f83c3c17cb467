"""How a policy object is made: by its class or a factory of it, with arguments from files and from the deployer."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from pydantic import Field, model_validator

from seqrt.errors import DeclarationError
from seqrt.policies.terms import Term

Weights: TypeAlias = str | Mapping[str, str] | None
"""Where the weights are: one path, or one a part. The deployer's to say, never the class's."""

_WEIGHTS: Final = re.compile(r"\{weights(?:\.([A-Za-z0-9_-]+))?\}")
_YAML: Final = (".yml", ".yaml")


class Constructor(Term):
    """What makes the policy. It comes out whole: there is no ``load`` then.

    Strings in ``args`` and ``kwargs`` may hold ``{weights}`` or ``{weights.<part>}``. A mapping
    ``{"$config": "conf/base.yml", "$set": {"model.width": 512}}`` stands for that file, read beside the class's own,
    with those places set.

    Attributes:
        make: Name of a factory on the class ("from_pretrained"); None: the class itself.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    make: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _checked(self) -> Constructor:
        if self.make is not None and not self.make.isidentifier():
            raise ValueError(f"make: {self.make!r} is no method's name; write the factory's, as 'from_pretrained'")
        for value in (*self.args, *self.kwargs.values()):
            _check(value)
        return self


def construct(cls: type, constructor: Constructor | None, weights: Weights = None) -> object:
    """Make a policy.

    Args:
        cls: Its class.
        constructor: What was declared; None: the class is called without arguments.
        weights: Where the weights are, for the placeholders.

    Returns:
        The policy. What its code raises comes through unchanged.

    Raises:
        DeclarationError: No such factory, arguments missing, no such file, or a placeholder nothing is given for.
    """
    declared = constructor if constructor is not None else Constructor()
    factory = getattr(cls, declared.make, None) if declared.make is not None else cls
    if not callable(factory):
        raise DeclarationError(
            f"{cls.__name__} has no factory {declared.make!r}.", field="make", fix="Name a class method of it."
        )
    args = [_filled(value, cls, weights) for value in declared.args]
    kwargs = {name: _filled(value, cls, weights) for name, value in declared.kwargs.items()}
    _check_call(factory, cls, args, kwargs)
    made = factory(*args, **kwargs)
    if made is None:
        raise DeclarationError(f"{cls.__name__}.{declared.make}() returned nothing.", field="make", fix="Return it.")
    return made


def is_constructible(cls: type, constructor: Constructor | None) -> bool:
    """Whether another one like the one at hand can be made: it says how, or its class takes no arguments at all.

    A class with arguments that have defaults is not enough: who knows which were given to the one at hand.
    """
    if constructor is not None:
        return True
    try:
        return not inspect.signature(cls).parameters and cls.__module__ != "builtins"
    except (TypeError, ValueError):
        return False


def _check_call(factory: Any, cls: type, args: list[Any], kwargs: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # no signature to be had: call it and see
    try:
        signature.bind(*args, **kwargs)
    except TypeError as wrong:
        raise DeclarationError(
            f"{cls.__name__} cannot be made: {wrong}.",
            field="args",
            fix="Give @seqrt.policy(args=..., kwargs=...), or point to an instance in the module instead.",
        ) from wrong


def _check(value: Any) -> None:
    """A mapping with ``$config`` has nothing beside it but ``$set``, and names a relative file of a known kind."""
    if isinstance(value, Mapping):
        if "$config" in value or "$set" in value:
            _check_config(value)
        for inner in value.values():
            _check(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner)


def _check_config(value: Mapping[Any, Any]) -> None:
    path, changes = value.get("$config"), value.get("$set", {})
    beside = sorted(str(key) for key in value if key not in ("$config", "$set"))
    if beside or path is None:
        raise ValueError(
            f'write {{"$config": path}}, with "$set" or without, and nothing beside it: {beside or "no path"}'
        )
    if not isinstance(path, str) or not path.endswith((".json", *_YAML)):
        raise ValueError(f"$config: {path!r} is no .json or .yml file")
    if PurePosixPath(path).is_absolute() or "\\" in path or ":" in path or ".." in PurePosixPath(path).parts:
        raise ValueError(f"$config: {path!r} must lie beside the class's own file or below; write a relative path")
    if not isinstance(changes, Mapping) or not all(isinstance(place, str) and place for place in changes):
        raise ValueError('$set: write {"dotted.place": value}')


def _filled(value: Any, cls: type, weights: Weights) -> Any:
    if isinstance(value, str):
        return _WEIGHTS.sub(lambda found: _weights(found[1], weights), value)
    if isinstance(value, Mapping):
        if "$config" in value:
            config = _config(value["$config"], cls)
            for place, change in value.get("$set", {}).items():
                _set(config, place, deepcopy(change))
            return _filled(config, cls, weights)
        return {key: _filled(inner, cls, weights) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_filled(inner, cls, weights) for inner in value)
    return value


def _weights(part: str | None, weights: Weights) -> str:
    where = "{weights}" if part is None else f"{{weights.{part}}}"
    if weights is None:
        raise DeclarationError(f"{where} is asked for and no weights are given.", field="weights", fix="Give weights=.")
    if part is None and isinstance(weights, str):
        return weights
    if part is not None and not isinstance(weights, str) and part in weights:
        return weights[part]
    have = "one path" if isinstance(weights, str) else f"the parts {', '.join(sorted(weights)) or 'none'}"
    raise DeclarationError(
        f"{where} is asked for; the weights given are {have}.", field="weights", fix="Name one of them."
    )


def _config(path: str, cls: type) -> Any:
    source = getattr(sys.modules.get(cls.__module__), "__file__", None)
    folder = Path(source).parent if source else Path.cwd()
    try:
        text = (folder / path).read_text(encoding="utf-8")
    except OSError as missing:
        raise DeclarationError(
            f"$config: {path} cannot be read in {folder}: {missing.strerror}.", field="kwargs", fix="Correct the path."
        ) from missing
    if path.endswith(_YAML):
        return _yaml(text, path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as wrong:
        raise DeclarationError(f"$config: {path} is no JSON: {wrong}.", field="kwargs", fix="Correct it.") from wrong


def _yaml(text: str, path: str) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ModuleNotFoundError as missing:
        raise DeclarationError(
            f"$config: {path} is YAML, which needs PyYAML.",
            field="kwargs",
            fix='Run: pip install "seqrt[yaml]", or write it as .json.',
        ) from missing
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        raise DeclarationError(f"$config: {path} is no YAML: {wrong}.", field="kwargs", fix="Correct it.") from wrong


def _set(config: Any, place: str, value: Any) -> None:
    *path, last = place.split(".")
    here = config
    for name in path:
        here = here.setdefault(name, {}) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        raise DeclarationError(f"$set: {place!r} leads through what is no mapping.", field="kwargs", fix="Correct it.")
    here[last] = value
