"""What a policy's own code says: which reserved names and parameters ``infer`` takes, whether a hook fits its call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError

from seqrt.errors import DeclarationError
from seqrt.policies.parameters import MAX_PARAMS, TYPES, InferParam

RESERVED: Final = ("episode", "seed", "prefix", "delay", "spacing", "predicted_state")
"""Keyword-only arguments ``infer`` may ask for by name; they are handed over when it does."""

_TYPE_NAMES: Final = {kind: name for name, kind in TYPES.items()}


@dataclass(frozen=True)
class Read:
    """What ``infer`` takes.

    Attributes:
        takes: Which of `RESERVED`.
        params: Its parameters, as its signature declares them.
        any_keyword: Whether it takes ``**kwargs``: parameters declared beside it go there.
    """

    takes: frozenset[str] = frozenset()
    params: Mapping[str, InferParam] = field(default_factory=dict)
    any_keyword: bool = False


def read_infer(
    function: Callable[..., Any], name: str, *, bound: bool, declared: Mapping[str, InferParam] | None = None
) -> Read:
    """Read ``infer``'s signature.

    Args:
        function: It.
        name: The policy's, for errors.
        bound: Whether ``self`` is taken already.
        declared: Parameters given explicitly; only these are looked for then.

    Raises:
        DeclarationError: It cannot be called as a policy is, or a parameter's annotation and default disagree.
    """
    if inspect.iscoroutinefunction(function):
        raise DeclarationError(
            f"{name}'s infer is an async function.", field="infer", fix="Make it a plain `def`; it runs in a thread."
        )
    parameters = _parameters(function)
    if parameters is None:
        return Read()  # compiled callables may have no signature: they are called with the observation alone
    _check_positional(parameters, name, bound)
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    takes = frozenset(p.name for p in keyword_only) & frozenset(RESERVED)
    if declared is None:
        params = dict(_declared_by(keyword_only, name))
        if len(params) > MAX_PARAMS:
            raise DeclarationError(
                f"{name}'s infer has {len(params)} parameters; {MAX_PARAMS} is the most.",
                field="params",
                fix="Name those that robots may set: @seqrt.policy(params={...}).",
            )
        return Read(takes, params, any_keyword)
    _check_taken(declared, {p.name for p in keyword_only}, any_keyword, name)
    for parameter in keyword_only:
        _check_handed_over(parameter, name, {*RESERVED, *declared})
    return Read(takes, declared, any_keyword)


def arguments_of(function: Callable[..., Any], given: int, *, bound: bool) -> str | None:
    """How a hook is called with ``given`` positional arguments (and self, unbound): "" without more, "episode" with it.

    Returns:
        "" or "episode" (by that name), "one" (as the argument that is left over), or None: it cannot be called so.
    """
    parameters = _parameters(function)
    if parameters is None:
        return ""
    if not bound:
        parameters = parameters[1:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    room = len(positional) if not any(p.kind is p.VAR_POSITIONAL for p in parameters) else max(given, len(positional))
    if any(p.name == "episode" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters[given:]):
        others = [p for p in parameters[given:] if p.name != "episode" and _is_required(p)]
        return "episode" if not others and room >= given else None
    required = [p for p in parameters[given:] if _is_required(p)]
    if len(required) == 1 and required[0] in positional:
        return "one"
    return "" if not required and room >= given else None


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except (TypeError, ValueError):
        return None
    except Exception:  # an annotation that names what is not there at run time (`if TYPE_CHECKING`)
        return list(inspect.signature(function).parameters.values())


def _check_positional(parameters: list[inspect.Parameter], name: str, bound: bool) -> None:
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not bound:
        positional = positional[1:]  # self
    required = [p for p in positional if p.default is p.empty]
    if len(required) > 1 or not (positional or any(p.kind is p.VAR_POSITIONAL for p in parameters)):
        raise DeclarationError(
            f"{name}'s infer must take one argument, the observation; it is ({', '.join(map(str, parameters))}).",
            field="infer",
            fix="Write `def infer(self, obs)`; anything more must be keyword-only.",
        )


def _check_handed_over(parameter: inspect.Parameter, name: str, handed: set[str]) -> None:
    if parameter.default is parameter.empty and parameter.name not in handed:
        raise DeclarationError(
            f"{name}'s infer asks for {parameter.name!r}, which nothing hands over.",
            field="infer",
            fix=f"Give it a default, or use one of {', '.join(RESERVED)}.",
        )


def _check_taken(declared: Mapping[str, InferParam], names: set[str], any_keyword: bool, name: str) -> None:
    if len(declared) > MAX_PARAMS:
        raise DeclarationError(
            f"{len(declared)} parameters; {MAX_PARAMS} is the most.", field="params", fix="Leave some out."
        )
    for param in declared:
        if param in RESERVED:
            raise DeclarationError(
                f"params: {param!r} is a reserved name, which seqrt fills itself.", field="params", fix="Rename it."
            )
        if param not in names and not any_keyword:
            raise DeclarationError(
                f"params: {name}'s infer takes no {param!r}.",
                field="params",
                fix=f"Write `def infer(self, obs, *, {param})`.",
            )


def _declared_by(keyword_only: list[inspect.Parameter], name: str) -> Iterator[tuple[str, InferParam]]:
    for parameter in keyword_only:
        if parameter.name in RESERVED:
            continue
        _check_handed_over(parameter, name, set(RESERVED))
        kind, choices = _kind(parameter)
        if kind is None:
            continue  # its default is an object of the policy's own, which no robot can set
        try:
            yield parameter.name, InferParam(type=kind, default=parameter.default, choices=choices)
        except ValidationError as wrong:
            raise DeclarationError(
                f"{name}'s infer: {parameter} cannot be a parameter: {wrong.errors()[0]['msg']}.",
                field="params",
                fix="Let the default be of the type annotated.",
            ) from wrong


def _kind(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...] | None]:
    """The type's name and the choices; the default's own type where nothing is annotated."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = next((kind for kind, name in _TYPE_NAMES.items() if annotation.strip() == name), annotation)
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        kinds = {type(choice) for choice in choices}
        return (_TYPE_NAMES.get(kinds.pop()), choices) if len(kinds) == 1 else (None, None)
    if annotation is parameter.empty:
        return _TYPE_NAMES.get(type(parameter.default)), None
    return (_TYPE_NAMES.get(annotation) if isinstance(annotation, type) else None), None
