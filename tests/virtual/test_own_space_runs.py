"""Rows in the model's own space, through whole runs."""

from __future__ import annotations

import pytest
from driven import drive

from seqrt.testing import Scripted
from seqrt.testing.connected import connected

pytestmark = pytest.mark.anyio


async def test_a_model_goes_on_from_its_own_rows_and_the_arm_plays_what_they_mean() -> None:
    policy = Scripted(rows=30, hz=20, infer_s=0.2303, by="state", takes_prefix=True, model_scale=10.0)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=120)
    assert driven.played == [float(n) for n in range(1, 121)]
    conditioned = [call for call in policy.calls if call.prefix is not None]
    assert len(conditioned) >= len(policy.calls) - 2 > 2
    for call in conditioned:
        seen = float(call.observation["state"][0])
        assert call.prefix[:, 0].tolist() == pytest.approx([(seen + 1 + i) / 10 for i in range(len(call.prefix))])
