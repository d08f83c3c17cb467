"""`seqrt keys`, `seqrt gateway` and `seqrt serve --gateway`: what they print, what they refuse, how they end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from echoing import HANG_S

from seqrt.cli import main
from seqrt.gateway.keyfile import KeyFile, read
from seqrt.gateway.spending import kept

POLICY = """
import seqrt
from seqrt.policies.robot_arm import ActionContract

@seqrt.policy(action_contract=ActionContract(
    robot="panda", action_space="joint_absolute", action_dim=1, control_frequency_hz=10))
class Arm:
    def infer(self, obs):
        return [[0.0]]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SEQRT_API_KEY", "SEQUENCES_API_KEY", "SEQUENCES_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SET", "the-workers-key")


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_key_is_printed_once_alone_and_is_the_one_the_file_knows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["keys", "add", "arm-1", "--keys", "keys", "--model", "pi05", "--acts", "10", "--at-once", "2"]
    code, secret, told = run(words, capsys)
    assert code == 0
    assert re.fullmatch(r"seq_[A-Za-z0-9_-]{43}\n", secret)
    assert "good for pi05, 10 acts, 2 at once" in told
    assert secret.strip() not in told
    found = KeyFile(Path("keys")).find(secret.strip().encode())
    assert found is not None
    assert (found.name, found.model, found.acts, found.at_once) == ("arm-1", "accounts/sequences/models/pi05", 10, 2)
    assert secret.strip() not in Path("keys").read_text()


def test_keys_are_listed_with_what_they_spent_and_revoked_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    run(["keys", "add", "arm-1", "--keys", "keys", "--acts", "10", "--per-minute", "60"], capsys)
    run(["keys", "add", "arm-2", "--keys", "keys"], capsys)
    code, out, _ = run(["keys", "list", "--keys", "keys"], capsys)
    assert code == 0
    assert [line.split(None, 1) for line in out.splitlines()] == [
        ["arm-1", "good for every model, 10 acts, 60 acts a minute; 0 of 10 spent"],
        ["arm-2", "good for every model"],
    ]
    with kept(Path("elsewhere")) as spending:  # as a gateway with --spent elsewhere
        (key, _) = read(Path("keys"))
        assert spending.reserve(key)
        spending.count(key)
    assert "1 of 10 spent" in run(["keys", "list", "--keys", "keys", "--spent", "elsewhere"], capsys)[1]
    assert run(["keys", "revoke", "arm-1", "--keys", "keys"], capsys)[0] == 0
    assert run(["keys", "list", "--keys", "keys"], capsys)[1].startswith("arm-2")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["keys"], 2, "add | list | revoke"),
        (["keys", "add", "a"], 2, "--keys"),
        (["keys", "add", "a b", "--keys", "keys"], 2, "is no name"),
        (["keys", "add", "a", "--keys", "keys", "--acts", "0"], 2, "a whole number from 1"),
        (["keys", "add", "there", "--keys", "keys"], 1, "revoke it first"),
        (["keys", "add", "a", "--keys", "nowhere/keys"], 2, "cannot be written"),
        (["keys", "revoke", "a", "--keys", "keys"], 1, "there are: there"),
        (["keys", "revoke", "a", "--keys", "nothing"], 2, "seqrt keys add"),
        (["keys", "list", "--keys", "nothing"], 2, "seqrt keys add"),
        (["keys", "list", "--keys", "bad"], 2, "bad, line 1"),
        (["gateway"], 2, "--worker"),
        (["gateway", "--worker", "http://gpu:8080"], 2, "pi05-droid=http://gpu:8080"),
        (["gateway", "--worker", "a=gpu:8080"], 2, "pi05-droid=http://gpu:8080"),
        (["gateway", "--worker", "a=http://gpu:8080/?q=1"], 2, "base_url"),
        (["gateway", "--worker", "a=https://gpu:8080#beef"], 2, "64 hex digits"),
        (["gateway", "--worker", "a=http://gpu:8080", "--keys", "nothing"], 2, "seqrt keys add"),
        (["gateway", "--worker", "a=http://gpu:8080", "--keys", "bad"], 2, "bad, line 1"),
        (["gateway", "--worker", "a=http://gpu:8080", "--secret-env", "NOT_SET"], 2, "NOT_SET is empty"),
        (
            ["gateway", "--worker", "a=http://gpu:8080", "--secret-env", "SET"],
            2,
            "or --insecure",
        ),
        (["gateway", "--worker", "a=http://gpu:8080", "--tls-key", "k"], 2, "--tls-cert"),
        (["serve", "m:P", "--keys", "keys"], 2, "--gateway"),
        (["serve", "m:P", "--gateway", "--keys", "nothing"], 2, "seqrt keys add"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["keys", "add", "there", "--keys", "keys"], capsys)
    Path("bad").write_text("not a key\n")
    found, _, told = run(words, capsys)
    assert said in told
    assert found == code


@pytest.mark.parametrize("words", [["--port"], ["--port", "0", "--metrics-port"]])
def test_a_port_in_use_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, told = run(["gateway", "--worker", "a=http://127.0.0.1:1", *words, port], capsys)
    assert code == 1
    assert f"cannot listen at 127.0.0.1:{port}: " in told
    assert "choose another --host, --port or --metrics-port" in told


def test_an_address_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, told = run(["gateway", "--worker", "a=http://127.0.0.1:1", "--host", "::1%none", "--port", "0"], capsys)
    assert code == 1
    assert "cannot listen at ::1%none:0: " in told


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    Path("arm_policy.py").write_text(POLICY)
    with subprocess.Popen(
        [sys.executable, "-m", "seqrt.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_both_processes_say_what_to_type_on_the_robot_and_end_cleanly(capsys: pytest.CaptureFixture[str]) -> None:
    _, secret, _ = run(["keys", "add", "arm-1", "--keys", "keys"], capsys)
    headers = {"authorization": f"Bearer {secret.strip()}"}
    picture = "/9j/"
    body = {
        "model": "Arm",
        "observation": {"images": [{"view": "a", "data": picture}], "proprioception": {}, "instruction": ""},
    }
    with started(["serve", "arm_policy:Arm", "--port", "0", "--gateway"]) as worker:
        assert worker.stdout is not None
        url = re.findall(r"ready at (\S+);", worker.stdout.readline())[0]
        assert f'sequence_ai.connect(model="Arm", base_url="{url}", api_key="any")' in worker.stdout.readline()
        assert httpx.get(f"{url}/v1/health", timeout=HANG_S).json()["auth"] == "none"
        with started(["gateway", "--worker", f"Arm={url}", "--keys", "keys", "--port", "0"]) as face:
            assert face.stdout is not None
            lines = [face.stdout.readline() for _ in range(3)]
            at = lines[0].removeprefix("seqrt: gateway at ").strip()
            assert "drives panda" in lines[1]
            assert f'seqrt.connect(model="Arm", base_url="{at}", api_key=...)' in lines[2]
            assert httpx.get(f"{at}/v1/models", timeout=HANG_S).json()["data"][0]["robot"] == "panda"
            refused = httpx.post(f"{at}/v1/act", json=body, headers=headers, timeout=HANG_S)
            assert (refused.status_code, "JPEG" in refused.json()["detail"]) == (400, True)
            face.send_signal(signal.SIGINT)
            assert face.wait(HANG_S) == 0
            assert face.stderr is not None
            assert face.stderr.read() == ""
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(HANG_S) == 0
