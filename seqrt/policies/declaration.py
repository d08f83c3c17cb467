"""What a policy is: an object with ``infer``, and what its class declares about it.

`policy` decorates a class (or a function); `declaration_of` reads any object, decorated or not. The worker's host and
in-process policies both start here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

from pydantic import ValidationError

from seqrt.action.declaration import Actions
from seqrt.action.rows import Form
from seqrt.errors import DeclarationError
from seqrt.observation.declaration import Observations
from seqrt.observation.window import is_fed
from seqrt.policies.constructor import is_constructible
from seqrt.policies.hooks import BARE, Bound, find_hooks
from seqrt.policies.lifecycle import Hook
from seqrt.policies.parameters import InferParam
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract
from seqrt.policies.signature import RESERVED, read_infer
from seqrt.policies.terms import Concurrency, EpisodeMode, OnFull, Tensors, Timeouts
from seqrt.policies.written import Written

__all__ = ["RESERVED", "Declaration", "Timeouts", "declaration_of", "infer_of", "policy"]

T = TypeVar("T")

_ATTRIBUTE: Final = "__seqrt_declared__"


@dataclass(frozen=True)
class Declaration:
    """What is known about a policy before it is called.

    Attributes:
        observations: What it reads; None: ``infer`` is handed its inputs bare.
        actions: What its rows are; None: undeclared.
        timeouts: How long things may take.
        infer: Name of the method that infers; "" where the policy is a function itself.
        name: The name it is served under.
        takes: Which of `RESERVED` ``infer`` asks for.
        stateful: True when answers depend on what the policy saw before: it declares ``episodes``, or has a ``reset``
            or ``observe`` method. Such an episode cannot be carried to another worker.
        written: The declaration as it was written; its defaults for an undeclared policy.
        params: What acts may set.
        hooks: Its other methods.
        without: Hooks it was told not to look for.
    """

    observations: Observations | None = None
    actions: Actions | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    infer: str = "infer"
    name: str = ""
    takes: frozenset[str] = frozenset()
    stateful: bool = False
    written: Written = field(default_factory=Written)
    params: Mapping[str, InferParam] = field(default_factory=dict)
    hooks: Mapping[Hook, Bound] = field(default_factory=dict)
    without: frozenset[Hook] = frozenset()

    @property
    def independent(self) -> bool:
        """Answers depend on the request alone: no state, nothing fed. An episode's newest act is then enough."""
        return not self.stateful and not is_fed(self.observations)

    @property
    def lifecycle(self) -> dict[int, str]:
        """Its methods by their fixed numbers."""
        methods = {hook.value: bound.method for hook, bound in self.hooks.items()}
        return methods | ({Hook.INFER.value: self.infer} if self.infer else {})


def policy(
    observations: Observations | None = None,
    actions: Actions | None = None,
    timeouts: Timeouts | None = None,
    infer: str = "infer",
    name: str | None = None,
    *,
    episodes: EpisodeMode | None = None,
    tensors: Tensors | None = None,
    params: Mapping[str, InferParam] | None = None,
    concurrency: Concurrency | None = None,
    on_full: OnFull = "queue",
    queue_timeout_s: float | None = None,
    load: str | None = BARE,
    warmup: str | None = BARE,
    observe: str | None = BARE,
    reset: str | None = BARE,
    on_episode: str | None = BARE,
    sample: str | None = BARE,
    shutdown: str | None = BARE,
    plan: str | None = None,
    lifecycle: Mapping[int, str] | None = None,
    make: str | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    action_contract: ActionContract | None = None,
    observation_contract: ObservationContract | None = None,
    embodiments: Mapping[str, Embodiment] | None = None,
    own_observations: Literal["latest", "since_last_act"] | None = None,
    own_actions: Form | None = None,
    streaming: bool = False,
) -> Callable[[T], T]:
    """Declare what a policy reads and answers, and on what terms it serves.

    Decorates a class whose instances infer, or a function that is the policy itself::

        @seqrt.policy(observations=seqrt.Observations(streams={"state": seqrt.Stream(shape=[8])}))
        class MyPolicy:
            def infer(self, obs): ...

    The methods it may have beside ``infer`` are found under their bare names; give another name, or None for never.

    Args:
        observations: What ``infer`` is handed: windows of declared keys, or the whole observation.
        actions: What the rows it returns are.
        timeouts: How long things may take.
        infer: Name of the method that infers.
        name: The name the policy is served under; its class's or function's own when None.
        episodes: "shared": one copy serves many robots, ``infer`` takes ``episode``; "own": state on ``self``, an
            episode has a copy for itself. None: no state, or one episode at a time where there is a ``reset``.
        tensors: Arrays reach ``infer`` as torch tensors.
        params: What acts may set; None: ``infer``'s keyword-only arguments, by annotation and default.
        concurrency: ``infer`` is handed lists, of several episodes at once.
        on_full: What an act meets that finds every place taken: "queue" or "reject" (429).
        queue_timeout_s: How long it waits then, 5 to 3600 (120).
        load: Called once, before the worker says ready.
        warmup: Called once after it.
        observe: Handed each observation of an episode, in order, before the act that follows it.
        reset: Called on an episode's first act.
        on_episode: Called at its end, also when the robot vanished.
        sample: Returns one episode's act inputs, acted out before the worker says ready.
        shutdown: Called when the worker stops.
        plan: Called once between ``load`` and ``warmup``, for what is built from the weights. Never by its bare name.
        lifecycle: The same methods by their fixed numbers, ``{16: "get_action"}``.
        make: Name of the factory that makes the policy; None: the class itself.
        args: Its positional arguments; see `seqrt.policies.constructor`.
        kwargs: Its keyword arguments.
        action_contract: The older robot-arm contract.
        observation_contract: Its observations.
        embodiments: The same for several robots.
        own_observations: Older form of observations: ``infer`` is handed ``{"observations": [...]}``, the "latest" one,
            or all "since_last_act".
        own_actions: Older form of actions: an answer is "one" action, or a list of "steps".
        streaming: Older form of ``episodes="own"``.

    Returns:
        The decorator; it returns what it is given.

    Raises:
        DeclarationError: There is no such method, it cannot be called as a policy is, or parts do not go together.
    """
    if not (observations is None or isinstance(observations, Observations)):
        # `@seqrt.policy` without parentheses hands the class itself over.
        raise DeclarationError("seqrt.policy was handed a class, not a declaration.", fix="Write @seqrt.policy().")
    named = {
        Hook.LOAD: load,
        Hook.WARMUP: warmup,
        Hook.OBSERVE: observe,
        Hook.RESET: reset,
        Hook.ON_EPISODE: on_episode,
        Hook.SAMPLE: sample,
        Hook.SHUTDOWN: shutdown,
        Hook.PLAN: plan,
    }
    constructed = make is not None or args is not None or kwargs is not None
    parts: dict[str, Any] = {
        "name": name,
        "observations": observations,
        "actions": actions,
        "tensors": tensors,
        "episodes": episodes,
        "params": dict(params) if params is not None else None,
        "concurrency": concurrency,
        "on_full": on_full,
        "queue_timeout_s": queue_timeout_s,
        "timeouts": timeouts,
        "lifecycle": {**(lifecycle or {}), **{hook: name for hook, name in named.items() if name}},
        "constructor": {"make": make, "args": tuple(args or ()), "kwargs": dict(kwargs or {})} if constructed else None,
        "action_contract": action_contract,
        "observation_contract": observation_contract,
        "embodiments": dict(embodiments) if embodiments is not None else None,
        "own_observations": own_observations,
        "own_actions": own_actions,
        "streaming": streaming,
    }
    without = frozenset(hook for hook, name in named.items() if name is None)
    written = _written({name: part for name, part in parts.items() if part is not None})
    declared = declare(written, infer=written.lifecycle.get(Hook.INFER, infer), without=without)

    def decorate(target: T) -> T:
        own = declared if isinstance(target, type) else replace(declared, infer="")
        _read(target, own, bound=not isinstance(target, type))
        setattr(target, _ATTRIBUTE, own)
        return target

    return decorate


def declare(written: Written, *, infer: str = "infer", without: frozenset[Hook] = frozenset()) -> Declaration:
    """The declaration that stands on a class, from its written form."""
    robots = list(written.robots.values())
    return Declaration(
        observations=written.read(),
        actions=robots[0].action.actions() if len(robots) == 1 else written.actions,
        timeouts=written.timeouts,
        infer=infer,
        name=written.name,
        written=written,
        without=without,
    )


def declaration_of(policy: object) -> Declaration:
    """What is known about ``policy``: an instance of a decorated class, any object with ``infer``, or a function.

    Raises:
        DeclarationError: It cannot be called as a policy is.
    """
    if isinstance(policy, type):
        raise DeclarationError(f"{policy.__name__} is a class.", fix=f"Hand over an instance: {policy.__name__}().")
    declared = declared_on(policy)
    if declared is None:
        method = "" if not hasattr(policy, "infer") and callable(policy) else "infer"
        declared = Declaration(infer=method)
    return _read(policy, declared, bound=True)


def declared_on(target: object) -> Declaration | None:
    """What a decorator left on a class, an instance of it, or a function."""
    declared = getattr(target, _ATTRIBUTE, None)
    return declared if isinstance(declared, Declaration) else None


def infer_of(policy: object, declaration: Declaration) -> Callable[..., Any]:
    """The callable that infers."""
    infer: Callable[..., Any] = getattr(policy, declaration.infer) if declaration.infer else policy  # type: ignore[assignment]
    return infer


def _written(parts: dict[str, Any]) -> Written:
    try:
        return Written(**parts)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        raise DeclarationError(f"{where}: {what}" if where else what, field=where) from wrong


def _read(target: object, declared: Declaration, *, bound: bool) -> Declaration:
    """Complete what was declared with what the code itself says."""
    name = declared.name or getattr(target, "__name__", type(target).__name__)
    if declared.infer and not callable(getattr(target, declared.infer, None)):
        raise DeclarationError(
            f"{name} has no method {declared.infer!r}.",
            field="infer",
            fix="Write `def infer(self, obs)`, or name the method: @seqrt.policy(infer=...).",
        )
    written = declared.written
    read = read_infer(infer_of(target, declared), name, bound=bound, declared=written.params)
    without = declared.without | ({Hook.LOAD} if written.constructor is not None else set())
    hooks = find_hooks(target, name, named=written.lifecycle, without=frozenset(without), bound=bound)
    stateful = written.episodes is not None or Hook.RESET in hooks or Hook.OBSERVE in hooks
    complete = replace(declared, name=name, takes=read.takes, params=read.params, hooks=hooks, stateful=stateful)
    _check_episodes(complete, target)
    return complete


def _check_episodes(declared: Declaration, target: object) -> None:
    episodes = declared.written.episodes
    if "episode" in declared.takes and episodes is None:
        raise DeclarationError(
            f"{declared.name}'s infer takes episode, and no episodes are declared.",
            field="episodes",
            fix='Write @seqrt.policy(episodes="shared").',
        )
    if episodes is None and declared.stateful and declared.written.concurrency is not None:
        raise DeclarationError(
            f"{declared.name} has state on itself and declares concurrency: episodes would be mixed up.",
            field="concurrency",
            fix='Keep the state in episode.state and write episodes="shared".',
        )
    if episodes is None and Hook.OBSERVE in declared.hooks and Hook.RESET not in declared.hooks:
        raise DeclarationError(
            f"{declared.name} has observe and no reset: one episode would go on in the next.",
            field="reset",
            fix='Write `def reset(self)`, or keep what it saw in episode.state and write episodes="shared".',
        )
    if episodes == "own" and Hook.RESET not in declared.hooks:
        cls = target if isinstance(target, type) else type(target)
        if not isinstance(cls, type) or not is_constructible(cls, declared.written.constructor):
            raise DeclarationError(
                f'{declared.name} declares episodes="own", has no reset, and cannot be made anew for an episode.',
                field="episodes",
                fix="Write `def reset(self)`, or give args= and kwargs=.",
            )
