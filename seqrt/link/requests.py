"""Requests over a link's connection: each is answered within its time, or fails with one of our exceptions.

A connection that failed is left for a new one, which the next request opens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
import h2.exceptions
import httpx

from seqrt.errors import LinkLost, RemoteError, Unavailable
from seqrt.link.bodies import Whole
from seqrt.link.border import ACT_LOST, LEASE
from seqrt.link.line import ActLost, KeyRefused, Left, Line, Overdue
from seqrt.link.liveness import Experience
from seqrt.link.network import Explained
from seqrt.link.paced import Pieces
from seqrt.link.sender import Sender
from seqrt.watching.spans import carried
from seqrt.wire import headers
from seqrt.wire.errorbody import error_from

_HINTS: Final = {
    "connect": "is seqrt serve running there, and is the port reachable from here?",
    "policy": "is that a worker? It has to speak HTTP/2 there",
}
"""What to look at when the link fails in a phase, before a run, where nothing better is known."""

_BROKEN: Final = (
    httpx.TransportError,
    httpx.StreamError,
    h2.exceptions.H2Error,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
    KeyError,  # httpcore's stream table, when a connection dies between two of its own awaits
)


@dataclass(frozen=True)
class Asked:
    """What is asked; it may be sent more than once.

    Attributes:
        method: "GET" or "POST".
        path: With the query.
        phase: What errors call it.
        body: None for none.
        stream: Makes what hands the body over.
        act: The request's id where it is an act.
        media: The form of the body, and of the answer; answers have no frames, those are msgpack then.
    """

    method: str
    path: str
    phase: str
    body: bytes | None = None
    stream: Callable[[bytes], httpx.AsyncByteStream] = Whole
    act: str | None = None
    media: str = headers.MSGPACK

    def over(self, client: httpx.AsyncClient, deadline_s: float) -> httpx.Request:
        """The request as ``client`` sends it."""
        fields = {"accept": headers.MSGPACK if self.media == headers.FRAMES else self.media}
        if self.act is not None:
            fields |= {headers.REQUEST_ID: self.act, **carried()}
        if self.body is not None:
            fields |= {"content-type": self.media, headers.DEADLINE_S: f"{deadline_s:.3f}"}
        request = client.build_request(self.method, self.path, content=self.body, headers=fields)
        if self.body is not None:
            request.stream = self.stream(self.body)
        return request


class Requests:
    """Sends requests to one worker.

    Args:
        new_client: Makes clients whose base_url is the worker's, with the key as it is found then.
        host: host:port, for errors.
        sender: The way up.

    Attributes:
        line: The connection in use.
    """

    def __init__(self, new_client: Callable[[], httpx.AsyncClient], host: str, sender: Sender) -> None:
        self._new_client, self._host, self._sender = new_client, host, sender
        self._experience = Experience()
        self.line = Line(new_client(), self._experience)

    async def send(self, asked: Asked, deadline_s: float, line: Line | None = None) -> tuple[Line, bytes]:
        """One request, over ``line`` or the one in use: the line it went over, and the answer's body.

        A key that was good and is refused is another one now, as a lease's epoch is: once more over a new connection.

        Raises:
            LinkLost: No connection, or it broke.
            Unavailable: The deadline passed; or the act is lost, see `Link.act`.
            RemoteError: What was answered instead.
        """
        until, line = anyio.current_time() + deadline_s, line or self.line
        answer = await self._answer(line, asked, deadline_s)
        if answer is not None and answer.status_code == 401 and line.welcome and not self._is_over(answer, asked):
            await self._leave(line, KeyRefused("the worker asks for another key"))
            answer = None
        if answer is None and isinstance(line.failure, KeyRefused):
            line = self.line
            answer = await self._answer(line, asked, max(0.001, until - anyio.current_time()))
        if answer is None:  # the line was left meanwhile
            raise self._lost_with(line, asked)
        if not answer.is_success:
            raise self._refused(answer, asked)
        line.welcome = line.welcome or asked.phase != "ping"
        return line, answer.content

    async def give_up(self, line: Line, silent_s: float) -> LinkLost:
        """Leave ``line``, on which nothing has come for so long."""
        line.silent()
        await self._leave(line, TimeoutError(f"nothing came for {silent_s:.1f} s"))
        return self._lost_with(line, Asked("GET", "/ping", "ping"))

    async def aclose(self) -> None:
        """Close the connection. A request that comes later fails: nobody would close what it opens."""
        if self.line.failure is None:
            await self.line.leave(ConnectionError("the link was closed"))

    async def _answer(self, line: Line, asked: Asked, deadline_s: float) -> httpx.Response | None:
        """The answer; None when the line was left."""
        if line.failure is not None:
            return None
        request, began_s = asked.over(line.client, deadline_s), anyio.current_time()
        measures = asked.body is None and self._sender.is_idle
        if not isinstance(request.stream, Pieces):
            self._sender.control(len(asked.body or b""))
        try:
            answer = await line.send(request, deadline_s, asked.act, is_ping=asked.phase == "ping")
            if measures:
                self._sender.round_trip(max(began_s, line.opened_at))  # opening takes round trips of its own
            return answer
        except Left:
            return None
        except _BROKEN as error:
            await self._broken(line, error, asked)
            return None
        except ActLost as lost:
            raise self._unavailable(str(lost), "unavailable", asked, reason=ACT_LOST) from None
        except Overdue:
            late = self._unavailable(f"no answer within {deadline_s:g} s", "timeout", asked)
            if asked.phase != "act" and line.is_mute:
                await self._leave(line, late)
            raise late from None

    async def _broken(self, line: Line, error: Exception, asked: Asked) -> None:
        """Raise what a request's own failure comes to; a line that was left before closed the socket under it."""
        if line.failure is not None:
            return
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            line.liveness.refused()
            raise self._lost(f"cannot connect: {_told(error)}", asked, error, "connect") from error
        await self._leave(line, error)
        raise self._lost(f"connection lost: {_told(error)}", asked, error) from error

    async def _leave(self, line: Line, failure: BaseException) -> None:
        """The next request goes over a new connection."""
        if self.line is line:
            self.line = line.another(self._new_client())
            self._sender.renew()
            await line.leave(failure)

    def _is_over(self, answer: httpx.Response, asked: Asked) -> bool:
        """Whether a lease is: another key is not found, but granted."""
        return self._refused(answer, asked).details.get("reason") == LEASE

    def _lost(self, what: str, asked: Asked, error: BaseException, phase: str = "") -> LinkLost:
        phase = phase or asked.phase
        return LinkLost(
            what, code="unavailable", host=self._host, phase=phase, request_id=asked.act, hint=_hint(error, phase)
        )

    def _lost_with(self, line: Line, asked: Asked) -> LinkLost:
        """A request's end with the line it was on, which was left."""
        failure = line.failure or Left()
        lost = self._lost(f"connection lost: {_told(failure)}", asked, failure)
        lost.__cause__ = failure
        return lost

    def _unavailable(self, what: str, code: str, asked: Asked, **details: str) -> Unavailable:
        return Unavailable(what, code=code, host=self._host, phase=asked.phase, request_id=asked.act, details=details)

    def _refused(self, answer: httpx.Response, asked: Asked) -> RemoteError:
        return error_from(
            answer.status_code,
            answer.content,
            host=self._host,
            phase=asked.phase,
            request_id=answer.headers.get(headers.REQUEST_ID, asked.act),
            retry_after=answer.headers.get(headers.RETRY_AFTER),
        )


def _hint(error: BaseException, phase: str) -> str | None:
    """None where the error says itself what to do, or where the connection was left here and the worker is fine."""
    if isinstance(error.__cause__, Explained) or not isinstance(error, httpx.TransportError):
        return None
    return _HINTS.get(phase)


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
