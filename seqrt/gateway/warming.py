"""The one error whose body is not the table's: older clients read in it that a model is being loaded."""

from __future__ import annotations

from typing import Any

from msgspec import structs, to_builtins

from seqrt.errors import ERRORS, RemoteError
from seqrt.wire.codec import encode_json
from seqrt.wire.errorbody import body_of
from seqrt.wire.headers import JSON
from seqrt.worker.answers import Answer
from seqrt.worker.call import Call


def warming(error: RemoteError, call: Call) -> Answer:
    """503 with an object for ``detail``, and every other field of the table beside it.

    Args:
        error: It.
        call: The request that is refused with it.
    """
    error.request_id = call.id
    body = body_of(error)
    detail: dict[str, Any] = {
        "status": "warming_up",
        "model": str(call.said.get("model", "")),
        "message": body.detail,
        "retry_after_s": body.retry_after_s,
        "warming_job_id": None,  # nothing here loads models by jobs
    }
    tree = {**to_builtins(structs.asdict(body)), "detail": detail}
    said = {name: value for name, value in tree.items() if value is not None}
    return Answer(ERRORS["warming"].status, encode_json(said), JSON, body.retry_after_s)
