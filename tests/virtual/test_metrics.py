"""What a worker answers to GET /metrics, read by the parser of the package that Prometheus' users have."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import anyio
import httpx
import pytest
from gateways import gateway
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import seqrt
from seqrt.errors import ERRORS, InternalError
from seqrt.gateway.metrics import metrics as gateway_metrics
from seqrt.policies import Host, policy
from seqrt.policies.readiness import Stage
from seqrt.policies.terms import Concurrency
from seqrt.testing import FakeArm, Scripted
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.testing.transport import LinkTransport
from seqrt.watching import RobotMetrics
from seqrt.watching.buckets import LATENESS, Buckets
from seqrt.watching.counts import PHASES
from seqrt.watching.page import Families, page
from seqrt.wire.codec import encode
from seqrt.wire.headers import MSGPACK
from seqrt.wire.messages import ActRequest, AskPlan, EpisodeEnd, Frame, ObserveRequest
from seqrt.worker.app import app
from seqrt.worker.metrics import LAG_EVERY_S, measure_lag, metrics

pytestmark = pytest.mark.anyio

DOCUMENT = Path(__file__).parents[2] / "docs/watching.md"
INFER_S = 0.1203
MSGPACKED = {"content-type": MSGPACK, "accept": MSGPACK}


class Read:
    """A page, read."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        """A sample's value; None where there is none."""
        return self._samples.get((name, frozenset(labels.items())))

    def labels(self) -> Iterator[tuple[str, str]]:
        for _, labels in self._samples:
            yield from labels


@asynccontextmanager
async def worker(serves: object, *, duration_s: float = INFER_S, secret: str | None = None) -> AsyncIterator[Any]:
    host = Host(serves, offload=inline(duration_s))
    await host.start()
    async with (
        LinkTransport(app(host, secret=secret, aside=inline()), up_s=0.0203, down_s=0.0203) as link,
        httpx.AsyncClient(transport=link, base_url="http://worker", timeout=None) as client,
    ):
        yield client


def echo(obs: Any) -> Any:
    return {"seen": obs}


async def act(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/act", content=encode(ActRequest(**fields)), headers=MSGPACKED)


async def read(client: httpx.AsyncClient, **headers: str) -> Read:
    answered = await client.get("/metrics", headers=headers)
    assert answered.status_code == 200, answered.text
    return Read(answered.text)


async def test_an_acts_time_is_told_by_phases_and_sums_up() -> None:
    windowed = policy(observations=seqrt.Observations(streams={"x": seqrt.Stream()}))(lambda obs: echo(obs))
    async with worker(windowed) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: act(client, call="act", seq=1, episode_id="e"))
        await anyio.sleep(0.5)
        assert (await read(client))("seqrt_worker_acts", phase="frames") == 1
        post = ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"x": 1})])
        await client.post("/observe", content=encode(post), headers=MSGPACKED)
        await anyio.sleep(0.5)
        seen = await read(client)
    phase = {name: seen("seqrt_worker_act_phase_seconds_sum", phase=name) for name in PHASES}
    assert phase["infer"] == pytest.approx(INFER_S)
    assert phase["frames"] == pytest.approx(0.5 + 0.0203 * 2, abs=0.01)
    assert seen("seqrt_worker_act_seconds_sum") == pytest.approx(sum(value or 0.0 for value in phase.values()))
    assert seen("seqrt_worker_act_phase_seconds_bucket", phase="infer", le="0.1") == 0
    assert seen("seqrt_worker_act_phase_seconds_bucket", phase="infer", le="0.15") == 1
    assert seen("seqrt_worker_call_seconds_count") == 1
    assert not any(seen("seqrt_worker_acts", phase=name) for name in PHASES)


async def test_what_is_held_and_what_was_asked_is_told() -> None:
    async with worker(echo) as client:
        await act(client, inputs={"x": bytes(1000)}, seq=0, episode_id="e")
        seen = await read(client)
        assert seen("seqrt_worker_episodes") == 1
        assert seen("seqrt_worker_answers") == 1
        assert (seen("seqrt_worker_answer_bytes") or 0) > 1000
        assert seen("seqrt_worker_inferred_acts_total") == 1
        assert (seen("seqrt_worker_received_bytes_total", endpoint="act") or 0) > 1000
        assert (seen("seqrt_worker_sent_bytes_total", endpoint="act") or 0) > 1000
        await client.post("/act/episode_end", content=encode(EpisodeEnd(episode_id="e")), headers=MSGPACKED)
        await act(client, inputs=1, seq=1, episode_id="e")
        await client.post("/act", content=b"\xc1", headers=MSGPACKED)
        seen = await read(client)
    assert seen("seqrt_worker_episodes") == 0
    for code in ("ok", "gone", "invalid_request"):
        assert seen("seqrt_worker_requests_total", endpoint="act", code=code) == 1
    assert seen("seqrt_worker_requests_total", endpoint="metrics", code="ok") == 1
    assert seen("seqrt_worker_stage", stage="ready") == 1
    assert seen("seqrt_worker_info", policy="echo") == 1
    assert seen("process_start_time_seconds")


async def test_the_size_of_calls_is_told() -> None:
    @policy(episodes="shared", concurrency=Concurrency(max_concurrent=4))
    class Batched:
        def infer(self, obs: list[Any]) -> list[Any]:
            return obs

    async with worker(Batched()) as client:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(lambda number=number: act(client, inputs=1, seq=0, episode_id=f"e{number}"))
        seen = await read(client)
    assert seen("seqrt_worker_call_acts_sum") == 5
    calls = seen("seqrt_worker_call_acts_count") or 0
    assert calls < 5
    assert seen("seqrt_worker_act_phase_seconds_sum", phase="infer") == pytest.approx(5 * INFER_S)
    assert seen("seqrt_worker_call_seconds_sum") == pytest.approx(calls * INFER_S)


async def test_acts_sent_away_and_acts_that_came_too_late_are_told() -> None:
    queued = policy(on_full="queue", queue_timeout_s=5.0)(lambda obs: echo(obs))
    async with worker(queued, duration_s=1.2003) as client:

        async def robot(number: int) -> None:
            for step in range(2):
                plan = AskPlan(dry_in_s=1.5, begun=step > 0 or None)
                await act(client, inputs=1, seq=step, episode_id=f"e{number}", plan=plan)

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(robot, number)
        seen = await read(client)
    busy = seen("seqrt_worker_requests_total", endpoint="act", code="busy") or 0
    assert seen("seqrt_worker_refused_acts_total") == busy > 0
    assert 0 < (seen("seqrt_worker_late_acts_total") or 0) < 12
    assert seen("seqrt_worker_episodes_waiting") == 0


async def test_the_page_is_made_off_the_loop() -> None:
    host, took_s = Host(echo, offload=inline()), 0.4003
    await host.start()
    async with (
        LinkTransport(app(host, aside=inline(took_s)), up_s=0.0203, down_s=0.0203) as link,
        httpx.AsyncClient(transport=link, base_url="http://worker", timeout=None) as client,
    ):
        began = anyio.current_time()
        await read(client)
    assert anyio.current_time() - began == pytest.approx(took_s + 2 * 0.0203)


async def test_metrics_take_the_key_where_there_is_one_and_hold_none() -> None:
    async with worker(echo, secret="sesame-7") as client:
        assert (await client.get("/metrics")).status_code == 401
        answered = await client.get("/metrics", headers={"authorization": "Bearer sesame-7"})
    assert answered.status_code == 200
    assert "sesame" not in answered.text
    assert Read(answered.text)("seqrt_worker_requests_total", endpoint="metrics", code="unauthenticated") == 1


async def test_no_label_is_an_id_or_anything_a_client_chose() -> None:
    async with worker(echo) as client:
        for number in range(20):
            headers = {**MSGPACKED, "x-seq-request-id": f"r-{number:08x}"}
            body = encode(ActRequest(inputs=1, seq=0, episode_id=f"episode-{number}"))
            await client.post("/act", content=body, headers=headers)
            await client.get(f"/nowhere/{number}")
        seen = await read(client)
    values = {value for name, value in seen.labels() if name not in ("le", "policy")}
    assert values <= {"act", "metrics", "ok", "left", *ERRORS, *PHASES, *get_args(Stage)}


async def test_a_worker_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    async with worker(echo) as client:
        answered = await client.get("/metrics")
        assert (answered.status_code, answered.json()["code"]) == (424, "dependency_missing")
        assert "seqrt[metrics]" in answered.json()["hint"]
        assert (await act(client, inputs=1)).status_code == 200
    with pytest.raises(InternalError, match="prometheus-client"):
        list(RobotMetrics().collect())


def robot_page(counted: RobotMetrics) -> Read:
    made = Families("seqrt_robot")
    made.made = list(counted.collect())
    return Read(page(made).body.decode())


async def test_what_a_robot_counts_is_what_its_outcome_says() -> None:
    counted, arm = RobotMetrics(), FakeArm(3)
    async with connected(Scripted(rows=8, dims=3, hz=20.0, by="state", infer_s=0.2203)) as there:
        outcome = await there.policy.run(arm, max_actions=60, record=counted, play=seqrt.Play(prefetch=False))
    seen = robot_page(counted)
    assert outcome.underruns > 0
    for name, expected in {
        "actions": outcome.actions,
        "chunks": outcome.chunks,
        "underruns": outcome.underruns,
        "starved_ticks": outcome.starved_ticks,
        "overruns": outcome.overruns,
        "reconnects": outcome.reconnects,
    }.items():
        assert seen(f"seqrt_robot_{name}_total") == expected, name
    assert outcome.act_latency_s is not None
    assert seen("seqrt_robot_act_seconds_count") == outcome.act_latency_s.count
    assert outcome.tick_lateness_s is not None
    assert seen("seqrt_robot_tick_lateness_seconds_count") == outcome.tick_lateness_s.count
    assert seen("seqrt_robot_runs_total", reason="completed") == 1
    assert seen("seqrt_robot_running") == 0


async def test_a_gateway_tells_its_requests_by_how_they_ended_and_what_acts_took() -> None:
    async with gateway() as stood:
        assert (await stood.act()).status_code == 200
        assert (await stood.act("nobody")).status_code == 404
        assert (await stood.client.get("/metrics")).status_code == 404, "robots' keys are no operator's"
        seen = Read(page(gateway_metrics(stood.gateway)).body.decode())
    for code in ("ok", "not_found"):
        assert seen("seqrt_gateway_requests_total", endpoint="v1_act", code=code) == 1
    assert (seen("seqrt_gateway_received_bytes_total", endpoint="v1_act") or 0) > 200
    assert (seen("seqrt_gateway_sent_bytes_total", endpoint="v1_act") or 0) > 200
    assert seen("seqrt_gateway_act_seconds_count") == 2
    assert seen("seqrt_gateway_act_seconds_sum") == pytest.approx(INFER_S)
    assert seen("seqrt_gateway_models") == 1


async def test_a_loop_that_nobody_holds_up_does_not_lag() -> None:
    lag_s = Buckets(LATENESS)
    with anyio.move_on_after(4.5 * LAG_EVERY_S):
        await measure_lag(lag_s)
    assert lag_s.count == 4
    assert lag_s.total == pytest.approx(0.0, abs=1e-6)


async def test_every_metric_there_is_is_in_the_docs_and_the_reverse() -> None:
    async with gateway() as stood:
        pages = [metrics(Host(echo, offload=inline())), gateway_metrics(stood.gateway)]
    families = [*(Read(page(each).body.decode()).families for each in pages), robot_page(RobotMetrics()).families]
    there = {name for each in families for name in each if name.startswith("seqrt_")}
    text = DOCUMENT.read_text(encoding="utf-8")
    named = {name.removesuffix("_total") for name in re.findall(r"^\| `(seqrt_\w+)", text, re.MULTILINE)}
    assert there == named
