"""A policy's methods beside ``infer``: found by the name given or their bare one, and held against their call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from seqrt.errors import DeclarationError
from seqrt.policies.lifecycle import Hook
from seqrt.policies.signature import arguments_of

BARE: Final = ""
"""In the place of a method's name: look for it under its bare one."""

NAMES: Final[Mapping[Hook, str]] = {
    Hook.WARMUP: "warmup",
    Hook.LOAD: "load",
    Hook.SHUTDOWN: "shutdown",
    Hook.ON_EPISODE: "on_episode",
    Hook.RESET: "reset",
    Hook.OBSERVE: "observe",
    Hook.SAMPLE: "sample",
}
"""The bare names. PLAN has none: the word means too much to be taken for it unasked."""

_OF_AN_EPISODE: Final = frozenset({Hook.RESET, Hook.ON_EPISODE, Hook.OBSERVE})


@dataclass(frozen=True, slots=True)
class Bound:
    """One method.

    Attributes:
        method: Its name.
        episode: How it is handed the episode: "" not at all, "episode" by that name, "one" as its last argument.
    """

    method: str
    episode: str = ""


def find_hooks(
    target: object, name: str, *, named: Mapping[int, str], without: frozenset[Hook], bound: bool
) -> dict[Hook, Bound]:
    """The methods ``target`` has.

    Args:
        target: A class, an instance or a function.
        name: The policy's, for errors.
        named: Names given, by hook.
        without: Hooks not to be looked for.
        bound: Whether ``self`` is taken already.

    Raises:
        DeclarationError: A method that was named is not there, or one cannot be called as it would be.
    """
    found: dict[Hook, Bound] = {}
    for hook in Hook:
        method = named.get(hook) or ("" if hook in without else NAMES.get(hook, ""))
        if hook is Hook.INFER or not method:
            continue
        function = getattr(target, method, None)
        if callable(function):
            found[hook] = Bound(method, _episode(function, hook, name, method, bound))
        elif hook in named:
            raise DeclarationError(
                f"{name} has no method {method!r}.", field=NAMES.get(hook, "plan"), fix="Name one that it has."
            )
    return found


def _episode(function: Any, hook: Hook, name: str, method: str, bound: bool) -> str:
    given = 1 if hook is Hook.OBSERVE else 0
    how = arguments_of(function, given, bound=bound)
    if how is None or (how and hook not in _OF_AN_EPISODE):
        wanted = {Hook.OBSERVE: "self, obs", Hook.RESET: "self", Hook.ON_EPISODE: "self, episode"}.get(hook, "self")
        word = NAMES.get(hook, "plan")
        raise DeclarationError(
            f"{name}.{method} cannot be called as {hook.name}: that would be `def {method}({wanted})`.",
            field=word,
            fix=f"Write it so, or say @seqrt.policy({word}=None) where it is something else.",
        )
    return how
