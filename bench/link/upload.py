"""Observations over a narrow link: how long an act takes from the capture of the newest frame, and the link's use.

Every line is a worker, a client and a relay between them (in this process) of the rate and distance said, one line
after the other. What is timed is the client's own: from the capture of the newest frame an act was served with to its
chunk in hand.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bench.alone import alone
from bench.link.connect_endpoint import connect_endpoint
from bench.link.upload_server import INFER_S
from seqrt.testing.relay import Relay

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FRAME = 54_300
PIECE_S, SLACK_S = 0.003, 0.010
"""A piece is 3 ms of the rate (4 KiB at least), and 10 ms are what processes and timers may take: link.md, 2."""


@dataclass(frozen=True)
class Case:
    """One line.

    Attributes:
        name: What it is called.
        client: "stream", "carried" or "seq51".
        mbit: The link's rate up.
        rtt_ms: Its round trip.
        hz: Frames a second.
        frame: Bytes of one.
        drop: Whether the policy declares ``when_behind="drop_oldest"``.
        in_flight: Of our runs.
        rows: Of a chunk.
    """

    name: str
    client: str
    mbit: float = 20.0
    rtt_ms: float = 40.0
    hz: float = 30.0
    frame: int = FRAME
    drop: bool = False
    in_flight: int = 1
    rows: int = 30

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.mbit * 1e6 / 8

    @property
    def wants(self) -> float:
        """What the frames take of it, 1 for all."""
        return self.hz * self.frame / self.rate


def between_acts(wanting_more: bool) -> list[Case]:
    """24 frames of 54.3 KB between two acts at 20 Mbit/s and 40 ms: ours, carried, and 0.51.5's stream."""
    hz = 60.0 if wanting_more else 30.0
    return [
        Case("seqrt", "stream", hz=hz, drop=wanting_more, rows=round(hz)),
        Case("seqrt, several acts out", "stream", hz=hz, drop=wanting_more, rows=round(hz), in_flight=8),
        Case("seqrt, 24 frames in the act", "carried", hz=hz),
        Case("sequence-ai 0.51.5, observe() and act()", "seq51", hz=hz),
    ]


def grid() -> list[Case]:
    """Three rates and three distances, the frames as large as makes them want 1.3 times the link."""
    return [
        Case(
            f"{mbit:g} Mbit/s, {rtt_ms:g} ms", "stream", mbit, rtt_ms, drop=True, in_flight=8,
            frame=round(1.3 * mbit * 1e6 / 8 / 30),
        )
        for mbit in (5.0, 20.0, 100.0)
        for rtt_ms in (12.0, 40.0, 101.0)
    ]  # fmt: skip


async def measured(case: Case, seconds: float, seq51: str | None) -> dict[str, Any]:
    """Run one line."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    serve = [sys.executable, "-m", "bench.link.upload_server", "carried" if case.client == "carried" else "fed"]
    serve += ["--hz", str(case.hz), "--rows", str(case.rows), *(["--drop"] if case.drop else [])]
    one_way = case.rtt_ms / 2000
    async with alone(serve, cwd=ROOT, env=environment) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        port = int((await server.stdout.receive()).decode())
        async with Relay(port, up_s=one_way, down_s=one_way, up_bytes_per_s=case.rate) as relay:
            with ExitStack() as stack:
                drive = _client(case, relay.port, stack, seq51)
                drive += ["--frame", str(case.frame), "--hz", str(case.hz), "--seconds", str(seconds)]
                found = await _driven(drive, environment, relay)
        await server.stdin.aclose()
    return found


def _client(case: Case, port: int, stack: ExitStack, seq51: str | None) -> list[str]:
    if case.client == "seq51":
        assert seq51 is not None
        connect = stack.enter_context(connect_endpoint(f"http://127.0.0.1:{port}"))
        return [seq51, str(HERE / "upload_seq51.py"), "--connect", str(connect)]
    ours = [sys.executable, "-m", "bench.link.upload_client", case.client, "--port", str(port)]
    return [*ours, "--rate", str(case.rate), "--rtt", str(case.rtt_ms / 1000), "--in-flight", str(case.in_flight)]


async def _driven(drive: list[str], environment: dict[str, str], relay: Relay) -> dict[str, Any]:
    """The client's figures, and what passed the relay between its two lines."""
    async with alone(drive, cwd=ROOT, env=environment) as client:
        assert client.stdout is not None
        lines, left = [], ""
        marks: list[tuple[float, int]] = []
        async for data in client.stdout:
            *whole, left = (left + data.decode()).split("\n")
            for line in whole:
                marks.append((anyio.current_time(), relay.statistics().bytes_up))
                lines.append(json.loads(line))
    if len(lines) < 2:
        raise SystemExit(f"{' '.join(drive[:3])} ended with {client.returncode} and said {len(lines)} lines")
    (from_s, from_bytes), (to_s, to_bytes) = marks[0], marks[-1]
    return {**lines[-1], "bytes_per_s": (to_bytes - from_bytes) / (to_s - from_s)}


def quantile(values: list[float], q: float) -> float:
    """A quantile, NaN of nothing."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def line(case: Case, found: dict[str, Any]) -> str:
    """One line of a table."""
    took: list[float] = found["latency_s"]
    piece = max(4096.0, PIECE_S * case.rate)
    bounds = [
        case.rtt_ms / 1000 + infer_s + (lacks + piece) / case.rate + SLACK_S
        for infer_s, lacks in zip(found["infer_s"], found.get("lacking", []), strict=False)
    ]
    within = sum(t <= b for t, b in zip(took, bounds, strict=False)) / len(bounds) if bounds else None
    cells = [
        case.name,
        f"{100 * case.wants:.0f} %",
        f"{found['acts_per_s']:.2f}",
        f"{1e3 * quantile(took, 0.5):.0f} / {1e3 * quantile(took, 0.99):.0f}",
        f"{1e3 * quantile(bounds, 0.5):.0f} / {1e3 * quantile(bounds, 0.99):.0f}" if bounds else "-",
        f"{100 * within:.0f} %" if within is not None else "-",
        f"{1e3 * found['age_s']:.0f}" if found.get("age_s") else "-",
        f"{100 * found['bytes_per_s'] / case.rate:.0f} %",
        str(found.get("underruns", "-")),
        f"{found['frames_skipped']}" if "frames_skipped" in found else "-",
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| | frames want | acts/s | capture to chunk p50 / p99 ms | bound p50 / p99 ms | within it | age p50 ms "
    "| uplink used | underruns | frames not sent |\n|---|---|---|---|---|---|---|---|---|---|"
)


async def tables(which: list[str], seconds: float, seq51: str | None) -> None:
    """Measure and print, line by line."""
    print(f"{FRAME / 1000:g} KB a frame where not said, inference {INFER_S * 1e3:g} ms, {seconds:g} s a line")
    for title, cases in (
        ("24 frames between two acts, 20 Mbit/s up, 40 ms", between_acts(False)),
        ("the same, frames at twice the rate: more than the link has", between_acts(True)),
        ("rates and distances, frames that want more than the link has", grid()),
    ):
        if which and not any(word in title for word in which):
            continue
        print(f"\n{title}\n\n{HEAD}", flush=True)
        for case in cases:
            if case.client == "seq51" and seq51 is None:
                print(f"| {case.name} | skipped: no --seq51 PYTHON |")
                continue
            print(line(case, await measured(case, seconds, seq51)), flush=True)
