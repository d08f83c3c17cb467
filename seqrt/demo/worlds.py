"""Copies of the PushT world in one pymunk space, stepped together: the planner's sampled rollouts.

One space with many copies side by side steps an order of magnitude faster than the copies one after the other, because
`pymunk.batch` moves all bodies' numbers in one call. In each copy the agent is a kinematic disc whose velocities were
worked out beforehand (`shapes.agent_response`), the T a body that loses its velocity at each substep, as in the task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymunk
import pymunk.batch
from pymunk.batch import BodyFields

from seqrt.demo.shapes import (
    AGENT_RADIUS,
    CENTRE,
    RECTANGLES,
    SUBSTEP_S,
    SUBSTEPS,
    WALL_FAR,
    WALL_NEAR,
    WALL_RADIUS,
    Floats,
    Pose,
    agent_response,
)

APART = 1024.0
"""Distance from one copy to the next."""


class WorldState(NamedTuple):
    """All that the next substep depends on; the T's own velocity follows from the contact (`Worlds.play`).

    Attributes:
        agent: The agent's position and velocity, `[2, 2]`.
        block: The T's pose.
    """

    agent: Floats
    block: Pose


class Rollouts(NamedTuple):
    """What came of each copy.

    Attributes:
        agents: The agents' positions after each row, `[H, K, 2]`.
        agent_velocities: Their velocities after each row, `[H, K, 2]`.
        blocks: The Ts' poses (x, y, angle) after each row, `[H, K, 3]`.
    """

    agents: Floats
    agent_velocities: Floats
    blocks: Floats


class Worlds:
    """`copies` worlds in one space. Not for several threads at once."""

    def __init__(self, copies: int) -> None:
        self.copies = copies
        self._space = pymunk.Space()
        self._space.damping = 0.0
        self._buffer, self._source = pymunk.batch.Buffer(), pymunk.batch.Buffer()
        self._responses: dict[int, tuple[Floats, Floats]] = {}
        self._origins = np.arange(copies) * APART
        self._add_walls()
        agents, blocks = [self._add_agent() for _ in range(copies)], [self._add_block() for _ in range(copies)]
        # The order in which a batch lists bodies is the engine's own; it is read once and stays.
        order = {number: place for place, number in enumerate(self._body_ids())}
        self._agents = np.array([order[body.id] for body in agents])
        self._blocks = np.array([order[body.id] for body in blocks])

    def play(self, state: WorldState, rows: Floats) -> Rollouts:
        """Play targets from one state.

        Args:
            state: Where all copies begin.
            rows: Targets `[K, H, 2]`, K = `copies`, one a period each.
        """
        copies, horizon, _ = rows.shape
        position_map, velocity_map = self._responses.setdefault(horizon, agent_response(horizon))
        drive = np.concatenate([np.broadcast_to(state.agent[:, None], (2, copies, 2)), rows.transpose(1, 0, 2)])
        agents = _applied(position_map[SUBSTEPS - 1 :: SUBSTEPS], drive)
        velocities = _applied(velocity_map, drive)
        self._begin(state)
        blocks = np.empty((horizon, copies, 3))
        for row in range(horizon):
            for substep in range(row * SUBSTEPS, (row + 1) * SUBSTEPS):
                self._step(velocities[substep])
            blocks[row] = self._poses()
        return Rollouts(agents, velocities[SUBSTEPS - 1 :: SUBSTEPS], blocks)

    def _begin(self, state: WorldState) -> None:
        """Put every copy into the state, the last substep before it played once more.

        A T in contact moves on by the velocity which that substep gave it, and the picture does not show it. So the
        agent is set back by one substep and moved to its place again: the engine works the contact out.
        """
        position, velocity = state.agent
        # Nothing of the rollouts before may help to solve these contacts: the engine forgets those that ended.
        self._space.collision_persistence = 1
        self._place(np.full(2, -APART / 4), state.block)
        self._space.step(SUBSTEP_S)
        self._space.collision_persistence = 3
        self._place(position - SUBSTEP_S * velocity, state.block)
        self._step(np.broadcast_to(velocity, (self.copies, 2)))

    def _place(self, agent: Floats, block: Pose) -> None:
        bodies = 2 * self.copies
        angles, positions = np.zeros(bodies), np.empty((bodies, 2))
        angles[self._blocks] = block.angle
        positions[self._blocks], positions[self._agents] = block[:2], agent
        positions[self._blocks, 0] += self._origins
        positions[self._agents, 0] += self._origins
        # Angles go first: turning a body about its centre of gravity moves its origin.
        self._write(BodyFields.ANGLE, angles)
        self._write(BodyFields.POSITION, positions)
        self._write(BodyFields.VELOCITY | BodyFields.ANGULAR_VELOCITY, np.zeros((bodies, 3)))

    def _step(self, agent_velocities: Floats) -> None:
        # The Ts' own velocities are the solver's and must survive: the next substep moves them by these.
        velocities = self._read(BodyFields.VELOCITY, 2)
        velocities[self._agents] = agent_velocities
        self._write(BodyFields.VELOCITY, velocities)
        self._space.step(SUBSTEP_S)

    def _poses(self) -> Floats:
        poses: Floats = self._read(BodyFields.POSITION | BodyFields.ANGLE, 3)[self._blocks]
        poses[:, 0] -= self._origins
        return poses

    def _read(self, fields: BodyFields, width: int) -> Floats:
        self._buffer.clear()
        pymunk.batch.get_space_bodies(self._space, fields, self._buffer)
        # A copy: the buffer is the engine's own memory, and the next read takes it again.
        return np.array(np.frombuffer(self._buffer.float_buf(), dtype=np.float64).reshape(-1, width))

    def _write(self, fields: BodyFields, values: Floats) -> None:
        # One buffer for all writes: the engine never frees one.
        self._source.set_float_buf(np.ascontiguousarray(values).ravel())
        pymunk.batch.set_space_bodies(self._space, fields, self._source)

    def _body_ids(self) -> list[int]:
        self._buffer.clear()
        pymunk.batch.get_space_bodies(self._space, BodyFields.BODY_ID, self._buffer)
        return list(memoryview(self._buffer.int_buf()).cast("P"))

    def _add_walls(self) -> None:
        low, high = WALL_NEAR, WALL_FAR
        sides = [
            ((low, high), (low, low)),
            ((low, low), (high, low)),
            ((high, low), (high, high)),
            ((low, high), (high, high)),
        ]
        for left in (float(origin) for origin in self._origins):
            for begin, end in sides:
                a, b = (left + begin[0], begin[1]), (left + end[0], end[1])
                self._space.add(pymunk.Segment(self._space.static_body, a, b, WALL_RADIUS))

    def _add_agent(self) -> pymunk.Body:
        body = pymunk.Body(body_type=pymunk.Body.KINEMATIC)
        self._space.add(body, pymunk.Circle(body, AGENT_RADIUS))
        return body

    def _add_block(self) -> pymunk.Body:
        corners = [[(x0, y1), (x1, y1), (x1, y0), (x0, y0)] for x0, x1, y0, y1 in RECTANGLES]
        # The task takes the bar's moment twice, and no part of it about the centre of gravity.
        body = pymunk.Body(1.0, 2 * pymunk.moment_for_poly(1.0, corners[0]))
        shapes = [pymunk.Poly(body, rectangle) for rectangle in corners]
        body.center_of_gravity = (float(CENTRE[0]), float(CENTRE[1]))
        self._space.add(body, *shapes)
        return body


def _applied(response: Floats, drive: Floats) -> Floats:
    """``response @ drive``, `[n, 2 + H]` by `[2 + H, K, 2]`, summed term by term.

    BLAS rounds by where the arrays lie in memory, and a last bit is enough to send a T the other way round a corner.
    """
    applied = np.zeros((len(response), *drive.shape[1:]))
    for column, term in zip(response.T, drive, strict=True):
        begin = int(np.argmax(column != 0.0))
        applied[begin:] += column[begin:, None, None] * term
    return applied
