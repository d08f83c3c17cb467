"""What exceptions become on their way to the robot."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any, Final

from seqrt.errors import ObservationError, PictureSizeError, RemoteError, remote_error

TRACEBACK_ROWS: Final = 40
MESSAGE_CHARACTERS: Final = 4000


def policy_error(raised: BaseException, *, skip: TracebackType | None = None) -> RemoteError:
    """The ``policy_error`` for what ``infer`` raised, with type, message and the tail of the traceback in details.

    Args:
        raised: The exception.
        skip: The innermost frame of ours; only what lies below it is the policy's.
    """
    name = type(raised).__name__
    message = _message(raised)
    rows = traceback.format_exception(type(raised), raised, skip if skip is not None else raised.__traceback__)
    tail = "".join(rows).splitlines()[-TRACEBACK_ROWS:]
    first = message.splitlines()[0] if message else ""
    return remote_error(
        "policy_error",
        f"the policy raised {name}" + (f": {first[:500]}" if first else ""),
        details=raised_details(name, message, "\n".join(tail)),
    )


def raised_details(name: str, message: str, rows: str) -> dict[str, Any]:
    """A ``policy_error``'s details: an exception by its type's name, its message and its traceback's ``rows``.

    They stand there twice: the newest `sequence-ai` reads them below ``exception``, and raises built-in ones as such.
    """
    told = {"type": name, "message": message, "traceback": rows}
    return {**told, "exception": told}


def observation_refused(error: ObservationError) -> RemoteError:
    """The 400 for an observation that is not what the policy declared; sizes of pictures in ``details.sizes``."""
    details = {"key": error.key, "expected": error.expected, "found": error.found}
    if isinstance(error, PictureSizeError):
        details["sizes"] = error.sizes
    return remote_error("invalid_request", str(error), details=details)


def _message(raised: BaseException) -> str:
    try:
        return str(raised)[:MESSAGE_CHARACTERS]
    except Exception:  # a policy's exception may not even print
        return ""
