"""Ten minutes at 20 Hz over the whole stack in the suite, an hour by command: ``pytest -m long``."""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import seqrt
from seqrt.testing.connected import Connected, connected
from seqrt.testing.offload import inline

pytestmark = pytest.mark.anyio

HZ = 20.0


@seqrt.policy(actions=seqrt.Actions(key="actions", hz=HZ, space="absolute"))
class FromTheState:
    """Each row one further than where the arm was seen: a row out of place is a step that is not 1."""

    def infer(self, obs: Any) -> Any:
        return {"actions": float(obs["state"][0]) + np.arange(1.0, 26.0)[:, np.newaxis] + np.zeros(3)}


class Arm:
    """Counts rows that do not follow the one before, keeps nothing, and notes how much memory is in use each minute."""

    names = None

    def __init__(self, there: Connected) -> None:
        self.position = np.zeros(3)
        self.acts = self.out_of_place = 0
        self.blocks: list[int] = []
        self.frame_bytes: list[int] = []
        self._there = there

    def observe(self) -> dict[str, Any]:
        return {"state": self.position.astype(np.float32), "picture": np.zeros((8, 8, 3), np.uint8)}

    def act(self, row: npt.NDArray[np.float64]) -> None:
        self.out_of_place += int(not np.array_equal(row, self.position + 1))
        self.position = row
        self.acts += 1
        if self.acts % (60 * HZ) == 0:
            gc.collect()
            self.blocks.append(sys.getallocatedblocks())
            self.frame_bytes.append(self._there.host.statistics()["frame_bytes"])

    def hold(self) -> None:
        raise AssertionError("a clean end of an absolute space holds nothing")


async def _run(minutes: int) -> None:
    rng = random.Random(3)
    # Jitter within one tick: a spike past the plan's end starves an arm with one request in flight, whoever asks.
    async with connected(FromTheState(), offload=inline(lambda: rng.uniform(0.106, 0.114))) as there:
        arm = Arm(there)
        outcome = await there.policy.run(arm, max_actions=int(minutes * 60 * HZ), validate=lambda row: True)
        assert (outcome.reason, outcome.actions, arm.acts) == ("completed", arm.acts, minutes * 60 * HZ)
        assert (outcome.underruns, outcome.starved_ticks, outcome.overruns) == (0, 0, 0)
        assert arm.out_of_place == 0
        assert (outcome.retries, outcome.answers_dropped, outcome.refused_chunks) == (0, 0, 0)
        assert outcome.frames_sent <= outcome.chunks + 2  # one observation an act, and nothing else, is uploaded
        # The first minutes fill what is kept: answers, windows of latencies.
        assert max(arm.blocks[3:]) < max(arm.blocks[:3]) + 4000  # half an object a tick would be 4800
        assert max(arm.frame_bytes) < 4 * 1024
        assert there.host.statistics()["episodes"] == 0
        assert there.link.statistics().under_way == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_ten_minutes_without_a_gap_or_a_row_out_of_place() -> None:
    await _run(10)


@pytest.mark.long
async def test_an_hour_without_a_gap_or_a_row_out_of_place() -> None:
    await _run(60)
