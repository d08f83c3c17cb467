"""A connection that is left ends what is under way on it, and what ends there tells why it was left: not how it ended.

Sockets that are closed under a request make it fail in ways of their own, on trio in the place of its cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from seqrt import LinkLost, RemoteError
from seqrt.link.doors import Door, Seat
from seqrt.link.http import HttpLink
from seqrt.link.line import Line
from seqrt.link.losing import Trouble, trouble_of
from seqrt.link.requests import Asked, Requests
from seqrt.link.sender import Sender
from seqrt.testing.offload import inline

pytestmark = pytest.mark.anyio

ACT = Asked("POST", "/act", "act", b"", act="req_0123456789abcdef")
PING = Asked("GET", "/ping", "ping")


class Closing(httpx.AsyncBaseTransport):
    """Keeps requests to one path until it is closed, and then each fails by itself; answers the others."""

    def __init__(
        self, failure: type[httpx.TransportError], *, keeps: str = "/act", statuses: tuple[int, ...] = ()
    ) -> None:
        self._failure, self._keeps, self._statuses = failure, keeps, list(statuses)
        self.seen: list[str] = []
        self.begun = anyio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request.url.path)
        if request.url.path != self._keeps:
            return httpx.Response(self._statuses.pop(0) if self._statuses else 200, content=b"")
        try:
            self.begun.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise self._failure("closed in mid-request") from None
        raise AssertionError


def requests_over(*transports: httpx.AsyncBaseTransport) -> Requests:
    """Each connection after the other goes over one of ``transports``."""
    following = iter(transports)
    return Requests(
        lambda: httpx.AsyncClient(transport=next(following), base_url="http://robot.test"), "robot.test:80", Sender()
    )


async def failure_of(requests: Requests, asked: Asked, leave: Callable[[Line], Any], begun: anyio.Event) -> RemoteError:
    """How ``asked`` ends when its line is left by ``leave`` while it is under way."""
    failures: list[RemoteError] = []

    async def ask() -> None:
        with pytest.raises(RemoteError) as raised:
            await requests.send(asked, 60.0)
        failures.append(raised.value)

    line = requests.line
    await requests.send(PING, 60.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await begun.wait()
        await leave(line)
    await requests.line.client.aclose()
    return failures[0]


@pytest.mark.parametrize("failure", [httpx.ReadError, httpx.ConnectError, httpx.ConnectTimeout])
async def test_a_request_whose_line_is_left_for_its_silence_says_so_however_it_fails(failure: Any) -> None:
    first = Closing(failure)
    requests = requests_over(first, Closing(failure))
    lost = await failure_of(requests, ACT, lambda line: requests.give_up(line, 2.0), first.begun)
    assert isinstance(lost, LinkLost)
    assert "nothing came for 2.0 s" in str(lost)
    assert isinstance(lost.__cause__, TimeoutError)
    assert (lost.phase, lost.request_id) == ("act", ACT.act)


async def test_who_gives_a_line_up_and_who_waited_on_it_are_told_the_same() -> None:
    first = Closing(httpx.ReadError)
    requests, told = requests_over(first, Closing(httpx.ReadError)), list[LinkLost]()

    async def give_up(line: Line) -> None:
        told.append(await requests.give_up(line, 2.0))

    lost = await failure_of(requests, ACT, give_up, first.begun)
    assert (told[0].detail, told[0].__cause__) == (lost.detail, lost.__cause__)
    assert trouble_of(told[0]) is trouble_of(lost) is Trouble.SILENT


async def test_a_request_cut_off_by_a_key_that_changed_goes_over_the_new_connection() -> None:
    first, second = Closing(httpx.ReadError, statuses=(200, 401)), Closing(httpx.ReadError, keeps="nothing")
    requests, policy = requests_over(first, second), Asked("GET", "/policy", "policy")
    await requests.send(policy, 60.0)
    left = requests.line
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(requests.send, ACT, 60.0)
        await first.begun.wait()
        await requests.send(policy, 60.0)
    assert requests.line is not left
    assert sorted(second.seen) == ["/act", "/policy"]
    await requests.line.client.aclose()


@pytest.mark.parametrize("failure", [httpx.ReadError, httpx.ConnectError])
async def test_a_request_at_a_worker_left_for_another_says_so_however_it_fails(failure: Any) -> None:
    transport = Closing(failure, keeps="/healthz")
    link = HttpLink(
        lambda: httpx.AsyncClient(transport=transport, base_url="http://robot.test"),
        host="robot.test:80", timeout_s=60.0, offload=inline(),
    )  # fmt: skip
    seat, failures = Seat(Door("robot.test:80", lambda: link), link), list[RemoteError]()

    async def ask() -> None:
        with pytest.raises(LinkLost) as raised:
            await seat.ask(lambda link: link.ready())
        failures.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await transport.begun.wait()
        await seat.leave()
    assert "left for another one" in failures[0].detail


async def test_a_link_that_is_closed_ends_what_is_under_way_and_takes_nothing_more() -> None:
    transport = Closing(httpx.ReadError, keeps="/healthz")
    link = HttpLink(
        lambda: httpx.AsyncClient(transport=transport, base_url="http://robot.test"),
        host="robot.test:80", timeout_s=60.0, offload=inline(),
    )  # fmt: skip

    async def ask() -> None:
        with pytest.raises(LinkLost, match="the link was closed"):
            await link.ready()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await transport.begun.wait()
        await link.aclose()
    await ask()
