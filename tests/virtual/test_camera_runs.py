"""Pictures from a robot's ``observe`` to the policy's ``infer``, through the whole runtime and worker."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from driven import drive

from seqrt import (
    Actions,
    Camera,
    ExtraMissing,
    ObservationError,
    Observations,
    PictureSizeError,
    Play,
    Stream,
    fit_image,
)
from seqrt import policy as declare
from seqrt.observation import decode_picture, encode_picture
from seqrt.testing.connected import connected
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode
from seqrt.wire.messages import ObserveRequest

pytestmark = pytest.mark.anyio

PNG = Camera(width=32, height=24, resize="pad", filter="bilinear", codec="png")


class Sees:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def infer(self, obs: dict[str, Any]) -> Any:
        self.calls.append(obs)
        return {"actions": np.zeros((5, 3))}


def sees(camera: Camera, at: tuple[int, ...] = (0,)) -> Any:
    made = declare(
        observations=Observations(streams={"wrist": Stream(at=list(at), camera=camera)}),
        actions=Actions(key="actions", hz=20, space="absolute"),
    )(type("Made", (Sees,), {}))
    return made()


class Filming(FakeArm):
    """An arm whose camera fills one buffer anew at every call: red, and a corner that counts the calls in green."""

    def __init__(self, width: int = 64, height: int = 48, *, marked: bool = False, nan_at: int | None = None) -> None:
        super().__init__(3)
        self.buffer: npt.NDArray[Any] = np.zeros((height, width, 3), np.uint8 if nan_at is None else np.float32)
        self.marked, self.nan_at, self.count = marked, nan_at, 0

    def observe(self) -> dict[str, Any]:
        self.buffer[:] = 0
        self.buffer[..., 0] = 255 if self.nan_at is None else 1
        if self.marked:
            self.buffer[:6, :6, 1] = self.count % 256
        if self.nan_at == self.count:
            self.buffer[5, 7, 2] = np.nan
        self.count += 1
        return {"wrist": self.buffer, "unread": np.zeros(3)}


@pytest.mark.parametrize("codec", ["raw", "png", "jpeg"])
async def test_a_red_frame_is_red_in_channel_0_at_the_policy(codec: Any) -> None:
    policy = sees(Camera(width=32, height=32, resize="stretch", filter="box", codec=codec))
    async with connected(policy) as there:
        driven = await drive(there.policy, Filming(), max_actions=12)
    assert driven.error is None
    for call in policy.calls:
        picture = call["observations"][0]["wrist"]
        assert picture[..., 0].min() > 250
        assert picture[..., 1:].max() < 8


async def test_frames_travel_fitted_and_encoded_and_the_policy_reads_the_ones_of_its_window() -> None:
    policy, bodies = sees(PNG, at=(-2, 0)), []
    async with connected(policy, lose_request=lambda request: bodies.append(request) or False) as there:
        driven = await drive(there.policy, Filming(marked=True), max_actions=40)
    assert driven.error is None
    posts = [decode(r.content, ObserveRequest) for r in bodies if r.url.path == "/observe"]
    sent = {frame.seq: frame.inputs for post in posts for frame in post.frames}
    assert all(inputs["wrist"].startswith(b"\x89PNG") and set(inputs) == {"wrist"} for inputs in sent.values())
    assert len(policy.calls) > 3
    marks = []
    for call in policy.calls:
        for step, entry in zip(call["steps"], call["observations"], strict=True):
            np.testing.assert_array_equal(entry["wrist"], decode_picture(sent[step]["wrist"]))
            marks.append(int(entry["wrist"][0, 0, 1]))
    assert len(set(marks)) > 6  # each is a frame of its own, though the camera has but one buffer
    expected = np.zeros((48, 64, 3), np.uint8)
    expected[..., 0] = 255  # and a count of 0
    np.testing.assert_array_equal(policy.calls[0]["observations"][0]["wrist"], fit_image(expected, PNG))


async def test_a_picture_of_another_size_is_refused_before_any_motion_with_the_call_that_fits_it() -> None:
    arm = Filming()
    async with connected(sees(Camera(width=32, height=24, codec="jpeg"))) as there:
        driven = await drive(there.policy, arm, max_actions=12)
    assert isinstance(driven.error, PictureSizeError)
    assert "seqrt.fit_image(picture, width=32, height=24" in str(driven.error)
    assert not arm.acts


async def test_a_first_picture_of_nan_is_refused_before_any_motion() -> None:
    arm = Filming(nan_at=0)
    async with connected(sees(PNG)) as there:
        driven = await drive(there.policy, arm, max_actions=12)
    assert isinstance(driven.error, ObservationError)
    assert not arm.acts


async def test_a_picture_of_nan_in_mid_run_ends_it_with_hold_and_the_key() -> None:
    arm = Filming(nan_at=20)
    async with connected(sees(PNG, at=(-1, 0))) as there:
        driven = await drive(there.policy, arm, max_actions=200)
    assert isinstance(driven.error, ObservationError)
    assert "'wrist': a float picture runs from 0 to 1" in str(driven.error)
    assert arm.holds


async def test_a_picture_refused_in_a_single_call_leaves_the_handle_usable() -> None:
    policy = sees(PNG, at=(-1, 0))
    async with connected(policy) as there:
        good = {"wrist": np.zeros((48, 64, 3), np.float32)}
        await there.policy.predict(good)
        with pytest.raises(ObservationError, match="'wrist'"):
            await there.policy.predict({"wrist": good["wrist"] + np.nan})
        await there.policy.predict(good)
    assert policy.calls[-1]["steps"] == [0, 6]  # the refused one stands for a step that was skipped


async def test_frames_whose_post_failed_are_sent_again_and_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, encoded = sees(PNG), []
    monkeypatch.setattr("seqrt.observation.cameras.encode_picture", counting(encode_picture, encoded))
    async with connected(policy, outages=[(1.013, 2.013, "reset")]) as there:
        driven = await drive(there.policy, Filming(), max_actions=60, play=Play(in_flight=1))
    assert driven.error is None
    assert driven.of(ev.PostFailed)
    posted = sum(event.frames for event in driven.of(ev.Posted))
    assert posted <= len(encoded) - 1 <= posted + 2  # the first one is tried before motion; the last may be on its way


def counting(function: Any, calls: list[Any]) -> Any:
    def counted(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    return counted


async def test_what_is_not_installed_on_the_robot_is_named_when_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = sees(Camera(width=64, height=48, codec="jpeg"))
    with pytest.raises(ExtraMissing, match=r"pip install 'seqrt\[images\]'"):
        async with connected(policy, lose_request=lambda _: monkeypatch.setitem(sys.modules, "PIL", None) or False):
            raise AssertionError("connected all the same")
