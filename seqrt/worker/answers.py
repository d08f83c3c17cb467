"""From messages and errors to ASGI responses, in the form the client reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from seqrt.errors import ERRORS, RemoteError, WireError, remote_error
from seqrt.policies.failures import raised_details
from seqrt.wire.codec import encode, encode_json
from seqrt.wire.errorbody import body_of
from seqrt.wire.headers import (
    ACT_FORMATS,
    FORMATS_VALUE,
    JSON,
    MSGPACK,
    REQUEST_ID,
    RETRY_AFTER,
    media_type,
    retry_after,
)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back.

    Attributes:
        status: The HTTP status.
        body: The encoded message.
        media: Its content type.
        retry_after_s: For the header, None for none.
    """

    status: int
    body: bytes
    media: str
    retry_after_s: float | None = None


def form(method: str, accept: str | None, content_type: str | None) -> str:
    """The media type a client reads: what it accepts; else what it sent; JSON for a person with curl."""
    accepted = (accept or "").lower()
    if MSGPACK in accepted:
        return MSGPACK
    if JSON in accepted or method != "POST":
        return JSON
    return JSON if media_type(content_type) in (JSON, "") else MSGPACK


def answer(message: Any, media: str) -> Answer:
    """A message that was asked for.

    Raises:
        PolicyError: It cannot travel: what ``infer`` returned holds something that has no form.
    """
    try:
        return Answer(200, encode(message) if media == MSGPACK else encode_json(message), media)
    except WireError as wrong:
        raise remote_error(
            "policy_error",
            f"what the policy returned cannot travel: {wrong}",
            details=raised_details("WireError", str(wrong), ""),
        ) from wrong


def refusal(error: RemoteError, request_id: str, *, status: int | None = None) -> Answer:
    """An error as its body: always JSON, whatever was asked for, so that a person and a proxy can read it too."""
    error.request_id = request_id
    body = body_of(error)
    status = status if status is not None else ERRORS[body.code].status
    return Answer(status, encode_json(body), JSON, body.retry_after_s)


async def send_answer(send: Send, answered: Answer, request_id: str) -> int:
    """Send it, with the headers every answer carries; returns the bytes of its body."""
    headers = [
        (b"content-type", answered.media.encode()),
        (b"content-length", str(len(answered.body)).encode()),
        (REQUEST_ID.encode(), request_id.encode()),
        (ACT_FORMATS.encode(), FORMATS_VALUE.encode()),
    ]
    if answered.retry_after_s is not None:
        headers.append((RETRY_AFTER.encode(), retry_after(answered.retry_after_s).encode()))
    if answered.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": answered.status, "headers": headers})
    await send({"type": "http.response.body", "body": answered.body, "more_body": False})
    return len(answered.body)
