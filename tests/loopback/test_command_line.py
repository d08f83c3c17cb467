"""The command line: `seqrt check`, `seqrt schema`, `--weights`, and help that says where to begin."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqrt.cli import main

MODULE = """
import numpy as np
import seqrt

class Good:
    def sample(self):
        return [{"state": np.zeros(2)}] * 3
    def infer(self, obs):
        return np.zeros((4, 2))

class Unloadable(Good):
    def load(self):
        raise OSError("no such checkpoint")

@seqrt.policy(kwargs={"path": "{weights}"})
class Single(Good):
    def __init__(self, path):
        print("path", path)

@seqrt.policy(kwargs={"actor": "{weights.actor}", "critic": "{weights.critic}"})
class Parts(Good):
    def __init__(self, actor, critic):
        print("parts", actor, critic)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "told_policy.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    sys.modules.pop("told_policy", None)


def test_check_prints_the_report_and_exits_0_where_a_worker_would_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "told_policy:Good"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("told_policy:Good: ready to be served\n")
    assert "median of 3 acts" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("target", "why"),
    [("told_policy:Unloadable", "no such checkpoint"), ("told_policy:Nothing", "'Nothing'"), ("told_policy", ":")],
)
def test_check_exits_1_where_it_would_not_and_says_what_to_do(
    target: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", target]) == 1
    said = capsys.readouterr().out
    assert f"{target}: cannot be served" in said
    assert why in said
    assert "problem:" in said


@pytest.mark.parametrize(
    ("target", "weights", "said"),
    [
        ("Single", ["a.pt"], "path a.pt"),
        ("Single", ["./step=1000.pt"], "path ./step=1000.pt"),
        ("Parts", ["actor=a.pt", "critic=dir/c=1.pt"], "parts a.pt dir/c=1.pt"),
    ],
)
def test_weights_are_one_path_or_one_a_part(
    target: str, weights: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [text for path in weights for text in ("--weights", path)]
    assert main(["check", f"told_policy:{target}", *options]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("weights", [["a", "b"], ["a", "part=b"], ["part=a", "b"], ["part=a", "part=b"]])
def test_weights_that_contradict_each_other_are_refused_with_the_form(
    weights: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [text for path in weights for text in ("--weights", path)]
    with pytest.raises(SystemExit) as ended:
        main(["serve", "told_policy:Single", *options])
    assert ended.value.code == 2
    assert "part=PATH once for each part" in capsys.readouterr().err


def test_weights_that_are_asked_for_and_not_given_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "told_policy:Single"]) == 1
    assert "{weights}" in capsys.readouterr().out
    before = sys.getswitchinterval()
    assert main(["serve", "told_policy:Single", "--port", "0"]) == 2
    assert "{weights}" in capsys.readouterr().err
    assert sys.getswitchinterval() == before, "a program that goes on has its own back"


def test_schema_prints_the_schema_of_every_declaration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schemas: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"Policy", "Observations", "Stream", "Camera", "Actions", "Concurrency", "Tensors"} <= schemas.keys()
    assert "codec" in schemas["Camera"]["properties"]


def test_help_says_where_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in ((["--help"], "where to begin"), (["serve", "--help"], "--weights actor=a.pt")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--latency-ms=-5"], "milliseconds from 0"),
        (["--latency-ms=nan"], "milliseconds from 0"),
        (["--seed=-4"], "a whole number from 0"),
        (["--actions=0"], "a whole number from 1"),
    ],
)
def test_the_demo_refuses_numbers_that_mean_nothing_before_it_starts_anything(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["demo", *words])
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tls-key", "key.pem"], "--tls-cert"),
        (["--tls-cert", "own.pem", "--tls-dir", "there"], "give one of them"),
    ],
)
def test_options_of_tls_that_contradict_each_other_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "told_policy:Single", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_certificate_that_is_not_there_is_named_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "told_policy:Unloadable", "--tls-cert", str(tmp_path / "own.pem"), "--port", "0"]) == 2
    assert "own.pem" in capsys.readouterr().err


@pytest.mark.parametrize("absent", ["starlette", "hypercorn"])
def test_what_to_install_is_said_where_a_program_or_the_command_serves_without_the_extra(absent: str) -> None:
    without = f"import sys; sys.modules[{absent!r}] = None; "
    command = "from seqrt.cli import main; main(['serve', 'nothing:Nothing'])"
    for program in ("from seqrt.worker import serving", command):
        ended = subprocess.run([sys.executable, "-c", without + program], capture_output=True, text=True, timeout=60)
        assert ended.stderr.rstrip().endswith(f"serving a policy needs {absent}: pip install 'seqrt[serve]'")
