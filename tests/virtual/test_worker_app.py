"""The worker's app behind a scripted network, in virtual time."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import numpy as np
import pytest

from seqrt.errors import ERRORS
from seqrt.observation import Observations, Stream
from seqrt.policies import Host, Timeouts, policy
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport
from seqrt.wire.codec import decode, decode_json, encode
from seqrt.wire.headers import ACT_FORMATS, DEADLINE_S, FORMATS_VALUE, JSON, MSGPACK, REQUEST_ID, valid_request_id
from seqrt.wire.messages import ActRequest, ActResponse, ErrorBody, Frame, ObserveRequest
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

INFER_S = 0.1203
MSGPACKED = {"content-type": MSGPACK, "accept": MSGPACK}


def echo(obs: Any) -> Any:
    return {"actions": np.zeros((2, 3)), "seen": obs}


@asynccontextmanager
async def worker(
    serves: object = echo, *, duration_s: float | Sequence[float] = INFER_S, secret: str | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    host = Host(serves, offload=inline(duration_s))
    await host.start()
    async with (
        LinkTransport(app(host, secret=secret, **options), up_s=0.0203, down_s=0.0203) as link,
        httpx.AsyncClient(transport=link, base_url="http://worker", timeout=None) as client,
    ):
        yield client
        assert link.app_errors == []


def error_of(answer: httpx.Response) -> ErrorBody:
    """The error's body, with all that must be true of any."""
    assert answer.headers["content-type"] == JSON
    body = decode_json(answer.content, ErrorBody)
    assert body.code in ERRORS
    assert body.retryable == ERRORS[body.code].retryable
    assert body.request_id == answer.headers[REQUEST_ID]
    assert valid_request_id(body.request_id)
    assert answer.headers[ACT_FORMATS] == FORMATS_VALUE
    assert ("retry-after" in answer.headers) == (body.retry_after_s is not None)
    return body


async def act(client: httpx.AsyncClient, request: ActRequest, **headers: str) -> httpx.Response:
    return await client.post("/act", content=encode(request), headers={**MSGPACKED, **headers})


async def test_msgpack_is_answered_in_msgpack_and_json_in_json() -> None:
    async with worker() as client:
        answered = await act(client, ActRequest(inputs={"x": 1}))
        assert answered.headers["content-type"] == MSGPACK
        assert decode(answered.content, ActResponse).outputs["seen"] == {"x": 1}
        answered = await client.post("/act", json={"inputs": {"x": 1}})
        assert answered.headers["content-type"] == JSON
        assert answered.json()["outputs"]["actions"] == [[0.0] * 3] * 2
        answered = await client.post("/act", json={"inputs": {"x": 1}}, headers={"accept": MSGPACK})
        assert decode(answered.content, ActResponse).outputs["seen"] == {"x": 1}


async def test_a_version_1_body_and_a_policys_own_bytes_are_read() -> None:
    async with worker() as client:
        answered = await client.post("/act", json={"model": "pi05", "observation": {"instruction": "go"}})
        assert answered.json()["outputs"]["seen"] == {"instruction": "go"}
        answered = await client.post("/act", content=b"RIFF", headers={"content-type": "audio/wav", "accept": MSGPACK})
        assert decode(answered.content, ActResponse).outputs["seen"] == b"RIFF"


async def test_the_request_id_goes_through_and_one_is_made_where_it_is_missing_or_malformed() -> None:
    async with worker() as client:
        assert (await client.get("/ping", headers={REQUEST_ID: "r-0123abcd"})).headers[REQUEST_ID] == "r-0123abcd"
        for bad in ({}, {REQUEST_ID: "r-XYZ"}, {REQUEST_ID: "r-0123abcd; drop"}):
            made = (await client.get("/ping", headers=bad)).headers[REQUEST_ID]
            assert valid_request_id(made)
            assert made not in bad.values()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/act/", 404, "not_found"),
        ("GET", "/act", 405, "invalid_request"),
        ("PUT", "/ping", 405, "invalid_request"),
    ],
)
async def test_what_is_not_served_is_an_error_body_too(method: str, path: str, status: int, code: str) -> None:
    async with worker() as client:
        answered = await client.request(method, path)
        assert (answered.status_code, error_of(answered).code) == (status, code)


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"", MSGPACK, None),
        (b"\xc1", MSGPACK, None),
        (b"\x81\xa6inputs", MSGPACK, None),
        (b"\x91" * 10_000, MSGPACK, "depth"),
        (b"[" * 10_000, JSON, None),
        (b"\xdd\xff\xff\xff\xff", MSGPACK, None),
        (b"\x82\xa6inputs\x01\xa5wrong\x01", MSGPACK, "field"),
        (b'{"inputs": 1, "seq": true}', JSON, "field"),
        (b'{"inputs": 1, "seq": -1}', JSON, None),
        (b"SQF1garbage", "application/x-seq-frames", "frames"),
        (b"\x81\xa6inputs\x01\x00", MSGPACK, "trailing"),
    ],
)
async def test_hostile_bodies_are_400_and_the_next_act_works(
    body: bytes, content_type: str, reason: str | None
) -> None:
    async with worker() as client:
        answered = await client.post("/act", content=body, headers={"content-type": content_type})
        error = error_of(answered)
        assert (answered.status_code, error.code) == (400, "invalid_request"), error
        assert reason is None or error.details["reason"] == reason
        assert (await act(client, ActRequest(inputs=1))).status_code == 200


@pytest.mark.parametrize("path", ["/observe", "/act/episode_end"])
async def test_the_other_posts_read_their_bodies_as_strictly(path: str) -> None:
    async with worker() as client:
        for body in (b"", b"\xc1", encode({"episode_id": 3}), encode({"episode_id": "e", "unknown": 1})):
            answered = await client.post(path, content=body, headers=MSGPACKED)
            assert (answered.status_code, error_of(answered).code) == (400, "invalid_request")


async def test_a_body_that_is_too_long_is_413_by_its_length_and_while_it_is_read() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(1000)

    async with worker(body_bytes=10_000) as client:
        for content in (bytes(20_000), endless()):
            answered = await client.post("/observe", content=content, headers=MSGPACKED)
            assert answered.status_code == 413
            assert error_of(answered).details["reason"] == "body"


async def test_a_compressed_body_is_refused() -> None:
    async with worker() as client:
        answered = await client.post("/act", content=b"x", headers={**MSGPACKED, "content-encoding": "gzip"})
        assert "gzip" in error_of(answered).detail


KEYED = [
    ("POST", "/act"),
    ("POST", "/observe"),
    ("POST", "/act/episode_end"),
    ("GET", "/policy"),
    ("GET", "/ping?act=r-0123abcd"),
]


@pytest.mark.parametrize(("method", "path"), KEYED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Basic key-of-the-lab"},
        {"authorization": "key-of-the-lab"},
        {"authorization": "Bearer key-of-the-lab key-of-the-lab"},
        {"authorization": b"Bearer \xff\xfe\x80"},
        {"authorization": b"Bearer \xc3\xa4"},
    ],
)
async def test_without_the_key_or_with_anything_malformed_it_is_401(method: str, path: str, headers: Any) -> None:
    async with worker(secret="key-of-the-lab") as client:
        answered = await client.request(method, path, headers=headers)
        assert (answered.status_code, error_of(answered).code) == (401, "unauthenticated")


async def test_with_the_key_all_is_served_and_health_needs_none() -> None:
    async with worker(secret="schlüssel") as client:
        assert (await client.get("/ping")).status_code == 200
        assert (await client.get("/healthz")).status_code == 200
        key = {"authorization": "bearer schlüssel".encode()}
        assert (await client.get("/policy", headers=key)).status_code == 200
        assert (await client.get("/ping?act=r-0123abcd", headers=key)).json()["state"] == "unknown"


@pytest.mark.parametrize("secret", ["", "  "])
async def test_an_empty_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="secret is empty"):
        app(Host(echo, offload=inline()), secret=secret)


def fails(obs: Any) -> Any:
    raise OSError(f"no weights in /srv/models/pi0.bin with {os.environ.get('HOME')}/x and token-123456789")


async def test_a_policys_exception_reaches_the_robot_with_its_traceback() -> None:
    async with worker(fails) as client:
        answered = await act(client, ActRequest(inputs=1))
        error = error_of(answered)
        assert (answered.status_code, error.code) == (500, "policy_error")
        assert error.details["type"] == "OSError"
        assert "/srv/models/pi0.bin" in error.details["message"]
        assert __file__ in error.details["traceback"]
        assert error.details["exception"] == {key: error.details[key] for key in ("type", "message", "traceback")}


@pytest.mark.parametrize("reveal", [False, True])
async def test_with_a_key_no_path_and_no_environment_value_leaves_unless_told(reveal: bool) -> None:
    async with worker(fails, secret="key", reveal=reveal, environment=["token-123456789"]) as client:
        answered = await act(client, ActRequest(inputs=1), authorization="Bearer key")
        text = str(error_of(answered))
        for private in (os.path.dirname(__file__), "/srv/models", "token-123456789"):
            assert (private in text) == reveal
        assert os.path.basename(__file__) in text
        assert "pi0.bin" in text


async def test_an_answer_that_cannot_travel_is_the_policys_error() -> None:
    async with worker(lambda obs: {"actions": object()}) as client:
        answered = await act(client, ActRequest(inputs=1))
        assert (answered.status_code, error_of(answered).code) == (500, "policy_error")
        assert "actions" in error_of(answered).detail
    async with worker(lambda obs: float("nan")) as client:
        assert (await client.post("/act", json={"inputs": 1})).status_code == 500


async def test_an_act_past_its_deadline_is_504_runs_on_and_is_answered_under_its_id() -> None:
    async with worker(duration_s=5.0) as client:
        headers = {REQUEST_ID: "r-0123abcd", DEADLINE_S: "1.5"}
        answered = await act(client, ActRequest(inputs=1), **headers)
        assert (answered.status_code, error_of(answered).code) == (504, "timeout")
        assert error_of(answered).details["reason"] == "running"
        assert anyio.current_time() == pytest.approx(1.5 + 2 * 0.0203, abs=0.01)
        answered = await act(client, ActRequest(inputs=1), **{REQUEST_ID: "r-0123abcd"})
        assert answered.status_code == 200
        assert anyio.current_time() == pytest.approx(5.0 + 2 * 0.0203, abs=0.01)


async def test_past_the_declared_timeout_an_act_is_504_and_the_worker_finishes_before_it_serves_again() -> None:
    slow = policy(timeouts=Timeouts(request=2.0))(lambda obs: obs)
    async with worker(slow, duration_s=[0.1, 10.0, 0.1]) as client:
        assert (await act(client, ActRequest(inputs=1))).status_code == 200
        started = anyio.current_time()
        assert (await act(client, ActRequest(inputs=2))).status_code == 504
        assert anyio.current_time() - started == pytest.approx(2.0 + 2 * 0.0203, abs=0.01)
        answered = await act(client, ActRequest(inputs=3))
        assert answered.status_code == 504
        await anyio.sleep(10.0)
        assert (await act(client, ActRequest(inputs=4))).status_code == 200


async def test_the_first_act_has_the_startup_timeout() -> None:
    slow = policy(timeouts=Timeouts(request=2.0, startup=60.0))(lambda obs: obs)
    async with worker(slow, duration_s=30.0) as client:
        assert (await act(client, ActRequest(inputs=1))).status_code == 200


async def test_a_client_that_gave_up_changes_nothing_for_the_act() -> None:
    async with worker() as client:
        with anyio.move_on_after(0.05):
            await act(client, ActRequest(inputs=1), **{REQUEST_ID: "r-0123abcd"})
        assert (await client.get("/ping?act=r-0123abcd")).json()["state"] == "running"
        answered = await act(client, ActRequest(inputs=1), **{REQUEST_ID: "r-0123abcd"})
        assert answered.status_code == 200


async def test_an_act_and_its_posts_may_overtake_one_another() -> None:
    windowed = policy(observations=Observations(streams={"x": Stream(at=[-1, 0])}))(lambda obs: echo(obs))
    async with worker(windowed) as client:
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await act(client, ActRequest(call="act", seq=2, episode_id="e")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.5)
            for number in (1, 0):
                post = ObserveRequest(episode_id="e", frames=[Frame(seq=number, inputs={"x": number})])
                await client.post("/observe", content=encode(post), headers=MSGPACKED)
        assert decode(answers[0].content, ActResponse).outputs["seen"]["steps"] == [0, 1]


async def test_while_a_post_is_on_its_way_an_act_that_needs_it_waits() -> None:
    windowed = policy(observations=Observations(streams={"x": Stream()}))(lambda obs: echo(obs))
    post = encode(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"x": 1})]))

    async def slow_upload() -> AsyncIterator[bytes]:
        for byte in post:
            await anyio.sleep(25.0 / len(post))
            yield bytes([byte])

    async with worker(windowed) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: client.post("/observe", content=slow_upload(), headers=MSGPACKED))
        answered = await act(client, ActRequest(call="act", seq=1, episode_id="e"))
        assert answered.status_code == 200
        assert anyio.current_time() > 25.0


async def test_a_body_of_which_nothing_arrives_any_more_is_given_up() -> None:
    async def stalls() -> AsyncIterator[bytes]:
        yield b"half"
        await anyio.sleep(100.0)

    async with worker() as client:
        answered = await client.post("/observe", content=stalls(), headers=MSGPACKED)
        assert (answered.status_code, error_of(answered).code) == (504, "timeout")


async def test_frames_missing_reaches_the_robot_with_where_to_begin() -> None:
    windowed = policy(observations=Observations(streams={"x": Stream()}))(lambda obs: echo(obs))
    async with worker(windowed) as client:
        answered = await act(client, ActRequest(call="act", seq=3, episode_id="e"))
        assert answered.status_code == 409
        assert error_of(answered).details == {"reason": "frames_missing", "from": 0}


async def test_one_line_is_logged_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="seqrt.worker.app")
    async with worker() as client:
        headers = {REQUEST_ID: "r-0123abcd"}
        await act(client, ActRequest(inputs=1, seq=0, episode_id="e"), **headers)
        await client.post("/act/episode_end", content=encode({"episode_id": "e"}), headers={**MSGPACKED, **headers})
        await act(client, ActRequest(inputs=1, seq=1, episode_id="e"), **headers)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines[0][0] == "DEBUG"
    assert lines[0][1].startswith("seq ev=act.answered rid=r-0123abcd episode=e seq=0 t=0 read_s=")
    assert lines[1] == ("DEBUG", "seq ev=act_episode_end.answered rid=r-0123abcd")
    assert lines[2][1].startswith("seq ev=act.refused rid=r-0123abcd code=gone error=this\\x20episode")
    assert len(lines) == 3


async def test_with_its_key_a_worker_is_told_to_drain_and_says_what_is_still_live() -> None:
    async with worker(secret="key") as client:
        key = {"authorization": "Bearer key"}
        live = {"episode_id": "live", "skipped": [0]}
        await client.post("/observe", json=live, headers=key)
        assert (await client.post("/drain")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        for _ in range(2):  # told again it is the same
            told = await client.post("/drain", headers=key)
            assert (told.json()["episodes"], told.json()["draining"]) == (1, True)
        assert error_of(await client.get("/healthz")).details == {"stage": "draining"}
        refused = await client.post("/observe", json={**live, "episode_id": "new"}, headers=key)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert error_of(refused).details == {"reason": "draining"}
        assert (await client.post("/observe", json={**live, "skipped": [1]}, headers=key)).status_code == 200


async def test_a_worker_without_a_key_is_drained_by_nobody_on_the_network() -> None:
    async with worker() as client:
        assert error_of(await client.post("/drain")).code == "forbidden"
        assert (await client.get("/healthz")).status_code == 200


async def test_a_refused_act_is_told_its_place_and_when_to_come_back() -> None:
    def slow(obs: Any) -> Any:
        return 0.0

    async with worker(slow, duration_s=2.5) as client:
        for _ in range(2):
            await act(client, ActRequest(inputs={}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act, client, ActRequest(inputs={}))
            await anyio.sleep(0.5)
            refused = await act(client, ActRequest(inputs={}), **{DEADLINE_S: "0.8"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        body = error_of(refused)
        assert (body.code, body.details) == ("busy", {"position": 1})
        assert body.retry_after_s == pytest.approx(2.5 - 0.5 - 0.8)
