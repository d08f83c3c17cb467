"""A policy's code run for a batch of acts, off the event loop; its exceptions become errors where they begin.

Pictures are decoded here, before any of that code: an act with a broken one is refused by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from seqrt.errors import ObservationError, RemoteError
from seqrt.policies.code import Ask, Code
from seqrt.policies.failures import observation_refused, policy_error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one act came to.

    Attributes:
        outputs: What ``infer`` returned for it.
        rows_model: Rows in the model's own space, once they are apart from the outputs.
        error: What it is answered instead.
        raised: The exception behind that.
        ends: Its episode cannot go on: nobody knows what its state is.
        ran: False when its observation was refused before any of the policy's code saw it.
    """

    outputs: Any = None
    rows_model: Any = None
    error: RemoteError | None = None
    raised: BaseException | None = None
    ends: bool = False
    ran: bool = True


def run_one(code: Code, ask: Ask) -> Outcome:
    """One act, by itself."""
    refused = _refused(code, ask)
    return refused if refused is not None else _guarded(lambda: _one(code, ask))


def run_together(code: Code, asks: Sequence[Ask], size: int | None) -> list[Outcome]:
    """Several acts in one call; when it fails, each by itself whose episode held no state before.

    The episodes of the others end: the call may have changed their state half-way. A refusal for now (429, 503) is
    everybody's answer, and ends nothing. Acts whose pictures are broken are left out of the call.

    Args:
        code: The policy.
        asks: At least one.
        size: Entries every call has; None: as many as there are acts.
    """
    refused = [_refused(code, ask) for ask in asks]
    seen = [ask for ask, refusal in zip(asks, refused, strict=True) if refusal is None]
    ran = iter(_run_together(code, seen, size) if seen else [])
    return [refusal if refusal is not None else next(ran) for refusal in refused]


def _run_together(code: Code, asks: Sequence[Ask], size: int | None) -> list[Outcome]:
    held = [bool(ask.episode.state) for ask in asks]
    fresh = [ask.fresh for ask in asks]
    unobserved = [list(ask.unobserved) for ask in asks]
    together = _guarded(lambda: _together(code, asks, size or len(asks)))
    if together.error is None:
        return [Outcome(outputs=outputs) for outputs in together.outputs]
    if together.error.retryable:
        return [together] * len(asks)
    if len(asks) == 1:
        return [Outcome(error=together.error, raised=together.raised)]
    outcomes = []
    for ask, had, first, unseen in zip(asks, held, fresh, unobserved, strict=True):
        if had:
            outcomes.append(Outcome(error=together.error, raised=together.raised, ends=True))
            continue
        ask.episode.state = {}
        ask.fresh, ask.unobserved = first, unseen
        outcomes.append(_alone(code, ask, size))
    return outcomes


def _refused(code: Code, ask: Ask) -> Outcome | None:
    """Decode the act's pictures; what it is answered when one is broken."""
    try:
        code.decode(ask)
    except ObservationError as wrong:
        return Outcome(error=observation_refused(wrong), raised=wrong, ran=False)
    return None


def _alone(code: Code, ask: Ask, size: int | None) -> Outcome:
    outcome = _guarded(lambda: _together(code, [ask], size or 1))
    return outcome if outcome.error is not None else Outcome(outputs=outcome.outputs[0])


def _one(code: Code, ask: Ask) -> Any:
    code.begin(ask)
    return code.infer(ask)


def _together(code: Code, asks: Sequence[Ask], size: int) -> list[Any]:
    for ask in asks:
        code.begin(ask)
    return code.infer_together(asks, size)


def _guarded(call: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(outputs=call())
    except RemoteError as refused:
        return Outcome(error=refused, raised=refused)
    except (Exception, SystemExit) as raised:
        return Outcome(error=policy_error(raised, skip=theirs(raised)), raised=raised)


def theirs(raised: BaseException) -> TracebackType | None:
    """The traceback from the policy's own code on: ours, at its top, says nothing to whoever wrote it."""
    here = raised.__traceback__
    while here is not None and here.tb_frame.f_globals.get("__name__", "").startswith("seqrt.policies."):
        if here.tb_next is None:
            return None
        here = here.tb_next
    return here
