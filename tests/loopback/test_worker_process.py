"""A robot in this process, the worker in another, one HTTP/2 connection between them: the least that has to be real."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import seqrt
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

POLICY = """
import numpy as np
import seqrt

@seqrt.policy(actions=seqrt.Actions(key="actions", hz=20, space="absolute"))
class FromTheState:
    def infer(self, obs):
        rows = float(obs["state"][0]) + np.arange(1.0, 21.0)[:, np.newaxis] + np.zeros(3)
        return {"actions": rows, "picture": obs["picture"]}
"""

HOST = "127.0.0.1"
PATIENT = seqrt.Limits(max_stall_s=60.0)
"""A process takes its time to start on a busy machine."""


class Arm(FakeArm):
    """With a picture larger than the loop encodes: it takes the thread's way."""

    def observe(self) -> dict[str, Any]:
        import numpy as np

        return {**super().observe(), "picture": np.zeros((320, 320, 3), np.uint8)}


def start(folder: Path, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    (folder / "process_policy.py").write_text(POLICY)
    process = subprocess.Popen(
        [sys.executable, "-m", "seqrt.cli", "serve", "process_policy:FromTheState", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    if found is None:
        process.kill()
        raise AssertionError("the worker did not say where it is")
    return process, found[0]


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def played(events: list[ev.Event]) -> list[float]:
    ticks = [event for event in events if isinstance(event, ev.Ticked) and event.kind == "played"]
    return [tick.row[0] for tick in ticks if tick.row is not None]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process, url = start(tmp_path)
    yield process, url
    end(process)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_run_goes_through_a_worker_process(worker: tuple[subprocess.Popen[str], str], backend: str) -> None:
    _, url = worker
    arm, events = Arm(3), list[ev.Event]()

    async def main() -> seqrt.RunOutcome:
        async with seqrt.connect("FromTheState", base_url=url) as policy:
            assert policy.info.actions is not None
            assert policy.info.actions["hz"] == 20
            outcome = await policy.run(
                arm, max_actions=45, validate=lambda row: True, limits=PATIENT, record=events.append
            )  # fmt: skip
            chunk = await policy.predict(arm.observe())
            assert chunk.rows[0, 0] == 46.0
            assert chunk.outputs["picture"].shape == (320, 320, 3)
            return outcome

    outcome = anyio.run(main, backend=backend)
    assert (outcome.reason, outcome.actions) == ("completed", 45)
    assert played(events) == [float(n) for n in range(1, 46)]
    assert arm.holds == []
    assert outcome.retries == 0
    assert outcome.bytes_sent > outcome.chunks * 320 * 320 * 3


def test_a_worker_killed_in_mid_run_ends_it_with_hold_and_says_where(
    worker: tuple[subprocess.Popen[str], str], backend: str
) -> None:
    process, url = worker
    arm, events = Arm(3), list[ev.Event]()

    def kill(_: Any) -> bool:
        if len(arm.acts) >= 25:
            process.kill()
        return False

    async def main() -> None:
        async with seqrt.connect(base_url=url) as policy:
            with pytest.raises(seqrt.LinkLost) as lost:
                await policy.run(
                    arm,
                    max_actions=500,
                    until=kill,
                    validate=lambda row: True,
                    limits=seqrt.Limits(max_stall_s=1.5),
                    record=events.append,
                )
            assert (lost.value.host, lost.value.phase) == (url.removeprefix("http://"), "connect")
            assert lost.value.host in str(lost.value)
            assert policy.last_outcome is not None
            assert policy.last_outcome.reason == "stalled"
            assert policy.last_outcome == lost.value.outcome

    anyio.run(main, backend=backend)
    assert len(arm.holds) == 1
    assert len([event for event in events if isinstance(event, ev.LinkLost)]) == 1
    assert played(events) == [float(n) for n in range(1, len(played(events)) + 1)]
    assert len(played(events)) >= 25


def test_a_worker_killed_and_started_again_in_mid_run_is_found(tmp_path: Path, backend: str) -> None:
    """Motion resumes on a new connection to a new process, without a call of the program's."""
    process, url = start(tmp_path)
    port = int(url.rpartition(":")[2])
    arm, started = Arm(3), list[subprocess.Popen[str]]()

    async def main() -> seqrt.RunOutcome:
        moving = anyio.Event()

        async def replace() -> None:
            await moving.wait()
            end(process)
            again, _ = await anyio.to_thread.run_sync(start, tmp_path, port)
            started.append(again)

        def validate(_: Any) -> bool:
            if len(arm.acts) >= 25:
                moving.set()
            return True

        async with seqrt.connect(base_url=url) as policy, anyio.create_task_group() as tasks:
            tasks.start_soon(replace)
            return await policy.run(arm, max_actions=100, validate=validate, limits=PATIENT)

    try:
        outcome = anyio.run(main, backend=backend)
    finally:
        for each in [process, *started]:
            end(each)
    assert outcome.actions == 100
    assert outcome.reconnects >= 1  # a new process on a busy machine may be silent for a while
    assert arm.rows[-1, 0] == 100.0


def test_a_closed_port_says_host_port_and_phase_and_the_next_call_works(tmp_path: Path, backend: str) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
    url = f"http://{HOST}:{port}"

    async def main() -> None:
        with pytest.raises(seqrt.LinkLost) as lost:
            async with seqrt.connect(base_url=url):
                raise AssertionError("nobody listens there")
        assert (lost.value.host, lost.value.phase) == (f"{HOST}:{port}", "connect")
        assert f"{HOST}:{port}" in str(lost.value)
        process, there = start(tmp_path)
        try:
            async with seqrt.connect(base_url=there) as policy:
                await policy.predict(Arm(3).observe())
                end(process)
                with pytest.raises(seqrt.LinkLost) as gone:
                    await policy.predict(Arm(3).observe())
                assert gone.value.host == there.removeprefix("http://")
                again, _ = start(tmp_path, int(there.rpartition(":")[2]))
                try:
                    assert (await policy.predict(Arm(3).observe())).rows[0, 0] == 1.0
                finally:
                    end(again)
        finally:
            end(process)

    anyio.run(main, backend=backend)
