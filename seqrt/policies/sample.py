"""One episode of a policy's own acted out before it serves: whether it works, and how long an inference takes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from seqrt.action.rows import rows_of
from seqrt.errors import DeclarationError
from seqrt.observation.cameras import cameras_of, encode_cameras
from seqrt.observation.check import check
from seqrt.policies.call import keywords_of
from seqrt.policies.declaration import Declaration
from seqrt.policies.inference import Inference
from seqrt.policies.job import Job
from seqrt.policies.limits import HostLimits
from seqrt.policies.offload import Offload
from seqrt.policies.session import Session
from seqrt.wire.messages import ActRequest, Frame

_ID = "sample"


@dataclass(frozen=True)
class Sampled:
    """What came of a sample.

    Attributes:
        durations_s: How long each act took, in order.
        answers: What each was answered, described: kinds and shapes, not values.
    """

    durations_s: tuple[float, ...]
    answers: tuple[str, ...]

    @property
    def infer_s(self) -> float:
        """The median duration: the first act may have compiled something."""
        return statistics.median(self.durations_s)


class SampleFailed(Exception):
    """An act of the sample failed; ``__cause__`` is why, with the policy's own traceback.

    Attributes:
        act: Which, counted from 0.
        acts: How many there are.
    """

    def __init__(self, act: int, acts: int, cause: BaseException) -> None:
        super().__init__(f"act {act} of the sample's {acts} failed: {type(cause).__name__}: {cause}")
        self.act = act
        self.acts = acts


async def act_out(
    inputs: Sequence[Any],
    *,
    declaration: Declaration,
    inference: Inference,
    offload: Offload,
    limits: HostLimits,
    now: float,
) -> Sampled:
    """Act out one episode by the rules of any other: windows, reset, state, parameters' defaults, on_episode.

    Args:
        inputs: What a robot would observe, one an act; pictures are fitted and encoded as a robot does it.
        declaration: What the policy declares.
        inference: Serves the acts; nobody else uses it meanwhile.
        offload: Where pictures are encoded.
        limits: What an episode may hold.
        now: The time.

    Raises:
        SampleFailed: An observation is not as declared, ``infer`` raised, or declared actions are not what it answers.
    """
    session = Session(_ID, "", declaration.observations, limits, now)
    session.begun = True
    session.on_grid(declaration.actions.hz if declaration.actions is not None else None)
    durations, answers = [], []
    try:
        for step, one in enumerate(inputs):
            job = Job(*await _asked(declaration, offload, session, step, one, len(inputs)))
            await inference.serve([job])
            if job.response is None or job.response.perf is None:
                why = job.raised or job.error or RuntimeError("it was not served")
                raise SampleFailed(step, len(inputs), why) from why
            durations.append(job.response.perf["inference_ms"] / 1e3)
            answers.append(described(job.response.outputs))
            _check_rows(declaration, job.response.outputs, step, len(inputs))
    finally:
        inference.owe(session)
        await inference.settle_ends()
    return Sampled(tuple(durations), tuple(answers))


def described(value: Any) -> str:
    """What a value is, in a few words: ``{'actions': float64 [8, 2]}``."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} {list(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {described(inner)}" for key, inner in list(value.items())[:20]) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}" + (f" ({described(value[0])})" if value else "")
    return type(value).__name__


async def _asked(
    declaration: Declaration, offload: Offload, session: Session, step: int, inputs: Any, acts: int
) -> tuple[ActRequest, Session, int, int, dict[str, Any]]:
    try:
        check(inputs, declaration.observations)
        if cameras_of(declaration.observations):
            inputs = await offload(partial(encode_cameras, inputs, declaration.observations))
        session.keep([Frame(seq=step, inputs=inputs)], (), 2**62)
        request = ActRequest(inputs=inputs, seq=step, episode_id=_ID, embodiment=_first_robot(declaration))
        return request, session, step, step - 1, keywords_of(declaration, request)
    except Exception as wrong:
        raise SampleFailed(step, acts, wrong) from wrong


def _first_robot(declaration: Declaration) -> str | None:
    return next(iter(declaration.written.robots), None)


def _check_rows(declaration: Declaration, outputs: Any, step: int, acts: int) -> None:
    form = declaration.written.own_actions
    if declaration.actions is None and form is None:
        return
    try:
        rows = rows_of(outputs, declaration.actions, form)
        actions = declaration.actions
        dims = actions.dims if actions is not None else None
        if dims is not None and rows.shape[1] != dims:
            raise DeclarationError(
                f"the answer has {rows.shape[1]} columns, the declaration {dims}.",
                field="actions",
                fix="Correct names, bounds or max_delta, or the answer.",
            )
        parts = actions.parts if actions is not None else None
        if parts is not None and parts.farthest >= rows.shape[1]:
            raise DeclarationError(
                f"the answer has {rows.shape[1]} columns, actions.parts name column {parts.farthest}.",
                field="actions.parts",
                fix="Correct parts, whose columns are counted from 0, or the answer.",
            )
    except ValueError as wrong:
        raise SampleFailed(step, acts, wrong) from wrong
