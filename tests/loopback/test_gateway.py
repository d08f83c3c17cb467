"""A gateway over real HTTP, on asyncio and trio: before workers, on one port with one, with keys that change."""

from __future__ import annotations

import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from anyio.abc import TaskStatus
from echoing import HANG_S

import seqrt
from seqrt.gateway.keyfile import change
from seqrt.gateway.keys import KEY_BYTES, Key, hash_of, new_secret, with_key, without_key
from seqrt.gateway.models import full_id
from seqrt.gateway.server import GatewayServer, gateway
from seqrt.gateway.spending import beside, read_spent
from seqrt.gateway.together import together
from seqrt.observation.codecs import encode_picture
from seqrt.policies.robot_arm import ActionContract
from seqrt.wire.headers import REQUEST_ID
from seqrt.worker import serving

pytestmark = pytest.mark.anyio

ROOT = "of-the-workers"
PICTURE = base64.b64encode(encode_picture(np.zeros((6, 8, 3), np.uint8), "jpeg")).decode()
BODY: dict[str, Any] = {
    "model": "arm",
    "observation": {
        "images": [{"view": "wrist", "data": PICTURE}],
        "proprioception": {"joint_positions": [0.0, 0.0]},
        "instruction": "push",
    },
}


@seqrt.policy(
    name="arm",
    action_contract=ActionContract(robot="arm", action_space="joint_absolute", action_dim=2, control_frequency_hz=50),
)
class Arm:
    def __init__(self, value: float = 0.0) -> None:
        self.value = value
        self.seen: Any = None

    def infer(self, obs: Any) -> Any:
        self.seen = obs
        return np.full((25, 2), self.value)


def add_key(path: Path, name: str, **limits: Any) -> str:
    secret = new_secret(name.encode().ljust(KEY_BYTES, b"."))
    key = Key(name=name, sha256=hash_of(secret.encode()), **limits)
    change(path, lambda text: with_key(text, key, str(path)))
    return secret


async def act(url: str, key: str | None = None, *, http2: bool = True, **headers: str) -> httpx.Response:
    brought = {**headers, **({"authorization": f"Bearer {key}"} if key is not None else {})}
    async with httpx.AsyncClient(base_url=url, http2=http2, http1=not http2, verify=False, timeout=HANG_S) as client:
        return await client.post("/v1/act", json=BODY, headers=brought)


@asynccontextmanager
async def before(*values: float, keys: Path | None = None) -> AsyncIterator[tuple[GatewayServer, list[anyio.Event]]]:
    """A gateway before workers that answer with these values; gives it, and what ends each of them when it is set."""
    ends = [anyio.Event() for _ in values]
    async with anyio.create_task_group() as tasks:
        urls = [await tasks.start(until, value, end) for value, end in zip(values, ends, strict=True)]
        async with gateway({"arm": urls}, secret=ROOT, keys=keys) as at:
            yield at, ends
        tasks.cancel_scope.cancel()


async def until(value: float, end: anyio.Event, *, task_status: TaskStatus[str]) -> None:
    async with serving(Arm(value), secret=ROOT, grace_s=0.5) as server:
        task_status.started(server.url)
        await end.wait()


@pytest.mark.parametrize("http2", [True, False])
async def test_an_act_goes_over_both_kinds_of_http_under_one_id(http2: bool, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "robot")
    async with before(0.5, keys=tmp_path / "keys") as (at, _):
        answer = await act(at.url, key, http2=http2, **{REQUEST_ID: "r-0123abcd"})
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.status_code == 200
        assert answer.headers[REQUEST_ID] == "r-0123abcd"
        assert answer.json()["action_chunk"]["steps"][24] == {"index": 24, "values": [0.5, 0.5]}
        refused = await act(at.url, ROOT, http2=http2)
        assert refused.status_code == 401
        assert ROOT not in answer.text + refused.text


async def test_as_many_pictures_as_may_be_reach_the_policy_as_they_came() -> None:
    padded = base64.b64encode(base64.b64decode(PICTURE).ljust(9_000, b"\x00")).decode()
    images = [{"view": f"v{number}", "data": padded} for number in range(256)]
    body = {**BODY, "observation": {**BODY["observation"], "images": images}}
    policy = Arm()
    async with serving(policy) as worker, gateway({"arm": worker.url}) as at:
        async with httpx.AsyncClient(base_url=at.url, verify=False, timeout=HANG_S) as client:
            answer = await client.post("/v1/act", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"] == {"frames_received": 256}
        assert policy.seen["images"] == images


async def test_a_key_that_is_revoked_while_it_runs_opens_nothing_any_more(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = add_key(path, "first")
    async with before(0.0, keys=path) as (at, _):
        second = add_key(path, "second")
        assert [(await act(at.url, key)).status_code for key in (first, second)] == [200, 200]
        change(path, lambda text: without_key(text, "first", str(path)))
        assert [(await act(at.url, key)).status_code for key in (first, second)] == [401, 200]


async def test_what_a_key_spent_is_spent_after_the_gateway_was_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    key = add_key(path, "trial", acts=2)
    for statuses in ([200], [200, 402], [402]):
        async with before(0.0, keys=path) as (at, _):
            assert [(await act(at.url, key)).status_code for _ in statuses] == statuses
    assert list(read_spent(beside(path)).values()) == [2]


async def test_a_worker_that_ends_is_stood_in_for_by_the_other_one() -> None:
    async with before(1.0, 2.0) as (at, ends):
        assert (await act(at.url)).json()["action_chunk"]["steps"][0]["values"] == [1.0, 1.0]
        ends[0].set()
        values = set()
        while values != {2.0}:  # acts never fail, and before long the first one's answers are over
            answer = await act(at.url)
            assert answer.status_code == 200, answer.text
            values = {answer.json()["action_chunk"]["steps"][0]["values"][0]}
        ends[1].set()
        while (refused := await act(at.url)).status_code == 200:
            pass
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "127.0.0.1" not in refused.text


async def test_a_worker_that_is_not_there_yet_is_listed_and_its_acts_are_503() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens: refused at once
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with gateway({"arm": url}) as at, httpx.AsyncClient(verify=False, timeout=HANG_S) as client:
            refused = await act(at.url)
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            listed = (await client.get(f"{at.url}/v1/models")).json()["data"]
            assert [(line["id"], line["robot"]) for line in listed] == [("accounts/sequences/models/arm", None)]


async def test_a_gateway_with_a_wrong_key_for_its_worker_does_not_blame_the_robot() -> None:
    async with serving(Arm(), secret=ROOT) as worker, gateway({"arm": worker.url}, secret="another") as at:
        refused = await act(at.url)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


@asynccontextmanager
async def on_one_port(keys: Path | None = None, secret: str | None = None) -> AsyncIterator[str]:
    async with together(keys=keys, secret=secret) as face, serving(Arm(), beside=face, secret=face.secret) as server:
        yield server.url


async def drives(url: str, key: str | None) -> int:
    rows: list[Any] = []
    async with seqrt.connect(model="arm", base_url=url, api_key=key) as policy:
        await policy.run(
            observe=lambda: {"x": 0.0}, act=rows.append, hold=lambda: None, validate=lambda row: True, max_actions=4
        )
    return len(rows)


async def test_on_one_port_a_key_opens_the_face_and_a_lease_and_not_the_worker_itself(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "robot", model=full_id("arm"))
    async with (
        on_one_port(tmp_path / "keys") as url,
        httpx.AsyncClient(base_url=url, verify=False, timeout=HANG_S) as client,
    ):
        assert (await act(url, key)).status_code == 200
        assert (await act(url)).status_code == 401
        headers = {"authorization": f"Bearer {key}"}
        for brought in ({}, headers):
            assert (await client.post("/act", json={"inputs": 1}, headers=brought)).status_code == 401
        assert (await client.get("/healthz")).json()["stage"] == "ready"
        assert await drives(url, key) == 4
        for other, told in ((None, "this gateway asks for a key"), ("seq_nobodys", "unknown here, or was revoked")):
            with pytest.raises(seqrt.AuthError, match=told):
                await drives(url, other)


async def test_on_one_port_a_workers_secret_opens_both_and_without_one_all_is_open() -> None:
    async with on_one_port(secret=ROOT) as url:
        assert [(await act(url, key)).status_code for key in (ROOT, None)] == [200, 401]
        assert await drives(url, ROOT) == 4
    async with on_one_port() as url:
        assert (await act(url)).status_code == 200
        assert await drives(url, None) == 4


async def test_a_gateway_ends_while_acts_are_under_way_and_says_where_it_was(tmp_path: Path) -> None:
    async with before(0.0) as (at, _):
        assert isinstance(at, GatewayServer)
        assert at.url == f"http://127.0.0.1:{at.port}"
    with pytest.raises(httpx.ConnectError):
        await act(at.url)


async def test_an_error_of_the_body_comes_out_as_itself(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with serving(Arm()) as worker, gateway({"arm": worker.url}):
            raise ZeroDivisionError
    with pytest.raises(seqrt.KeysUnusable):
        async with gateway({"arm": "http://127.0.0.1:1"}, keys=tmp_path / "nothing"):
            pass
