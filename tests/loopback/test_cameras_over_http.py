"""Pictures over real HTTP/2 with real threads: red stays red, and nothing is coded on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import seqrt
from seqrt.observation import cameras
from seqrt.worker import serving

pytestmark = pytest.mark.anyio

STREAMS = {
    "base": seqrt.Stream(camera=seqrt.Camera(width=224, height=224, resize="pad", filter="bilinear", codec="jpeg")),
    "wrist": seqrt.Stream(camera=seqrt.Camera(width=64, height=48, codec="png", layout="chw_float")),
    "depth": seqrt.Stream(camera=seqrt.Camera(width=64, height=48, depth=True, codec="png")),
}


@seqrt.policy(observations=seqrt.Observations(streams=STREAMS), actions=seqrt.Actions(key="actions", hz=20))
class Sees:
    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def infer(self, obs: dict[str, Any]) -> Any:
        self.seen.append(obs["observations"][-1])
        return {"actions": np.zeros((4, 2))}


async def test_pictures_arrive_as_declared_and_are_coded_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            threads.add(threading.get_ident())
            return function(*args)

        return call

    for name in ("encode_picture", "decode_picture", "fitted"):
        monkeypatch.setattr(cameras, name, watched(getattr(cameras, name)))
    red = np.zeros((480, 640, 3), np.uint8)
    red[..., 0] = 255
    policy = Sees()
    async with serving(policy) as server, seqrt.connect(base_url=server.url) as handle:
        chunk = await handle.predict(
            {"base": red, "wrist": red[:48, :64], "depth": np.full((48, 64), 1.25, np.float32)}
        )
    assert chunk.rows.shape == (4, 2)
    seen = policy.seen[0]
    assert seen["base"].shape == (224, 224, 3)
    assert seen["base"][60:160, :, 0].min() > 250
    assert seen["base"][60:160, :, 1:].max() < 8
    assert seen["base"][:16].max() < 8
    np.testing.assert_array_equal(seen["wrist"], np.stack([np.ones((48, 64)), *np.zeros((2, 48, 64))]))
    np.testing.assert_array_equal(seen["depth"], np.full((48, 64), 1.25))
    assert threads
    assert threading.get_ident() not in threads


async def test_a_picture_of_another_size_never_leaves_the_robot() -> None:
    async with serving(Sees()) as server, seqrt.connect(base_url=server.url) as handle:
        with pytest.raises(seqrt.PictureSizeError, match=r"'wrist' is 640×480 pixels, the policy declares 64×48"):
            await handle.predict({key: np.zeros((480, 640, 3), np.uint8) for key in STREAMS})
