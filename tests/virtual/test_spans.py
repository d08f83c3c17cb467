"""An act's spans, robot and worker, as opentelemetry-sdk's in-memory exporter has them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import httpx
import pytest
from gateways import gateway
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

import seqrt
from seqrt.errors import RemoteError
from seqrt.policies import Host, policy
from seqrt.policies.terms import Concurrency
from seqrt.testing import FakeArm, Scripted
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.watching.spans import carried, tracing
from seqrt.wire.messages import ActRequest

pytestmark = pytest.mark.anyio


class Found:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __call__(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self(name)
        return span


def provide(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> None:
    """Make it the program's for one test: the API takes a provider once a process, and no test may leave one behind."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provide(monkeypatch, provider)
    yield Found(exporter)
    provider.shutdown()


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    return span.context.span_id


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {})[name]


class Tracing:
    """A policy with a span of its own."""

    def infer(self, obs: Any) -> Any:
        with trace.get_tracer("mine").start_as_current_span("forward"):
            return {"actions": [[0.0]] * 4}


async def test_an_act_is_one_trace_from_the_robot_to_infer_and_back(spans: Found) -> None:
    async with connected(Tracing(), control_hz=10.0) as there:
        chunk = await there.policy.predict({"state": [0.0]})
    robot, worker, infer = spans.one("robot act"), spans.one("worker act"), spans.one("infer")
    assert (robot.kind, worker.kind) == (trace.SpanKind.CLIENT, trace.SpanKind.SERVER)
    assert parent_of(robot) is None
    assert parent_of(worker) == id_of(robot)
    for name in ("read", "wait for frames", "queue", "infer", "answer"):
        assert parent_of(spans.one(name)) == id_of(worker), name
    assert parent_of(spans.one("forward")) == id_of(infer), "what the policy traces lies below"
    assert {span.context.trace_id for name in ("worker act", "infer", "forward") for span in spans(name)} == {
        robot.context.trace_id
    }
    for span in (robot, worker):
        assert attribute(span, "seqrt.request_id") == chunk.request_id
    assert attribute(infer, "seqrt.request_ids") == (chunk.request_id,)


async def test_each_act_of_a_run_has_a_trace_below_the_span_around_the_run(spans: Found) -> None:
    with trace.get_tracer("mine").start_as_current_span("episode") as around:
        async with connected(Scripted(rows=8, dims=3, hz=20.0, by="state", infer_s=0.0703)) as there:
            outcome = await there.policy.run(FakeArm(3), max_actions=20)
    acts = spans("robot act")
    assert len(acts) >= outcome.chunks >= 3
    assert {parent_of(act) for act in acts} == {around.get_span_context().span_id}
    assert {attribute(act, "seqrt.request_id") for act in spans("worker act")} <= {
        attribute(act, "seqrt.request_id") for act in acts
    }


async def test_an_act_that_is_tried_again_is_one_span_at_the_robot(spans: Found) -> None:
    lost: list[str] = []

    def lose(request: httpx.Request) -> bool:
        if request.url.path == "/act" and len(policy.calls) == 3 and not lost:
            lost.append(request.headers["x-seq-request-id"])
            there.link.begin_outage("reset")
            there.link.end_outage()
        return False

    policy = Scripted(rows=50, hz=20, infer_s=0.0803)
    async with connected(policy, lose_answer=lose) as there:
        await there.policy.run(FakeArm(3), max_actions=150, play=seqrt.Play(fresh_s=0.6))
    (robot,) = [span for span in spans("robot act") if attribute(span, "seqrt.request_id") == lost[0]]
    served = [span for span in spans("worker act") if attribute(span, "seqrt.request_id") == lost[0]]
    assert [parent_of(span) for span in served] == [id_of(robot)] * 2
    (again,) = spans("wait for the same act")
    assert parent_of(again) in {id_of(span) for span in served}


async def test_a_refusal_is_an_error_with_its_code(spans: Found) -> None:
    class Failing:
        def infer(self, obs: Any) -> Any:
            raise RuntimeError("cuda")

    async with connected(Failing(), control_hz=10.0) as there:
        with pytest.raises(RemoteError):
            await there.policy.predict({"state": [0.0]})
    for name in ("robot act", "worker act"):
        span = spans.one(name)
        assert not span.status.is_ok
        assert attribute(span, "seqrt.code") == "policy_error"


@policy(episodes="shared", concurrency=Concurrency(max_concurrent=4))
class Batched:
    """Several acts in one call."""

    def infer(self, obs: list[Any]) -> list[Any]:
        return obs


async def together(host: Host, acts: int) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(acts):
            asked = ActRequest(inputs=1, seq=0, episode_id=f"e{number}")
            tasks.start_soon(lambda asked=asked, number=number: host.act(asked, request_id=f"r-{number:08x}"))


async def test_one_infer_span_is_linked_with_each_act_of_its_batch_and_they_with_it(spans: Found) -> None:
    host = Host(Batched(), offload=inline(0.1))
    await host.start()
    await together(host, 4)
    acts = {id_of(span): span for span in spans("worker act")}
    assert len(acts) == 4
    (infer,) = [span for span in spans("infer") if attribute(span, "seqrt.acts") > 1]
    assert len(infer.links) == attribute(infer, "seqrt.acts")
    assert {link.context.span_id for link in infer.links} <= set(acts)
    others = {link.context.span_id for link in infer.links} - {parent_of(infer)}
    for span_id in others:
        assert [link.context.span_id for link in acts[span_id].links] == [id_of(infer)]


class Every(Sampler):
    """Samples the traces whose first span comes at those places."""

    def __init__(self, places: Sequence[int]) -> None:
        self._places, self._seen = places, -1

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **fields: Any) -> SamplingResult:
        parent = trace.get_current_span(parent_context).get_span_context()
        if parent.is_valid:
            return SamplingResult(Decision.RECORD_AND_SAMPLE if parent.trace_flags.sampled else Decision.DROP)
        self._seen += 1
        return SamplingResult(Decision.RECORD_AND_SAMPLE if self._seen in self._places else Decision.DROP)

    def get_description(self) -> str:
        return "every"


async def test_a_batch_led_by_an_act_that_is_not_sampled_is_seen_by_one_that_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider, exporter = TracerProvider(sampler=Every([3])), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provide(monkeypatch, provider)
    host = Host(Batched(), offload=inline(0.1))
    await host.start()
    await together(host, 4)
    found = Found(exporter)
    assert parent_of(found.one("infer")) == id_of(found.one("worker act"))
    provider.shutdown()


async def test_a_gateways_span_is_between_the_robots_and_the_workers(spans: Found) -> None:
    sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with gateway() as stood:
        answered = await stood.act(traceparent=sent, **{"x-seq-request-id": "r-0123abcd"})
    assert answered.status_code == 200
    between, worker = spans.one("gateway act"), spans.one("worker act")
    assert between.parent is not None
    assert f"{between.parent.span_id:016x}" == "b7ad6b7169203331"
    assert parent_of(worker) == id_of(between)
    assert f"{spans.one('infer').context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert {attribute(span, "seqrt.request_id") for span in (between, worker)} == {"r-0123abcd"}


async def test_a_traceparent_that_is_none_is_nobodys_trouble(spans: Found) -> None:
    host = Host(Tracing(), offload=inline())
    await host.start()
    with host.watch.act("r-0123abcd", {"traceparent": "00-zz-\x00-01"}):
        pass
    assert parent_of(spans.one("worker act")) is None


async def test_without_a_provider_nothing_is_traced_and_nothing_carried() -> None:
    assert tracing() is None
    assert carried() == {}


async def test_a_robots_log_and_its_workers_have_one_id_for_an_act(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="seqrt")
    async with connected(Scripted(rows=8, dims=3, hz=20.0, by="state", infer_s=0.0703)) as there:
        await there.policy.run(FakeArm(3), max_actions=20)
    said = [(record.name, record.getMessage()) for record in caplog.records]
    asked = {text.split("rid=")[1].split()[0] for _, text in said if text.startswith("seq ev=act.asked ")}
    served = {
        text.split("rid=")[1].split()[0]
        for name, text in said
        if name == "seqrt.worker.app" and text.startswith("seq ev=act.answered ")
    }
    assert asked
    assert served
    assert served <= asked
    ended = [text for _, text in said if "ev=run.ended" in text or "ev=episode.ended" in text]
    infos = [record for record in caplog.records if record.levelno == logging.INFO and "ended" in record.getMessage()]
    assert len({text.split("episode=")[1].split()[0] for text in ended}) == 1, "one episode, by one id"
    assert len(infos) == 2, "one line a run and one an episode"


def test_nothing_of_opentelemetry_is_imported_by_a_program_that_does_not() -> None:
    program = (
        "import sys, seqrt, seqrt.worker, seqrt.testing; from seqrt.watching.spans import robot_act, carried\n"
        "with robot_act('r-0123abcd'): assert carried() == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
