"""One act watched over real HTTP/2, from the robot into a thread's ``infer`` and back, by its request id."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from echoing import HANG_S
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

import seqrt
from seqrt.policies import Host, in_thread
from seqrt.worker.server import serving

pytestmark = pytest.mark.anyio


class Tracing:
    """Notes the trace its code is called in."""

    def __init__(self) -> None:
        self.traces: list[int] = []

    def infer(self, obs: Any) -> Any:
        self.traces.append(trace.get_current_span().get_span_context().trace_id)
        return {"actions": [[0.0, 1.0]] * 4}


async def test_an_act_is_found_by_its_id_in_spans_log_and_metrics_of_both_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="seqrt")
    provider, exporter, policy = TracerProvider(), InMemorySpanExporter(), Tracing()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    async with serving(Host(policy, offload=in_thread()), secret="sesame-7", metrics_port=0) as server:
        async with seqrt.connect(base_url=server.url, api_key="sesame-7", control_hz=10.0) as robot:
            chunk = await robot.predict({"state": [0.0, 0.0]})
        async with httpx.AsyncClient(timeout=HANG_S) as client:
            answered = await client.get(f"http://127.0.0.1:{server.metrics_port}/metrics")
            refused = await client.get(f"{server.url}/metrics")
    provider.shutdown()

    acts = {span.name: span for span in exporter.get_finished_spans() if span.name in ("robot act", "worker act")}
    assert {span.attributes["seqrt.request_id"] for span in acts.values() if span.attributes} == {chunk.request_id}
    assert policy.traces == [span.context.trace_id for span in acts.values()][:1] == policy.traces[-1:]
    assert {span.context.trace_id for span in acts.values()} == set(policy.traces)

    said = [record.getMessage() for record in caplog.records if f"rid={chunk.request_id}" in record.getMessage()]
    assert {text.split()[1] for text in said} >= {"ev=act.answered", "ev=act.over"}

    assert (answered.status_code, refused.status_code) == (200, 401)
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answered.text)
        for sample in family.samples
    }
    assert samples["seqrt_worker_requests_total", "act", "ok"] == 1
    assert samples["seqrt_worker_act_phase_seconds_count", "infer"] == 1
    assert samples["seqrt_worker_act_phase_seconds_count", "answer"] == 1
