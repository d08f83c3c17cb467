"""Errors to bodies and back: what a worker answers when it does not answer, and what a robot makes of that.

`error_from` takes any bytes at all: a proxy's HTML page, half a body, nothing. It always gives the typed error, of
the body where that is one of ours, else of the bare status.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from seqrt.errors import ERRORS, RemoteError, WireError, code_of_status, remote_error
from seqrt.wire.codec import as_message
from seqrt.wire.headers import parse_seconds, valid_request_id
from seqrt.wire.incoming import read_json, read_msgpack
from seqrt.wire.limits import DETAIL_CHARACTERS, ERROR_BYTES
from seqrt.wire.messages import ErrorBody
from seqrt.wire.outgoing import check

WARMING_RETRY_S: Final = 5.0
"""``retry_after_s`` of a ``warming`` that names none: it always carries one."""

_EXCERPT_CHARACTERS: Final = 200
_DAY_S: Final = 86_400.0


def body_of(error: RemoteError) -> ErrorBody:
    """The body a server answers ``error`` with. The status to answer with is the table's, ``ERRORS[code].status``.

    Details that cannot travel are left out rather than hiding the error itself.
    """
    code = error.code if error.code in ERRORS else "internal"
    details = {str(key): value for key, value in error.details.items() if _travels(value)}
    return ErrorBody(
        detail=_cut(error.detail, DETAIL_CHARACTERS),
        code=code,
        retryable=ERRORS[code].retryable,
        retry_after_s=_retry_after(code, error.retry_after_s),
        request_id=error.request_id,
        hint=None if error.hint is None else _cut(error.hint, DETAIL_CHARACTERS),
        details=details,
    )


def error_from(
    status: int,
    body: bytes,
    *,
    host: str,
    phase: str,
    request_id: str | None,
    retry_after: str | None = None,
) -> RemoteError:
    """The error an answer that is not 2xx stands for. Never raises.

    Args:
        status: The HTTP status.
        body: The answer's body, JSON or msgpack or anything else.
        host: The server, as host:port.
        phase: What was being done, see `RemoteError`.
        request_id: The request's id as the robot sent it; a body that names another valid one is believed.
        retry_after: The value of the ``Retry-After`` header.
    """
    tree = _tree_of(body)
    told = _told(tree)
    code, detail = (told.code, told.detail) if told else (code_of_status(status), _excerpt(status, tree, body))
    waits_s = told.retry_after_s if told and told.retry_after_s is not None else parse_seconds(retry_after)
    named = told.request_id if told else None
    return remote_error(
        code,
        _cut(detail, DETAIL_CHARACTERS),
        status=status,
        retry_after_s=_retry_after(code, waits_s),
        request_id=named if valid_request_id(named) else request_id,
        hint=_cut(told.hint, DETAIL_CHARACTERS) if told and told.hint else None,
        details=told.details if told else None,
        host=host,
        phase=phase,
    )


def _tree_of(body: bytes) -> Any:
    if not body or len(body) > ERROR_BYTES:
        return None
    try:
        return read_msgpack(body) if 0x80 <= body[0] <= 0x8F or body[0] in (0xDE, 0xDF) else read_json(body)
    except WireError:
        return None


def _told(tree: Any) -> ErrorBody | None:
    """The body where it is one of ours: all its fields, a known code."""
    if not isinstance(tree, dict):
        return None
    try:
        told = as_message(_with_text_detail(tree), ErrorBody)
    except WireError:
        return None
    return told if told.code in ERRORS else None


def _with_text_detail(tree: dict[Any, Any]) -> dict[Any, Any]:
    """A gateway's warming body has a map for ``detail``, which older clients read: its message is the sentence."""
    detail = tree.get("detail")
    if not isinstance(detail, dict) or detail.get("status") != "warming_up":
        return tree
    told = {**tree, "detail": str(detail.get("message") or "the model is being loaded")}
    told.setdefault("code", "warming")
    told.setdefault("retryable", True)
    if told.get("retry_after_s") is None:
        told["retry_after_s"] = detail.get("retry_after_s")
    return told


def _excerpt(status: int, tree: Any, body: bytes) -> str:
    """The sentence for an answer that has no body of ours: its own ``detail`` if it has one, else how it begins."""
    detail = tree.get("detail") if isinstance(tree, Mapping) else None
    if isinstance(detail, str) and detail:
        return detail
    begins = body[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace").replace("\ufffd", "?").split()
    text = _cut("".join(c if c.isprintable() else "?" for c in " ".join(begins)), _EXCERPT_CHARACTERS)
    return f"HTTP {status} without an error body" + (f": {text}" if text else "")


def _retry_after(code: str, seconds: float | None) -> float | None:
    if seconds is not None and math.isfinite(seconds) and seconds >= 0:
        return min(seconds, _DAY_S)
    return WARMING_RETRY_S if code == "warming" else None


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _travels(value: Any) -> bool:
    try:
        check(value, as_json=True)
    except WireError:
        return False
    return True
