"""One HTTP request as the worker and the gateway see it, before its body is read."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from seqrt.errors import code_of_status, remote_error
from seqrt.watching.counts import OK
from seqrt.wire.headers import REQUEST_ID, request_id, valid_request_id
from seqrt.worker.answers import Answer, Send, form, refusal, send_answer
from seqrt.worker.incoming import Incoming, Receive


class Call:
    """One request: its headers, its id, whose it is, the form of its answer, how it ended, what its log line says."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive) -> None:
        self.headers = Headers(scope=scope)
        self.path: str = scope["path"]
        self.query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        given = self.headers.get(REQUEST_ID)
        self.id = given if given is not None and valid_request_id(given) else request_id(os.urandom(4))
        self.content_type = self.headers.get("content-type")
        self.media = form(scope["method"], self.headers.get("accept"), self.content_type)
        self.client: str = (scope.get("client") or ("",))[0]
        self.owner = ""
        self.code = OK
        self.level = logging.DEBUG
        self.said: dict[str, object] = {}
        self.body = Incoming(
            receive, self.headers.get("content-length"), http_1=str(scope.get("http_version", "")).startswith("1")
        )


def unrouted(known: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What answers where there is no such route, or not with this method: a body of the table, HTTP's own status.

    Args:
        known: What is served, for the hint.
    """

    async def refuse(request: Request, raised: Exception) -> Response:
        status = raised.status_code if isinstance(raised, HTTPException) else 500
        call = Call(request.scope, request.receive)
        error = remote_error(
            code_of_status(status),
            f"{request.method} {request.url.path[:200]} is not served here",
            hint=f"{_without_v1(request.url.path)}there is {known}",
        )
        answered = refusal(error, call.id, status=status)
        await call.body.drain()
        return _Sent(answered, call.id)

    return refuse


def _without_v1(path: str) -> str:
    """What to say first of a path that a client with ``/v1`` at the end of its base_url asks for."""
    return "base_url= goes without /v1; " if path == "/v1/policy" or path.startswith("/v1/v1/") else ""


class _Sent(Response):
    """An `Answer` where starlette wants a Response."""

    def __init__(self, answered: Answer, request_id: str) -> None:
        super().__init__()
        self._answered = answered
        self._request_id = request_id

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await send_answer(send, self._answered, self._request_id)
