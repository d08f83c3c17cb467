"""Sixty-four robots on one shared policy that infers in batches: each gets what it would get alone."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest

from seqrt import Actions, Concurrency, Policy, policy
from seqrt.link.local import LocalLink
from seqrt.policies.host import Host
from seqrt.testing.offload import inline
from seqrt.testing.robots import FakeArm

pytestmark = pytest.mark.anyio

ROBOTS, ROWS, ACTIONS, WIDTH = 64, 12, 40, 32
WEIGHTS = np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype(np.float32)
Features = npt.NDArray[np.float32]


class Numbered(FakeArm):
    """An arm that tells its number and how many rows it has been sent: what comes next depends on nothing else."""

    def __init__(self, number: int) -> None:
        super().__init__(3)
        self.number = number

    def observe(self) -> dict[str, Any]:
        super().observe()
        return {"robot": self.number, "sent": len(self.acts)}


def features(obs: Any) -> Features:
    """`[ROWS, WIDTH]`: what is known of each row's place, as the layer's input."""
    seen = obs["observations"][0] if "observations" in obs else obs
    steps = seen["sent"] + 1 + np.arange(ROWS)
    return ((np.outer(steps, np.arange(1, WIDTH + 1)) + seen["robot"]) % 97 / 97).astype(np.float32)


def layer(given: Features) -> Features:
    """`given @ WEIGHTS`, summed in one order wherever the arrays lie: a BLAS may choose by their alignment."""
    hidden = np.zeros((len(given), WIDTH), np.float32)
    for k in range(WIDTH):
        hidden += given[:, k : k + 1] * WEIGHTS[k]
    return hidden


def rows_of(hidden: Features, obs: Any) -> npt.NDArray[np.float64]:
    """`[ROWS, 3]`: the robot's number, then two of the layer's outputs."""
    number = np.full((ROWS, 1), (obs["observations"][0] if "observations" in obs else obs)["robot"])
    return np.hstack([number, hidden[:, :2]]).astype(np.float64)


ACTIONS_DECLARED = Actions(hz=20, space="absolute")


@policy(episodes="shared", concurrency=Concurrency(max_concurrent=ROBOTS), actions=ACTIONS_DECLARED)
class Looping:
    """Takes its batch one by one."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def infer(self, obs: list[Any]) -> list[Any]:
        self.batches.append(len(obs))
        return [rows_of(layer(features(one)), one) for one in obs]


@policy(episodes="shared", concurrency=Concurrency(max_concurrent=ROBOTS), actions=ACTIONS_DECLARED)
class Multiplying:
    """Multiplies its batch as one matrix: sums may be added in another order."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def infer(self, obs: list[Any]) -> list[Any]:
        self.batches.append(len(obs))
        hidden = np.vstack([features(one) for one in obs]) @ WEIGHTS
        return [rows_of(part, one) for part, one in zip(np.split(hidden, len(obs)), obs, strict=True)]


async def played(made: Any, robots: list[int]) -> dict[int, npt.NDArray[np.float64]]:
    """What each robot was sent `[ACTIONS, 3]`, all driven at once on one policy."""
    host = Host(made, offload=inline(0.0303))
    await host.start()
    arms = {number: Numbered(number) for number in robots}

    async def drive(arm: Numbered) -> None:
        handle = Policy(LocalLink(host), host.info(), control_hz=None, timeout_s=30.0, offload=inline())
        outcome = await handle.run(arm, validate=lambda row: True, max_actions=ACTIONS)
        assert outcome.underruns == 0

    async with anyio.create_task_group() as tasks:
        for arm in arms.values():
            tasks.start_soon(drive, arm)
    return {number: arm.rows for number, arm in arms.items()}


async def alone(kind: type[Any]) -> dict[int, npt.NDArray[np.float64]]:
    return {number: (await played(kind(), [number]))[number] for number in range(ROBOTS)}


async def test_a_policy_that_loops_over_its_batch_drives_64_robots_bit_for_bit_as_each_alone() -> None:
    batched = Looping()
    together = await played(batched, list(range(ROBOTS)))
    assert max(batched.batches) > ROBOTS // 2, "or nothing was batched"
    apart = await alone(Looping)
    for number in range(ROBOTS):
        assert together[number].shape == (ACTIONS, 3)
        assert (together[number][:, 0] == number).all(), "another robot's rows"
        assert (together[number] == apart[number]).all()


async def test_a_policy_that_multiplies_matrices_drives_64_robots_within_1e_5_of_each_alone() -> None:
    batched = Multiplying()
    together = await played(batched, list(range(ROBOTS)))
    assert max(batched.batches) > ROBOTS // 2, "or nothing was batched"
    apart = await alone(Multiplying)
    for number in range(ROBOTS):
        assert (together[number][:, 0] == number).all(), "another robot's rows"
        np.testing.assert_allclose(together[number], apart[number], atol=1e-5, rtol=0)
