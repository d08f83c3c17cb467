"""Every exception seqrt raises, and the table that maps an error code to its status and class.

This is the lowest module: everything imports it, it imports nothing of ours. Exceptions carry attributes (what,
where, what to do), so nobody has to parse a sentence. An exception that ends a run also carries that run's
``outcome``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from seqrt.timeline.outcome import RunOutcome


class SeqrtError(Exception):
    """Base of everything seqrt raises on its own account.

    Attributes:
        outcome: What the run had done when it ended with this error; None outside a run.
        exit_code: What a command line exits with when this ends it.
    """

    exit_code: int = 1
    outcome: RunOutcome | None = None


class WireError(SeqrtError, ValueError):
    """Bytes that are not the message they claim to be, or a value that cannot travel.

    Attributes:
        what: What was found, in one sentence.
        where: The field or byte offset it was found at ("" where there is none).
        reason: A short fixed word for programs ("depth", "dtype", "shape", "frames", "truncated" …).
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", reason: str = "malformed") -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.what = what
        self.where = where
        self.reason = reason


class DeclarationError(SeqrtError, ValueError):
    """A policy declares what cannot be served, or declares nothing where something is needed.

    Attributes:
        field: The declaration's field, e.g. ``actions.hz``.
        fix: What to write instead.
    """

    exit_code = 2

    def __init__(self, what: str, *, field: str = "", fix: str = "") -> None:
        super().__init__(f"{what.rstrip('.')}. {fix}" if fix else what)
        self.field = field
        self.fix = fix


class ObservationError(SeqrtError, ValueError):
    """An observation is not what the policy declared; raised before anything of it is sent or played.

    Attributes:
        key: The observation's key.
        expected: What the declaration asks for.
        found: What the observation holds.
    """

    exit_code = 2

    def __init__(self, what: str, *, key: str = "", expected: object = None, found: object = None) -> None:
        super().__init__(what)
        self.key = key
        self.expected = expected
        self.found = found


class PictureSizeError(ObservationError):
    """Pictures of another size than the policy's cameras declare, where nothing makes them fit.

    Attributes:
        sizes: For each view that is wrong, ``{"declared": [width, height], "sent": [width, height]}``.
    """

    def __init__(self, what: str, *, sizes: Mapping[str, Mapping[str, list[int]]]) -> None:
        super().__init__(
            what,
            key=next(iter(sizes), ""),
            expected={view: size["declared"] for view, size in sizes.items()},
            found={view: size["sent"] for view, size in sizes.items()},
        )
        self.sizes = sizes


class ExtraMissing(SeqrtError, ImportError):
    """Something asked for needs a package that the base installation leaves out.

    Attributes:
        package: The package, as it is installed.
        extra: The extra of seqrt that brings it.
    """

    exit_code = 2

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: pip install 'seqrt[{extra}]'")
        self.package = package
        self.extra = extra


class CertificateUnusable(SeqrtError, ValueError):
    """A worker's certificate or its key cannot be read, or the two do not belong together.

    Attributes:
        path: The file.
    """

    exit_code = 2

    def __init__(self, what: str, *, path: str) -> None:
        super().__init__(what)
        self.path = path


class KeysUnusable(SeqrtError, ValueError):
    """A gateway's file of keys, or what it counts beside it, cannot be read or written.

    Attributes:
        path: The file.
        line: The line at fault, counted from 1; None where the whole file is meant.
    """

    exit_code = 2

    def __init__(self, what: str, *, path: str, line: int | None = None) -> None:
        super().__init__(f"{path}, line {line}: {what}" if line is not None else f"{path}: {what}")
        self.path = path
        self.line = line


class ActionError(SeqrtError, ValueError):
    """Rows that may not reach a motor: not numeric, not finite, out of bounds, too large a step, of another length.

    Attributes:
        row: Row of the chunk, None when the whole answer is meant.
        column: Column of the row, None when the whole row is meant.
        value: The offending number, None where there is none.
        limit: The bound it broke, None where there is none.
    """

    def __init__(
        self,
        what: str,
        *,
        row: int | None = None,
        column: int | None = None,
        value: float | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__(what)
        self.row = row
        self.column = column
        self.value = value
        self.limit = limit


class FirstStepTooFar(ActionError):
    """The first row of a run, or after a resume, lies further from where the robot is than ``Limits.first_step``.

    Attributes:
        key: The observed vector it was held against.
        observed: What that vector holds for the column.
    """

    def __init__(
        self, what: str, *, row: int, column: int, value: float, limit: float, key: str, observed: float
    ) -> None:
        super().__init__(what, row=row, column=column, value=value, limit=limit)
        self.key = key
        self.observed = observed


class ChunkExhausted(SeqrtError):
    """``next_action()`` was called without an observation and no row is left."""


class AlreadyDriven(SeqrtError, RuntimeError):
    """A second task uses a handle that is already driving a robot: one handle per control loop."""


class CallbackTooSlow(SeqrtError):
    """A synchronous callback holds the event loop longer than the period allows.

    Attributes:
        callback: "observe" or "act".
        took_s: How long it took (the fastest of the calls timed).
        allowed_s: What it may take.
    """

    def __init__(self, what: str, *, callback: str, took_s: float, allowed_s: float) -> None:
        super().__init__(what)
        self.callback = callback
        self.took_s = took_s
        self.allowed_s = allowed_s


class CallbackTimedOut(SeqrtError, TimeoutError):
    """A callback of the robot did not return within its bound.

    Attributes:
        callback: "act", "observe", "hold" ….
        bound_s: The bound, in seconds.
    """

    def __init__(self, what: str, *, callback: str, bound_s: float) -> None:
        super().__init__(what)
        self.callback = callback
        self.bound_s = bound_s


class HoldFailed(SeqrtError):
    """``hold`` raised, or did not return within its bound. The robot may still be moving: look at it.

    Attached to the error that ended the run (as its ``hold_error``, and a note); raised itself only when the run
    would otherwise have ended cleanly.
    """


class Stalled(SeqrtError):
    """No row was due for longer than ``Limits.max_stall_s`` and nothing else had failed.

    Attributes:
        starved_s: How long the robot stood, in seconds.
        host: The worker asked, as host:port.
        phase: What was being waited for ("answer", "connect", "observe" …).
    """

    exit_code = 7

    def __init__(self, what: str, *, starved_s: float, host: str, phase: str) -> None:
        super().__init__(what)
        self.starved_s = starved_s
        self.host = host
        self.phase = phase


class StaleObservation(SeqrtError):
    """The arm would go by what was seen longer ago than ``Limits.max_age_s``, or by a picture frozen for ``frozen_s``.

    Attributes:
        age_s: How old the observation is, or for how long the arm has moved before that picture.
        limit_s: The limit it broke.
        key: The picture's key; "" where the whole observation is meant.
        step: The observation's number.
    """

    def __init__(self, what: str, *, age_s: float, limit_s: float, key: str = "", step: int | None = None) -> None:
        super().__init__(what)
        self.age_s = age_s
        self.limit_s = limit_s
        self.key = key
        self.step = step


E = TypeVar("E", bound="RemoteError")


class RemoteError(SeqrtError):
    """The other machine refused or failed, or could not be reached.

    Attributes:
        detail: One sentence.
        code: A code of ``ERRORS``.
        status: The HTTP status; 0 when no answer came.
        retryable: Whether the same request may be sent again (always the table's).
        retry_after_s: How long to wait first, None where the server did not say.
        request_id: The request's id, as robot, gateway and worker log it.
        hint: What to do about it, None where the server gave none.
        details: More, by code.
        host: The server, as host:port ("" where unknown).
        phase: What was being done: "connect", "policy", "observe", "act", "episode_end", "ping".
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str = "internal",
        status: int = 0,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        host: str = "",
        phase: str = "",
    ) -> None:
        place = f" [{phase or 'request'} at {host}]" if host else ""
        super().__init__(detail + place + (f" ({hint})" if hint else ""))
        self.detail = detail
        self.code = code
        self.status = status
        self.retryable = ERRORS[code].retryable if code in ERRORS else False
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        self.host = host
        self.phase = phase

    def again(
        self: E, *, detail: str | None = None, hint: str | None = None, details: Mapping[str, Any] | None = None
    ) -> E:
        """The same failure once more, for another request that it ends, or with more to say.

        Raised twice, one exception would drag its first traceback along.

        Args:
            detail: In place of its own, as are the others.
            hint: What to do about it.
            details: More, by code.
        """
        # Not by its constructor: a kind may take other arguments, and what it adds goes along.
        failure = type(self).__new__(type(self))
        failure.__dict__.update(self.__dict__)
        RemoteError.__init__(
            failure,
            self.detail if detail is None else detail,
            code=self.code,
            status=self.status,
            retry_after_s=self.retry_after_s,
            request_id=self.request_id,
            hint=self.hint if hint is None else hint,
            details=self.details if details is None else details,
            host=self.host,
            phase=self.phase,
        )
        return failure


class InvalidRequest(RemoteError):
    """The request itself is at fault; sending it again is of no use."""

    exit_code = 2


class AuthError(RemoteError):
    """No key, or a wrong one."""

    exit_code = 3


class PermissionDenied(RemoteError):
    """The key does not open this."""

    exit_code = 3


class CertificateRefused(PermissionDenied):
    """The other end could not show that it is who it should be; no byte of a request was sent to it.

    Attributes:
        expected: The fingerprint it should have (sha256, 64 hex digits); None where none was asked for.
        found: The one it has; None where it was not looked at.
    """

    def __init__(self, detail: str, *, host: str, hint: str, expected: str | None = None, found: str | None = None):
        super().__init__(detail, code="forbidden", host=host, phase="connect", hint=hint)
        self.expected = expected
        self.found = found


class NotFound(RemoteError):
    """No such model, route or episode."""

    exit_code = 4


class Gone(RemoteError):
    """The worker no longer has this episode."""

    exit_code = 4


class Conflict(RemoteError):
    """The worker lacks observations, or the request id was used for another body (``details["reason"]``)."""

    exit_code = 5


class OutOfCredit(RemoteError):
    """The key's budget is spent."""

    exit_code = 6


class Unavailable(RemoteError):
    """Not now: busy, warming up, draining, unreachable, or out of time.

    Attributes:
        warming: True while a model is still being loaded: the one case worth waiting out before a run.
    """

    exit_code = 7

    @property
    def warming(self) -> bool:
        """True while the model is still being loaded."""
        return self.code == "warming"


class LinkLost(Unavailable):
    """The connection to the worker could not be made, or broke, or fell silent. Names host and phase."""


class PolicyError(RemoteError):
    """The policy's own code raised. ``details`` has its type, message and the tail of its traceback."""


class InternalError(RemoteError):
    """The server failed, or answered with something that is not an answer."""


class ErrorRow(NamedTuple):
    """One row of the table: what a code means on the wire and in a program."""

    status: int
    retryable: bool
    exception: type[RemoteError]


ERRORS: Final[Mapping[str, ErrorRow]] = {
    "invalid_request": ErrorRow(400, False, InvalidRequest),
    "payload_too_large": ErrorRow(413, False, InvalidRequest),
    "unauthenticated": ErrorRow(401, False, AuthError),
    "forbidden": ErrorRow(403, False, PermissionDenied),
    "insufficient_credit": ErrorRow(402, False, OutOfCredit),
    "budget_exhausted": ErrorRow(402, False, OutOfCredit),
    "not_found": ErrorRow(404, False, NotFound),
    "conflict": ErrorRow(409, False, Conflict),
    "dependency_missing": ErrorRow(424, False, InternalError),
    "gone": ErrorRow(410, False, Gone),
    "busy": ErrorRow(429, True, Unavailable),
    "warming": ErrorRow(503, True, Unavailable),
    "unavailable": ErrorRow(503, True, Unavailable),
    "upstream_error": ErrorRow(502, True, Unavailable),
    "timeout": ErrorRow(504, True, Unavailable),
    "policy_error": ErrorRow(500, False, PolicyError),
    "internal": ErrorRow(500, False, InternalError),
}

_CODE_OF_STATUS: Final[Mapping[int, str]] = {
    row.status: code for code, row in ERRORS.items() if code not in ("budget_exhausted", "warming", "policy_error")
}


def code_of_status(status: int) -> str:
    """The code a bare HTTP status (one without an error body) stands for.

    503 is ``unavailable``, never ``warming``: only a body can say that waiting helps.
    """
    known = _CODE_OF_STATUS.get(status)
    if known is not None:
        return known
    return "invalid_request" if 400 <= status < 500 else "internal"


def remote_error(code: str, detail: str, **attributes: Any) -> RemoteError:
    """The exception for ``code``, with the attributes of `RemoteError`; an unknown code gives InternalError."""
    row = ERRORS.get(code)
    if row is None:
        return InternalError(f"{detail} (unknown error code {code!r})", code="internal", **attributes)
    attributes.setdefault("status", row.status)
    return row.exception(detail, code=code, **attributes)
