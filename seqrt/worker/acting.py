"""``POST /act``: an act from its key to its answer, and on when its answer is waited for no longer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from seqrt.errors import remote_error
from seqrt.policies.host import Host
from seqrt.watching.passage import Passage
from seqrt.wire.headers import DEADLINE_S, parse_seconds
from seqrt.wire.legacy import read_act
from seqrt.wire.messages import ActRequest, ActResponse
from seqrt.worker.answers import Answer, answer
from seqrt.worker.asgi import Receive, Scope, Send
from seqrt.worker.call import Call
from seqrt.worker.entry import Entry
from seqrt.worker.lifetime import Lifetime
from seqrt.worker.patience import in_time


class Acting:
    """The route as an ASGI app.

    Args:
        host: What serves.
        entry: Who may ask.
        body: Reads a request's body.
        lifetime: Of its requests.
    """

    def __init__(
        self, host: Host, *, entry: Entry, body: Callable[[Call], Awaitable[bytes]], lifetime: Lifetime
    ) -> None:
        self._host, self._entry, self._body, self._lifetime = host, entry, body, lifetime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        call = Call(scope, receive)
        refused = await self._lifetime.tried(call, self._let_in)
        if refused is None:
            sent = await self._watched(call, send)
        else:
            sent = await self._lifetime.send(call, refused, send)
        self._lifetime.over(call, sent)

    async def _let_in(self, call: Call) -> None:
        self._entry.check(call)

    async def _watched(self, call: Call, send: Send) -> int:
        with self._host.watch.act(call.id, call.headers) as passage:
            passage.enter("read")
            found = await self._lifetime.tried(call, self._read)
            passage.code = call.code
            if isinstance(found, Answer):
                return await self._lifetime.send(call, found, send)
            try:
                return await self._served(call, found, passage, send)
            finally:
                passage.code = call.code

    async def _read(self, call: Call) -> ActRequest:
        return read_act(await self._body(call), call.content_type)

    async def _served(self, call: Call, request: ActRequest, passage: Passage, send: Send) -> int:
        """Answer when the act is served, or when its time is over; it runs on then and its answer is kept."""
        patience_s = self._host.patience_s(parse_seconds(call.headers.get(DEADLINE_S)))
        async with anyio.create_task_group() as tasks:
            answered = await in_time(tasks, lambda: self._answered(call, request, passage), patience_s)
            sent = await self._lifetime.send(call, answered or self._overdue(call, patience_s), send)
        return sent

    async def _answered(self, call: Call, request: ActRequest, passage: Passage) -> Answer:
        try:
            response = await self._act(call, request, passage)
            passage.enter("answer")
            answered = answer(response, call.media)
            self._say(call, request, response, passage)
        except Exception as raised:
            return self._lifetime.refused(call, raised)
        return answered

    async def _act(self, call: Call, request: ActRequest, passage: Passage) -> ActResponse:
        return await self._host.act(
            request,
            request_id=call.id,
            owner=call.owner,
            deadline_s=parse_seconds(call.headers.get(DEADLINE_S)),
            source=call.client,
            passage=passage,
        )

    def _overdue(self, call: Call, patience_s: float) -> Answer:
        error = remote_error(
            "timeout",
            f"the act was not answered within {patience_s:g} s",
            hint="ask again under the same request id: its answer is kept",
            details={"reason": self._host.running(call.id, call.owner)["state"]},
        )
        return self._lifetime.refused(call, error)

    def _say(self, call: Call, request: ActRequest, response: ActResponse, passage: Passage) -> None:
        t = response.plan.t if response.plan is not None else None
        told = {"episode": request.episode_id, "seq": request.seq, "t": t, **passage.told()}
        self._lifetime.say(logging.DEBUG, call, "answered", told)
