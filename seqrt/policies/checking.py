"""A policy looked through offline, as a worker would before it says ready: ``seqrt check module:Policy``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import anyio

from seqrt.errors import DeclarationError, ExtraMissing
from seqrt.policies.constructor import Weights
from seqrt.policies.declaration import Declaration
from seqrt.policies.failures import policy_error
from seqrt.policies.host import Host
from seqrt.policies.lifecycle import Hook
from seqrt.policies.loading import load
from seqrt.policies.offload import in_thread
from seqrt.policies.running import theirs
from seqrt.policies.sample import Sampled, SampleFailed


@dataclass(frozen=True)
class Problem:
    """Something that is, or may become, wrong.

    Attributes:
        what: In one sentence.
        remedy: What to write or do.
        fatal: A worker refuses to start with it.
        traceback: The policy's own, where it raised; "" elsewhere.
    """

    what: str
    remedy: str
    fatal: bool = False
    traceback: str = ""

    def __str__(self) -> str:
        """As it is printed."""
        said = f"{'problem' if self.fatal else 'note'}: {self.what}\n    {self.remedy}"
        return said + "".join(f"\n    {row}" for row in self.traceback.splitlines())


@dataclass(frozen=True)
class Report:
    """What a check found; prints as ``seqrt check`` says it.

    Attributes:
        target: What was checked.
        declaration: What it declares, None where that cannot be read.
        sampled: What came of its sample; None where it has none, or that failed.
        problems: What to mend, worst first.
    """

    target: str
    declaration: Declaration | None = None
    sampled: Sampled | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether a worker would start with it."""
        return not any(problem.fatal for problem in self.problems)

    def __str__(self) -> str:
        """The whole of it, for a terminal."""
        return "\n".join(self._rows())

    def _rows(self) -> Iterator[str]:
        yield f"{self.target}: {'ready to be served' if self.ok else 'cannot be served'}"
        if self.declaration is not None:
            yield from (f"  {name}: {_told(value)}" for name, value in _declared(self.declaration).items())
        if self.sampled is not None:
            durations_ms = [duration_s * 1e3 for duration_s in self.sampled.durations_s]
            yield f"  infer: {self.sampled.infer_s * 1e3:.1f} ms (median of {len(durations_ms)} acts)"
            yield f"    from {min(durations_ms):.1f} to {max(durations_ms):.1f} ms, the first {durations_ms[0]:.1f} ms"
            yield from (f"  answer: {answer}" for answer in dict.fromkeys(self.sampled.answers))
        yield from (str(problem) for problem in self.problems)


def check(target: str | object, *, weights: Weights = None) -> Report:
    """Load a policy, make it ready and act out its sample, without a worker and without a robot.

    Blocks until it is done; its event loop runs in a thread of its own.

    Args:
        target: ``module:Policy``, or a policy object.
        weights: What ``{weights}`` stands for in a declared constructor.

    Returns:
        The report. What the policy raises is in it, not raised.
    """
    name = target if isinstance(target, str) else type(target).__name__
    try:
        policy = load(target, weights=weights) if isinstance(target, str) else target
        host = Host(policy, offload=in_thread(), weights=weights)
    except (Exception, SystemExit) as wrong:
        return Report(name, problems=[_of(wrong, "loading it")])
    try:
        with ThreadPoolExecutor(1) as apart:  # the caller's thread may run a loop already
            apart.submit(anyio.run, _started, host).result()
    except (Exception, SystemExit) as wrong:
        return Report(name, host.declaration, None, [_of(wrong, "making it ready"), *_notes(host.declaration, None)])
    return Report(name, host.declaration, host.sampled, list(_notes(host.declaration, host.sampled)))


async def _started(host: Host) -> None:
    await host.start()
    await host.stop()


def _of(wrong: BaseException, doing: str) -> Problem:
    if isinstance(wrong, DeclarationError):
        what = str(wrong).removesuffix(wrong.fix).strip()
        return Problem(what, wrong.fix or "Correct the declaration.", fatal=True)
    cause = (wrong.__cause__ or wrong) if isinstance(wrong, SampleFailed) else wrong
    if isinstance(cause, ExtraMissing):
        return Problem(str(cause), f"Run: pip install 'seqrt[{cause.extra}]'.", fatal=True)
    own = policy_error(cause, skip=theirs(cause)).details["traceback"] if theirs(cause) is not None else ""
    what = str(wrong) if isinstance(wrong, SampleFailed) else f"{doing} raised {type(wrong).__name__}: {wrong}"
    return Problem(what, "The last row below is where it was raised." if own else "Correct what it names.", True, own)


def _notes(declared: Declaration, sampled: Sampled | None) -> Iterator[Problem]:
    if Hook.SAMPLE not in declared.hooks:
        yield Problem(
            "nothing was inferred: it has no sample", "Write `def sample(self)` returning a list of act inputs."
        )
    actions = declared.actions
    if actions is None:
        yield Problem(
            "its answers are not checked: it declares no actions", "Write actions=seqrt.Actions(key=..., hz=...)."
        )
    if actions is not None and actions.model_key is not None and "prefix" not in declared.takes:
        yield Problem(
            f"the rows under {actions.model_key!r} (actions.model_key) travel for nothing: infer takes no prefix",
            "Write `def infer(self, obs, *, prefix=None, delay=None)`, or leave model_key out.",
        )
    if declared.written.episodes == "own" and Hook.RESET not in declared.hooks:
        yield Problem("it has no reset: a copy is made anew for every episode", "Write `def reset(self)`.")
    if sampled is None:
        return
    if actions is not None and actions.hz is not None and actions.open_loop_horizon is not None:
        covers_s = actions.open_loop_horizon / actions.hz
        if sampled.infer_s > covers_s:
            yield Problem(
                f"an inference takes {sampled.infer_s:.3g} s and a chunk covers {covers_s:.3g} s: the robot will stand",
                "Raise open_loop_horizon, lower hz, or make infer faster.",
            )
    if sampled.infer_s > declared.timeouts.request:
        yield Problem(
            f"an inference takes {sampled.infer_s:.3g} s, Timeouts.request is {declared.timeouts.request:g} s",
            "Raise timeouts=seqrt.Timeouts(request=...).",
        )


def _declared(declared: Declaration) -> dict[str, Any]:
    written = declared.written.model_dump(mode="json", exclude_defaults=True, exclude={"params", "lifecycle"})
    methods = {Hook(bit).name.lower(): method for bit, method in sorted(declared.lifecycle.items())}
    params = {name: f"{param.allowed}, default {param.default!r}" for name, param in declared.params.items()}
    read = {"takes": sorted(declared.takes), "params": params, "methods": methods}
    return {"name": declared.name, **written, **{name: value for name, value in read.items() if value}}


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
