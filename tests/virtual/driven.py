"""One run of a fake arm, with everything that was told of it: what the tests of whole runs look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import numpy as np
import numpy.typing as npt

from seqrt import Policy, RunOutcome, SeqrtError
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

E = TypeVar("E", bound=ev.Event)


@dataclass
class Driven:
    arm: FakeArm
    events: list[ev.Event] = field(default_factory=list)
    error: SeqrtError | None = None
    outcome: RunOutcome | None = None

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def values(self) -> list[float]:
        """Column 0 of every row that reached the arm, underrun commands too."""
        return [float(value) for value in self.arm.rows[:, 0]]

    @property
    def played(self) -> list[float]:
        """Column 0 of the chunks' own rows."""
        return [tick.row[0] for tick in self.of(ev.Ticked) if tick.kind == "played" and tick.row is not None]

    @property
    def kinds(self) -> list[str]:
        return [tick.kind for tick in self.of(ev.Ticked)]


async def drive(policy: Policy, arm: Any = None, *, driven: Driven | None = None, **options: Any) -> Driven:
    """Run until the end that ``options`` name; what seqrt raises is kept in ``error``."""
    robot = arm if arm is not None else FakeArm(3)
    result = driven if driven is not None else Driven(getattr(robot, "robot", robot))
    options.setdefault("validate", lambda row: True)
    try:
        result.outcome = await policy.run(robot, record=result.events.append, **options)
    except SeqrtError as error:
        result.error, result.outcome = error, error.outcome
    return result


async def pause(policy: Policy, at_s: float, for_s: float) -> None:
    """Pause the run going on in ``at_s`` seconds, and let it go on ``for_s`` later."""
    await anyio.sleep(at_s)
    policy.pause()
    await anyio.sleep(for_s)
    policy.resume()


def reversals(values: list[float]) -> int:
    moved: npt.NDArray[np.float64] = np.diff(np.asarray(values))
    return int((moved < -1e-9).sum())
