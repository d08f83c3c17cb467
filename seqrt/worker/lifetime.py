"""A request's life at a server, a worker or a gateway: tried, answered or refused, said, sent, counted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from seqrt.errors import RemoteError, WireError, remote_error
from seqrt.watching.counts import LEFT, Requests
from seqrt.worker.answers import Answer, answer, send_answer
from seqrt.worker.asgi import Send
from seqrt.worker.call import Call
from seqrt.worker.incoming import Disconnected
from seqrt.worker.requestlog import NOTHING, RequestLog

C = TypeVar("C", bound=Call)
T = TypeVar("T")

_UNREAD: Final = Answer(499, b"", "")
"""The answer to a client that is gone; it is not sent."""


class Lifetime:
    """The lives of the requests to one route.

    Args:
        path: The route's; log lines and counts are named after it.
        who: Who serves, for what a client is told of a fault of ours: "the worker".
        log: Says how they end.
        requests: Counts them.
        refusal: An error as this server answers it.
    """

    def __init__(
        self,
        path: str,
        *,
        who: str,
        log: RequestLog,
        requests: Requests,
        refusal: Callable[[RemoteError, Call], Answer],
    ) -> None:
        self._name = path.strip("/").replace("/", "_")
        self._who, self._log, self._requests, self._refusal = who, log, requests, refusal

    async def tried(self, call: C, work: Callable[[C], Awaitable[T]]) -> T | Answer:
        """What ``work`` returns; what the client is answered instead where it raises."""
        try:
            return await work(call)
        except Disconnected:
            call.code = LEFT
            self.say(logging.DEBUG, call, "left")
            return _UNREAD
        except Exception as raised:
            refused = self.refused(call, raised)
            await call.body.drain()
            return refused

    def answered(self, call: Call, message: Any) -> Answer:
        """What was asked for, as the client reads it; an `Answer` as it is.

        Raises:
            PolicyError: It cannot travel.
        """
        made = message if isinstance(message, Answer) else answer(message, call.media)
        self.say(call.level, call, "answered", call.said)
        return made

    def refused(self, call: Call, raised: Exception) -> Answer:
        """What is answered in place of what was asked for."""
        error = _as_remote(raised, self._who)
        call.code = error.code
        self._log.refused(self._name, call, error, raised)
        return self._refusal(error, call)

    def say(self, level: int, call: Call, participle: str, told: Mapping[str, object] = NOTHING) -> None:
        """Say how it ended."""
        self._log.say(level, self._name, call, participle, told)

    async def send(self, call: Call, answered: Answer, send: Send) -> int:
        """Send it, where the client is still there; the bytes of its body that went."""
        return await send_answer(send, answered, call.id) if answered is not _UNREAD else 0

    def over(self, call: Call, sent_bytes: int) -> None:
        """Count it."""
        self._requests.add(self._name, call.code, call.body.received, sent_bytes)


def _as_remote(raised: Exception, who: str) -> RemoteError:
    if isinstance(raised, RemoteError):
        return raised
    if isinstance(raised, WireError):
        return remote_error("invalid_request", str(raised), details={"reason": raised.reason, "where": raised.where})
    return remote_error("internal", f"{who} failed: {type(raised).__name__}")
