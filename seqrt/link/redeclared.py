"""Whether a worker still declares what it declared when a handle connected, and another one the same. Pure."""

from __future__ import annotations

from typing import Final

from seqrt.errors import Conflict, DeclarationError
from seqrt.wire.messages import PolicyInfo

_MAY_CHANGE: Final = frozenset({"infer_s", "acts_in_flight", "acts_at_once", "acts_per_s", "timeouts", "gateway"})
"""What a worker measures or grants: another machine's may differ, and a refusal says so when it matters."""


def redeclared(before: PolicyInfo, now: PolicyInfo) -> list[str]:
    """What a run that began with ``before`` cannot go on with: the fields of ``now`` that differ, as ``was → is``."""
    return [
        f"{field}: {_short(was)} → {_short(then)}"
        for field in PolicyInfo.__struct_fields__
        if field not in _MAY_CHANGE and (was := getattr(before, field)) != (then := getattr(now, field))
    ]


def must_agree(before: PolicyInfo, now: PolicyInfo, host: str) -> None:
    """Raise unless a run that began with ``before`` can go on with ``now``.

    Raises:
        Conflict: It cannot (``details["reason"]`` is "redeclared").
    """
    changed = redeclared(before, now)
    if changed:
        raise Conflict(
            f"the worker declares something else than when this handle connected ({'; '.join(changed)})",
            code="conflict",
            host=host,
            phase="policy",
            hint="its answers are not played: connect() again to drive that policy",
            details={"reason": "redeclared", "changed": changed},
        )


def must_be_alike(one: PolicyInfo, other: PolicyInfo, hosts: tuple[str, str]) -> None:
    """Raise unless two workers serve the same policy.

    Args:
        one: What the worker in use declares.
        other: What the other one does.
        hosts: host:port of both.

    Raises:
        DeclarationError: They do not; it names both, and what each declares.
    """
    changed = redeclared(one, other)
    if changed:
        raise DeclarationError(
            f"{hosts[0]} and {hosts[1]} do not serve the same policy ({'; '.join(changed)})",
            field=changed[0].partition(":")[0],
            fix="Serve the same one at every address of base_url=[…]",
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
