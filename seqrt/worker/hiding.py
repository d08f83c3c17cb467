"""Errors as a worker with a key tells them: no file path and no environment value leaves the machine."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from seqrt.errors import RemoteError, remote_error

SHORTEST_VALUE: Final = 8
"""Environment values shorter than this ("1", "C.UTF-8") are words of any text and are not looked for."""

_TOLD: Final = frozenset({"policy_error", "unavailable", "internal"})
_QUOTED: Final = re.compile(r"""(["'])(?:[A-Za-z]:[\\/]|[\\/~]|\.{1,2}[\\/])([^"'\n]*)\1""")
_BARE: Final = re.compile(
    r"""(?<![\w.:/\\…])(?:[A-Za-z]:[\\/]|~?[\\/]|\.{1,2}[\\/])(?:[^\s"'<>|:*?\\/()\[\],;]+[\\/]?)+"""
)


def hidden(error: RemoteError, values: Collection[str]) -> RemoteError:
    """A copy of ``error`` whose texts name files without their folders, and none of ``values``."""
    if error.code not in _TOLD:
        return error
    return remote_error(
        error.code,
        _without(error.detail, values),
        status=error.status,
        retry_after_s=error.retry_after_s,
        request_id=error.request_id,
        hint=error.hint,
        details=_tree_without(error.details, values),
    )


def _tree_without(tree: dict[str, Any], values: Collection[str]) -> dict[str, Any]:
    return {key: _branch_without(value, values) for key, value in tree.items()}


def _branch_without(value: Any, values: Collection[str]) -> Any:
    if isinstance(value, dict):
        return _tree_without(value, values)
    return _without(value, values) if isinstance(value, str) else value


def _without(text: str, values: Collection[str]) -> str:
    for value in sorted((v for v in values if len(v) >= SHORTEST_VALUE), key=len, reverse=True):
        text = text.replace(value, "[hidden]")
    text = _QUOTED.sub(lambda found: f"{found[1]}{_last(found[2])}{found[1]}", text)
    return _BARE.sub(lambda found: _last(found[0]), text)


def _last(path: str) -> str:
    name = re.split(r"[\\/]", path.rstrip("\\/"))[-1]
    return name or "…"
