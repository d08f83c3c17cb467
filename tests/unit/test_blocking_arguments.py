"""What callers of `sequence-ai` 0.1.0 write, in our own words: arguments, keys, names, observations. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqrt.blocking
import seqrt.blocking.errors
import seqrt.blocking.types
from seqrt.action.blend import Crossfade, Ramp
from seqrt.action.declaration import Actions
from seqrt.blocking.calls import given_of
from seqrt.blocking.connecting import _key, _keys_and_urls
from seqrt.blocking.options import limits_of, params_of, play_of
from seqrt.blocking.types import ImageFrame, Observation, Prediction, Proprioception, Served, inputs_of
from seqrt.errors import AuthError, SeqrtError
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.options import Limits, Play
from seqrt.testing import FakeArm

THEIRS = (
    *("connect", "models", "Policy", "Observation", "ImageFrame", "Proprioception", "ActionChunk", "Prediction"),
    *("RunOutcome", "Model", "SequencesError", "AuthError", "OutOfCredit", "InvalidRequest", "Unavailable"),
    "ChunkExhausted",
)


@pytest.mark.parametrize("name", THEIRS)
def test_each_name_their_callers_import_is_there(name: str) -> None:
    assert name in seqrt.blocking.__all__
    homes = (seqrt.blocking, seqrt.blocking.errors, seqrt.blocking.types)
    found = {id(getattr(home, name)) for home in homes if hasattr(home, name)}
    assert len(found) == 1


@pytest.mark.parametrize("name", ["AuthError", "OutOfCredit", "InvalidRequest", "Unavailable", "ChunkExhausted"])
def test_their_base_class_catches_all_of_ours(name: str) -> None:
    assert issubclass(getattr(seqrt.blocking.errors, name), seqrt.blocking.SequencesError)
    assert seqrt.blocking.SequencesError is SeqrtError


def test_all_names_are_in_order_and_there() -> None:
    assert seqrt.blocking.__all__ == sorted(seqrt.blocking.__all__)
    for name in seqrt.blocking.__all__:
        assert getattr(seqrt.blocking, name) is not None


def test_plain_arguments_are_put_into_play_and_limits() -> None:
    assert play_of(None) == Play()
    played = play_of(Play(seam=None), prefetch=False, smooth_seam=3, splice=seqrt.blocking.Sequential(), seed=7)
    assert played == Play(prefetch=False, seam=Ramp(3), splice=seqrt.blocking.Sequential(), seed=7)
    assert limits_of(Limits(act_errors=2), startup_timeout_s=180) == Limits(act_errors=2, startup_timeout_s=180)
    assert limits_of(Limits(startup_timeout_s=3)) == Limits(startup_timeout_s=3)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (lambda: play_of(Play(seam=Crossfade()), smooth_seam=3), "seam is said twice"),
        (lambda: play_of(Play(seed=1), seed=2), "seed is said twice"),
        (lambda: limits_of(Limits(startup_timeout_s=3), startup_timeout_s=4), "startup_timeout_s is said twice"),
        (lambda: play_of(None, smooth_seam=-1), "0 or more"),
        (lambda: play_of(None, smooth_seam=True), "0 or more"),
    ],
)
def test_what_is_said_twice_or_means_nothing_is_refused(said: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        said()


def test_strategies_are_objects_of_their_own_kind() -> None:
    with pytest.raises(TypeError, match=r"play=seqrt.Play\(…\)"):
        play_of({"prefetch": False})  # type: ignore[arg-type]


def test_their_options_are_parameters_of_the_policy() -> None:
    assert params_of(None) is None
    assert params_of({"speed": 2}, action_horizon=8, return_world_prediction=False) == {
        "speed": 2, "action_horizon": 8, "return_world_prediction": False,
    }  # fmt: skip


def test_a_robot_object_may_stand_where_observe_stands() -> None:
    arm = FakeArm(2)
    given = given_of(None, arm, None)
    assert (given.observe, given.act, given.hold, given.names) == (arm.observe, arm.act, arm.hold, arm.names)
    assert given_of(arm, None, None) == given


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (lambda: given_of(None, None, None), ValueError, "needs observe and act"),
        (lambda: given_of(FakeArm(2), FakeArm(2).observe, None), ValueError, "not both"),
        (lambda: given_of("franka", FakeArm(2).observe, None), ValueError, "embodiment"),
        (lambda: given_of(object(), None, None), ValueError, "has no observe, act, hold"),
        (lambda: given_of(None, 3, None), TypeError, "observe= must be callable"),
        (lambda: given_of(None, FakeArm(2).observe, later), TypeError, "act= is async"),
    ],
)
def test_what_cannot_be_driven_is_refused_by_name(given: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        given()


async def later(row: Any) -> None: ...


def test_a_key_is_looked_for_where_their_callers_have_it(tmp_path: Path) -> None:
    url, home = "http://127.0.0.1:8080", {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(AuthError, match="no key") as refused:
        _key(None, url, home)
    assert refused.value.status == 0
    (tmp_path / "sequence-ai").mkdir()
    (tmp_path / "sequence-ai" / "credentials").write_text("# mine\n\n  seq_file \nseq_other\n")
    assert _key(None, url, home) == "seq_file"
    (tmp_path / "seqrt").mkdir()
    (tmp_path / "seqrt" / "credentials").write_text("127.0.0.1:8080 seq_host\n")
    assert _key(None, url, home) == "seq_host"
    assert _key(None, url, {**home, "SEQUENCES_API_KEY": "seq_env"}) == "seq_env"
    assert _key("seq_given", url, {**home, "SEQUENCES_API_KEY": "seq_env"}) == "seq_given"
    assert _key("", url, {**home, "SEQUENCES_API_KEY": "seq_env"}) is None


def test_a_missing_key_is_said_before_a_missing_place(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(AuthError):
        _keys_and_urls(None, None, home, insecure=False)
    with pytest.raises(ValueError, match="SEQUENCES_BASE_URL"):
        _keys_and_urls("seq", None, home, insecure=False)
    there = {**home, "SEQUENCES_BASE_URL": "https://gpu.example.org"}
    assert _keys_and_urls("seq", None, there, insecure=False) == (["seq"], ["https://gpu.example.org"])


def test_no_key_goes_in_the_clear_to_another_machine() -> None:
    with pytest.raises(ValueError, match="unencrypted"):
        seqrt.blocking.connect("pi05-droid", base_url="http://gpu:8080", api_key="seq")
    with seqrt.blocking.connect("pi05-droid", base_url="http://gpu:8080", api_key="seq", insecure=True) as policy:
        assert policy.model == "pi05-droid"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"control_hz": float("nan")}, "control_hz"),
        ({"policy": object(), "base_url": "http://gpu:8080"}, "not both"),
        ({"base_url": "gpu:8080", "api_key": "seq"}, "base_url"),
    ],
)
def test_what_means_nothing_is_refused_when_it_is_written(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        seqrt.blocking.connect(**options)


def test_an_observation_of_theirs_travels_without_what_was_not_reported() -> None:
    seen = Observation([ImageFrame("wrist", "aGk=")], Proprioception([0.0, 1.0], gripper=0.5), "push")
    assert inputs_of(seen) == {
        "images": [{"view": "wrist", "data": "aGk="}],
        "proprioception": {"joint_positions": [0.0, 1.0], "gripper": [0.5]},
        "instruction": "push",
    }
    plain = {"state": np.zeros(2)}
    assert inputs_of(plain) is plain


def test_a_prediction_reads_as_theirs_does() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    chunk = ActionChunk({"actions": rows}, 4, 0.02, 0.01, "r-1", (), Actions(key="actions", hz=10))
    told = Prediction(chunk, Served("pi05-droid", "franka", "joint_absolute", 10.0))
    assert (told.id, told.model, len(told), told.warnings, told.usage) == ("r-1", "pi05-droid", 3, (), {})
    assert told.perf == {"inference_ms": 10.0, "latency_ms": 20.0}
    answered = told.action_chunk
    assert (answered.steps, answered.robot, answered.action_space) == (rows.tolist(), "franka", "joint_absolute")
    assert (answered.action_dim, answered.control_frequency_hz, answered.covers_seconds) == (2, 10.0, 0.3)
    assert len(answered) == 3
