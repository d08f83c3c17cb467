"""The older robot-arm contract, held on both sides of ``infer``."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from episodic import ask, started

from seqrt.errors import InvalidRequest, PolicyError
from seqrt.observation.codecs import encode_picture
from seqrt.policies import Host, policy
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract, View

pytestmark = pytest.mark.anyio

ARM: dict[str, Any] = {
    "robot": "arm",
    "action_space": "joint_absolute",
    "action_dim": 2,
    "control_frequency_hz": 10,
}
SEES = ObservationContract(
    cameras={"wrist": View(width=4, height=3)},
    history=2,
    proprio={"joint_positions": 2},
    state={"force": 3},
    instruction=True,
)
PICTURE = np.zeros((3, 4, 3), np.uint8)
GOOD: dict[str, Any] = {
    "images": [
        {"view": "wrist", "data": PICTURE, "timestamp_ms": 20},
        {"view": "wrist", "data": PICTURE, "timestamp_ms": 10},
    ],
    "proprioception": {"joint_positions": [0.0, 0.0]},
    "state": {"force": [0.0] * 3},
    "instruction": "push",
}


async def hosted(answer: Any = None, **declared: Any) -> tuple[Host, list[Any]]:
    seen: list[Any] = []

    @policy(**declared)
    class Arm:
        def infer(self, obs: Any) -> Any:
            seen.append(obs)
            return np.zeros((2, 2)) if answer is None else answer

    return await started(Arm()), seen


async def test_pictures_of_a_series_are_handed_over_in_order_of_time() -> None:
    host, seen = await hosted(action_contract=ActionContract(**ARM), observation_contract=SEES)
    await ask(host, None, inputs=GOOD)
    assert [image["timestamp_ms"] for image in seen[0]["images"]] == [10, 20]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"images": GOOD["images"][:1]}, "2 of that view"),
        ({"images": [{**image, "view": "front"} for image in GOOD["images"]]}, "the views are 'front'"),
        (
            {"images": [{**image, "data": PICTURE[:2]} for image in GOOD["images"]]},
            "4×2 pixels, .* declares 4×3",
        ),
        ({"images": [{**image, "data": b"\x00\x01"} for image in GOOD["images"]]}, "neither PNG nor JPEG"),
        ({"images": [{**image, "data": "/9j/"} for image in GOOD["images"]]}, "'wrist'.*JPEG"),
        ({"images": [{**image, "data": "!"} for image in GOOD["images"]]}, "'wrist'"),
        ({"images": [{**image, "data": None} for image in GOOD["images"]]}, "'wrist' is a picture"),
        ({"images": [{"view": ["wrist"], "data": PICTURE}]}, "list of"),
        ({"images": "none"}, "list of"),
        ({"proprioception": {"joint_positions": [0.0]}}, "joint_positions.*2 numbers.*1"),
        ({"proprioception": None}, "joint_positions.*nothing"),
        ({"state": {}}, r"state\.force"),
        ({"instruction": " "}, "instruction"),
    ],
)
async def test_an_observation_is_held_to_it_before_inference(change: dict[str, Any], told: str) -> None:
    host, seen = await hosted(action_contract=ActionContract(**ARM), observation_contract=SEES)
    with pytest.raises(InvalidRequest, match=told):
        await ask(host, None, inputs={**GOOD, **change})
    assert seen == []


TRAVELS: dict[str, Callable[[Any], Any]] = {
    "array": lambda picture: picture,
    "list": lambda picture: picture.tolist(),
    "png": lambda picture: encode_picture(picture, "png"),
    "jpeg": lambda picture: encode_picture(picture, "jpeg"),
    "base64": lambda picture: base64.b64encode(encode_picture(picture, "jpeg")).decode(),
}


@pytest.mark.parametrize("travels", TRAVELS)
async def test_pictures_of_another_size_are_refused_however_they_travel(travels: str) -> None:
    pytest.importorskip("PIL")
    contract = ObservationContract(cameras={"wrist": View(width=4, height=3), "front": View(width=8, height=8)})
    host, seen = await hosted(action_contract=ActionContract(**ARM), observation_contract=contract)

    def shown(*sizes: tuple[int, int]) -> dict[str, Any]:
        pictures = [TRAVELS[travels](np.zeros((height, width, 3), np.uint8)) for width, height in sizes]
        return {"images": [{"view": v, "data": p} for v, p in zip(("wrist", "front"), pictures, strict=True)]}

    with pytest.raises(InvalidRequest, match=r"'wrist' is 6×5 pixels.*'front' is 2×9") as refused:
        await ask(host, None, inputs=shown((6, 5), (2, 9)))
    assert refused.value.details["sizes"] == {
        "wrist": {"declared": [4, 3], "sent": [6, 5]},
        "front": {"declared": [8, 8], "sent": [2, 9]},
    }
    assert seen == []
    good = shown((4, 3), (8, 8))
    await ask(host, None, inputs=good)
    assert type(seen[0]["images"][0]["data"]) is type(good["images"][0]["data"])  # handed over as it came


async def test_answers_are_clipped_to_bounds_and_steps_and_say_so() -> None:
    contract = ActionContract(**ARM, bounds=((-1, 1), (-2, 2)), max_delta=0.5)
    host, _ = await hosted([[0.0, 0.0], [3.0, 0.25], [3.0, -3.0]], action_contract=contract)
    answer = await ask(host, None)
    assert answer.outputs.tolist() == [[0, 0], [0.5, 0.25], [1.0, -0.25]]
    assert [warning.split(",")[0] for warning in answer.warnings] == [
        "3 values clipped to bounds",
        "2 values clipped to max_delta",
    ]
    chunk = answer.action_chunk
    assert chunk is not None
    assert chunk["steps"][1] == {"index": 1, "values": [0.5, 0.25]}
    assert {name: chunk[name] for name in ARM} == ARM
    assert chunk["covers_seconds"] == pytest.approx(0.3)


async def test_of_a_delta_the_size_is_meant() -> None:
    contract = ActionContract(**{**ARM, "action_space": "ee_delta"}, max_delta=(0.5, 1.0))
    host, _ = await hosted({"actions": [[-2.0, 2.0], [0.1, 0.1]]}, action_contract=contract)
    assert (await ask(host, None)).outputs.tolist() == [[-0.5, 1.0], [0.1, 0.1]]


async def test_an_answer_of_another_width_is_the_policys_error() -> None:
    host, _ = await hosted([[1.0, 2.0, 3.0]], action_contract=ActionContract(**ARM))
    with pytest.raises(PolicyError, match="3 columns"):
        await ask(host, None)


async def test_a_robot_says_which_of_several_it_is() -> None:
    robots = {name: Embodiment(action=ActionContract(**{**ARM, "robot": name})) for name in ("left", "right")}
    host, _ = await hosted(embodiments=robots)
    answer = await ask(host, None, embodiment="right")
    assert answer.action_chunk is not None
    assert answer.action_chunk["robot"] == "right"
    assert set(host.info().embodiments) == {"left", "right"}
    with pytest.raises(InvalidRequest, match="'left', 'right'"):
        await ask(host, None)
    with pytest.raises(InvalidRequest, match="'middle'"):
        await ask(host, None, embodiment="middle")


async def test_the_latest_observation_in_the_older_form_comes_without_steps() -> None:
    host, seen = await hosted(own_observations="latest", own_actions="one")
    await ask(host, None, inputs={"x": 1})
    assert seen == [{"observations": [{"x": 1}]}]
