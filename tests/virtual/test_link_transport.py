from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

from seqrt.testing.transport import App, LinkTransport

pytestmark = pytest.mark.anyio
UP_S, DOWN_S = 0.0203, 0.0307


class EchoApp:
    """Answers with the body it was sent, after ``infer_s``; notes what happened when."""

    def __init__(self, infer_s: float = 0.0) -> None:
        self.infer_s = infer_s
        self.began: list[tuple[str, float]] = []
        self.ended: list[str] = []
        self.pieces: list[int] = []
        self.scopes: list[dict[str, Any]] = []

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.scopes.append(scope)
        self.began.append((scope["path"], anyio.current_time()))
        body, more, pieces = b"", True, 0
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            body += message["body"]
            more = message["more_body"]
            pieces += 1
        self.pieces.append(pieces)
        await anyio.sleep(self.infer_s)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-echo", b"1")]})
        await send({"type": "http.response.body", "body": body})
        self.ended.append(scope["path"])


def client_of(link: LinkTransport, timeout: float | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=link, base_url="http://robot.test:8080", timeout=timeout)


async def test_a_request_takes_its_way_up_the_apps_time_and_its_way_down() -> None:
    app = EchoApp(infer_s=0.5)
    async with LinkTransport(app, up_s=UP_S, down_s=DOWN_S) as link, client_of(link) as client:
        answer = await client.post("/act", content=b"x" * 1000)
        assert answer.content == b"x" * 1000
        assert answer.http_version == "HTTP/2"
        assert answer.headers["x-echo"] == "1"
        assert app.began == [("/act", pytest.approx(UP_S))]
        assert anyio.current_time() == pytest.approx(UP_S + 0.5 + DOWN_S)
        assert app.scopes[0]["http_version"] == "2"
        assert app.scopes[0]["server"] == ("robot.test", 8080)
        assert (b"content-length", b"1000") in app.scopes[0]["headers"]


async def test_a_client_that_enters_the_link_itself_is_enough() -> None:
    async with httpx.AsyncClient(transport=LinkTransport(EchoApp()), base_url="http://robot.test") as client:
        assert (await client.post("/act", content=b"x")).content == b"x"


async def test_bodies_arrive_whole_in_pieces_cut_elsewhere_each_time() -> None:
    app = EchoApp()
    async with LinkTransport(app, seed=7) as link, client_of(link) as client:
        for size in [0, 1, 2, 3, *range(50, 60)]:
            body = bytes(range(size))
            assert (await client.post("/observe", content=body)).content == body
    assert len(set(app.pieces)) > 2


async def test_a_body_that_is_made_while_it_is_sent_arrives_as_it_is_made() -> None:
    app = EchoApp()

    async def slowly() -> AsyncIterator[bytes]:
        for part in (b"red", b"green"):
            yield part
            await anyio.sleep(1.0)

    async with LinkTransport(app, up_s=UP_S) as link, client_of(link) as client:
        assert (await client.post("/observe", content=slowly())).content == b"redgreen"
        assert app.began == [("/observe", pytest.approx(UP_S))]
        assert anyio.current_time() == pytest.approx(2.0 + UP_S)


async def test_a_cancelled_request_leaves_the_handler_running_to_its_end() -> None:
    app = EchoApp(infer_s=2.0)
    async with LinkTransport(app, up_s=UP_S, down_s=DOWN_S) as link, client_of(link) as client:
        with anyio.move_on_after(1.0):
            await client.post("/act")
        assert anyio.current_time() == pytest.approx(1.0)
        assert (link.statistics().under_way, link.statistics().handlers) == (0, 1)
        await anyio.sleep(2.0)
        assert app.ended == ["/act"]
        assert link.statistics().answers == 0


async def many(client: httpx.AsyncClient, count: int, spacing_s: float = 0.01) -> list[int]:
    """Send ``count`` requests, one each ``spacing_s``; the numbers of the answers in order of arrival."""
    arrived: list[int] = []

    async def one(number: int) -> None:
        await anyio.sleep(number * spacing_s)
        await client.post(f"/{number}", content=b"x" * 100)
        arrived.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return arrived


async def test_on_one_connection_nothing_overtakes_anything() -> None:
    app = EchoApp()
    async with LinkTransport(app, up_s=[0.5, 0.1, 0.3, 0.0], down_s=[0.9, 0.0]) as link, client_of(link) as client:
        assert await many(client, 8) == list(range(8))
        assert [path for path, _ in app.began] == [f"/{number}" for number in range(8)]


async def test_requests_of_one_instant_reach_the_app_in_the_order_they_were_sent() -> None:
    app = EchoApp()
    async with LinkTransport(app, up_s=[0.5, 0.0]) as link, client_of(link) as client:
        await many(client, 20)
        assert [path for path, _ in app.began] == [f"/{number}" for number in range(20)]


async def test_out_of_order_delays_are_independent() -> None:
    app = EchoApp()
    link = LinkTransport(app, up_s=[0.5, 0.1, 0.3, 0.0], in_order=False)
    async with link, client_of(link) as client:
        assert await many(client, 4) == [3, 1, 2, 0]


async def test_a_lost_request_never_reaches_the_app_and_nobody_is_told() -> None:
    app = EchoApp()
    link = LinkTransport(app, lose_request=lambda request: request.url.path == "/lost")
    async with link, client_of(link) as client:
        with anyio.move_on_after(1000) as scope:
            await client.post("/lost", content=b"xyz")
        assert scope.cancelled_caught
        assert (await client.post("/kept")).status_code == 200
        assert [path for path, _ in app.began] == ["/kept"]
        assert link.statistics().lost == 1


async def test_a_lost_answer_leaves_the_work_done() -> None:
    app = EchoApp()
    async with LinkTransport(app, lose_answer=lambda request: True) as link, client_of(link) as client:
        with anyio.move_on_after(1000) as scope:
            await client.post("/act")
        assert scope.cancelled_caught
        assert app.ended == ["/act"]


@pytest.mark.parametrize(
    ("kind", "under_way", "later"),
    [
        ("refused", httpx.ReadError, httpx.ConnectError),
        ("reset", httpx.ReadError, httpx.ReadError),
        ("closed", httpx.RemoteProtocolError, httpx.RemoteProtocolError),
    ],
)
async def test_an_outage_breaks_what_is_under_way_and_what_comes_and_then_is_over(
    kind: Any, under_way: type[Exception], later: type[Exception]
) -> None:
    app = EchoApp(infer_s=2.0)
    link = LinkTransport(app, up_s=UP_S, down_s=DOWN_S, outages=[(1.0, 3.0, kind)])
    async with link, client_of(link) as client:
        with pytest.raises(under_way) as caught:
            await client.post("/a")
        assert caught.value.request.url.path == "/a"  # type: ignore[attr-defined]
        assert anyio.current_time() == pytest.approx(1.0)
        with pytest.raises(later):
            await client.post("/b")
        assert anyio.current_time() == pytest.approx(1.0 + UP_S + DOWN_S)
        await anyio.sleep_until(3.1)
        assert (await client.post("/c", content=b"x")).content == b"x"
        assert app.ended == (["/c"] if kind == "refused" else ["/a", "/c"])
        assert link.statistics().broken == 2


async def test_what_falls_into_a_silent_outage_is_gone() -> None:
    app = EchoApp(infer_s=1.0)
    link = LinkTransport(app, up_s=UP_S, down_s=DOWN_S, outages=[(0.5, 5.0, "silent")])
    async with link, client_of(link) as client:
        with anyio.move_on_after(100) as scope:
            await client.post("/act")
        assert scope.cancelled_caught
        assert app.ended == ["/act"]
        assert (await client.post("/act")).status_code == 200


async def test_what_falls_into_a_stall_arrives_at_its_end_in_order() -> None:
    app = EchoApp()
    link = LinkTransport(app, up_s=UP_S, down_s=DOWN_S, outages=[(0.0, 4.0, "stalled")])
    async with link, client_of(link) as client:
        assert await many(client, 5) == list(range(5))
        assert all(at_s == pytest.approx(4.0, abs=1e-4) for _, at_s in app.began)
        assert anyio.current_time() == pytest.approx(4.0 + DOWN_S, abs=1e-4)


async def test_an_outage_can_begin_and_end_by_hand() -> None:
    async with LinkTransport(EchoApp()) as link, client_of(link) as client:
        link.begin_outage("refused")
        with pytest.raises(httpx.ConnectError):
            await client.post("/act")
        link.end_outage()
        assert (await client.post("/act")).status_code == 200


async def test_a_restarted_worker_is_another_app() -> None:
    first, second = EchoApp(), EchoApp()
    async with LinkTransport(first) as link, client_of(link) as client:
        await client.post("/act")
        link.app = second
        await client.post("/act")
    assert (len(first.began), len(second.began)) == (1, 1)


async def test_a_read_timeout_of_httpx_is_honoured() -> None:
    async with LinkTransport(EchoApp(infer_s=9.0)) as link, client_of(link, timeout=5.0) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/act")
        assert anyio.current_time() == pytest.approx(5.0)


async def raises_at_once(scope: Any, receive: Any, send: Any) -> None:
    raise KeyError("camera")


async def raises_in_its_answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise KeyError("camera")


async def test_an_app_that_raises_answers_500_and_the_link_lives_on() -> None:
    app: App = raises_at_once
    async with LinkTransport(app, up_s=UP_S) as link, client_of(link) as client:
        assert (await client.post("/act")).status_code == 500
        assert isinstance(link.app_errors[0], KeyError)
        link.app = EchoApp()
        assert (await client.post("/act")).status_code == 200


async def test_an_app_that_raises_within_its_answer_breaks_it_off() -> None:
    async with LinkTransport(raises_in_its_answer) as link, client_of(link) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/act")


async def test_an_app_that_listens_is_told_when_the_connection_is_gone() -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        heard.append(message["type"])

    async with LinkTransport(app, outages=[(1.0, 2.0, "reset")]) as link, client_of(link) as client:
        with pytest.raises(httpx.ReadError):
            await client.post("/act", content=b"x")
        await anyio.sleep(0.5)
        assert heard == ["http.disconnect"]


async def test_statistics_count_what_went_through() -> None:
    async with LinkTransport(EchoApp()) as link, client_of(link) as client:
        await client.post("/observe", content=b"x" * 500)
        await client.post("/act", content=b"x" * 30)
        statistics = link.statistics()
    assert dict(statistics.requests_to) == {"/observe": 1, "/act": 1}
    assert (statistics.requests, statistics.answers) == (2, 2)
    assert (statistics.bytes_up, statistics.bytes_down) == (530, 530)
    assert (statistics.under_way, statistics.handlers, statistics.lost, statistics.broken) == (0, 0, 0, 0)


async def test_what_the_program_raises_inside_the_link_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with LinkTransport(EchoApp(), outages=[(5.0, math.inf, "silent")]):
            raise KeyError("mine")


async def test_leaving_the_link_ends_handlers_that_still_run() -> None:
    app = EchoApp(infer_s=1e6)
    async with LinkTransport(app) as link, client_of(link) as client:
        with anyio.move_on_after(1.0):
            await client.post("/act")
    assert anyio.current_time() == pytest.approx(1.0)
    assert app.ended == []


async def test_the_link_is_to_be_entered_first() -> None:
    with pytest.raises(RuntimeError, match="enter the LinkTransport"):
        await LinkTransport(EchoApp()).handle_async_request(httpx.Request("GET", "http://robot.test/"))


async def test_the_worlds_own_frameworks_run_behind_it() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request: Request) -> JSONResponse:
        return JSONResponse({"sum": sum(json.loads(await request.body())), "q": request.query_params["q"]})

    app = Starlette(routes=[Route("/sum", answer, methods=["POST"])])
    async with LinkTransport(app, up_s=UP_S) as link, client_of(link) as client:
        assert (await client.post("/sum?q=a", json=[1, 2, 3])).json() == {"sum": 6, "q": "a"}


@pytest.mark.parametrize("outages", [[(2.0, 1.0, "reset")], [(0, 2, "reset"), (1, 3, "reset")], [(0, 1, "gone")]])
def test_outages_that_make_no_sense_are_refused(outages: Any) -> None:
    with pytest.raises(ValueError, match="outage"):
        LinkTransport(EchoApp(), outages=outages)
