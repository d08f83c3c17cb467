"""From what ``infer`` came to, to the answer that travels: held to what is declared, with what it says of the plan."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from seqrt.policies.arm_limits import Held, clipped
from seqrt.policies.continuity import taken_apart
from seqrt.policies.declaration import Declaration
from seqrt.policies.failures import policy_error
from seqrt.policies.job import Job
from seqrt.policies.running import Outcome
from seqrt.wire.messages import ActResponse, AnswerPlan


def checked(declared: Declaration, held: Held, outcome: Outcome) -> Outcome:
    """What an act came to, clipped to its robot's contract, the model's own rows apart from the outputs.

    Where the outputs are not what is declared it is an error of the policy, as if ``infer`` had raised it.
    """
    if outcome.error is not None:
        return outcome
    try:
        outputs, rows_model = taken_apart(declared, clipped(held, outcome.outputs))
    except ValueError as wrong:  # an ActionError
        return Outcome(error=policy_error(wrong), raised=wrong)
    return replace(outcome, outputs=outputs, rows_model=rows_model)


def response_of(job: Job, held: Held, outcome: Outcome, inference_s: float) -> ActResponse:
    """The answer of an act that was inferred."""
    return ActResponse(
        outputs=outcome.outputs,
        perf={"inference_ms": inference_s * 1e3},
        warnings=held.warnings,
        request_id=_id(job),
        action_chunk=held.chunk,
        plan=_with_rows_model(job, outcome),
    )


def stale_of(job: Job, now: float) -> ActResponse:
    """The answer of an act that a newer one of its episode overtook."""
    return ActResponse(outputs=None, request_id=_id(job), plan=plan_of(job, now, stale=True))


def plan_of(job: Job, now: float, *, t: int | None = None, stale: bool | None = None) -> AnswerPlan:
    """What the answer says about the plan.

    Args:
        job: The act.
        now: When its inference begins, or when it is known to be stale.
        t: Number of the newest observation ``infer`` is handed.
        stale: It is not inferred.
    """
    asked = job.request.plan
    queue_s = now - job.queued_at if job.queued_at is not None else 0.0
    return AnswerPlan(t=t, stale=stale, queue_s=queue_s, epoch=asked.epoch if asked is not None else None)


def _with_rows_model(job: Job, outcome: Outcome) -> AnswerPlan | None:
    asked = job.request.plan
    if job.plan is None or asked is None or not asked.want_rows_model:
        return job.plan
    return structs.replace(job.plan, rows_model=outcome.rows_model)


def _id(job: Job) -> str | None:
    return job.record.request_id if job.record is not None else None
