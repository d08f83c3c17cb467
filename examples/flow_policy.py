"""A flow-matching policy with inference-time guidance (real-time chunking), in numpy: no network, no autograd.

    seqrt serve examples.flow_policy:FlowPolicy
    python -m examples.flow_policy          # drives a point around a disc, the policy in the same process

Flow matching turns noise into a chunk by following a velocity field. Where the chunks worth making are a mixture of
Gaussians - pass the disc on the left, or on the right - that field is known exactly, so the policy here does what a
well-trained network does: it commits to a side anew at each call. `Flow.chunk` guides it to go on from the rows that
will be played anyway, after Black, Galliker, Levine: Real-Time Execution of Action Chunking Flow Policies (2025).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt

import seqrt

Array = npt.NDArray[np.float64]
Modes = tuple[Array, float, Array]
"""Means `[M, H, A]`, how far chunks stray from them, and weights `[M]` that add up to 1."""

HORIZON, HZ, SPEED = 50, 50.0, 0.6
DISC, RADIUS = np.zeros(2), 0.25


def soft_mask(horizon: int, delay: int, spacing: int, rows: int) -> Array:
    """How much each row is held to the old plan `[H]`: wholly while it is committed, less and less after, then not.

    Args:
        horizon: H, rows of a chunk.
        delay: d: the first d rows will have been played when the answer arrives.
        spacing: s, ticks between two requests: the last s rows are new.
        rows: Rows of the old plan there are; nothing is held beyond them.

    Returns:
        1 for i < d; c (e^c - 1) / (e - 1) with c = (H - s - i) / (H - s - d + 1) for d <= i < H - s; 0 after. The
        paper's equation 5.
    """
    i = np.arange(horizon)
    c = (horizon - spacing - i) / max(1, horizon - spacing - delay + 1)
    held = np.where(i < delay, 1.0, c * np.expm1(c) / (np.e - 1))
    return np.where((i < max(delay, horizon - spacing)) & (i < rows), held, 0.0)


class Flow:
    """A flow whose chunks are a mixture of Gaussians, correlated in time.

    A chunk of mode m is its mean plus a deviation that lasts some rows, plus a little jitter from row to row; the
    columns deviate independently.

    Args:
        horizon: H.
        scale: What the rows are divided by to be of the order of 1, as a model is trained. The noise is 1 there: with
            modes much closer together than that, guidance hardly tells them apart; much farther, the noise decides.
        smooth: Rows a deviation lasts.
        jitter: Share of the deviation that is a row's own.
        steps: Of the integration from noise to chunk.
        beta: The most that guidance may weigh. The paper has 5, for 5 steps.
    """

    def __init__(
        self,
        horizon: int,
        *,
        scale: float = 1.0,
        smooth: float = 10.0,
        jitter: float = 0.1,
        steps: int = 30,
        beta: float = 30.0,
    ) -> None:
        apart = np.subtract.outer(np.arange(horizon), np.arange(horizon))
        correlation = np.exp(-0.5 * (apart / smooth) ** 2) + jitter**2 * np.eye(horizon)
        # In this basis the deviation's components are independent: every formula below is one for plain numbers.
        self._variances, self._basis = np.linalg.eigh(correlation)
        self.horizon, self.scale, self._steps, self._beta = horizon, scale, steps, beta

    def chunk(
        self,
        modes: Modes,
        rng: np.random.Generator,
        *,
        prefix: Array | None = None,
        delay: int = 0,
        spacing: int = 0,
    ) -> Array:
        """A chunk `[H, A]`: drawn freely, or so that it goes on from ``prefix``.

        Args:
            modes: What a good chunk is.
            rng: The noise it begins as.
            prefix: What is planned from row 0 on `[n, A]`.
            delay: d, the rows of it that will be played.
            spacing: s.
        """
        means, std, weights = modes
        modes = means / self.scale, std / self.scale, weights
        rows = rng.standard_normal(means.shape[1:])
        held, old = np.zeros(self.horizon), np.zeros_like(rows)
        if prefix is not None:
            known = min(len(prefix), self.horizon)
            held = soft_mask(self.horizon, delay, spacing, known)
            old[:known] = prefix[:known] / self.scale
        for step in range(self._steps):
            tau = step / self._steps
            end, pull_back = self.end(rows, tau, modes)
            velocity = (end - rows) / (1 - tau)
            if prefix is not None:
                # Equation 2: how wrong the chunk would end, times how the end depends on the rows as they are now.
                velocity += self._weight(tau) * pull_back(held[:, np.newaxis] * (old - end))
            rows = rows + velocity / self._steps
        return rows * self.scale

    def end(self, rows: Array, tau: float, modes: Modes) -> tuple[Array, Callable[[Array], Array]]:
        """Where the flow is heading: the mean of all chunks that ``rows`` at time ``tau`` may become. In model units.

        Rows at ``tau`` are (1 - tau) noise + tau chunk. Of one mode they are Gaussian, of mean tau mu and variance
        tau^2 K + (1 - tau)^2; so each mode's answer is linear in them, and Bayes weighs the modes.

        Returns:
            That mean `[H, A]`, and its vector-Jacobian product: y -> (d end / d rows)^T y, both `[H, A]`.
        """
        means, std, weights = modes
        variances = std**2 * self._variances[:, np.newaxis]
        spread = tau**2 * variances + (1 - tau) ** 2
        gain = tau * variances / spread
        off = self._basis.T @ (rows - tau * means)
        ends = means + self._basis @ (gain * off)
        logits = np.log(weights) - 0.5 * (off**2 / spread).sum(axis=(1, 2))
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()

        def pull_back(y: Array) -> Array:
            # The ends move with the rows, and the shares move from mode to mode: d share / d rows is
            # share (score - mean score), and of the scores only the part that differs between modes is left.
            moved: Array = self._basis @ (gain * (self._basis.T @ y))
            worth = shares * (ends * y).sum(axis=(1, 2))
            towards = np.tensordot(worth - shares * worth.sum(), means, axes=1)
            moved += self._basis @ (tau / spread * (self._basis.T @ towards))
            return moved

        end: Array = np.tensordot(shares, ends, axes=1)
        return end, pull_back

    def _weight(self, tau: float) -> float:
        """(1 - tau) / (tau r^2) with r^2 = (1 - tau)^2 / (tau^2 + (1 - tau)^2), at most beta."""
        return min(self._beta, (tau**2 + (1 - tau) ** 2) / (tau * (1 - tau))) if tau > 0 else self._beta


@seqrt.policy(
    name="flow",
    observations=seqrt.Observations(
        streams={"state": seqrt.Stream(shape=(2,), dtype="float64"), "goal": seqrt.Stream(shape=(2,), dtype="float64")}
    ),
    actions=seqrt.Actions(key="actions", hz=HZ, space="absolute", names=("x", "y")),
)
class FlowPolicy:
    """Positions from here to the goal, past the disc on either side.

    Args:
        modes: What good chunks are, given the newest observation; `around_the_disc` if not given.
        flow: How they are drawn.
    """

    def __init__(self, modes: Callable[[Any], Modes] | None = None, flow: Flow | None = None) -> None:
        self._modes = modes or around_the_disc
        self._flow = flow or Flow(HORIZON, scale=0.1)

    def infer(
        self,
        obs: Any,
        *,
        prefix: Array | None = None,
        delay: int | None = None,
        spacing: int | None = None,
        seed: int | None = None,
    ) -> dict[str, Array]:
        """One chunk; its first ``delay`` rows are the committed ones, as they were handed over."""
        modes = self._modes(obs["observations"][-1])
        d = min(delay or 0, len(prefix)) if prefix is not None else 0
        rows = self._flow.chunk(modes, np.random.default_rng(seed), prefix=prefix, delay=d, spacing=spacing or 0)
        if prefix is not None:
            rows[:d] = prefix[:d]  # guidance comes close, the arm has played them
        return {"actions": rows}


def around_the_disc(observation: Any) -> Modes:
    """Ways to the goal past the disc: either side while it lies straight ahead, else the side that is nearer."""
    here, goal = np.asarray(observation["state"]), np.asarray(observation["goal"])
    far = max(1e-9, float(np.linalg.norm(goal - here)))
    ahead = (goal - here) / far
    aside = np.array([-ahead[1], ahead[0]])
    before, left = (DISC - here) @ ahead, (here - DISC) @ aside
    if not (0 < before < far and abs(left) < 1.5 * RADIUS):
        ways = [[here, goal]]
    else:
        sides = (1.0, -1.0) if abs(left) < 0.7 * RADIUS else (np.sign(left),)
        ways = [[here, DISC + side * 1.6 * RADIUS * aside, goal] for side in sides]
    return np.stack([_along(way) for way in ways]), 0.02, np.full(len(ways), 1 / len(ways))


def _along(way: list[Array]) -> Array:
    """HORIZON rows along the corners of a way, at SPEED; at its end they stay there."""
    corners = np.stack(way)
    far = np.cumsum([0.0, *np.linalg.norm(np.diff(corners, axis=0), axis=1)])
    at = np.arange(1, HORIZON + 1) * SPEED / HZ
    return np.stack([np.interp(at, far, corners[:, axis]) for axis in range(2)], axis=1)


async def main(actions: int = 150) -> None:
    """Drive a point from the left of the disc to its right."""
    here, nearest = np.array([-0.9, 0.0]), np.inf

    def observe() -> dict[str, Array]:
        return {"state": here, "goal": np.array([0.9, 0.0])}

    def act(row: Array) -> None:
        nonlocal here, nearest
        here, nearest = row, min(nearest, float(np.linalg.norm(row - DISC)))

    # Asked seldom, an act has few rows of the old plan left to go on from: too few to tell which side it took.
    play = seqrt.Play(continuity="server", fresh_s=0.25)
    async with seqrt.connect(policy=FlowPolicy()) as policy:
        outcome = await policy.run(
            observe=observe, act=act, hold=lambda: None, validate=lambda row: True, max_actions=actions, play=play
        )
    print(outcome)
    print(f"It ended at {here.round(2)} and kept {nearest:.2f} from the middle of the disc.")


if __name__ == "__main__":
    anyio.run(main)
