"""`serve` as the command line runs it: a process that says when it is ready and ends on a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from echoing import HANG_S

POLICY = """
import os, sys, time

class Policy:
    def infer(self, obs):
        return [1.0]

class Turns:
    def infer(self, obs):
        return [sys.getswitchinterval()]

class Broken(Policy):
    def load(self):
        raise PermissionError(13, "no entry", "pi0.pt")

class Loads(Policy):
    def load(self):
        print("loading", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.01)
"""

SERVE = """
import sys, anyio
from seqrt.worker import serve
anyio.run(lambda: serve(sys.argv[1], port=0, secret=(sys.argv[3:] or [None])[0]), backend=sys.argv[2])
"""


@contextmanager
def served(target: str, backend: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "served_policy.py").write_text(POLICY)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, target, backend, *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_over_tls_the_robots_line_holds_the_fingerprint_and_is_the_same_after_a_restart(tmp_path: Path) -> None:
    lines = []
    for _ in range(2):
        (tmp_path / "served_policy.py").write_text(POLICY)
        words = ["serve", "served_policy:Policy", "--port", "0", "--tls-dir", str(tmp_path / "tls")]
        with subprocess.Popen(
            [sys.executable, "-m", "seqrt.cli", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            line, told = process.stdout.readline(), process.stdout.readline()
            process.send_signal(signal.SIGTERM)
        found = re.search(r'connect\(base_url="(https://127\.0\.0\.1:\d+)", fingerprint="([0-9a-f]{64})"\)', line)
        assert found is not None, line
        assert found[2] in told
        lines.append(found[2])
    assert lines[0] == lines[1]


def test_the_command_hands_the_interpreter_from_the_policy_to_the_loop_within_half_a_millisecond(
    tmp_path: Path,
) -> None:
    (tmp_path / "served_policy.py").write_text(POLICY)
    words = ["serve", "served_policy:Turns", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "seqrt.cli", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = url_of(process.stdout.readline())
            assert httpx.post(f"{url}/act", json={"inputs": 1}, timeout=HANG_S).json()["outputs"] == [0.0005]
        finally:
            process.send_signal(signal.SIGTERM)


def url_of(line: str) -> str:
    found = re.search(r"ready at (http://127\.0\.0\.1:\d+)", line)
    assert found is not None, line
    return found[1]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_ready_line_names_the_url_and_the_robots_line_and_a_signal_ends_it_cleanly(
    backend: str, signum: signal.Signals, tmp_path: Path
) -> None:
    with served("served_policy:Policy", backend, tmp_path) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = url_of(line)
        assert f'seqrt.connect(base_url="{url}")' in line
        assert httpx.get(f"{url}/healthz", timeout=HANG_S).json()["stage"] == "ready"
        assert httpx.post(f"{url}/act", json={"inputs": 1}, timeout=HANG_S).json()["outputs"] == [1.0]
        process.send_signal(signum)
        assert process.wait(HANG_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_first_signal_drains_and_the_second_stops(tmp_path: Path) -> None:
    with served("served_policy:Policy", "asyncio", tmp_path) as process:
        assert process.stdout is not None
        url = url_of(process.stdout.readline())
        live = {"episode_id": "live", "skipped": [0]}
        assert httpx.post(f"{url}/observe", json=live, timeout=HANG_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert "draining 1 episode" in process.stdout.readline()
        assert httpx.post(f"{url}/observe", json={**live, "skipped": [1]}, timeout=HANG_S).status_code == 200
        refused = httpx.post(f"{url}/observe", json={**live, "episode_id": "new"}, timeout=HANG_S)
        assert (refused.status_code, refused.json()["details"]) == (503, {"reason": "draining"})
        assert httpx.get(f"{url}/healthz", timeout=HANG_S).json()["details"] == {"stage": "draining"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 0


@pytest.mark.parametrize("told", ["signal", "request"])
def test_a_worker_that_drains_ends_by_itself_when_the_last_live_episode_has_ended(told: str, tmp_path: Path) -> None:
    with served("served_policy:Policy", "asyncio", tmp_path, "key") as process:
        assert process.stdout is not None
        url, headers = url_of(process.stdout.readline()), {"authorization": "Bearer key"}
        with httpx.Client(base_url=url, headers=headers, timeout=HANG_S) as robot:
            assert robot.post("/observe", json={"episode_id": "live", "skipped": [0]}).status_code == 200
            if told == "signal":
                process.send_signal(signal.SIGTERM)
            else:
                assert robot.post("/drain").json()["episodes"] == 1
            assert "draining 1 episode" in process.stdout.readline()
            assert robot.post("/observe", json={"episode_id": "live", "skipped": [1]}).status_code == 200
            assert robot.post("/act", json={"inputs": 1, "seq": 2, "episode_id": "live"}).json()["outputs"] == [1.0]
            assert robot.post("/act/episode_end", json={"episode_id": "live"}).status_code == 200
        assert process.wait(HANG_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_policy_that_cannot_be_loaded_ends_it_with_its_own_error(tmp_path: Path) -> None:
    with served("served_policy:Broken", "asyncio", tmp_path) as process:
        assert process.wait(HANG_S) == 1
        assert process.stderr is not None
        assert process.stderr.read().rstrip().endswith("PermissionError: [Errno 13] no entry: 'pi0.pt'")


def test_the_command_tells_what_the_policys_code_raised_from_that_codes_first_row_on(tmp_path: Path) -> None:
    (tmp_path / "served_policy.py").write_text(POLICY)
    words = [sys.executable, "-m", "seqrt.cli", "serve", "served_policy:Broken", "--port", "0"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert ended.returncode == 1
    told = ended.stderr.splitlines()
    assert told[0] == "seqrt: served_policy:Broken cannot be served, its own code raised:"
    assert [row.split(", ")[0] for row in told if row.startswith("  File")] == [f'  File "{tmp_path}/served_policy.py"']
    assert told[-1] == "PermissionError: [Errno 13] no entry: 'pi0.pt'"  # no address of ours


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("ends", ["when it is loaded", "at once"])
def test_a_signal_while_the_policy_loads_ends_it_then_and_a_second_one_at_once(
    ends: str, backend: str, tmp_path: Path
) -> None:
    with served("served_policy:Loads", backend, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert "stopping when the policy has loaded" in process.stdout.readline()
        if ends == "at once":
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG_S) == -signal.SIGINT
        else:
            (tmp_path / "go").touch()
            assert process.wait(HANG_S) == 0
            assert process.stdout.read() == ""
