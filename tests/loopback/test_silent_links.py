"""A connection that falls silent, over real sockets: found by pings, replaced while the plan plays on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from echoing import HANG_S

import seqrt
from seqrt.link.tcp import taken_bytes, waiting_bytes
from seqrt.testing import FakeArm, Scripted
from seqrt.testing.relay import Relay
from seqrt.timeline import events as ev
from seqrt.worker.server import serving

pytestmark = pytest.mark.anyio

ROWS = 200
"""Ten seconds: longer than any fault here lasts, on a busy machine too."""

AHEAD = seqrt.Play(fresh_s=1.0)
"""Acts are out all the time."""

POLICY = """
import numpy as np
import seqrt

@seqrt.policy(actions=seqrt.Actions(key="actions", hz=20, space="absolute"))
class Counting:
    def infer(self, obs):
        with open("inferred.txt", "a") as file:
            print(obs["number"], file=file)
        return {"actions": float(obs["state"][0]) + np.arange(1.0, 201.0)[:, np.newaxis] + np.zeros(3)}
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    (folder / "counting_policy.py").write_text(POLICY)
    process = subprocess.Popen(
        [sys.executable, "-m", "seqrt.cli", "serve", "counting_policy:Counting", "--port", "0"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    if url is None:
        process.kill()
        raise AssertionError("the worker did not say where it is")
    return process, url[0]


class Numbering(FakeArm):
    """No two of its observations are alike."""

    def observe(self) -> dict[str, Any]:
        return {**super().observe(), "number": len(self.observed)}


def played(events: list[ev.Event]) -> list[float]:
    ticks = [event for event in events if isinstance(event, ev.Ticked) and event.kind == "played"]
    return [tick.row[0] for tick in ticks if tick.row is not None]


def of(events: list[ev.Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_half_open_connection_is_replaced_and_each_act_runs_once() -> None:
    policy, arm, events = (
        Scripted(rows=ROWS, hz=20, by="state", sleeps=True, infer_s=0.02),
        FakeArm(3),
        list[ev.Event](),
    )
    async with serving(policy) as server, Relay(server.port, up_s=0.01, down_s=0.01) as relay:

        def fall_silent(_: Any) -> bool:
            """What the connection swallows it never recovers from; later ones are well."""
            if len(arm.acts) == 20:
                relay.half_open()
            elif relay.statistics().swallowed_bytes:
                relay.mend()
            return True

        async with seqrt.connect(base_url=f"http://127.0.0.1:{relay.port}") as handle:
            outcome = await handle.run(
                arm, max_actions=ROWS, until=lambda _: bool(of(events, ev.LinkBack)) and len(arm.acts) >= 60,
                play=AHEAD, validate=fall_silent, record=events.append,
            )  # fmt: skip
    assert outcome.reconnects == 1
    assert outcome.link_down_s > 0
    assert outcome.pings > 0
    assert "nothing came for" in of(events, ev.LinkLost)[0].error
    assert played(events) == [float(n) for n in range(1, outcome.actions + 1)]
    assert arm.holds == []
    assert len(policy.calls) == len({call.t for call in policy.calls})
    assert relay.statistics().connections == 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP here")
async def test_a_worker_that_is_frozen_and_thaws_is_gone_on_with_and_each_act_runs_once(tmp_path: Path) -> None:
    """Its kernel goes on acknowledging, and takes new connections: none of them helps, and none of them harms."""
    process, url = start(tmp_path)
    arm, events = Numbering(3), list[ev.Event]()

    def told(event: ev.Event) -> None:
        events.append(event)
        if isinstance(event, ev.LinkLost):
            process.send_signal(signal.SIGCONT)

    def freeze(_: Any) -> bool:
        if len(arm.acts) == 20:
            process.send_signal(signal.SIGSTOP)
        return True

    try:
        async with seqrt.connect(base_url=url) as policy:
            outcome = await policy.run(arm, max_actions=100, play=AHEAD, validate=freeze, record=told)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert outcome.reason == "completed"
    assert outcome.reconnects >= 1  # thawed, it may be slow for a while
    assert played(events) == [float(n) for n in range(1, 101)]
    seen = (tmp_path / "inferred.txt").read_text().split()
    assert len(seen) == len(set(seen))


async def test_a_worker_that_takes_a_large_body_slowly_is_not_taken_for_a_dead_one() -> None:
    """Nothing comes back for seconds while the body goes up: the bytes it takes are the sign of life."""
    policy, events = Scripted(rows=20, by="state", sleeps=True), list[ev.Event]()
    body = {"state": [0.0, 0.0, 0.0], "picture": bytes(1_100_000)}
    async with serving(policy) as server, Relay(server.port, up_bytes_per_s=400_000.0) as relay:
        async with seqrt.connect(base_url=f"http://127.0.0.1:{relay.port}") as handle:
            chunk = await handle.predict(body)
            assert chunk.rows[0, 0] == 1.0
        assert relay.statistics().connections == 1
    assert of(events, ev.LinkLost) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's struct tcp_info")
async def test_the_kernel_tells_how_many_bytes_the_other_end_has_taken() -> None:
    there, seen = anyio.Event(), anyio.Event()

    async def take(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            there.set()
            await seen.wait()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, take)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            before = taken_bytes(raw)
            assert before is not None
            await stream.send(b"x" * 1000)
            await there.wait()
            with anyio.fail_after(HANG_S):
                while waiting_bytes(raw):
                    await anyio.lowlevel.checkpoint()
            assert (taken_bytes(raw) or 0) - before == 1000
            seen.set()
        assert (taken_bytes(raw), waiting_bytes(raw)) == (None, 0)  # closed
        tasks.cancel_scope.cancel()
    assert (taken_bytes(None), waiting_bytes(None)) == (None, 0)
