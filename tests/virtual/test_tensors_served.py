"""A policy that computes in torch, served: skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from episodic import ask, started

from seqrt.action.declaration import Actions
from seqrt.observation import Camera, Observations, Stream
from seqrt.observation.cameras import encode_cameras
from seqrt.policies import policy
from seqrt.policies.terms import Concurrency, Tensors

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason='torch is not installed: pip install "seqrt[torch]"'
    ),
]


async def test_a_torch_policy_is_handed_tensors_and_answers_arrays() -> None:
    import torch

    @policy(
        observations=Observations(streams={"x": Stream(at=[-1, 0])}), actions=Actions(key="actions"), tensors=Tensors()
    )
    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((2, 3), 0.5))
            self.handed: list[Any] = []

        def sample(self) -> list[Any]:
            return [{"x": np.zeros(2)}]

        def infer(self, obs: Any) -> Any:
            self.handed.append(obs)
            x = torch.stack([entry["x"] for entry in obs["observations"]])
            return {"actions": (x @ self.weight)[:, 0]}

    linear = Linear()
    host = await started(linear)
    answer = await ask(host, "a", 0, {"x": np.ones(2)})
    assert answer.outputs["actions"].tolist() == [[1.0] * 3] * 2
    assert type(answer.outputs["actions"]) is np.ndarray
    entry = linear.handed[-1]["observations"][-1]["x"]
    assert (entry.shape, entry.dtype) == ((1, 2), torch.float32)
    assert linear.handed[-1]["steps"] == [0, 0]


async def test_in_a_call_of_several_each_entry_is_converted() -> None:
    import torch

    @policy(tensors=Tensors(batch=False), concurrency=Concurrency(max_concurrent=2))
    class Stacks:
        def infer(self, obs: list[Any]) -> Any:
            return list(torch.stack([one["x"] for one in obs]) * 2)

    host = await started(Stacks())
    assert (await ask(host, "a", 0, {"x": np.ones(2)})).outputs.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("codec", ["raw", "png"])
async def test_pictures_reach_a_torch_policy_as_tensors_in_their_layout(codec: Any) -> None:
    import torch

    if codec != "raw":
        pytest.importorskip("PIL")
    rows = Camera(width=4, height=3, codec=codec)
    planes = Camera(width=4, height=3, codec=codec, layout="chw_float")
    distances = Camera(width=4, height=3, codec=codec, depth=True)

    @policy(
        observations=Observations(
            streams={
                "rows": Stream(at=[-1, 0], camera=rows),
                "planes": Stream(camera=planes),
                "distances": Stream(camera=distances),
            }
        ),
        tensors=Tensors(),
    )
    class Sees:
        def __init__(self) -> None:
            self.handed: list[Any] = []

        def infer(self, obs: Any) -> Any:
            self.handed.append(obs["observations"])
            return torch.zeros(1, 2)

    sees = Sees()
    observations = Observations(
        streams={key: Stream(camera=one) for key, one in (("rows", rows), ("planes", planes), ("distances", distances))}
    )
    picture = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    seen = {"rows": picture, "planes": picture, "distances": np.full((3, 4), 0.5, np.float32)}
    await ask(await started(sees), "a", 0, encode_cameras(seen, observations))
    before, now = sees.handed[0]
    assert set(before) == {"rows"}
    assert {key: (tuple(tensor.shape), tensor.dtype) for key, tensor in now.items()} == {
        "rows": ((1, 3, 4, 3), torch.uint8),
        "planes": ((1, 3, 3, 4), torch.float32),
        "distances": ((1, *distances.shape), torch.float32),
    }
    assert now["rows"][0].tolist() == before["rows"][0].tolist() == picture.tolist()
    assert torch.equal(now["planes"][0], torch.from_numpy(picture).permute(2, 0, 1) / 255)
    assert torch.all(now["distances"] == 0.5)
