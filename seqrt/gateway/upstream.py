"""What a robot is told of a failure between gateway and worker. Pure.

What the worker said of the act itself goes through as it is. What it said of the gateway (a wrong key, a page that is
no worker's) is none of the robot's business: the robot's own key is good, and nothing it changes would help.
"""

from __future__ import annotations

from typing import Final

from seqrt.errors import AuthError as KeyRefused
from seqrt.errors import (
    CertificateRefused,
    LinkLost,
    NotFound,
    PermissionDenied,
    RemoteError,
    SeqrtError,
    Unavailable,
    remote_error,
)
from seqrt.link.border import ACT_LOST

RETRY_S: Final = 1.0

_ASK_LOG: Final = "the gateway's log says which and why"
_KEY: Final = "the workers' own key is the gateway's --secret-env: start it with that of `seqrt serve --secret-env`"
_PIN: Final = "--worker MODEL=URL#FINGERPRINT takes that one; read it off the worker's console, `seqrt serve --tls`"


def told_of(error: RemoteError, model: str) -> RemoteError:
    """The failure as a robot is told it.

    Args:
        error: What the link to the worker raised.
        model: The policy's full id.
    """
    if isinstance(error, LinkLost):
        return remote_error("unavailable", f"no worker of {model} can be reached", retry_after_s=RETRY_S, hint=_ASK_LOG)
    if isinstance(error, KeyRefused | PermissionDenied):
        return _upstream(f"a worker of {model} refuses the gateway")
    if isinstance(error, NotFound):
        return _upstream(f"what should be a worker of {model} is none")
    if error.code == "internal":
        return _upstream(f"a worker of {model} failed")
    return error


def told_operator(error: SeqrtError) -> str:
    """Why a worker cannot be asked, with what whoever runs the gateway does about it: links' hints are for robots."""
    if isinstance(error, CertificateRefused):
        return str(error.again(hint=_PIN))
    if isinstance(error, KeyRefused | PermissionDenied):
        return str(error.again(hint=_KEY))
    return str(error)


def is_worth_another(error: RemoteError) -> bool:
    """Whether another worker of the same policy may serve what this one did not: it has not run here."""
    return told_of(error, "") is not error or (isinstance(error, Unavailable) and error.code != "timeout")


def is_to_be_repeated(error: RemoteError) -> bool:
    """Whether the same worker is to be asked once more, under the same id: it may never have heard of the act."""
    if error.details.get("reason") == ACT_LOST:
        return True
    return isinstance(error, LinkLost) and error.phase != "connect"


def _upstream(what: str) -> RemoteError:
    return remote_error("upstream_error", what, retry_after_s=RETRY_S, hint=_ASK_LOG)
