"""The demo's planner and policy: copies of the world that move as the task does, plans that begin where they must."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("gym_pusht") is None:
    pytest.skip("needs the extra demo: pip install 'seqrt[demo]'", allow_module_level=True)

from seqrt.demo.planner import HORIZON, Planner, corner_distance, cost
from seqrt.demo.policy import PAST, PushTPolicy, agent_state
from seqrt.demo.robot import PushTRobot
from seqrt.demo.shapes import CENTRE, GOAL, Floats, Pose, place
from seqrt.demo.worlds import Rollouts, Worlds, WorldState
from seqrt.policies.declaration import declaration_of


def _wander(robot: PushTRobot, rows: int, rng: np.random.Generator) -> Floats:
    """Targets about the T's middle, so that the agent pushes it."""
    centre = place(CENTRE[None], robot.moments[-1].block)[0]
    return np.clip(centre + rng.normal(0.0, 40.0, (rows, 2)), 30.0, 480.0)


def _moved(seed: int) -> tuple[PushTRobot, Floats]:
    """A robot that has pushed for a while, and its agent's position and velocity."""
    robot, rng = PushTRobot(seed), np.random.default_rng(seed)
    for row in _wander(robot, 8, rng):
        robot.act(row)
    state = agent_state([moment.agent for moment in robot.moments[-PAST - 1 :]])
    return robot, state


@pytest.mark.parametrize("seed", range(4))
def test_the_agents_velocity_follows_from_where_it_was(seed: int) -> None:
    robot, state = _moved(seed)
    true = np.array(robot._world.agent.velocity)
    assert np.allclose(state[1], true, atol=0.02 * 300.0)
    assert np.array_equal(state[0], np.array(robot.moments[-1].agent))


def test_an_agent_seen_once_stands() -> None:
    assert np.array_equal(agent_state([(10.0, 20.0)]), [[10.0, 20.0], [0.0, 0.0]])


@pytest.mark.parametrize("seed", [0, 3, 4, 13])
def test_a_copy_of_the_world_moves_as_the_task_does(seed: int) -> None:
    # Seeds whose T stays clear of the walls: pinned against one, the engine's answer hangs on its order of contacts.
    robot, _ = _moved(seed)
    agent = np.array([robot._world.agent.position, robot._world.agent.velocity])
    rows = _wander(robot, 6, np.random.default_rng(seed + 100))
    played = Worlds(3).play(WorldState(agent, robot.moments[-1].block), np.repeat(rows[None], 3, axis=0))
    for row in rows:
        robot.act(row)
    assert np.allclose(played.agents[-1], robot.moments[-1].agent, atol=1e-6)
    assert np.allclose(played.blocks[-1, :, :2], robot.moments[-1].block[:2], atol=0.01)
    assert np.allclose(played.blocks[-1, :, 2], robot.moments[-1].block.angle, atol=1e-3)


def test_the_committed_rows_come_back_unchanged_and_the_plan_follows_them() -> None:
    committed = np.linspace((200.0, 400.0), (260.0, 420.0), 5)
    agent = np.array([(190.0, 400.0), (0.0, 0.0)])
    plan = Planner(copies=16).plan(
        agent, Pose(300.0, 200.0, 1.0), rng=np.random.default_rng(0), committed=committed, rounds=1
    )
    assert plan.rows.shape == (5 + HORIZON, 2)
    assert np.array_equal(plan.rows[:5], committed)
    # The search began where the committed rows bring the agent, not where it was seen: played through, it comes true.
    through = Worlds(1).play(WorldState(agent, Pose(300.0, 200.0, 1.0)), plan.rows[None])
    assert cost(Rollouts(*(part[5:] for part in through)))[0] == pytest.approx(plan.cost, abs=0.5)


def test_the_same_seed_and_rounds_give_the_same_plan() -> None:
    # Near its goal the T is pushed by little and meets no wall; a T pinned against one moves as the engine's order of
    # contacts has it, which goes by addresses in memory.
    near = Pose(GOAL.x + 4.0, GOAL.y - 3.0, GOAL.angle + 0.05)

    def rows(seed: int) -> Floats:
        agent, rng = np.array([(330.0, 256.0), (0.0, 0.0)]), np.random.default_rng(seed)
        return Planner(copies=32).plan(agent, near, rng=rng, rounds=2).rows

    assert np.array_equal(rows(7), rows(7))
    assert not np.array_equal(rows(7), rows(8))


def test_without_time_one_round_is_played_all_the_same() -> None:
    plan = Planner(copies=8).plan(
        np.array([(100.0, 100.0), (0.0, 0.0)]), Pose(300.0, 250.0, 2.0), rng=np.random.default_rng(0), budget_s=0.0
    )
    assert plan.rounds == 1


def test_a_plan_brings_the_t_nearer_to_its_goal() -> None:
    agent, block = np.array([(330.0, 256.0), (0.0, 0.0)]), Pose(290.0, 256.0, GOAL.angle)
    plan = Planner(copies=64).plan(agent, block, rng=np.random.default_rng(0), rounds=3)
    after = Worlds(1).play(WorldState(agent, block), plan.rows[None]).blocks[-1, 0]
    assert corner_distance(after) < 0.7 * corner_distance(np.array(block))


def test_the_policy_answers_from_what_was_streamed_and_gives_the_prefix_back() -> None:
    policy = PushTPolicy(rounds=1)
    observation = PushTRobot(1).observe()
    past = [{"agent_pos": observation["agent_pos"]}] * PAST
    prefix = np.tile(observation["agent_pos"].astype(np.float64), (9, 1))
    obs = {"observations": [*past, observation], "steps": [0] * PAST + [0]}
    first = policy.infer(obs, prefix=prefix, delay=4, seed=3)["actions"]
    other = PushTPolicy(rounds=1).infer(obs, prefix=prefix, delay=4, seed=4)["actions"]
    assert first.shape == (4 + HORIZON, 2)
    assert np.array_equal(first[:4], prefix[:4])
    assert not np.array_equal(first[4:], other[4:])


def test_where_no_t_is_seen_the_policy_stands_still() -> None:
    white = {"pixels": np.full((96, 96, 3), 255, dtype=np.uint8), "agent_pos": np.float32([100.0, 120.0])}
    rows = PushTPolicy(rounds=1).infer({"observations": [white], "steps": [0]})["actions"]
    assert np.array_equal(rows, np.tile([100.0, 120.0], (HORIZON, 1)))


def test_the_policy_declares_a_grid_and_takes_the_prefix() -> None:
    declared = declaration_of(PushTPolicy())
    assert declared.actions is not None
    assert declared.actions.hz == 10.0
    assert declared.takes == {"prefix", "delay", "seed"}
    assert not declared.stateful
