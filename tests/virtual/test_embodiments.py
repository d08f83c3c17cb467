"""A policy for several robots, driven by one of them: it says which it is when it connects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from driven import drive

import seqrt
from seqrt.policies.robot_arm import ActionContract, Embodiment
from seqrt.testing import FakeArm
from seqrt.testing.connected import connected

pytestmark = pytest.mark.anyio


def robot(name: str, dims: int, hz: float, space: Any = "joint_absolute", **limits: Any) -> Embodiment:
    contract = ActionContract(robot=name, action_space=space, action_dim=dims, control_frequency_hz=hz, **limits)
    return Embodiment(action=contract)


@seqrt.policy(embodiments={"small": robot("small", 2, 10), "large": robot("large", 3, 20, bounds=[(-1.0, 30.0)] * 3)})
class Both:
    """Answers as many columns as its inputs have joints."""

    def infer(self, obs: Any) -> Any:
        return np.asarray(obs["state"], float) + np.arange(1.0, 9.0)[:, np.newaxis]


@pytest.mark.parametrize(("name", "joints", "hz"), [("small", 2, 10.0), ("large", 3, 20.0)])
async def test_a_robot_that_says_which_it_is_is_driven_at_its_rate_in_its_space(
    name: str, joints: int, hz: float
) -> None:
    async with connected(Both(), embodiment=name) as there:
        driven = await drive(there.policy, FakeArm(joints), max_actions=20)
        chunk = await there.policy.predict({"state": np.zeros(joints)})
    assert driven.error is None
    assert driven.played == [float(n) for n in range(1, 21)]
    assert (driven.outcome.action_space, driven.events[0].hz) == ("absolute", hz)  # type: ignore[union-attr]
    assert chunk.rows.shape == (8, joints)


@pytest.mark.parametrize(
    ("embodiment", "says"),
    [(None, r"drives 'small', 'large': say which .*embodiment="), ("huge", "'huge': the policy drives 'small'")],
)
async def test_which_robot_it_is_is_asked_for_when_connecting(embodiment: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        async with connected(Both(), embodiment=embodiment):
            pass
    with pytest.raises(ValueError, match=says):
        async with seqrt.connect(policy=Both(), embodiment=embodiment):
            pass


async def test_a_policy_that_declares_no_robots_is_asked_as_none() -> None:
    with pytest.raises(ValueError, match="embodiment='small': the policy declares none"):
        async with seqrt.connect(policy=lambda obs: [[0.0]], embodiment="small"):
            pass
