"""A worker whose answers a test puts words into."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from typing import Any

from seqrt.testing.policies import Scripted
from seqrt.wire.codec import encode
from seqrt.wire.messages import ErrorBody

HZ = 20


def by_state(**changes: Any) -> Scripted:
    return Scripted(**{"rows": 50, "hz": HZ, "infer_s": 0.0803, "by": "state", **changes})


class Answering:
    """The worker's app, save for the requests ``instead`` gives an answer for: (status, body, headers)."""

    def __init__(self, app: Any, instead: Callable[[str, int], tuple[int, bytes, Mapping[str, str]] | None]) -> None:
        self._app, self._instead = app, instead
        self._counts: dict[str, Iterator[int]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        number = next(self._counts.setdefault(scope["path"], count()))
        answer = self._instead(scope["path"], number)
        if answer is None:
            await self._app(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        status, body, headers = answer
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def acts(numbers: Collection[int], answer: tuple[int, bytes, Mapping[str, str]]) -> Callable[[str, int], Any]:
    """That answer to the acts of those numbers, counted from 0."""
    return lambda path, number: answer if path == "/act" and number in numbers else None


def refusal(status: int, code: str, retry_after_s: float | None = None) -> tuple[int, bytes, Mapping[str, str]]:
    body = ErrorBody(detail="not now", code=code, retryable=True, retry_after_s=retry_after_s)
    headers = {} if retry_after_s is None else {"retry-after": str(math.ceil(retry_after_s))}
    return status, encode(body), headers
