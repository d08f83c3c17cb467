"""The methods of a policy and of a benchmark by their fixed numbers, as older declarations name them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, TypeVar

from seqrt.errors import DeclarationError

H = TypeVar("H", bound=IntEnum)

RETIRED: Final = 8192
"""Meant something once; never given again."""


class Hook(IntEnum):
    """What a method of a policy is for. The numbers are the contract's and travel; they are no set of flags."""

    WARMUP = 1
    LOAD = 2
    PLAN = 4
    SHUTDOWN = 8
    INFER = 16
    ON_EPISODE = 1024
    RESET = 32768
    OBSERVE = 131072
    SAMPLE = 524288


class BenchmarkHook(IntEnum):
    """What a method of a benchmark is for."""

    LOAD = 2
    SETUP = 4096
    SCORE = 16384
    RESET = 32768
    CHECK = 65536
    OBSERVE = 131072
    STEP = 262144


def policy_hooks(methods: Mapping[int, str]) -> dict[Hook, str]:
    """The methods of a policy, ``{16: "get_action"}``, by what they are for.

    Raises:
        DeclarationError: A key is unknown, or several in one; or a name is none.
    """
    return _hooks(methods, Hook)


def benchmark_hooks(methods: Mapping[int, str]) -> dict[BenchmarkHook, str]:
    """The methods of a benchmark by what they are for.

    Raises:
        DeclarationError: As `policy_hooks`; or one of OBSERVE and STEP without the other.
    """
    found = _hooks(methods, BenchmarkHook)
    pair = {BenchmarkHook.OBSERVE, BenchmarkHook.STEP}
    if len(pair & found.keys()) == 1:
        there = next(iter(pair & found.keys()))
        raise DeclarationError(
            f"a benchmark has OBSERVE and STEP, or neither; this has {there.name} alone.",
            field="lifecycle",
            fix=f"Add {next(iter(pair - {there})).name}.",
        )
    return found


def _hooks(methods: Mapping[int, str], kind: type[H]) -> dict[H, str]:
    found = {}
    for key, name in methods.items():
        hook = _hook(key, kind)
        if not isinstance(name, str) or not name.isidentifier():
            raise DeclarationError(
                f"{hook.name}: {name!r} is no method's name.", field="lifecycle", fix="Write a name."
            )
        found[hook] = name
    return found


def _hook(key: Any, kind: type[H]) -> H:
    known = ", ".join(f"{hook.name} {hook.value}" for hook in kind)
    if isinstance(key, bool) or not isinstance(key, int):
        raise DeclarationError(f"lifecycle: {key!r} is no key.", field="lifecycle", fix=f"Write one of {known}.")
    if key in tuple(kind):
        return kind(key)
    if key == RETIRED:
        what = f"{RETIRED} is retired and is never given again"
    else:
        parts = [hook.name for hook in kind if hook & key]
        combined = len(parts) > 1 and key == sum(hook for hook in kind if hook & key)
        what = f"{key} combines {' and '.join(parts)}" if combined else f"{key} is not known"
    raise DeclarationError(f"lifecycle: {what}.", field="lifecycle", fix=f"Write each by itself: {known}.")
