"""The first published `sequence-ai`, 0.1.0: a robot arm with two cameras, driven through the gateway's JSON face."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversing import Client, Raised, command
from places import KEY, MODEL, OF_ANOTHER_MODEL, OF_ONE_ACT, Places, one_port

import seqrt
from seqrt.observation.codecs import Codec, encode_picture
from seqrt.policies.robot_arm import ActionContract, ObservationContract, View

Serve = Callable[..., AbstractContextManager[Places]]
ID = f"accounts/sequences/models/{MODEL}"
ROWS = 4


class Arm:
    """Row i of an answer lies i + 1 beyond where the arm was seen; the last column is the seed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def infer(self, obs: Any, *, seed: int | None = None) -> Any:
        self.seen.append(obs)
        at = np.asarray(obs["proprioception"]["joint_positions"], np.float64)[0]
        return np.array([[at + i + 1, at + i + 1, seed or 0] for i in range(ROWS)])


def arm(hz: float = 1000.0, kind: type[Arm] = Arm, **also: Any) -> Any:
    """One that declares two cameras; fast, so that runs are short."""
    declared = seqrt.policy(
        name=MODEL,
        action_contract=ActionContract(
            robot="arm", action_space="joint_absolute", action_dim=3, control_frequency_hz=hz, **also
        ),
        observation_contract=ObservationContract(
            cameras={"wrist": View(width=8, height=6), "front": View(width=16, height=12)},
            proprio={"joint_positions": 3, "gripper": 1},
            instruction=True,
        ),
    )
    return declared(kind)()


def picture(width: int, height: int, codec: Codec) -> str:
    return base64.b64encode(encode_picture(np.full((height, width, 3), 90, np.uint8), codec)).decode()


SEEN: dict[str, Any] = {
    "images": [
        {"view": "wrist", "data": picture(8, 6, "jpeg"), "timestamp_ms": 5},
        {"view": "front", "data": picture(16, 12, "png")},
    ],
    "joints": [0.0, 0.0, 0.0],
    "gripper": 0.5,
    "instruction": "push the T",
}


@pytest.fixture
def robot(first: Client) -> Callable[..., Client]:
    """The client connected to a gateway, seeing `SEEN`."""

    def connected(url: str, **given: Any) -> Client:
        first("connect", **{"model": MODEL, "api_key": KEY, "base_url": url, **given})
        first("sees", **SEEN)
        return first

    return connected


Robot = Callable[..., Client]


def test_a_chunk_comes_whole_and_the_policy_saw_what_the_robot_sent(robot: Robot, serve: Serve) -> None:
    with serve(policy := arm(hz=20)) as there:
        predicted = robot(there.url)("predict", seed=7)
        assert predicted["action_chunk"] == {
            "steps": [[1.0, 1.0, 7.0], [2.0, 2.0, 7.0], [3.0, 3.0, 7.0], [4.0, 4.0, 7.0]],
            "robot": "arm",
            "action_space": "joint_absolute",
            "action_dim": 3,
            "control_frequency_hz": 20.0,
            "covers_seconds": 0.2,
        }
        assert predicted["model"] == ID
        assert predicted["usage"]["frames_received"] == 2
        assert predicted["perf"].keys() >= {"inference_ms", "ttfa_ms"}
    (seen,) = policy.seen
    assert {image["view"]: image["data"] for image in seen["images"]} == {
        image["view"]: image["data"] for image in SEEN["images"]
    }
    assert seen["proprioception"] == {"joint_positions": [0.0, 0.0, 0.0], "gripper": [0.5]}
    assert seen["instruction"] == "push the T"


def test_rows_are_handed_out_one_by_one_and_a_new_chunk_is_asked_for_when_they_are_out(
    robot: Robot, serve: Serve
) -> None:
    with serve(policy := arm()) as there:
        client = robot(there.url)
        rows = [client("next_action") for _ in range(ROWS + 1)]
        assert [row["row"][0] for row in rows] == [1.0, 2.0, 3.0, 4.0, 1.0]
        assert [row["buffered"] for row in rows] == [3, 2, 1, 0, 3]
        assert len(policy.seen) == 2
        for _ in range(3):
            client("next_action", observed=False)
        with pytest.raises(Raised) as out:
            client("next_action", observed=False)
        assert out.value.kind == "ChunkExhausted"


@pytest.mark.parametrize("prefetch", [True, False])
def test_a_run_plays_the_actions_it_was_asked_for(robot: Robot, serve: Serve, prefetch: bool) -> None:
    with serve(arm()) as there:
        ran = robot(there.url)("run", max_actions=3 * ROWS, prefetch=prefetch)
        assert ran["outcome"]["reason"] == "completed"
        assert (ran["outcome"]["actions"], ran["outcome"]["chunks"]) == (3 * ROWS, 3)
        assert ran["outcome"]["action_space"] == "joint_absolute"
        assert (ran["held"], ran["chunks"], ran["observed"]) == (0, [ROWS] * 3, 3)
        if not prefetch:
            assert ran["outcome"]["underruns"] == 2  # the arm stands once a chunk, by construction
            assert [row[0] for row in ran["played"]] == [float(n) for n in range(1, 3 * ROWS + 1)]
        assert there.at_gateway.count("/v1/act") == 3


def test_a_row_that_is_not_allowed_ends_the_run_and_the_arm_holds(robot: Robot, serve: Serve) -> None:
    with serve(arm()) as there:
        ran = robot(there.url)("run", max_actions=20, refuse=2, prefetch=False)
        assert (ran["outcome"]["reason"], ran["outcome"]["stopped_early"]) == ("validate", True)
        assert (len(ran["played"]), ran["held"]) == (2, 1)


def test_an_arm_that_fails_holds_and_its_error_comes_out(robot: Robot, serve: Serve) -> None:
    with serve(arm()) as there:
        ran = robot(there.url)("run", max_actions=20, break_at=3, prefetch=False)
        assert (ran["outcome"], ran["held"]) == ({"raised": "RuntimeError", "said": "the arm is stuck"}, 1)


def test_rows_are_clipped_to_the_arms_bounds_and_that_is_told(robot: Robot, serve: Serve) -> None:
    with serve(arm(bounds=((-2.0, 2.0), (-9.0, 9.0), (0.0, 9.0)))) as there:
        predicted = robot(there.url)("predict")
        assert [row[0] for row in predicted["action_chunk"]["steps"]] == [1.0, 2.0, 2.0, 2.0]
        assert len(predicted["warnings"]) == 1


@pytest.mark.parametrize(
    ("given", "kind", "status"),
    [
        ({"api_key": "seq_nobodys"}, "AuthError", 401),
        ({"model": "no-such"}, "InvalidRequest", 404),
        ({"api_key": OF_ANOTHER_MODEL}, "InvalidRequest", 403),
    ],
)
def test_who_asks_and_for_what_is_told_apart(
    robot: Robot, serve: Serve, given: dict[str, str], kind: str, status: int
) -> None:
    with serve(policy := arm()) as there:
        with pytest.raises(Raised) as refused:
            robot(there.url, **given)("predict")
        assert (refused.value.kind, refused.value.told["status"]) == (kind, status)
        assert policy.seen == []


def test_a_key_whose_acts_are_spent_is_out_of_credit(robot: Robot, serve: Serve) -> None:
    with serve(arm()) as there:
        client = robot(there.url, api_key=OF_ONE_ACT)
        client("predict")
        with pytest.raises(Raised) as spent:
            client("predict")
        assert (spent.value.kind, spent.value.told["status"]) == ("OutOfCredit", 402)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"images": SEEN["images"][:1]}, "the views are 'wrist'"),
        ({"images": [{"view": "wrist", "data": "Zm9v"}]}, "neither PNG nor JPEG"),
        ({"joints": [0.0]}, "joint_positions"),
        ({"instruction": ""}, "instruction"),
    ],
)
def test_an_observation_that_is_not_what_the_arm_declared_is_refused_by_name(
    robot: Robot, serve: Serve, seen: dict[str, Any], told: str
) -> None:
    with serve(arm()) as there:
        client = robot(there.url)
        client("sees", **SEEN | seen)
        with pytest.raises(Raised, match=told) as refused:
            client("predict")
        assert (refused.value.kind, refused.value.told["status"]) == ("InvalidRequest", 400)


def test_an_option_that_is_unknown_is_refused_by_name(robot: Robot, serve: Serve) -> None:
    with serve(arm()) as there, pytest.raises(Raised, match="temperature"):
        robot(there.url)("predict", temperature=1)


def test_a_policy_that_loads_is_waited_for_before_the_first_action(robot: Robot, serve: Serve) -> None:
    asked = threading.Event()

    class Loads(Arm):
        def load(self) -> None:
            assert asked.wait(60)

    with serve(arm(kind=Loads), loaded=False) as there:
        there.at_gateway.once("/v1/act", 503, asked)
        ran = robot(there.url)("run", max_actions=ROWS, startup_timeout_s=60)
        assert ran["outcome"].items() >= {"reason": "completed", "actions": ROWS}.items()
        assert ran["observed"] >= 2


def test_a_worker_that_goes_is_told_as_unavailable_and_one_that_is_back_serves_at_once(
    robot: Robot, serve: Serve
) -> None:
    with serve(arm()) as there:
        client = robot(there.url)
        client("predict")
        there.stop()
        with pytest.raises(Raised) as away:
            client("predict")
        assert (away.value.kind, away.value.told["status"], away.value.told["warming"]) == ("Unavailable", 503, False)
        there.start()
        assert len(client("predict")["action_chunk"]["steps"]) == ROWS


def test_doctor_finds_all_well(first_python: Path, serve: Serve, tmp_path: Path) -> None:
    with serve(arm()) as there:
        code, said = command(
            first_python, "sequence-ai", "--base-url", there.url, "doctor", home=tmp_path, SEQUENCES_API_KEY=KEY
        )
    assert code == 0, said
    assert "auth=keystore" in said
    assert "key valid   yes" in said
    assert "credit      available" in said
    assert "note:" not in said
    assert said.rstrip().endswith("ready")


def test_doctor_says_what_is_wrong_with_a_key(first_python: Path, serve: Serve, tmp_path: Path) -> None:
    with serve(arm()) as there:
        code, said = command(
            first_python, "sequence-ai", "--base-url", there.url, "doctor", home=tmp_path, SEQUENCES_API_KEY="seq_x"
        )
    assert (code, "key valid   NO" in said) == (1, True), said


def test_models_are_listed_without_a_key(first: Client, first_python: Path, serve: Serve, tmp_path: Path) -> None:
    with serve(arm(hz=20)) as there:
        (listed,) = first("models", base_url=there.url)
        assert first("models", base_url=there.url, endpoint="chat") == []
        code, said = command(first_python, "sequence-ai", "models", home=tmp_path, SEQUENCES_BASE_URL=there.url)
    assert (listed["id"], listed["short_id"], listed["endpoint"]) == (ID, MODEL, "act")
    assert (listed["robot"], listed["action_dim"], listed["control_hz"]) == ("arm", 3, 20.0)
    assert sorted(listed["camera_views"]) == ["front", "wrist"]
    assert code == 0, said
    assert MODEL in said


def test_key_and_address_are_found_in_the_environment_and_the_key_in_the_file_too(
    first: Client, serve: Serve, tmp_path: Path
) -> None:
    credentials = tmp_path / "config" / "sequence-ai" / "credentials"
    credentials.parent.mkdir(parents=True)
    credentials.write_text(f"# of a test\n\n{KEY}\n")
    with serve(arm()) as there:
        assert first("connect", model=MODEL, environment={"SEQUENCES_BASE_URL": there.url}) == ID
        first("sees", **SEEN)
        assert len(first("predict")["action_chunk"]["steps"]) == ROWS
        first("connect", model=ID, environment={"SEQUENCES_API_KEY": "seq_nobodys"})
        with pytest.raises(Raised) as refused:
            first("predict")
        assert refused.value.kind == "AuthError"


def test_a_gateway_on_its_workers_own_port_serves_it_too(robot: Robot, tmp_path: Path) -> None:
    with one_port(arm(), folder=tmp_path) as url:
        assert len(robot(url)("predict")["action_chunk"]["steps"]) == ROWS
