"""What a failed request says of the worker it went to: whether another one has to be looked for. Pure but for types."""

from __future__ import annotations

from enum import Enum

import httpx

from seqrt.errors import AuthError, Conflict, Gone, LinkLost, RemoteError, Unavailable
from seqrt.link.border import ACT_LOST, LEASE


class Trouble(Enum):
    """Why a worker cannot be asked now."""

    ABSENT = "absent"
    """Nobody listens there, or there is no way to it: said at once, and not mended by waiting for an answer."""
    BROKEN = "broken"
    """The connection broke, or a proxy says so of the worker behind it."""
    SILENT = "silent"
    """Nothing has come for so long that the connection was given up: it has been waited for."""
    UNREADY = "unready"
    """It answers, and begins no episode: it drains, or still loads."""
    GONE = "gone"
    """It no longer has the episode."""
    UNLEASED = "unleased"
    """The lease is over, and what was begun under it; a gateway grants another one, there or elsewhere."""
    OTHER = "other"
    """It serves something else by now."""


def is_refused(error: BaseException) -> bool:
    """Whether nobody listens there: the process is no more.

    Only the machine itself can say so. No way to it, a name that is not found, silence and a connection that broke say
    nothing of the process behind.
    """
    if isinstance(error, ConnectionRefusedError):
        return True
    # Several: one for each address of a name. The context: httpcore's pool takes the cause away.
    below = getattr(error, "exceptions", None) or [error.__cause__ or error.__context__]
    return all(cause is not None and is_refused(cause) for cause in below)


def trouble_of(error: RemoteError) -> Trouble | None:
    """What ``error`` says of the worker; None when another one would be no better."""
    if isinstance(error, Gone):
        return Trouble.GONE
    if isinstance(error, LinkLost):
        if isinstance(error.__cause__, httpx.ConnectError):
            return Trouble.ABSENT
        return Trouble.SILENT if isinstance(error.__cause__, TimeoutError) else Trouble.BROKEN
    reason = error.details.get("reason")
    if isinstance(error, Conflict) and reason == "redeclared":
        return Trouble.OTHER
    if isinstance(error, AuthError) and reason == LEASE:
        return Trouble.UNLEASED
    if not isinstance(error, Unavailable) or error.code == "busy" or reason == ACT_LOST:
        return None
    if error.warming or "draining" in (reason, error.details.get("stage")):
        return Trouble.UNREADY
    if error.code == "timeout":  # an act may take its time; anything else that does is a connection that is not one
        return Trouble.SILENT if error.status == 0 and error.phase != "act" else None
    return Trouble.BROKEN
