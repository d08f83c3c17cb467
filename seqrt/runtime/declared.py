"""What `/policy` said, read into our own declarations once, when a handle connects."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pydantic import ValidationError

from seqrt.action.declaration import Actions, Space
from seqrt.action.player import MOST_HZ, MOST_SUBSTEPS
from seqrt.action.rows import Form
from seqrt.errors import InternalError
from seqrt.observation.cameras import require_codecs
from seqrt.observation.declaration import Observations
from seqrt.observation.grid import in_steps
from seqrt.observation.window import is_fed
from seqrt.policies.robot_arm import Embodiment
from seqrt.wire.messages import PolicyInfo

_REQUEST_S, _STARTUP_S = 300.0, 1800.0


@dataclass(frozen=True)
class Declared:
    """One policy as a run needs to know it.

    Attributes:
        model: What it is called.
        observations: What it reads, in steps of the grid once `on_grid`; None for an undeclared policy.
        actions: What its rows are; None for an undeclared policy.
        takes_prefix: Whether ``infer`` asks for committed rows.
        stateful: Whether an episode is bound to its worker.
        infer_s: Duration of an inference, None where it was not measured.
        request_s: Deadline of an act.
        startup_s: Deadline of an episode's first act.
        acts_per_s: The most acts a second the worker wants, None for no wish.
        grid_hz: The rate its offsets are counted at, where they are declared in seconds.
        form: What an answer of a policy of the older form is.
        takes_predicted: Whether ``infer`` asks where the robot will be.
        acts_in_flight: How many acts of one episode the worker grants at once.
        takes_seed: Whether ``infer`` asks for a seed.
        embodiment: Which of the policy's robots this one is, as acts name it; None where it need not be said.
    """

    model: str
    observations: Observations | None
    actions: Actions | None
    takes_prefix: bool
    stateful: bool
    infer_s: float | None
    request_s: float
    startup_s: float
    acts_per_s: float | None
    grid_hz: float | None = None
    form: Form | None = None
    takes_predicted: bool = False
    acts_in_flight: int = 1
    takes_seed: bool = False
    embodiment: str | None = None

    @classmethod
    def of(cls, info: PolicyInfo, *, host: str, embodiment: str | None = None) -> Declared:
        """Read ``info``, for the robot ``embodiment`` where it declares several.

        Raises:
            InternalError: It declares what this version cannot read.
            ValueError: It declares no such robot, or several and none was named.
            ExtraMissing: Its cameras need a package that is not installed here.
        """
        _check_embodiment(info, embodiment)
        try:
            observations = None if info.observations is None else Observations.model_validate(info.observations)
            actions = None if info.actions is None else Actions.model_validate(info.actions)
            if actions is None and embodiment is not None:
                actions = Embodiment.model_validate(info.embodiments[embodiment]).action.actions()
        except ValidationError as error:
            raise InternalError(
                f"the worker declares what this version of seqrt does not know: {error}",
                host=host,
                phase="policy",
                hint="update seqrt on the robot",
            ) from error
        require_codecs(observations, fitting=True)
        return cls(
            model=info.model,
            observations=observations,
            actions=actions,
            takes_prefix="prefix" in info.takes,
            stateful=info.stateful,
            infer_s=info.infer_s,
            request_s=info.timeouts.get("request", _REQUEST_S),
            startup_s=info.timeouts.get("startup", _STARTUP_S),
            acts_per_s=info.acts_per_s,
            form=info.own_actions,
            takes_predicted="predicted_state" in info.takes,
            acts_in_flight=info.acts_in_flight,
            takes_seed="seed" in info.takes,
            embodiment=embodiment,
        )

    @property
    def space(self) -> Space | None:
        """The declared space of the actions."""
        return self.actions.space if self.actions is not None else None

    @property
    def horizon(self) -> int | None:
        """Rows of a chunk that may be played, None where none is declared."""
        return self.actions.open_loop_horizon if self.actions is not None else None

    def in_flight(self, wanted: int) -> int:
        """How many acts of a run may be out at once: 1 where an answer depends on the acts before it."""
        if self.stateful or is_fed(self.observations):
            return 1
        return max(1, min(self.acts_in_flight, wanted))

    def on_grid(self, control_hz: float | None) -> Declared:
        """The same with offsets in steps of the grid's rate; one declared in steps needs no rate.

        Raises:
            ValueError: Its offsets are in seconds, and no rate is known, or two that differ.
        """
        if self.observations is None or self.observations.unit == "steps":
            return self
        hz = self.rate_hz(control_hz)
        return replace(self, observations=in_steps(self.observations, hz), grid_hz=hz)

    def rate_hz(self, control_hz: float | None) -> float:
        """The grid's rate: what the policy declares, or the user where it declares none.

        Raises:
            ValueError: Neither says, or both say and differ; it names the multiples the robot may be driven at.
        """
        declared = self.actions.hz if self.actions is not None else None
        if declared is None and control_hz is None:
            raise ValueError("no rate: the policy declares no actions.hz, so give connect(..., control_hz=…)")
        if declared is not None and control_hz is not None and declared != control_hz:
            raise ValueError(
                f"the policy's rows are {declared:g} Hz and control_hz={control_hz:g}: leave control_hz out"
                + _faster(declared, control_hz)
            )
        return float(declared if declared is not None else control_hz or 0.0)


def _check_embodiment(info: PolicyInfo, embodiment: str | None) -> None:
    known = ", ".join(map(repr, info.embodiments))
    if embodiment is None and len(info.embodiments) > 1:
        raise ValueError(f"the policy drives {known}: say which this robot is, connect(..., embodiment=…)")
    if embodiment is not None and embodiment not in info.embodiments:
        what = f"the policy drives {known}" if known else "the policy declares none"
        raise ValueError(f"embodiment={embodiment!r}: {what}")


def _faster(declared: float, wanted: float) -> str:
    """How to drive a robot at the rate ``wanted``, or at the two nearest that rows of ``declared`` Hz allow."""
    most = max(1, min(MOST_SUBSTEPS, math.floor(MOST_HZ / declared)))
    ratio = wanted / declared
    whole = min(max(1, round(ratio)), most)
    if whole > 1 and math.isclose(ratio, whole, rel_tol=1e-9):
        return f", and drive the robot at that rate with Play(substeps={whole})"
    below = min(max(1, math.floor(ratio)), most)
    fitting = dict.fromkeys((below, min(below + 1, most)))
    return "; a robot is driven at a whole multiple: " + " or ".join(_written(declared, k) for k in fitting)


def _written(hz: float, substeps: int) -> str:
    return f"{hz * substeps:g} Hz" + (f" with Play(substeps={substeps})" if substeps > 1 else "")
