"""The plants: a point and a seven-joint arm behind a servo, a disc in the way, a goal that moves, a kick.

All episodes at once; points of the plane are complex numbers. Everything random is drawn here, by episode and tick,
before anything is driven: whoever plays episode 17 meets the same kick at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Points = npt.NDArray[np.complex128]

HZ: Final = 50.0
PERIOD_S: Final = 1 / HZ
TICKS: Final = 160
"""Time allowed: 3.2 s, 1.4 times what nine in ten need whose answers come at once."""
SUBSTEPS: Final = 4
"""Of the servo a tick; an observation is taken after the first, a quarter period behind the action."""
RADIUS: Final = 0.08
REACHED: Final = 0.025
HELD_TICKS: Final = 10
"""The goal counts as reached when the tip stayed within `REACHED` of it for so long."""


class Body(Protocol):
    """What is moved, and where its tip is.

    Attributes:
        dims: A, numbers of a row.
        omega: Natural frequency of the servo as the policy knows it, rad/s; critically damped.
        rest: Where an episode begins `[A]`.
    """

    dims: int
    omega: float
    rest: Reals

    def tip(self, q: Reals) -> Points:
        """Where the tip is: `[..., A]` → `[...]`."""
        ...

    def columns(self, q: Reals) -> Points:
        """How the tip moves with each number: `[..., A]` → `[..., A]`."""
        ...


class Point:
    """A point in the plane; its rows are places."""

    dims, omega = 2, 12.0
    rest = np.zeros(2)

    def tip(self, q: Reals) -> Points:
        points: Points = q[..., 0] + 1j * q[..., 1]
        return points

    def columns(self, q: Reals) -> Points:
        return np.broadcast_to(np.array([1.0, 1j]), q.shape)


class Arm:
    """Seven links of 15 cm in the plane, on a shoulder below the middle of the way; its rows are joint angles."""

    dims, omega = 7, 14.0
    link_m = 0.15
    shoulder = 0.4 - 0.6j

    def __init__(self) -> None:
        self.rest = self._reaching(0j)

    def tip(self, q: Reals) -> Points:
        points: Points = self.shoulder + self.link_m * np.exp(1j * np.cumsum(q, axis=-1)).sum(axis=-1)
        return points

    def columns(self, q: Reals) -> Points:
        links = self.link_m * np.exp(1j * np.cumsum(q, axis=-1))
        beyond: Points = 1j * np.cumsum(links[..., ::-1], axis=-1)[..., ::-1]
        return beyond

    def _reaching(self, place: complex) -> Reals:
        q = np.array([2.6, -0.45, -0.45, -0.35, -0.25, -0.25, -0.2])
        for _ in range(200):
            q = q + 0.2 * pulled(self.columns(q), np.asarray(place - self.tip(q)))
        return q


def pulled(columns: Points, motion: Points) -> Reals:
    """The smallest change of the numbers that moves the tip by ``motion``: damped least squares, `[..., A]`."""
    a = (columns.real**2).sum(axis=-1) + 1e-6
    b = (columns.real * columns.imag).sum(axis=-1)
    c = (columns.imag**2).sum(axis=-1) + 1e-6
    det = a * c - b * b
    along = (c * motion.real - b * motion.imag) / det
    across = (a * motion.imag - b * motion.real) / det
    change: Reals = columns.real * along[..., np.newaxis] + columns.imag * across[..., np.newaxis]
    return change


@dataclass(frozen=True, eq=False)
class Chances:
    """What is drawn for ``E`` episodes.

    Attributes:
        obstacle: Middle of the disc `[E]`.
        goal: Where the goal swings around `[E]`.
        swing: How far, a vector `[E]`.
        turns: Its angular frequency, rad/s `[E]`.
        phase: Where it begins `[E]`.
        kick_at: Tick of the kick `[E]`.
        kick: Change of velocity, in the units of the body a second `[E, A]`.
        stiffness: The true servo's frequency over the known one `[E, A]`.
        seen_q: Error of an observed position `[E, T, A]`.
        seen_v: Error of an observed velocity `[E, T, A]`.
        side: Uniform; by which an undecided policy takes sides at a tick `[E, T]`.
        whim: Normal; by which one answer differs from the next `[E, T]`.
    """

    obstacle: Points
    goal: Points
    swing: Points
    turns: Reals
    phase: Reals
    kick_at: npt.NDArray[np.int64]
    kick: Reals
    stiffness: Reals
    seen_q: Reals
    seen_v: Reals
    side: Reals
    whim: Reals

    @property
    def ticks(self) -> int:
        """T, how long an episode may take."""
        return int(self.side.shape[1])

    def goal_at(self, tick: float) -> tuple[Points, Points]:
        """Where the goal is at ``tick``, and its velocity `[E]`."""
        angle = self.turns * tick * PERIOD_S + self.phase
        return self.goal + self.swing * np.sin(angle), self.swing * self.turns * np.cos(angle)


def chances(body: Body, episodes: int, seed: int, ticks: int = TICKS) -> Chances:
    """Draw ``episodes`` of them; the first n are the same however many are drawn."""
    rows = [_one(body, ticks, np.random.default_rng([seed, 3, number])) for number in range(episodes)]
    return Chances(*(np.array(column) for column in zip(*rows, strict=True)))


def _one(body: Body, ticks: int, rng: np.random.Generator) -> tuple[object, ...]:
    direction = rng.standard_normal(body.dims)
    size = KICK * rng.uniform(0.5, 1.0)
    moved = np.abs((body.columns(body.rest) * direction).sum())
    return (
        0.42 + 0.03 * rng.uniform(-1, 1) + 1j * 0.02 * rng.uniform(-1, 1),
        0.8 + 0.03 * rng.uniform(-1, 1) + 1j * 0.03 * rng.uniform(-1, 1),
        rng.uniform(0.04, 0.07) * np.exp(1j * rng.uniform(0, 2 * np.pi)),
        2 * np.pi / rng.uniform(2.0, 3.5),
        rng.uniform(0, 2 * np.pi),
        rng.integers(20, 90),
        direction * size / max(moved, 1e-9),
        1 + 0.05 * rng.uniform(-1, 1, body.dims),
        SEEN_M * rng.standard_normal((ticks, body.dims)),
        SEEN_M_S * rng.standard_normal((ticks, body.dims)),
        rng.random(ticks),
        rng.standard_normal(ticks),
    )


KICK: Final = 0.9
"""Largest change of the tip's velocity, m/s."""
SEEN_M: Final = 0.0005
SEEN_M_S: Final = 0.004


class Plants:
    """The bodies of all episodes, ticking.

    Args:
        body: What is moved.
        drawn: What happens to it.
        behind: Ticks from a command to its effect.

    Attributes:
        q: Positions `[E, A]`.
        v: Velocities `[E, A]`.
    """

    def __init__(self, body: Body, drawn: Chances, behind: int = 0) -> None:
        episodes = len(drawn.obstacle)
        self._body, self._drawn = body, drawn
        self.q = np.tile(body.rest, (episodes, 1))
        self.v = np.zeros_like(self.q)
        self._omega = body.omega * drawn.stiffness
        self._line = [self.q.copy() for _ in range(behind)]

    def command(self, tick: int, rows: Reals) -> None:
        """Set what the servos follow from ``tick`` on `[E, A]`, and kick whose turn it is."""
        self._line.append(rows.copy())
        self._target = self._line.pop(0)
        kicked = self._drawn.kick_at == tick
        self.v[kicked] += self._drawn.kick[kicked]

    def step(self, substeps: int) -> None:
        """Let so many quarters of a period go by."""
        for _ in range(substeps):
            self.q, self.v = served(self.q, self.v, self._target, self._omega)

    def seen(self, tick: int) -> tuple[Reals, Reals]:
        """Positions and velocities as a sensor gives them."""
        return self.q + self._drawn.seen_q[:, tick], self.v + self._drawn.seen_v[:, tick]


def served(q: Reals, v: Reals, target: Reals, omega: Reals | float) -> tuple[Reals, Reals]:
    """A quarter of a period of a critically damped PD servo."""
    h = PERIOD_S / SUBSTEPS
    v = v + h * (omega * omega * (target - q) - 2 * omega * v)
    return q + h * v, v
