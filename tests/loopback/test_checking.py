"""`check`: a policy looked through offline, in a loop and threads of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seqrt.policies.checking import check

MODULE = """
import time
import numpy as np
import seqrt

DECLARED = dict(
    observations=seqrt.Observations(streams={"state": seqrt.Stream(at=[-1, 0], shape=[2])}),
    actions=seqrt.Actions(key="actions", hz=1, open_loop_horizon=4),
)
QUICK = {**DECLARED, "actions": seqrt.Actions(key="actions", hz=100, open_loop_horizon=4)}

@seqrt.policy(**DECLARED, episodes="shared")
class Good:
    def sample(self):
        return [{"state": np.zeros(2)}] * 3
    def infer(self, obs, *, episode, steps: int = 10):
        return {"actions": np.zeros((4, 2))}

@seqrt.policy(**DECLARED)
class Raises:
    def sample(self):
        return [{"state": np.zeros(2)}]
    def infer(self, obs):
        return {"actions": obs["observation"]}

@seqrt.policy(**DECLARED)
class Batched(Raises):
    def infer(self, obs):
        return {"actions": np.zeros((1, 4, 2))}

@seqrt.policy(**QUICK)
class Slow(Raises):
    def infer(self, obs):
        time.sleep(0.05)
        return {"actions": np.zeros((4, 2))}

ROWS = dict(key="actions", hz=10, model_key="raw")

@seqrt.policy(actions=seqrt.Actions(**ROWS, parts=seqrt.Parts(gripper=(2,))))
class Beyond(Raises):
    def infer(self, obs):
        return {"actions": np.zeros((4, 2)), "raw": np.zeros((4, 2))}

@seqrt.policy(actions=seqrt.Actions(**ROWS))
class Travels(Beyond): ...

CAMERA = seqrt.Camera(width=8, height=8, codec="png")

@seqrt.policy(observations=seqrt.Observations(streams={"front": seqrt.Stream(camera=CAMERA)}))
class Sees(Raises): ...

class Bare:
    def infer(self, obs): ...

class Unloadable(Bare):
    def load(self):
        raise OSError("no weights")

class Wrong:
    def infer(self, images, state): ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "scripted_checking.py").write_text(MODULE)
    yield "scripted_checking"
    sys.modules.pop("scripted_checking", None)


def test_a_good_policy_is_told_with_its_declaration_timings_and_answers(module: str) -> None:
    report = check(f"{module}:Good")
    assert report.ok
    assert report.problems == []
    assert report.sampled is not None
    assert len(report.sampled.durations_s) == 3
    told = str(report)
    for part in ("ready to be served", "episodes: shared", "int, default 10", "median of 3 acts", "float64 [4, 2]"):
        assert part in told


def test_a_policy_that_raises_is_told_with_its_own_traceback_alone(module: str) -> None:
    report = check(f"{module}:Raises")
    assert not report.ok
    problem = report.problems[0]
    assert "KeyError: 'observation'" in problem.what
    assert 'obs["observation"]' in problem.traceback
    assert "seqrt/policies" not in problem.traceback


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("Batched", "without the leading axis"),
        ("Beyond", "2 columns, actions.parts name column 2. Correct parts"),
        ("Unloadable", "OSError: no weights"),
        ("Wrong", "Write `def infer"),
        ("Missing", "module:Policy"),
    ],
)
def test_what_a_worker_would_refuse_is_said_with_its_remedy(module: str, target: str, told: str) -> None:
    report = check(f"{module}:{target}")
    assert not report.ok
    assert "cannot be served" in str(report)
    assert told in str(report)


def test_a_package_that_its_cameras_need_is_named_with_the_line_that_brings_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    problem = check(f"{module}:Sees").problems[0]
    assert (problem.fatal, problem.traceback) == (True, "")
    assert problem.remedy == "Run: pip install 'seqrt[images]'."


def test_what_a_robot_would_suffer_from_is_noted(module: str) -> None:
    report = check(f"{module}:Slow")
    assert report.ok
    assert "a chunk covers 0.04 s" in str(report)


def test_rows_of_the_models_own_that_nobody_takes_back_are_noted(module: str) -> None:
    report = check(f"{module}:Travels")
    assert report.ok
    assert "the rows under 'raw' (actions.model_key) travel for nothing" in str(report)


def test_a_policy_that_declares_nothing_is_told_what_to_write(module: str) -> None:
    report = check(f"{module}:Bare")
    assert report.ok
    assert "Write `def sample(self)`" in str(report)
    assert "actions=seqrt.Actions" in str(report)
