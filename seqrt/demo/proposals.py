"""Where plans come from: pushes on the T's sides, and variations of plans that did well.

Both give targets for the agent, `[K, H, 2]`, one a period; which of them are any good is for `planner` to find out.
"""

from __future__ import annotations

import numpy as np

from seqrt.demo.shapes import AGENT_RADIUS, CENTRE, OUTLINE, SCREEN, Floats, Pose, place, rotation, signed_distance

CLEARANCE = 97.0
"""A circle of this radius about the T's centre of gravity is free of it, the agent's own radius included."""

ARC_POINTS = 5
MARGIN = 20.0
"""Targets keep this far from the screen's edge."""

KNOTS = 4


def pushes(count: int, horizon: int, agent: Floats, block: Pose, rng: np.random.Generator, reach: float) -> Floats:
    """Go to a random point of the T's outline, round the T where it is in the way, and push there.

    Args:
        count: K.
        horizon: H.
        agent: The agent's position `[2]`.
        block: The T's pose.
        rng: The only source of chance.
        reach: How deep the deepest push goes.
    """
    contact, outward = _outline_points(count, block, rng)
    gap = rng.uniform(3.0, 15.0, count)
    start = contact + outward * (AGENT_RADIUS + gap)[:, None]
    turned = np.einsum("kij,kj->ki", rotation(rng.normal(0.0, 0.35, count)), -outward)
    end = start + turned * (gap + 0.5 + reach * rng.random(count) ** 1.5)[:, None]
    detour = _detour(agent, start, block, rng)
    waypoints = np.concatenate([np.broadcast_to(agent, (count, 1, 2)), detour, start[:, None], end[:, None]], axis=1)
    waypoints = np.clip(waypoints, MARGIN, SCREEN - MARGIN)
    speed = np.broadcast_to(rng.uniform(25.0, 60.0, count)[:, None], (count, waypoints.shape[1] - 1)).copy()
    speed[:, -1] = rng.uniform(8.0, 30.0, count)
    lengths = np.hypot(*np.moveaxis(np.diff(waypoints, axis=1), -1, 0))
    times = np.concatenate([np.zeros((count, 1)), np.cumsum(lengths / speed, axis=1)], axis=1)
    halves = np.arange(horizon + 1, dtype=np.float64) + 0.5
    path = np.stack(
        [
            np.stack([np.interp(halves, when, where[:, axis]) for axis in (0, 1)], axis=-1)
            for when, where in zip(times, waypoints, strict=True)
        ]
    )
    # The agent lags its target by two periods and cuts corners. Its law turned round, target = p + 0.2 p' + 0.01 p'',
    # is in differences of a period the place of the next one, and as far again.
    targets: Floats = np.clip(2.0 * path[:, 1:] - path[:, :-1], 0.0, SCREEN)
    return targets


def variations(count: int, plans: Floats, rng: np.random.Generator) -> Floats:
    """Smooth changes to given plans, small and large ones.

    Args:
        count: K.
        plans: The plans to vary `[n, H, 2]`, best first; better ones are taken more often.
        rng: The only source of chance.
    """
    number, horizon, _ = plans.shape
    chosen = np.minimum((rng.random(count) ** 2 * number).astype(int), number - 1)
    knots = rng.normal(size=(count, KNOTS, 2)) * np.exp(rng.uniform(np.log(1.5), np.log(30.0), (count, 1, 1)))
    places = np.linspace(0.0, KNOTS - 1.0, horizon)
    low = np.minimum(places.astype(int), KNOTS - 2)
    share = (places - low)[:, None]
    change = knots[:, low] * (1.0 - share) + knots[:, low + 1] * share
    varied: Floats = np.clip(plans[chosen] + change, 0.0, SCREEN)
    return varied


def _outline_points(count: int, block: Pose, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Random points of the outline, evenly by length, and their outward normals; on the screen."""
    sides = np.roll(OUTLINE, -1, axis=0) - OUTLINE
    lengths = np.hypot(sides[:, 0], sides[:, 1])
    side = rng.choice(len(sides), size=count, p=lengths / lengths.sum())
    local = OUTLINE[side] + rng.random((count, 1)) * sides[side]
    normal = np.stack([sides[side, 1], -sides[side, 0]], axis=-1) / lengths[side, None]
    return place(local, block), normal @ rotation(block.angle).T


def _detour(agent: Floats, start: Floats, block: Pose, rng: np.random.Generator) -> Floats:
    """Points on the way `[K, ARC_POINTS, 2]`: an arc round the T, or the agent's own place where the way is free."""
    count = len(start)
    share = np.linspace(0.15, 1.0, 9)[:, None]
    line = agent + share * (start[:, None] - agent)
    distance, _ = signed_distance((line - block[:2]) @ rotation(block.angle))
    blocked = distance.min(axis=1) < AGENT_RADIUS - 1.0
    centre = place(CENTRE[None], block)[0]
    begin = np.arctan2(*(agent - centre)[::-1])
    turn = (np.arctan2(*(start - centre).T[::-1]) - begin + np.pi) % (2 * np.pi) - np.pi
    the_other_way = rng.random(count) < 0.15
    turn = np.where(the_other_way, turn - np.sign(turn) * 2 * np.pi, turn)
    angles = begin + turn[:, None] * np.linspace(0.0, 1.0, ARC_POINTS)
    arc = centre + CLEARANCE * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.where(blocked[:, None, None], arc, agent)
