"""Pictures through a `Host`: refused by their headers, charged, decoded before the policy's code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from seqrt.errors import ExtraMissing, InvalidRequest, Unavailable
from seqrt.observation import Camera, Observations, Stream, encode_cameras
from seqrt.policies import Host, HostLimits, policy
from seqrt.testing.offload import inline
from seqrt.wire.codec import decode, decode_json, encode, encode_json
from seqrt.wire.messages import ActRequest, AskPlan, Frame, ObserveRequest

pytestmark = pytest.mark.anyio

SIZE = 32
JPEG = Camera(width=SIZE, height=SIZE, resize="pad", filter="bilinear", codec="jpeg")


class Watches:
    """Keeps what it was handed."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.resets = 0

    def infer(self, obs: dict[str, Any]) -> Any:
        self.calls.append(obs)
        return {"actions": np.zeros((4, 2))}


def declared(camera: Camera = JPEG, at: tuple[int, ...] = (0,)) -> Observations:
    return Observations(streams={"wrist": Stream(at=list(at), camera=camera), "state": Stream()})


async def hosted(observations: Observations, limits: HostLimits | None = None) -> tuple[Host, Watches]:
    watches = policy(observations=observations)(type("Made", (Watches,), {}))()
    host = Host(watches, offload=inline(0.0503), limits=limits or HostLimits())
    await host.start()
    return host, watches


def red(width: int = SIZE, height: int = SIZE) -> npt.NDArray[np.uint8]:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = 255
    return picture


def post(frames: Mapping[int, Any]) -> ObserveRequest:
    return ObserveRequest(
        episode_id="e", frames=[Frame(seq=n, inputs=inputs) for n, inputs in frames.items()], skipped=[]
    )


def dataless(count: int) -> ActRequest:
    return ActRequest(call="act", seq=count, episode_id="e", plan=AskPlan())


def sent(observations: Observations, picture: Any, state: float = 0.0) -> dict[str, Any]:
    return encode_cameras({"wrist": picture, "state": state}, observations)


@pytest.mark.parametrize("codec", ["raw", "png", "jpeg"])
@pytest.mark.parametrize("layout", ["hwc_uint8", "chw_float"])
@pytest.mark.parametrize("form", ["msgpack", "json"])
async def test_a_red_frame_is_red_in_channel_0_at_the_policy(codec: Any, layout: Any, form: str) -> None:
    camera = Camera(width=SIZE, height=SIZE, resize="stretch", filter="bilinear", codec=codec, layout=layout)
    observations = declared(camera)
    host, watches = await hosted(observations)
    message = post({0: sent(observations, red(64, 48))})
    body = encode(message) if form == "msgpack" else encode_json(message)
    arrived = decode(body, ObserveRequest) if form == "msgpack" else decode_json(body, ObserveRequest)
    await host.observe(arrived)
    await host.act(dataless(1), request_id="r-1")
    picture = watches.calls[0]["observations"][0]["wrist"]
    assert (picture.shape, str(picture.dtype)) == (camera.shape, camera.dtype)
    channels = picture if layout == "chw_float" else picture.transpose(2, 0, 1) / 255
    assert channels[0].min() > 0.98
    assert channels[1:].max() < 0.02


async def test_an_act_may_carry_its_picture() -> None:
    observations = declared()
    host, watches = await hosted(observations)
    for episode in (None, "e"):
        await host.act(
            ActRequest(inputs=sent(observations, red()), seq=0, episode_id=episode), request_id=f"r-{episode}"
        )
    assert [call["observations"][0]["wrist"].shape for call in watches.calls] == [(SIZE, SIZE, 3)] * 2


async def test_a_window_repeats_the_first_picture_and_decodes_it_once() -> None:
    observations = declared(at=(-6, -3, 0))
    host, watches = await hosted(observations)
    await host.observe(post({n: sent(observations, red()) for n in range(4)}))
    await host.act(dataless(4), request_id="r-1")
    call = watches.calls[0]
    assert call["steps"] == [0, 0, 3]
    assert call["observations"][0]["wrist"] is call["observations"][1]["wrist"]
    assert call["observations"][1]["wrist"] is not call["observations"][2]["wrist"]


async def test_pictures_of_another_size_are_refused_when_they_arrive_with_all_sizes_and_the_call() -> None:
    observations = declared()
    host, _ = await hosted(observations)
    with pytest.raises(InvalidRequest) as refused:
        await host.observe(post({0: {"wrist": red(64, 48), "state": 0.0}}))
    error = refused.value
    assert (error.status, error.code) == (400, "invalid_request")
    assert error.details["sizes"] == {"wrist": {"declared": [32, 32], "sent": [64, 48]}}
    assert "'wrist' is 64×48 pixels, the policy declares 32×32" in error.detail
    assert "seqrt.fit_image(picture, width=32, height=32, resize='pad', filter='bilinear')" in error.detail
    assert host.statistics()["frame_bytes"] == 0


async def test_bytes_that_are_no_picture_as_declared_are_refused_when_they_arrive() -> None:
    host, _ = await hosted(declared())
    for bad in (b"", b"GIF89a", b"\xff\xd8\xff", "text", None, 7, {"a": 1}):
        with pytest.raises(InvalidRequest, match="'wrist'") as refused:
            await host.observe(post({0: {"wrist": bad, "state": 0.0}}))
        assert refused.value.details["key"] == "wrist"


async def test_a_picture_that_turns_out_broken_refuses_the_act_before_any_of_the_policys_code_runs() -> None:
    observations = declared()
    host, watches = await hosted(observations)
    broken = sent(observations, red())["wrist"][:-2]
    await host.observe(post({0: {"wrist": broken, "state": 0.0}}))
    for _ in range(2):  # refused, not failed: the id is free and the act is looked at again
        with pytest.raises(InvalidRequest, match="'wrist' holds a JPEG cut off"):
            await host.act(dataless(1), request_id="r-1")
    assert not watches.calls
    assert host.statistics()["inferred"] == 0
    await host.observe(post({1: sent(observations, red())}))
    await host.act(dataless(2), request_id="r-2")
    assert len(watches.calls) == 1


async def test_a_policy_with_state_is_not_reset_for_a_broken_picture() -> None:
    class Resets(Watches):
        def reset(self) -> None:
            self.resets += 1

    observations = declared()
    resets = policy(observations=observations)(Resets)()
    host = Host(resets, offload=inline())
    await host.start()
    good = sent(observations, red())
    await host.observe(post({0: {**good, "wrist": good["wrist"][:-2]}, 1: good}))
    with pytest.raises(InvalidRequest):
        await host.act(dataless(1), request_id="r-1")
    assert resets.resets == 0
    await host.act(dataless(2), request_id="r-2")
    assert resets.resets == 1


async def test_an_episode_is_charged_what_its_pictures_decode_to() -> None:
    observations = declared()
    decoded = JPEG.decoded_bytes
    host, _ = await hosted(observations, HostLimits(episode_bytes=3 * decoded))
    frame = sent(observations, red())
    assert len(frame["wrist"]) < decoded / 3
    await host.observe(post({0: frame}))
    assert host.statistics()["frame_bytes"] > decoded
    with pytest.raises(InvalidRequest) as refused:
        await host.observe(post({1: frame, 2: frame}))
    assert (refused.value.status, refused.value.details["reason"]) == (413, "frames_over_limit")


async def test_a_worker_that_cannot_decode_what_it_declares_says_so_instead_of_being_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    watches = policy(observations=declared())(Watches)()
    host = Host(watches, offload=inline())
    with pytest.raises(ExtraMissing, match=r"seqrt\[images\]"):
        await host.start()
    assert host.stage == "error"
    with pytest.raises(Unavailable, match="Pillow"):
        await host.observe(post({}))
