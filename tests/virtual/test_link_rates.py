"""`LinkTransport` with a bottleneck: when bytes arrive, and what their sender feels of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from seqrt.testing import FakeArm, Scripted, stalls_at_random
from seqrt.testing.connected import connected
from seqrt.testing.transport import LinkTransport

pytestmark = pytest.mark.anyio
UP_S = 0.0203
RATE = 125_000.0
"""A megabit a second, in bytes."""


class Arrivals:
    """An app that notes when each byte count of a body has arrived, and answers with ``answer``."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.whole: dict[str, float] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            more = message["type"] == "http.request" and message["more_body"]
        if message["type"] == "http.request":
            self.whole[scope["path"]] = anyio.current_time()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.answer})


def client_of(link: LinkTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=link, base_url="http://robot.test:8080", timeout=None)


class Pieces(httpx.AsyncByteStream, AsyncIterator[bytes]):
    """A body of pieces that notes when each is taken. No generator: trio minds those that are left half-way."""

    def __init__(self, size: int, piece: int) -> None:
        self.left, self.piece = size, piece
        self.taken: list[float] = []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        self.taken.append(anyio.current_time())
        size = min(self.piece, self.left)
        self.left -= size
        return bytes(size)


async def post(client: httpx.AsyncClient, path: str, body: Pieces) -> None:
    request = client.build_request("POST", path)
    request.stream = body
    await client.send(request)


async def test_a_body_takes_its_size_over_the_rate_and_then_the_way() -> None:
    app = Arrivals(answer=bytes(25_000))
    link = LinkTransport(app, up_s=UP_S, up_bytes_per_s=RATE, down_bytes_per_s=2 * RATE)
    async with link, client_of(link) as client:
        await client.post("/observe", content=bytes(50_000))
        assert app.whole["/observe"] == pytest.approx(0.4 + UP_S)
        assert anyio.current_time() == pytest.approx(0.4 + UP_S + 0.1)


async def test_what_was_handed_over_before_is_ahead_in_one_queue_for_all() -> None:
    app = Arrivals()
    link = LinkTransport(app, up_s=UP_S, up_bytes_per_s=RATE)
    async with link, client_of(link) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.post("/observe", content=bytes(50_000)))
        await anyio.sleep(0.1007)
        tasks.start_soon(lambda: client.post("/act", content=bytes(1_250)))
    assert app.whole["/act"] == pytest.approx(0.4 + 0.01 + UP_S, abs=1e-4)


async def test_the_next_piece_is_taken_once_the_socket_buffer_has_room() -> None:
    body = Pieces(100_000, 10_000)
    link = LinkTransport(Arrivals(), up_bytes_per_s=RATE, socket_buffer_bytes=30_000)
    async with link, client_of(link) as client:
        await post(client, "/observe", body)
    # Three fill the buffer and the fourth, too, is handed over; from then on one goes as one is through.
    assert body.taken == pytest.approx([0, 0, 0, 0, 0.08, 0.16, 0.24, 0.32, 0.40, 0.48])


async def test_an_act_comes_between_the_pieces_of_a_paced_post() -> None:
    app = Arrivals()
    link = LinkTransport(app, up_bytes_per_s=RATE, socket_buffer_bytes=5_000)
    async with link, client_of(link) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(post, client, "/observe", Pieces(100_000, 10_000))
        await anyio.sleep(0.2003)
        tasks.start_soon(lambda: client.post("/act", content=bytes(125)))
    # What was in the buffer, and a piece each before its head, its body and its end: three writes, as httpcore's are.
    assert app.whole["/act"] < 0.2003 + 0.04 + 3 * 0.08 + 0.001 + 1e-3
    assert app.whole["/observe"] == pytest.approx(0.8 + 0.001, abs=1e-3)


async def test_the_rate_changes_while_bytes_wait() -> None:
    app = Arrivals()
    link = LinkTransport(app, up_s=UP_S, up_bytes_per_s=RATE)
    async with link, client_of(link) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.post("/observe", content=bytes(50_000)))
        await anyio.sleep(0.2)
        link.set_rate("up", RATE / 10)
        await anyio.sleep(1.0)
        link.set_rate("up", None)
    assert app.whole["/observe"] == pytest.approx(1.2 + UP_S)


async def test_a_stall_holds_the_bottleneck_and_its_sender_feels_it() -> None:
    app, body = Arrivals(), Pieces(50_000, 10_000)
    link = LinkTransport(
        app, up_s=UP_S, up_bytes_per_s=RATE, socket_buffer_bytes=10_000, stalls=[(0.1, 0.5)]
    )  # by 0.1 s 12,500 bytes are through, and of the 37,500 left 20,000 are handed over
    async with link, client_of(link) as client:
        await post(client, "/observe", body)
    assert app.whole["/observe"] == pytest.approx(0.9 + UP_S)
    assert sum(0.1 < at_s < 0.6 for at_s in body.taken) == 0
    assert body.taken[-1] > 0.6


async def test_a_reset_wakes_who_waits_for_room_and_leaves_the_next_an_empty_queue() -> None:
    app, body = Arrivals(), Pieces(10**7, 10_000)
    async with LinkTransport(app, up_bytes_per_s=RATE) as link, client_of(link) as client:
        async with anyio.create_task_group() as tasks:

            async def broken() -> None:
                with pytest.raises(httpx.ReadError):
                    await post(client, "/observe", body)
                assert anyio.current_time() == pytest.approx(1.0007)

            tasks.start_soon(broken)
            await anyio.sleep(1.0007)
            link.begin_outage("reset")
            link.end_outage()
        await client.post("/act", content=bytes(1_250))
        assert anyio.current_time() == pytest.approx(1.0007 + 0.01)
    assert len(body.taken) < 30


async def test_a_cancelled_upload_gives_its_turn_away() -> None:
    app = Arrivals()
    link = LinkTransport(app, up_bytes_per_s=RATE, socket_buffer_bytes=1_000)
    async with link, client_of(link) as client:
        with anyio.move_on_after(0.1):
            await post(client, "/observe", Pieces(10**7, 10_000))
        await client.post("/act", content=bytes(125))
    assert app.whole["/act"] == pytest.approx(0.161, abs=1e-3)


async def test_a_lost_request_takes_the_way_of_others_all_the_same() -> None:
    app = Arrivals()
    link = LinkTransport(app, up_bytes_per_s=RATE, lose_request=lambda request: request.url.path == "/lost")
    async with link, client_of(link) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.post("/lost", content=bytes(50_000)))
        await anyio.sleep(0.01)
        await client.post("/act", content=bytes(1_250))
        tasks.cancel_scope.cancel()
    assert app.whole["/act"] == pytest.approx(0.41)


async def test_a_run_over_a_narrow_link_with_stalls_at_random_plays_through() -> None:
    stalls = stalls_at_random(every_s=2.0, for_s=0.2507, until_s=10.0, seed=3)
    assert len(stalls) > 1
    policy = Scripted(rows=60, dims=3, hz=20, infer_s=0.1203)
    async with connected(policy, up_bytes_per_s=RATE, down_bytes_per_s=RATE, stalls=stalls) as ends:
        outcome = await ends.policy.run(FakeArm(joints=3), validate=lambda row: True, max_actions=200)
    assert (outcome.reason, outcome.underruns) == ("completed", 0)
