"""One connection of a link: the requests under way on it, and what it knows of how alive it is.

A connection that failed is left as a whole: httpcore keeps one whose streams were cancelled at the wrong moment for
ever, without closing it or telling the requests that wait for their turn on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import httpx

from seqrt.link.client import StraightClient
from seqrt.link.heard import LINE, SENT
from seqrt.link.liveness import Experience, Liveness, Ping
from seqrt.link.network import CLOSE_S
from seqrt.link.paced import Pieces
from seqrt.link.tcp import taken_bytes, waiting_bytes
from seqrt.wire.messages import PolicyInfo, Running


class Overdue(Exception):
    """No answer came within the request's time."""


class Left(Exception):
    """The connection was left while the request was under way; ``line.failure`` says why."""


class KeyRefused(Exception):
    """A key that was good is not any more: a line is left for one with the key as it is found now."""


class ActLost(Exception):
    """The worker does not have this act, or has answered it and the answer never came."""

    def __init__(self, state: str) -> None:
        super().__init__(
            "the worker does not have this act: it never arrived, or the worker was restarted"
            if state == "unknown"
            else "the worker has answered this act, and the answer was lost"
        )


@dataclass(eq=False)
class _Out:
    scope: anyio.CancelScope
    lost: ActLost | None = None


class Line:
    """One client, which has one connection.

    Args:
        client: Opens the connection with the first request.
        experience: What is known of this worker.

    Attributes:
        failure: Why it was left; None while it is in use.
        info: What is declared at its other end, once it was read.
        reading: Set when `info` has been read, or could not be; None while nobody does.
        opened_at: When it was opened; -inf before.
        welcome: Whether its key was good for a request.
        protocol: "HTTP/2" or "HTTP/1.1", as the last answer came; "" before the first.
        tended: Whether somebody looks after it.
        stirred: Set, and made anew, when who looks after it should look again.
        used: The same, when it was opened, or an act goes out.
    """

    def __init__(self, client: httpx.AsyncClient, experience: Experience) -> None:
        self.client = client
        self.failure: BaseException | None = None
        self.info: PolicyInfo | None = None
        self.reading: anyio.Event | None = None
        self.welcome = False
        self.protocol = ""
        self.tended = False
        self.liveness = Liveness(experience)
        self.stirred, self.used = anyio.Event(), anyio.Event()
        self._experience = experience
        self._under_way: set[_Out] = set()
        self._acts: dict[str, _Out] = {}
        self.opened_at = -math.inf
        self._socket: Any = None

    def another(self, client: httpx.AsyncClient) -> Line:
        """A new connection to the same worker, in the place of this one."""
        line = Line(client, self._experience)
        line.protocol = self.protocol
        return line

    @property
    def socket(self) -> Any:
        """The system's socket; None before the first answer, and where there is none."""
        return self._socket

    @property
    def is_opened(self) -> bool:
        """Whether its connection has been opened, whatever has become of it."""
        return self.opened_at > -math.inf

    @property
    def is_mute(self) -> bool:
        """Whether nothing comes, and nobody looks after it who would find out whether that is a fault."""
        return not self.tended and self.liveness.is_silent(anyio.current_time())

    # Requests.

    async def send(
        self, request: httpx.Request, deadline_s: float, act: str | None = None, *, is_ping: bool = False
    ) -> httpx.Response:
        """The answer, whole; ``act`` is the request's id where it is one.

        What goes in pieces has ``deadline_s`` after each of them: on a narrow link others go in between.

        Raises:
            Overdue: The deadline passed.
            Left: The line was left meanwhile.
            ActLost: The worker was asked, and does not have the act.
            Exception: What httpx raises.
        """
        now = anyio.current_time()
        self.liveness.begin(now)
        with anyio.CancelScope(deadline=now + deadline_s) as scope:
            out = _Out(scope)
            if isinstance(request.stream, Pieces):
                request.stream.gone = partial(_put_off, scope, deadline_s)
            self._begin(out, request, act)
            if is_ping:
                request.extensions[SENT] = self._ping_handed_over
            try:
                return await self._answer(request, act)
            finally:
                self._end(out, act)
        raise out.lost or (Overdue() if self.failure is None else Left())

    def _begin(self, out: _Out, request: httpx.Request, act: str | None) -> None:
        self._under_way.add(out)
        request.extensions = {**request.extensions, LINE: self}
        if act is None:
            return
        self._acts[act] = out
        self.liveness.act_out(act, anyio.current_time())
        request.extensions[SENT] = lambda: self.liveness.act_handed_over(act, anyio.current_time())
        self._use()

    def _end(self, out: _Out, act: str | None) -> None:
        self._under_way.discard(out)
        if act is not None and self._acts.get(act) is out:
            del self._acts[act]
            self.liveness.act_over(act)

    async def _answer(self, request: httpx.Request, act: str | None) -> httpx.Response:
        began_at = anyio.current_time()
        answer = await self.client.send(request, stream=True)
        try:
            if act is not None:
                self.liveness.act_begun(act)
            await answer.aread()
        except BaseException:
            await answer.aclose()
            raise
        self.protocol = answer.http_version
        self._experience.was_answered()
        if act is not None and answer.is_success:
            self._experience.served(anyio.current_time() - began_at)
        return answer

    # What its connection tells.

    def opened(self, socket: Any) -> None:
        """It is open: what is declared at the other end has yet to be read."""
        self._socket, self.info = socket, None
        self.opened_at = anyio.current_time()
        self.liveness.opened(anyio.current_time())
        self._use()
        self._stir()

    async def nudge(self) -> None:
        """Send a few bytes that mean nothing, unless something is being sent."""
        if isinstance(self.client, StraightClient):
            await self.client.nudge()

    def heard(self) -> None:
        """Bytes came."""
        self.liveness.heard(anyio.current_time())

    # Who looks after it.

    def pinged(self, ping: Ping) -> None:
        """A ping goes out, behind whatever the other end has not taken yet."""
        self.liveness.pinged(ping, anyio.current_time())

    def look(self) -> None:
        """See how much the other end has taken."""
        self.liveness.looked(taken_bytes(self._socket), anyio.current_time())

    def _ping_handed_over(self) -> None:
        self.look()
        self.liveness.ping_handed_over(waiting_bytes(self._socket), anyio.current_time())

    def ping_over(self, ping: Ping, said: Running | None, took_s: float) -> None:
        """A ping's time is over: it was answered, or it was not."""
        self.liveness.ping_over()
        if said is not None:
            self._experience.answered(took_s)
            if said.state is not None and self.liveness.is_lost(ping, said.state, said.for_s):
                self._lose(ping.about or "", said.state)
        self._stir()

    def _lose(self, act: str, state: str) -> None:
        out = self._acts[act]
        out.lost = ActLost(state)
        out.scope.cancel()

    async def leave(self, failure: BaseException) -> None:
        """Close the connection and end what is under way on it."""
        self.failure = failure
        for out in self._under_way:
            out.scope.cancel()
        self._stir()
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.client.aclose()

    def silent(self) -> None:
        """It is given up for its silence."""
        if self.liveness.is_open:
            self._experience.was_silent()

    def _use(self) -> None:
        self.used.set()
        self.used = anyio.Event()

    def _stir(self) -> None:
        self.stirred.set()
        self.stirred = anyio.Event()


def _put_off(scope: anyio.CancelScope, by_s: float) -> None:
    scope.deadline = anyio.current_time() + by_s
