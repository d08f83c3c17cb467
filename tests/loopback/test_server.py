"""The worker over real HTTP, on asyncio and trio: what hypercorn's settings, and our protocol over it, promise."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import numpy as np
import pytest
from echoing import HANG_S

from seqrt.observation import Observations, Stream
from seqrt.policies import HostLimits, policy
from seqrt.testing.relay import Relay
from seqrt.wire.codec import decode, encode
from seqrt.wire.headers import ACT_FORMATS, FORMATS_VALUE, MSGPACK, REQUEST_ID
from seqrt.wire.messages import ActRequest, ActResponse, Frame, ObserveRequest, ObserveResponse, PolicyInfo
from seqrt.worker import Server, serving

pytestmark = pytest.mark.anyio

HEADERS = {"content-type": MSGPACK, "accept": MSGPACK}
Codes = h2.settings.SettingCodes


@policy(observations=Observations(streams={"image": Stream(at=[-1, 0])}))
class Echo:
    def infer(self, obs: Any) -> Any:
        return {"actions": np.full((4, 2), float(obs["observations"][-1]["image"].sum())), "steps": obs["steps"]}


class Blocks:
    """Blocks its thread until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.let_go = threading.Event()

    def infer(self, obs: Any) -> Any:
        self.began.set()
        assert self.let_go.wait(60)
        return [1.0]


@asynccontextmanager
async def client(server: Server, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = {"http2": True, "http1": False, **options}
    async with httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60, **options) as made:
        yield made


async def waited(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(HANG_S):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_an_act_is_answered_from_what_was_observed() -> None:
    async with serving(Echo()) as server, client(server) as http:
        info = decode((await http.get("/policy")).content, PolicyInfo)
        assert Observations(**(info.observations or {})) == Observations(streams={"image": Stream(at=[-1, 0])})
        image = np.ones((3, 4), np.uint8)
        post = ObserveRequest(episode_id="e", frames=[Frame(seq=n, inputs={"image": image}) for n in range(2)])
        observed = await http.post("/observe", content=encode(post))
        assert (observed.http_version, observed.status_code) == ("HTTP/2", 200)
        assert decode(observed.content, ObserveResponse).through == 1
        answered = await http.post(
            "/act", content=encode(ActRequest(call="act", seq=2, episode_id="e")), headers={REQUEST_ID: "r-0123abcd"}
        )
        response = decode(answered.content, ActResponse)
        assert response.outputs["actions"].tolist() == [[12.0, 12.0]] * 4
        assert response.outputs["steps"] == [0, 1]
        assert response.plan is not None
        assert response.plan.t == 1
        assert response.request_id == answered.headers[REQUEST_ID] == "r-0123abcd"
        assert answered.headers[ACT_FORMATS] == FORMATS_VALUE
        ended = await http.post("/act/episode_end", content=encode({"episode_id": "e"}))
        assert decode(ended.content, dict) == {}


async def test_http_1_is_served_alike() -> None:
    async with serving(Echo()) as server, client(server, http2=False, http1=True) as http:
        for number in range(3):
            act = ActRequest(inputs={"image": np.zeros(2)}, seq=number, episode_id="e")
            answered = await http.post("/act", content=encode(act))
            assert (answered.http_version, answered.status_code) == ("HTTP/1.1", 200)


async def test_ping_and_healthz_answer_while_inference_blocks() -> None:
    blocks = Blocks()
    async with serving(blocks) as server, client(server) as http, anyio.create_task_group() as tasks:
        headers = {REQUEST_ID: "r-0123abcd"}
        tasks.start_soon(lambda: http.post("/act", content=encode(ActRequest(inputs={})), headers=headers))
        await waited(blocks.began.is_set)
        for path in ("/ping", "/healthz", "/policy"):
            assert (await http.get(path)).status_code == 200
        running = decode((await http.get("/ping?act=r-0123abcd")).content, dict)
        assert running["state"] == "running"
        assert running["for_s"] >= 0
        blocks.let_go.set()


async def test_an_act_whose_connection_broke_is_answered_under_its_id_on_the_next() -> None:
    blocks = Blocks()
    ask = {"content": encode(ActRequest(inputs={})), "headers": {REQUEST_ID: "r-0123abcd"}}
    async with serving(blocks) as server:
        async with client(server) as http, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post("/act", **ask))
            await waited(blocks.began.is_set)
            tasks.cancel_scope.cancel()
        async with client(server) as http:
            blocks.let_go.set()
            assert decode((await http.post("/act", **ask)).content, ActResponse).outputs == [1.0]
        assert server.policy.statistics()["inferred"] == 1


async def test_requests_under_way_end_when_the_server_stops() -> None:
    blocks = Blocks()
    answers: list[httpx.Response] = []
    async with anyio.create_task_group() as tasks:
        async with serving(blocks) as server:
            http = httpx.AsyncClient(base_url=server.url, headers=HEADERS, http2=True, http1=False, timeout=60)

            async def ask() -> None:
                answers.append(await http.post("/act", content=encode(ActRequest(inputs={}))))

            tasks.start_soon(ask)
            await waited(blocks.began.is_set)
            tasks.start_soon(anyio.to_thread.run_sync, blocks.let_go.set)
        assert [answer.status_code for answer in answers] == [200]
        with pytest.raises(httpx.TransportError):
            await http.get("/ping")
        await http.aclose()


async def test_an_exception_of_the_body_comes_out_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        async with serving(Echo()):
            _ = 1 / 0


async def test_a_port_in_use_is_an_os_error() -> None:
    async with serving(Echo()) as server:
        with pytest.raises(OSError, match=r"in use|bind"):
            async with serving(Echo(), port=server.port):
                pass


async def test_the_server_answers_with_the_stage_while_the_policy_loads() -> None:
    class Loads(Blocks):
        def load(self) -> None:
            self.infer(None)

    loads = Loads()
    async with serving(loads, start=False) as server, client(server) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(server.policy.start)
        await waited(loads.began.is_set)
        health = await http.get("/healthz")
        assert health.status_code == 503
        told = health.json()
        assert (told["code"], told["details"]) == ("warming", {"stage": "load_start"})
        assert int(health.headers["retry-after"]) >= 1
        assert (await http.get("/policy")).status_code == 200
        assert (await http.post("/act", content=encode(ActRequest(inputs={})))).status_code == 503
        loads.let_go.set()
        await waited(lambda: server.policy.stage == "ready")
        health = await http.get("/healthz", headers={"accept": "*/*"})
        assert (health.status_code, health.json()) == (200, {"stage": "ready", "detail": ""})


async def test_a_large_observation_arrives_whole_before_a_byte_has_come_back() -> None:
    """The default windows would take a round trip for each 64 KiB of it."""
    blocks = Blocks()
    body = encode(ActRequest(inputs={"image": np.zeros(1_300_000, np.uint8)}))
    async with (
        serving(blocks) as server,
        Relay(server.port) as relay,
        client(Server(host="127.0.0.1", port=relay.port, policy=server.policy)) as http,
    ):
        await http.get("/ping")
        relay.set_rate("down", 0.1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post("/act", content=body))
            await waited(blocks.began.is_set)
            assert relay.statistics().bytes_up > len(body)
            blocks.let_go.set()
            relay.set_rate("down", None)


# A raw client.


class Raw:
    """An HTTP/2 client that does what it is told and nothing else."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.events: list[h2.events.Event] = []

    async def flush(self) -> None:
        await self.stream.send(self.connection.data_to_send())

    async def until(self, kind: type[Any], stream_id: int | None = None) -> Any:
        with anyio.fail_after(HANG_S):
            while True:
                for event in self.events:
                    if isinstance(event, kind) and stream_id in (None, getattr(event, "stream_id", None)):
                        self.events.remove(event)
                        return event
                self.events += self.connection.receive_data(await self.stream.receive())
                if data := self.connection.data_to_send():
                    await self.stream.send(data)

    async def request(self, method: str, path: str, *, end: bool = True, **headers: str) -> int:
        stream_id = self.connection.get_next_available_stream_id()
        named = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "worker")]
        named += [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.connection.send_headers(stream_id, named, end_stream=end)
        await self.flush()
        return stream_id


@asynccontextmanager
async def raw(server: Server) -> AsyncIterator[Raw]:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        made = Raw(stream)
        made.connection.initiate_connection()
        await made.flush()
        yield made


async def test_one_connection_carries_more_than_a_thousand_requests() -> None:
    async with serving(Echo()) as server, raw(server) as peer:
        for _ in range(11):
            asked = [await peer.request("GET", "/ping") for _ in range(100)]
            for stream_id in asked:
                response = await peer.until(h2.events.ResponseReceived, stream_id)
                assert dict(response.headers)[":status"] == "200"
                await peer.until(h2.events.StreamEnded, stream_id)
            peer.events.clear()


async def test_a_raw_client_sees_the_windows_and_frames_of_megabytes() -> None:
    async with serving(Echo()) as server, raw(server) as peer:
        settings = (await peer.until(h2.events.RemoteSettingsChanged)).changed_settings
        assert settings[Codes.INITIAL_WINDOW_SIZE].new_value == 16 * 2**20
        assert settings[Codes.MAX_FRAME_SIZE].new_value == 256 * 2**10
        assert settings[Codes.MAX_CONCURRENT_STREAMS].new_value == 1000
        opened = await peer.until(h2.events.WindowUpdated, 0)
        assert 65_535 + opened.delta == 64 * 2**20


async def test_a_body_of_whole_windows_is_taken_in_frames_of_256_kib() -> None:
    image = np.zeros(20 * 2**20, np.uint8)
    body = memoryview(encode(ActRequest(inputs={"image": image}, seq=0, episode_id="e")))
    async with serving(Echo()) as server, raw(server) as peer:
        await peer.until(h2.events.WindowUpdated, 0)
        stream_id = await peer.request(
            "POST", "/act", end=False, content_type=MSGPACK, accept=MSGPACK, content_length=str(len(body))
        )
        while body:
            room = min(peer.connection.local_flow_control_window(stream_id), 256 * 2**10, len(body))
            if not room:
                await peer.until(h2.events.WindowUpdated, stream_id)
                continue
            peer.connection.send_data(stream_id, body[:room].tobytes(), end_stream=room == len(body))
            body = body[room:]
            await peer.flush()
        response = await peer.until(h2.events.ResponseReceived, stream_id)
        assert dict(response.headers)[":status"] == "200"


async def test_a_refusal_is_read_before_the_body_was_sent_and_the_connection_lives_on() -> None:
    async with serving(Echo(), secret="key") as server, raw(server) as peer:
        refused = await peer.request("POST", "/act", end=False, content_length=str(10**6))
        response = await peer.until(h2.events.ResponseReceived, refused)
        assert dict(response.headers)[":status"] == "401"
        await peer.until(h2.events.StreamEnded, refused)
        peer.connection.send_data(refused, bytes(16_000))
        await peer.flush()
        too_large = await peer.request(
            "POST", "/act", end=False, content_length=str(10**12), authorization="Bearer key"
        )
        response = await peer.until(h2.events.ResponseReceived, too_large)
        assert dict(response.headers)[":status"] == "413"
        alive = await peer.request("GET", "/ping")
        assert dict((await peer.until(h2.events.ResponseReceived, alive)).headers)[":status"] == "200"


async def test_a_client_that_left_while_it_was_answered_leaves_no_task_behind() -> None:
    def large(obs: Any) -> Any:
        return np.zeros(10**6, np.uint8)

    async with serving(large) as server:
        await settled()
        before = tasks_alive()
        for _ in range(3):
            # Its window takes 64 KiB of the answer, so the worker stands in the middle of it when the client leaves.
            async with raw(server) as peer:
                body = encode(ActRequest(inputs={}))
                stream_id = await peer.request("POST", "/act", end=False, content_type=MSGPACK)
                peer.connection.send_data(stream_id, body, end_stream=True)
                await peer.flush()
                await peer.until(h2.events.ResponseReceived, stream_id)
        await waited(lambda: tasks_alive() <= before)


async def settled() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def tasks_alive() -> int:
    gc.collect()
    return len(anyio.get_running_tasks())


async def test_a_reset_stream_does_not_disturb_its_neighbours() -> None:
    async with serving(Echo()) as server, raw(server) as peer:
        for _ in range(50):
            stream_id = await peer.request("POST", "/act", end=False, content_type=MSGPACK)
            peer.connection.send_data(stream_id, b"half a body")
            peer.connection.reset_stream(stream_id)
        alive = await peer.request("GET", "/ping")
        assert dict((await peer.until(h2.events.ResponseReceived, alive)).headers)[":status"] == "200"


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.mark.parametrize(
    "data",
    [
        bytes(1000),
        b"\xff" * 1000,
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"POST /act HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
        PREFACE + bytes(1000),
        PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        # DATA on a stream that was never opened; PRIORITY that depends on itself; WINDOW_UPDATE of nothing.
        PREFACE + SETTINGS + b"\x00\x00\x01\x00\x00\x00\x00\x00\x09x",
        PREFACE + SETTINGS + b"\x00\x00\x05\x02\x00\x00\x00\x00\x03\x00\x00\x00\x03\x10",
        PREFACE + SETTINGS + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        # HEADERS: ":method: CONNECT" alone, and a :path that is not ASCII.
        PREFACE + SETTINGS + b"\x00\x00\x09\x01\x05\x00\x00\x00\x01\x02\x07CONNECT",
        PREFACE + SETTINGS + b"\x00\x00\x0a\x01\x05\x00\x00\x00\x01\x82\x86\x41\x01a\x04\x02/\xff",
    ],
)
async def test_bytes_that_are_no_http_end_their_own_connection_and_nothing_else(data: bytes) -> None:
    async with serving(Echo()) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            with anyio.fail_after(HANG_S):
                try:
                    await stream.send(data)
                    await stream.send_eof()
                    while True:
                        await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass
        async with client(server) as http:
            assert (await http.get("/ping")).status_code == 200


async def test_limits_of_a_policy_object_are_the_callers() -> None:
    async with serving(Echo(), limits=HostLimits(episodes=1)) as server, client(server) as http:
        for episode, status in (("a", 200), ("b", 429)):
            post = ObserveRequest(episode_id=episode, skipped=[0])
            assert (await http.post("/observe", content=encode(post))).status_code == status
