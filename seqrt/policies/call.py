"""What ``infer`` is handed for one act, before anything runs."""

from __future__ import annotations

from typing import Any

from seqrt.errors import remote_error
from seqrt.observation.reading import Window
from seqrt.policies.continuity import prefix_of
from seqrt.policies.declaration import Declaration
from seqrt.policies.parameters import chosen
from seqrt.policies.robot_arm import Embodiment
from seqrt.wire.messages import ActRequest


def handed(declaration: Declaration, window: Window) -> Any:
    """The positional argument of ``infer``: bare inputs, or the window for a policy that declares observations.

    Its pictures are as they came, encoded: `Code.decode` turns them into arrays where it may take its time.
    """
    if declaration.observations is None:
        return window.observations[-1]
    if declaration.written.own_observations is not None:
        return {"observations": window.observations}
    return {"observations": window.observations, "steps": window.steps}


def keywords_of(declaration: Declaration, request: ActRequest) -> dict[str, Any]:
    """The keyword-only arguments of ``infer`` an act fills: reserved names, None where it does not say, and parameters.

    ``episode`` is not among them; it is added where the episode is.

    Raises:
        InvalidRequest: The prefix is no table of numbers, or of a space unknown here; or a parameter is unknown or not
            allowed.
    """
    plan = request.plan
    values = {
        "seed": request.seed,
        "prefix": prefix_of(declaration, plan) if plan is not None else None,
        "delay": plan.d if plan is not None else None,
        "spacing": plan.s if plan is not None else None,
        "predicted_state": plan.predicted_state if plan is not None else None,
    }
    reserved = {name: value for name, value in values.items() if name in declaration.takes}
    return reserved | chosen(declaration.params, request.params)


def embodiment_of(declaration: Declaration, request: ActRequest) -> Embodiment | None:
    """The robot an act is for, among those declared; None where none is.

    Raises:
        InvalidRequest: It names one that is not declared, or none where there are several.
    """
    robots, named = declaration.written.robots, request.embodiment
    if named is None:
        if len(robots) > 1:
            raise remote_error(
                "invalid_request",
                f"the act names no embodiment; this policy drives {', '.join(map(repr, robots))}",
                details={"embodiments": list(robots)},
            )
        return next(iter(robots.values()), None)
    found = robots.get(named)
    if found is None:
        what = f"this policy drives {', '.join(map(repr, robots))}" if robots else "this policy declares none"
        raise remote_error("invalid_request", f"the act names the embodiment {named!r}; {what}")
    return found
