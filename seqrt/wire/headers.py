"""Names and forms of the HTTP headers both ends use. No request is made here."""

from __future__ import annotations

import math
import re
from typing import Final

REQUEST_ID: Final = "x-seq-request-id"
"""One id through robot, gateway, worker and every log line."""

ACT_FORMATS: Final = "x-seq-act-formats"
"""On every answer of a worker: the formats it reads. A body goes only to a worker whose last answer named its own."""

DEADLINE_S: Final = "x-seq-deadline-s"
"""Seconds the robot will wait for this act, counted from when it was sent."""

RETRY_AFTER: Final = "retry-after"
"""Whole seconds to wait before the same request is sent again (RFC 9110, section 10.2.3)."""

MSGPACK: Final = "application/x-seq-msgpack"
FRAMES: Final = "application/x-seq-frames"
JSON: Final = "application/json"

FORMATS: Final = ("x-seq-observe/1", "x-seq-msgpack/1", "x-seq-frames/1", "x-seq-call/1")
"""What this version reads."""

FORMATS_VALUE: Final = ", ".join(FORMATS)
"""`FORMATS` as the value of the `ACT_FORMATS` header."""

_REQUEST_ID = re.compile(r"r-[0-9a-f]{8,32}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
_DAY_S: Final = 86_400.0


def request_id(bits: bytes) -> str:
    """The request id made of ``bits``: ``r-`` and lower-case hex.

    Args:
        bits: 4 to 16 random bytes. Our client takes 8, a server that has to make one 4.

    Raises:
        ValueError: Another number of bytes.
    """
    if not 4 <= len(bits) <= 16:
        raise ValueError(f"a request id is made of 4 to 16 random bytes, not {len(bits)}")
    return "r-" + bits.hex()


def valid_request_id(text: str | None) -> bool:
    """Whether ``text`` is a request id that may be logged and looked up: ``r-`` and 8 to 32 lower-case hex digits."""
    return text is not None and _REQUEST_ID.fullmatch(text) is not None


def bearer(key: str | None) -> dict[str, str]:
    """The header that brings a key; none without one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def retry_after(seconds: float) -> str:
    """The value of a ``Retry-After`` header: whole seconds, rounded up, at least 1 and at most a day."""
    if math.isnan(seconds):
        return "1"
    return str(math.ceil(min(max(seconds, 1.0), _DAY_S)))


def parse_seconds(text: str | None) -> float | None:
    """Seconds out of a header (``Retry-After``, ``X-Seq-Deadline-S``), at most a day.

    Returns:
        None where there is no header or it is no plain number; a date in ``Retry-After`` counts as none, because
        reading it would take the wall clock.
    """
    stripped = (text or "").strip()
    if _SECONDS.fullmatch(stripped) is None:
        return None
    return min(float(stripped), _DAY_S)


def media_type(content_type: str | None) -> str:
    """The media type alone: lower case, without parameters; "" where there is no header."""
    return (content_type or "").partition(";")[0].strip().lower()


def reads(formats: str | None, name: str) -> bool:
    """Whether the value of an `ACT_FORMATS` header names ``name``, e.g. ``x-seq-frames/1``."""
    return name in {part.strip().lower() for part in (formats or "").split(",")}
