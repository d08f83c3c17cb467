"""The gateway's app behind a scripted network, in virtual time: what is refused and when, and what is answered."""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import numpy as np
import pytest

from seqrt.errors import ERRORS, LinkLost, RemoteError, remote_error
from seqrt.gateway.app import app
from seqrt.gateway.asked import Gateway
from seqrt.gateway.gate import Gate
from seqrt.gateway.keys import Key, hash_of
from seqrt.gateway.models import Model, Models, full_id
from seqrt.gateway.spending import Spending
from seqrt.link.border import Outgoing
from seqrt.link.local import LocalLink
from seqrt.observation.codecs import encode_picture
from seqrt.policies import Host, policy
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract, View
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport
from seqrt.wire.codec import decode, decode_json, encode
from seqrt.wire.errorbody import error_from
from seqrt.wire.frames import encode_frames
from seqrt.wire.headers import ACT_FORMATS, DEADLINE_S, FORMATS_VALUE, FRAMES, JSON, MSGPACK, REQUEST_ID
from seqrt.wire.messages import ActRequest, ActResponse, ErrorBody

pytestmark = pytest.mark.anyio

INFER_S = 0.1203
NOW = 1_800_000_000.5
PICTURE = base64.b64encode(encode_picture(np.zeros((6, 8, 3), np.uint8), "png")).decode()
ARM = ActionContract(
    robot="arm", action_space="joint_absolute", action_dim=2, control_frequency_hz=10, bounds=[[-1, 1], [-1, 1]]
)
SEES = ObservationContract(cameras={"wrist": View(width=8, height=6)}, proprio={"joint_positions": 2})

KEYS = {
    "all": {},
    "of-arm": {"model": full_id("arm")},
    "of-other": {"model": full_id("other")},
    "two": {"acts": 2},
    "slow": {"per_minute": 2},
    "one-at-once": {"at_once": 1},
}


@policy(action_contract=ARM, observation_contract=SEES)
class Arm:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def infer(self, obs: Any, *, seed: int | None = None) -> Any:
        self.seen.append(obs)
        if obs["instruction"] == "fail":
            raise RuntimeError("no such /home/somebody/weights.pt")
        if obs["instruction"] == "nan":
            return [[float("nan"), 0.0]]
        return [[0.0, 0.5], [2.0, 0.5]]


@policy(action_contract=ARM, episodes="shared")
class Remembers:
    def infer(self, obs: Any, *, episode: Any) -> Any:
        return [[0.0, 0.0]]


@policy(embodiments={"left": Embodiment(action=ARM), "right": Embodiment(action=ARM)})
class TwoArms:
    def infer(self, obs: Any) -> Any:
        return [[0.0, 0.0]]


class Today:
    def infer(self, obs: Any) -> Any:
        return [[0.0]]


class Ring:
    def find(self, secret: bytes) -> Key | None:
        limits = KEYS.get(secret.decode("latin-1"))
        return Key(name=secret.decode(), sha256=hash_of(secret), **limits) if limits is not None else None


class Failing(LocalLink):
    """A worker that answers with what a script says, before it answers as it should."""

    def __init__(self, host: Host, failures: list[RemoteError]) -> None:
        super().__init__(host)
        self.failures = failures
        self.asked: list[str] = []

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        self.asked.append(request_id)
        if self.failures:
            raise self.failures.pop(0)
        return await super().act(ask, request_id, deadline_s)


@dataclass
class Face:
    client: httpx.AsyncClient
    policy: Arm
    spending: Spending
    models: Models
    host: Host

    async def act(self, body: Any = None, *, key: str | None = "all", **headers: str) -> httpx.Response:
        brought = {"authorization": f"Bearer {key}"} if key is not None else {}
        return await self.client.post("/v1/act", json=BODY if body is None else body, headers={**brought, **headers})


@asynccontextmanager
async def face(
    *,
    failures: Sequence[Sequence[RemoteError]] = ((),),
    duration_s: float = INFER_S,
    keyed: bool = True,
    start: bool = True,
    **options: Any,
) -> AsyncIterator[Face]:
    serves = Arm()
    hosts = [Host(serves, offload=inline(duration_s)) for _ in failures]
    others = {"other": Arm(), "remembers": Remembers(), "two": TwoArms(), "today": Today()}
    models = Models([Model(full_id("arm"), [Failing(h, list(f)) for h, f in zip(hosts, failures, strict=True)])])
    for name, other in others.items():
        host = Host(other, offload=inline(duration_s))
        await host.start()
        models.add(Model(full_id(name), [LocalLink(host)]))
    for host in hosts:
        if start:
            await host.start()
    spending = Spending()
    gateway = Gateway(models, Gate(Ring() if keyed else None, spending), offload=inline(), wall=lambda: NOW, **options)
    await models.look()
    async with (
        LinkTransport(app(gateway), up_s=0.0203, down_s=0.0203) as link,
        httpx.AsyncClient(transport=link, base_url="http://gateway", timeout=None) as client,
    ):
        yield Face(client, serves, spending, models, hosts[0])
        assert link.app_errors == []


BODY: dict[str, Any] = {
    "model": "arm",
    "observation": {
        "images": [{"view": "wrist", "data": PICTURE, "timestamp_ms": None}],
        "proprioception": {"joint_positions": [0.0, 0.0], "gripper": 0.5},
        "instruction": "push",
    },
}


OBSERVED = ("images", "proprioception", "instruction", "state")


def said(**changes: Any) -> dict[str, Any]:
    """The body with some of it another, in the observation where it belongs there."""
    observed = {name: changes.pop(name) for name in OBSERVED if name in changes}
    return {**BODY, **changes, "observation": {**BODY["observation"], **observed}}


NO_PICTURE = [{"view": "wrist", "data": "Zm9v"}]


def error_of(answer: httpx.Response) -> ErrorBody:
    """The error's body, with all that must be true of any."""
    assert answer.headers["content-type"] == JSON
    body = decode_json(answer.content, ErrorBody)
    assert answer.status_code == ERRORS[body.code].status
    assert body.retryable == ERRORS[body.code].retryable
    assert body.request_id == answer.headers[REQUEST_ID]
    assert answer.headers[ACT_FORMATS] == FORMATS_VALUE
    assert ("retry-after" in answer.headers) == (body.retry_after_s is not None)
    return body


async def test_an_act_is_answered_with_its_chunk_clipped_by_the_worker_once() -> None:
    async with face() as at:
        answer = await at.act(**{REQUEST_ID: "r-0123abcd"})
        assert answer.status_code == 200
        assert answer.headers[REQUEST_ID] == "r-0123abcd"
        assert answer.headers[ACT_FORMATS] == FORMATS_VALUE
        told = answer.json()
        assert (told["id"], told["created"], told["object"]) == ("act-0123abcd", int(NOW), "act.response")
        assert told["model"] == "accounts/sequences/models/arm"
        assert told["warnings"] == ["1 values clipped to bounds, first row 1 column 0: 2 became 1"]
        assert told["action_chunk"] == {
            "steps": [{"index": 0, "values": [0.0, 0.5]}, {"index": 1, "values": [1.0, 0.5]}],
            "robot": "arm",
            "action_space": "joint_absolute",
            "action_dim": 2,
            "control_frequency_hz": 10.0,
            "covers_seconds": 0.2,
        }
        assert told["usage"] == {"frames_received": 1}
        assert told["perf"]["inference_ms"] == pytest.approx(1e3 * INFER_S)
        assert told["perf"]["ttfa_ms"] == pytest.approx(1e3 * INFER_S)
        assert at.policy.seen[0]["proprioception"] == {"joint_positions": [0.0, 0.0], "gripper": [0.5]}


async def test_short_and_full_ids_name_the_same_model() -> None:
    async with face() as at:
        for name in ("arm", "accounts/sequences/models/arm"):
            assert (await at.act(said(model=name))).json()["model"] == "accounts/sequences/models/arm"
        assert (await at.act(said(model="models/arm"))).status_code == 404


async def test_each_form_of_body_is_read_and_the_answer_is_in_what_the_client_reads() -> None:
    async with face() as at:
        key = {"authorization": "Bearer all"}
        for content, kind, accept, form in (
            (encode(BODY), MSGPACK, None, MSGPACK),
            (encode(BODY), MSGPACK, JSON, JSON),
            (encode_frames(BODY), FRAMES, MSGPACK, MSGPACK),
            (encode_frames(BODY), FRAMES, None, JSON),
            (httpx.Request("POST", "http://x", json=BODY).content, "application/x-www-form-urlencoded", None, JSON),
            (httpx.Request("POST", "http://x", json=BODY).content, JSON, MSGPACK, MSGPACK),
        ):
            headers = {**key, "content-type": kind, **({"accept": accept} if accept else {})}
            answer = await at.client.post("/v1/act", content=content, headers=headers)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == form
            told: Any = answer.json() if form == JSON else decode(answer.content, dict)
            assert len(told["action_chunk"]["steps"]) == 2
        assert [seen["images"][0]["data"] for seen in at.policy.seen] == [PICTURE] * 6


# The contract's order: 401, 402, the body's shape, the model, and only then the frames.
ORDER: list[tuple[str | None, Callable[[], dict[str, Any]], int, str]] = [
    (None, lambda: {}, 401, "unauthenticated"),
    ("nobody", lambda: said(model="none", images=NO_PICTURE), 401, "unauthenticated"),
    ("all", lambda: {}, 400, "invalid_request"),
    ("all", lambda: {**said(model="none"), "mood": 1}, 400, "invalid_request"),
    ("of-other", lambda: {**BODY, "mood": 1}, 400, "invalid_request"),
    ("all", lambda: said(model="none", images=NO_PICTURE), 404, "not_found"),
    ("of-arm", lambda: said(model="none", images=NO_PICTURE), 404, "not_found"),
    ("of-other", lambda: said(images=NO_PICTURE), 403, "forbidden"),
    ("all", lambda: said(images=NO_PICTURE), 400, "invalid_request"),
    ("of-arm", lambda: said(), 200, ""),
]


@pytest.mark.parametrize(("key", "body", "status", "code"), ORDER)
async def test_refusals_come_in_the_contracts_order(
    key: str | None, body: Callable[[], dict[str, Any]], status: int, code: str
) -> None:
    async with face() as at:
        answer = await at.act(body(), key=key)
        assert answer.status_code == status
        assert status == 200 or error_of(answer).code == code


async def test_a_key_whose_acts_are_spent_is_402_before_its_body_is_looked_at() -> None:
    async with face() as at:
        lefts = [(await at.act(key="two")).json()["usage"]["acts_left"] for _ in range(2)]
        assert lefts == [1, 0]
        for body in (BODY, {}, said(model="none")):
            answer = await at.act(body, key="two")
            assert error_of(answer).code == "budget_exhausted"
        assert (await at.act()).status_code == 200


async def test_acts_that_fail_are_not_paid() -> None:
    async with face() as at:
        for body in (
            {},
            said(model="none"),
            said(images=NO_PICTURE),
            said(instruction="fail"),
            said(proprioception={}),
        ):
            assert (await at.act(body, key="two")).status_code >= 400
        assert [(await at.act(key="two")).status_code for _ in range(3)] == [200, 200, 402]


async def test_an_answer_that_cannot_travel_is_not_paid() -> None:
    async with face() as at:
        for _ in range(2):
            assert error_of(await at.act(said(instruction="nan"), key="two")).code == "policy_error"
        assert at.spending.spent(Key(name="two", sha256=hash_of(b"two"))) == 0
        assert (await at.act(key="two")).status_code == 200


async def test_a_worker_that_serves_something_else_than_the_others_is_not_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with face() as at:
        other = Host(TwoArms(), offload=inline())
        await other.start()
        model = Model(full_id("arm"), [LocalLink(at.host), LocalLink(other)])
        at.models.add(model)
        await model.look()
        assert [worker.info is not None for worker in model.workers] == [True, False]
        assert "embodiments" in caplog.text
        for _ in range(2):
            assert (await at.act()).status_code == 200


async def test_more_acts_at_once_than_the_budget_holds_are_not_let_through() -> None:
    async with face() as at:
        answers: list[httpx.Response] = []

        async def one() -> None:
            answers.append(await at.act(key="two"))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(one)
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429]
        assert at.spending.spent(Ring().find(b"two")) == 2  # type: ignore[arg-type]


async def test_an_act_sent_again_under_its_id_is_answered_the_same_and_paid_once() -> None:
    async with face() as at:
        first = {REQUEST_ID: "r-00000001"}
        lefts = [(await at.act(key="two", **first)).json()["usage"]["acts_left"] for _ in range(3)]
        assert lefts == [1, 1, 1]
        assert (await at.act(key="two")).json()["usage"]["acts_left"] == 0
        again = await at.act(key="two", **first)  # all is spent by now
        assert (again.status_code, again.json()["id"]) == (200, "act-00000001")
        assert len(at.policy.seen) == 2
        assert error_of(await at.act(said(instruction="pull"), key="two", **first)).code == "budget_exhausted"
        assert error_of(await at.act(key="two")).code == "budget_exhausted"


async def test_an_act_sent_again_while_it_runs_is_paid_once() -> None:
    async with face() as at:
        answers: list[httpx.Response] = []

        async def one(after_s: float) -> None:
            await anyio.sleep(after_s)
            answers.append(await at.act(key="two", **{REQUEST_ID: "r-00000001"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, 0.0)
            tasks.start_soon(one, 0.0307)
        assert [answer.status_code for answer in answers] == [200, 200]
        assert at.spending.spent(Ring().find(b"two")) == len(at.policy.seen) == 1  # type: ignore[arg-type]


async def test_an_id_that_was_paid_for_pays_for_no_other_act() -> None:
    async with face() as at:
        used = {REQUEST_ID: "r-00000001"}
        assert (await at.act(key="two", **used)).status_code == 200
        assert error_of(await at.act(said(instruction="pull"), key="two", **used)).code == "conflict"
        await anyio.sleep(60.1)  # what the worker knew of it is forgotten
        assert (await at.act(said(instruction="pull"), key="two", **used)).json()["usage"]["acts_left"] == 0


@pytest.mark.parametrize("digits", [8, 16, 17, 32])
async def test_the_same_id_of_another_key_is_another_act(digits: int) -> None:
    async with face() as at:
        same = {REQUEST_ID: "r-" + "0" * digits}
        for number, key in enumerate(["all", "two", "slow"]):
            answer = await at.act(said(instruction=f"push {number}"), key=key, **same)
            assert (answer.status_code, answer.headers[REQUEST_ID]) == (200, same[REQUEST_ID])
        assert [obs["instruction"] for obs in at.policy.seen] == ["push 0", "push 1", "push 2"]


async def test_an_act_sent_again_goes_to_the_worker_that_may_know_its_answer() -> None:
    async with face(failures=[[], []]) as at:
        same = {REQUEST_ID: "r-00000001"}
        first, second = at.models.find("arm").workers
        assert (await at.act(**same)).status_code == 200
        first.under_way += 1  # the other one has less to do
        assert (await at.act(**same)).status_code == 200
        assert (await at.act()).status_code == 200
        assert [len(seat.link.asked) for seat in (first, second)] == [2, 1]  # type: ignore[attr-defined]
        assert len(at.policy.seen) == 2


@pytest.mark.parametrize("key", ["two", "slow", "one-at-once"])
async def test_a_key_whose_acts_are_counted_gets_no_lease_under_which_nobody_counts(key: str) -> None:
    async with face() as at:
        headers = {"authorization": f"Bearer {key}"}
        for path in ("/v1/act/connect", "/v1/act/keepalive"):
            answer = await at.client.post(path, json={"model": "arm", "session": "s"}, headers=headers)
            assert error_of(answer).code == "forbidden"
            assert "/v1/act" in str(error_of(answer).hint)
        assert (await at.act(key=key)).status_code == 200


async def test_a_key_that_asks_too_often_is_told_how_long_to_wait_and_let_in_then() -> None:
    async with face() as at:
        assert [(await at.act(key="slow")).status_code for _ in range(2)] == [200, 200]
        answer = await at.act(key="slow")
        error = error_of(answer)
        assert (error.code, error.details) == ("busy", {})
        assert error.retry_after_s is not None
        assert answer.headers["retry-after"] == str(math.ceil(error.retry_after_s))
        await anyio.sleep(error.retry_after_s)
        assert (await at.act(key="slow")).status_code == 200


async def test_a_key_of_one_act_at_once_has_the_next_one_when_that_is_answered() -> None:
    async with face() as at:
        answers: list[int] = []

        async def one(after_s: float) -> None:
            await anyio.sleep(after_s)
            answers.append((await at.act(key="one-at-once")).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, 0.0)
            tasks.start_soon(one, 0.0301)
        assert answers == [429, 200]
        assert (await at.act(key="one-at-once")).status_code == 200


@pytest.mark.parametrize("header", ["Bearer", "Bearer all all", "Basic all", "all", "bearer  \xff"])
async def test_whatever_else_stands_for_a_key_is_401(header: str) -> None:
    async with face() as at:
        answer = await at.client.post("/v1/act", json=BODY, headers={"authorization": header.encode("latin-1")})
        assert error_of(answer).code == "unauthenticated"
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_without_keys_everybody_is_let_in_with_or_without_one() -> None:
    async with face(keyed=False) as at:
        assert (await at.act(key=None)).status_code == 200
        assert (await at.act(key="anything")).status_code == 200
        assert (await at.client.get("/v1/health")).json() == {"ok": True, "backend": "seqrt", "auth": "none"}


async def test_models_and_health_need_no_key() -> None:
    async with face() as at:
        assert (await at.client.get("/v1/health")).json() == {"ok": True, "backend": "seqrt", "auth": "keystore"}
        listed = (await at.client.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert listed["data"][0] == {
            "id": "accounts/sequences/models/arm",
            "endpoint": "act",
            "architecture": "Arm",
            "robot": "arm",
            "action_dim": 2,
            "action_horizon": None,
            "control_hz": 10.0,
            "camera_views": ["wrist"],
        }
        assert (await at.client.get("/v1/models?endpoint=act")).json() == listed
        assert (await at.client.get("/v1/models?endpoint=chat")).json() == {"object": "list", "data": []}
        assert error_of(await at.client.get("/v1/models?endpoint=all")).code == "invalid_request"


async def test_a_policy_that_keeps_state_or_is_no_robot_arms_is_refused_with_the_way_that_serves_it() -> None:
    async with face() as at:
        for model, what in (("remembers", "keeps state"), ("today", "no robot-arm contract")):
            error = error_of(await at.act(said(model=model, images=NO_PICTURE)))
            assert (error.code, what in error.detail) == ("invalid_request", True)
            assert "seqrt.connect" in (error.hint or "")


async def test_a_robot_of_several_is_named_by_its_option() -> None:
    async with face() as at:
        assert (await at.act(said(model="two", robot="right"))).status_code == 200
        for robot in ({}, {"robot": "third"}):
            assert "'left', 'right'" in error_of(await at.act(said(model="two", **robot))).detail


async def test_what_the_contract_asks_for_is_the_workers_to_say() -> None:
    async with face() as at:
        assert "joint_positions" in error_of(await at.act(said(proprioception={}))).detail
        assert "'action_horizon'" in error_of(await at.act({**BODY, "action_horizon": 8})).detail


async def test_a_model_being_loaded_is_503_with_the_object_that_older_clients_read() -> None:
    async with face(start=False) as at:
        answer = await at.act(**{REQUEST_ID: "r-0123abcd"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json() == {
            "detail": {
                "status": "warming_up",
                "model": "accounts/sequences/models/arm",
                "message": "the policy is being loaded",
                "retry_after_s": 1.0,
                "warming_job_id": None,
            },
            "code": "warming",
            "retryable": True,
            "retry_after_s": 1.0,
            "request_id": "r-0123abcd",
            "details": {"stage": "provision_done"},
        }
        read = error_from(503, answer.content, host="", phase="act", request_id=None)
        assert (read.code, read.detail, read.details) == (
            "warming", "the policy is being loaded", {"stage": "provision_done"},
        )  # fmt: skip
        await at.host.start()
        assert (await at.act()).status_code == 200


async def test_a_policys_failure_comes_through_without_the_paths_of_the_machine() -> None:
    for keyed, told in ((True, False), (False, True)):
        async with face(keyed=keyed) as at:
            error = error_of(await at.act(said(instruction="fail")))
            assert error.code == "policy_error"
            assert error.details["type"] == "RuntimeError"
            assert ("/home/somebody" in error.details["message"]) is told


def lost(phase: str = "act") -> RemoteError:
    return LinkLost("connection lost", code="unavailable", host="10.0.0.7:8080", phase=phase)


@pytest.mark.parametrize("failures", [[lost()], [remote_error("unavailable", "lost", details={"reason": "act_lost"})]])
async def test_an_act_that_may_never_have_arrived_is_asked_again_under_its_id(failures: list[RemoteError]) -> None:
    async with face(failures=[failures]) as at:
        assert (await at.act(**{REQUEST_ID: "r-0123abcd"})).status_code == 200
        link = at.models.find("arm").workers[0].link
        assert isinstance(link, Failing)
        assert len(link.asked) == 2
        assert link.asked[0] == link.asked[1]
        assert link.asked[0].startswith("r-0123abcd")  # the key's mark behind it


async def test_a_worker_that_is_lost_is_said_at_once_and_then_rarely(caplog: pytest.LogCaptureFixture) -> None:
    async with face(failures=[[lost("connect") for _ in range(7)], []]) as at:
        for _ in range(6):
            assert (await at.act()).status_code == 200
        await anyio.sleep(10.0)
        assert (await at.act()).status_code == 200
    said = [record.message for record in caplog.records]
    assert ["more=5" in line for line in said] == [False, True]
    assert all("ev=act.lost" in line for line in said)


@pytest.mark.parametrize(
    "failure",
    [
        lost("connect"),
        remote_error("busy", "full"),
        remote_error("warming", "loads"),
        remote_error("internal", "broke"),
    ],
)
async def test_what_one_worker_cannot_serve_another_one_does(failure: RemoteError) -> None:
    async with face(failures=[[failure], []]) as at:
        assert (await at.act()).status_code == 200
        assert (await at.act()).status_code == 200


async def test_acts_under_way_are_shared_among_the_workers() -> None:
    async with face(failures=[[], []]) as at:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(at.act)
        links = [worker.link for worker in at.models.find("arm").workers]
        assert [len(link.asked) for link in links if isinstance(link, Failing)] == [2, 2]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (lost("connect"), "unavailable"),
        (remote_error("unauthenticated", "this is not the worker's key"), "upstream_error"),
        (remote_error("not_found", "GET /act is not served here"), "upstream_error"),
        (remote_error("internal", "the worker failed"), "upstream_error"),
        (remote_error("busy", "64 acts are waiting", retry_after_s=2.0), "busy"),
        (remote_error("conflict", "used for another act"), "conflict"),
        (remote_error("payload_too_large", "too long"), "payload_too_large"),
    ],
)
async def test_a_failure_between_gateway_and_worker_is_no_fault_of_the_robots(failure: RemoteError, code: str) -> None:
    async with face(failures=[[failure]]) as at:
        error = error_of(await at.act())
        assert error.code == code
        assert "10.0.0.7" not in str(error)
        assert (error.code != "upstream_error") or "key" not in error.detail


async def test_a_worker_that_no_one_has_reached_yet_is_503() -> None:
    async with face() as at:
        at.models.add(Model(full_id("gone"), [LocalLink(at.host)]))
        assert error_of(await at.act(said(model="gone"))).code == "unavailable"
        assert (await at.client.get("/v1/models")).json()["data"][1]["control_hz"] is None


async def test_an_act_that_takes_longer_than_the_robot_waits_is_504_in_time_and_kept() -> None:
    async with face(duration_s=3.0) as at:
        began = anyio.current_time()
        answer = await at.act(**{REQUEST_ID: "r-0123abcd", DEADLINE_S: "0.5"})
        assert error_of(answer).code == "timeout"
        assert anyio.current_time() - began < 1.0
        again = await at.act(**{REQUEST_ID: "r-0123abcd"})
        assert again.status_code == 200
        assert len(at.policy.seen) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/act", 405), ("POST", "/v1/models", 405), ("GET", "/v1/act/", 404)]
)
async def test_what_is_not_served_is_an_error_body_too(method: str, path: str, status: int) -> None:
    async with face() as at:
        answer = await at.client.request(method, path)
        assert answer.status_code == status
        assert "POST /v1/act" in answer.json()["hint"]


async def test_a_body_that_is_too_long_or_compressed_is_refused_before_it_is_read() -> None:
    async with face(body_bytes=100) as at:
        assert error_of(await at.act()).code == "payload_too_large"
        assert "gzip" in error_of(await at.act({}, **{"content-encoding": "gzip"})).detail
