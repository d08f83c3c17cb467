from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import httpx
import pytest
import trio
from echoing import HANG_S

import seqrt
from examples import blocking_driver, blocking_face, fastapi_teleop, flow_policy, my_policy, ten_lines, trio_rig
from seqrt.worker.listening import listening
from seqrt.worker.server import serving

ROOT = Path(__file__).parents[2]
OUTCOME = r"RunOutcome\({} actions over \d+ chunks in \d+\.\ds(, \d+ [a-z ]+( \(\d+\.\d+s\))?)*, completed\)"


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_each_example_is_short(example: str) -> None:
    most = 250 if example == "flow_policy.py" else 120  # it is a paper in one file
    assert len((ROOT / "examples" / example).read_text(encoding="utf-8").splitlines()) < most


@pytest.mark.anyio
async def test_the_ten_lines_drive_an_arm_over_http(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(my_policy.MyPolicy()) as server:
        await ten_lines.main(server.url, max_actions=6)
    assert re.fullmatch(OUTCOME.format(6) + "\n", capsys.readouterr().out)


@pytest.mark.anyio
async def test_the_policy_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    await my_policy.main(actions=6)
    assert re.match(OUTCOME.format(6) + "\nThe light is ", capsys.readouterr().out)


@pytest.mark.anyio
async def test_the_flow_policy_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    await flow_policy.main(actions=6)
    assert re.match(OUTCOME.format(6) + "\nIt ended at ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("folder", "target"), [(".", "examples.my_policy:MyPolicy"), ("examples", "my_policy:MyPolicy")]
)
def test_the_policy_is_served_by_the_command(folder: str, target: str) -> None:
    command = [sys.executable, "-m", "seqrt.cli", "serve", target, "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT / folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as worker:
        assert worker.stdout is not None
        try:
            said = worker.stdout.readline().decode()
            url = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert url is not None, said
            declared = httpx.get(f"{url[0]}/policy", headers={"accept": "application/json"}, timeout=HANG_S).json()
        finally:
            worker.terminate()
            worker.wait(HANG_S)
    assert declared["model"] == "light-follower"
    assert declared["actions"]["names"] == ["pan", "tilt"]


def test_the_rig_drives_two_arms_over_http(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with serving(my_policy.MyPolicy()) as server:
            await trio_rig.main(server.url, max_actions=6)

    trio.run(main)
    assert re.fullmatch(f"left {OUTCOME.format(6)}\nright {OUTCOME.format(6)}\n", capsys.readouterr().out)


@pytest.mark.anyio
async def test_the_blocking_driver_is_driven_from_threads() -> None:
    head = blocking_driver.SerialHead()
    async with seqrt.connect(policy=my_policy.MyPolicy()) as policy:
        outcome = await blocking_driver.drive(policy, head, max_actions=10)
    assert outcome.actions == 10
    assert outcome.frames_skipped > 0  # the camera gives eight pictures a second, the grid has fifteen steps
    assert head.position[0] != 0


@pytest.mark.anyio
async def test_the_blocking_driver_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(my_policy.MyPolicy()) as server:
        await blocking_driver.main(server.url, max_actions=6)
    assert re.match(OUTCOME.format(6), capsys.readouterr().out)


def test_the_blocking_face_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve() -> Any:
        return serving(my_policy.MyPolicy())

    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(serve)) as server,
    ):
        blocking_face.main(server.url, max_actions=6)
    assert re.match(OUTCOME.format(6), capsys.readouterr().out)


@asynccontextmanager
async def teleop_served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(my_policy.MyPolicy()) as worker:
        monkeypatch.setenv("WORKER_URL", worker.url)
        monkeypatch.setenv("TELEOP_TOKEN", "secret")
        app = fastapi_teleop.from_environment()
        async with app.router.lifespan_context(app), listening(app, host="127.0.0.1", port=0) as port:
            headers = {"host": "127.0.0.1:8000", "authorization": "Bearer secret"}
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=HANG_S
            ) as client:
                yield client


@pytest.mark.anyio
async def test_the_teleop_server_drives_an_arm_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    async with teleop_served(monkeypatch) as client:
        assert (await client.post("/run", params={"actions": 5})).status_code == 202
        with anyio.fail_after(HANG_S):
            while (status := (await client.get("/status")).json())["running"]:
                await anyio.lowlevel.checkpoint()
        assert status["error"] is None
        assert status["outcome"]["actions"] == 5
        assert (await client.post("/stop", headers={"authorization": "Bearer wrong"})).status_code == 401
