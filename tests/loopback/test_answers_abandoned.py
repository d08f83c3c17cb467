"""An answer that nobody waits for any more is never taken for another's: over HTTP/2, and over HTTP/1.1."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from echoing import HANG_S

from seqrt import Unavailable
from seqrt.link.http import HttpLink
from seqrt.link.network import Network
from seqrt.link.opening import OneConnection
from seqrt.testing import Scripted
from seqrt.wire.messages import ActRequest
from seqrt.worker.server import serving

pytestmark = pytest.mark.anyio


class Gated:
    """Answers with the path, twice: the first when it may begin, the second when it may end."""

    def __init__(self) -> None:
        self.arrived, self.may_begin, self.may_end = (defaultdict[str, anyio.Event](anyio.Event) for _ in range(3))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        while (await receive()).get("more_body"):
            pass
        self.arrived[path].set()
        await self.may_begin[path].wait()
        length = (b"content-length", str(2 * len(path)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": path.encode(), "more_body": True})
        await self.may_end[path].wait()
        await send({"type": "http.response.body", "body": path.encode()})

    def let(self, *paths: str) -> None:
        """Let all of these be answered whole."""
        for path in paths:
            self.may_begin[path].set()
            self.may_end[path].set()


@contextlib.asynccontextmanager
async def gated(protocol: str) -> AsyncIterator[tuple[Gated, httpx.AsyncClient]]:
    app, http1 = Gated(), protocol == "HTTP/1.1"
    with anyio.fail_after(HANG_S):
        async with serving(Scripted(), wrap=lambda _: app, grace_s=0.1) as server:
            transport = OneConnection(Network(http2=not http1), http1=http1)
            async with httpx.AsyncClient(transport=transport, base_url=server.url, timeout=None) as client:
                app.let("/first")
                first = await client.get("/first")
                assert first.http_version == protocol
                yield app, client


@pytest.mark.parametrize("protocol", ["HTTP/2", "HTTP/1.1"])
@pytest.mark.parametrize("when", ["before its answer", "in the middle of its answer"])
async def test_a_request_given_up_leaves_its_answer_to_nobody(protocol: str, when: str) -> None:
    kept, answers = [f"/kept{n}" for n in range(3)], dict[str, str]()
    given_up = [f"/given-up{n}" for n in range(3)]
    async with gated(protocol) as (app, client), anyio.create_task_group() as tasks:
        scopes, begun = dict[str, anyio.CancelScope](), defaultdict[str, anyio.Event](anyio.Event)

        async def give_up(path: str) -> None:
            with anyio.CancelScope() as scopes[path]:
                async with client.stream("GET", path) as answer:
                    async for _ in answer.aiter_raw():
                        begun[path].set()
                answers[path] = "taken"

        async def ask(path: str) -> None:
            answers[path] = (await client.get(path)).text

        for unwanted, wanted in zip(given_up, kept, strict=True):
            tasks.start_soon(give_up, unwanted)
            await app.arrived[unwanted].wait()
            tasks.start_soon(ask, wanted)
            await app.arrived[wanted].wait()
        for path in given_up:
            if when == "in the middle of its answer":
                app.may_begin[path].set()
                await begun[path].wait()
            scopes[path].cancel()
        await anyio.wait_all_tasks_blocked()
        app.let(*given_up)  # now they are answered, and nobody is there
        await anyio.wait_all_tasks_blocked()
        app.let(*reversed(kept), "/after")
        tasks.start_soon(ask, "/after")
    assert answers == {path: path * 2 for path in [*kept, "/after"]}


@pytest.mark.parametrize("protocol", ["HTTP/2", "HTTP/1.1"])
async def test_the_answer_to_an_act_past_its_deadline_is_not_the_next_ones(protocol: str) -> None:
    late, http1 = anyio.Event(), protocol == "HTTP/1.1"

    def hold_the_first_act(app: Any) -> Any:
        acts: list[Any] = []

        async def held(scope: Any, receive: Any, send: Any) -> None:
            async def send_late(message: Any) -> None:
                if acts.index(scope) == 0:
                    await late.wait()
                await send(message)

            if scope["type"] == "http" and scope["path"] == "/act":
                acts.append(scope)
                await app(scope, receive, send_late)
            else:
                await app(scope, receive, send)

        return held

    policy = Scripted(by="state", rows=2)
    async with serving(policy, wrap=hold_the_first_act, grace_s=0.1) as server:

        def new_client() -> httpx.AsyncClient:
            transport = OneConnection(Network(http2=not http1), http1=http1)
            return httpx.AsyncClient(transport=transport, base_url=server.url, timeout=None)

        link = HttpLink(new_client, host="", timeout_s=HANG_S, offload=inline)
        try:
            await link.info()
            line = link.line
            first, second = [await link.prepare(ActRequest(inputs={"state": [at, 0.0, 0.0]})) for at in (100.0, 200.0)]
            with pytest.raises(Unavailable) as error:
                await link.act(first, "r-00000001", 0.05)
            assert error.value.code == "timeout"
            late.set()
            answer = await link.act(second, "r-00000002", 10.0)
            assert answer.outputs["actions"][0][0] == 201.0
            again = await link.act(first, "r-00000001", 10.0)  # it ran once, and its answer is kept for it
            assert again.outputs["actions"][0][0] == 101.0
            assert len(policy.calls) == 2
            assert link.line is line
        finally:
            await link.aclose()


async def inline(function: Any) -> Any:
    return function()
