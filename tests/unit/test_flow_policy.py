"""The flow policy of the examples: its velocity field, its guidance, and what guidance is for."""

from __future__ import annotations

import numpy as np
import pytest

from examples.flow_policy import HORIZON, Flow, FlowPolicy, around_the_disc, soft_mask

START = {"state": np.array([-0.9, 0.0]), "goal": np.array([0.9, 0.0])}
D, S = 6, 12
SEEDS = range(12)


def later(plan: np.ndarray) -> dict[str, np.ndarray]:
    """What is seen S rows into a plan."""
    return START | {"state": plan[S - 1]}


def side(chunk: np.ndarray) -> float:
    """Which side of the disc it passes on: +1 or -1."""
    return float(np.sign(chunk[-1, 1]))


def test_the_soft_mask_holds_committed_rows_wholly_and_lets_go_before_the_new_ones():
    mask = soft_mask(10, delay=2, spacing=3, rows=10)
    c = np.array([5, 4, 3, 2, 1]) / 6
    assert mask[:2].tolist() == [1, 1]
    assert mask[2:7] == pytest.approx(c * (np.exp(c) - 1) / (np.e - 1))
    assert mask[7:].tolist() == [0, 0, 0]
    assert soft_mask(10, delay=2, spacing=3, rows=4)[4:].tolist() == [0] * 6
    assert soft_mask(10, delay=10, spacing=10, rows=10).tolist() == [1] * 10


@pytest.mark.parametrize("tau", [0.0, 0.3, 0.9])
def test_guidance_pulls_back_through_the_derivative_of_the_flows_end(tau):
    rng = np.random.default_rng(0)
    flow = Flow(12, smooth=3)
    modes = rng.standard_normal((3, 12, 2)), 0.5, np.array([0.2, 0.5, 0.3])
    rows, towards, y = rng.standard_normal((3, 12, 2))
    _, pull_back = flow.end(rows, tau, modes)
    ahead, behind = (flow.end(rows + step * towards, tau, modes)[0] for step in (1e-5, -1e-5))
    assert (pull_back(y) * towards).sum() == pytest.approx(((ahead - behind) * y).sum() / 2e-5, abs=1e-6)


def test_noise_is_heading_for_the_mean_of_all_chunks_and_a_chunk_for_itself():
    modes = around_the_disc(START)
    flow = Flow(HORIZON)
    assert flow.end(np.ones((HORIZON, 2)), 0.0, modes)[0] == pytest.approx(modes[0].mean(axis=0))
    assert flow.end(modes[0][0], 0.9999, modes)[0] == pytest.approx(modes[0][0], abs=1e-3)


def test_a_free_chunk_takes_one_side_or_the_other_and_never_the_middle():
    means, std, _ = around_the_disc(START)
    drawn = [FlowPolicy().infer({"observations": [START]}, seed=seed)["actions"] for seed in SEEDS]
    assert {side(chunk) for chunk in drawn} == {1.0, -1.0}
    for chunk in drawn:
        astray = np.sqrt(((chunk - means) ** 2).mean(axis=(1, 2)))
        assert astray.min() < 2 * std < astray.max()


def test_a_guided_chunk_stays_on_the_side_of_the_rows_it_goes_on_from_where_a_free_one_changes_it():
    flow, changed = Flow(HORIZON, scale=0.1), {"free": 0, "guided": 0}
    for seed in SEEDS:
        plan = flow.chunk(around_the_disc(START), np.random.default_rng(seed))
        modes, ahead = around_the_disc(later(plan)), plan[S:]
        free = flow.chunk(modes, np.random.default_rng(100 + seed))
        guided = flow.chunk(modes, np.random.default_rng(100 + seed), prefix=ahead, delay=D, spacing=S)
        changed["free"] += side(free) != side(plan)
        changed["guided"] += side(guided) != side(plan)
        assert np.abs(guided[:D] - ahead[:D]).max() < 0.008
        assert np.abs(free[:D] - ahead[:D]).max() > 0.01
    assert changed["guided"] == 0
    assert changed["free"] >= len(SEEDS) / 4


def test_the_seam_to_a_guided_chunk_is_as_smooth_as_the_chunk_itself():
    def jerk(rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(np.diff(rows, 3, axis=0), axis=1)

    seams: dict[bool, list[np.ndarray]] = {True: [], False: []}
    inside = []
    for seed in SEEDS:
        plan = FlowPolicy().infer({"observations": [START]}, seed=seed)["actions"]
        for guided in (True, False):
            said = {"prefix": plan[S:], "delay": D, "spacing": S} if guided else {}
            chunk = FlowPolicy().infer({"observations": [later(plan)]}, seed=100 + seed, **said)["actions"]
            seams[guided].append(jerk(np.concatenate([plan[S + D - 3 : S + D], chunk[D : D + 3]])))
        inside.append(jerk(plan))
    smooth = np.sqrt(np.mean(np.square(inside)))
    assert np.sqrt(np.mean(np.square(seams[True]))) < 1.2 * smooth
    assert np.sqrt(np.mean(np.square(seams[False]))) > 5 * smooth


def test_the_committed_rows_come_back_as_they_were_handed_over():
    plan = FlowPolicy().infer({"observations": [START]}, seed=1)["actions"]
    answer = FlowPolicy().infer({"observations": [later(plan)]}, prefix=plan[S:], delay=D, spacing=S, seed=2)
    assert answer["actions"][:D].tolist() == plan[S : S + D].tolist()
    assert answer["actions"].shape == (HORIZON, 2)


def test_the_same_seed_draws_the_same_chunk():
    first, again = (FlowPolicy().infer({"observations": [START]}, seed=5)["actions"] for _ in range(2))
    assert first.tolist() == again.tolist()


@pytest.mark.parametrize(
    ("here", "ways"), [((-0.9, 0.0), 2), ((-0.3, 0.3), 1), ((0.5, 0.1), 1), ((-0.9, -0.9), 1)], ids=str
)
def test_there_are_two_ways_only_while_the_disc_lies_straight_ahead(here, ways):
    means, _, weights = around_the_disc(START | {"state": np.array(here)})
    assert len(means) == len(weights) == ways
    assert weights.sum() == pytest.approx(1)
    assert np.linalg.norm(np.diff(means, axis=1), axis=2).max() == pytest.approx(0.6 / 50, rel=1e-6)
