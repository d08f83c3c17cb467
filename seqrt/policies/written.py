"""A whole declaration as it is written: every part checked, and the parts against one another.

`seqrt.policy` builds it from its arguments, a declaration that came as data is read with it, and its schema is what
``seqrt schema`` prints under "Policy".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from seqrt.action.declaration import Actions
from seqrt.action.rows import Form
from seqrt.observation.declaration import Observations
from seqrt.policies.constructor import Constructor
from seqrt.policies.lifecycle import Hook, policy_hooks
from seqrt.policies.parameters import MAX_PARAMS, InferParam
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract
from seqrt.policies.terms import Bool, Concurrency, EpisodeMode, Number, OnFull, Tensors, Term, Timeouts

_Name = Annotated[str, Field(min_length=1, max_length=128)]
_NEW = ("observations", "actions", "tensors")
_OWN = ("own_observations", "own_actions")
_ARM = ("action_contract", "observation_contract", "embodiments")


class Written(Term):
    """Everything a policy may declare; each part optional.

    Attributes:
        name: The name it is served under; its class's own when "".
        observations: What ``infer`` is handed.
        actions: What its rows are.
        tensors: Arrays reach it as torch tensors.
        episodes: Whose the state of an episode is.
        params: What acts may set; None: read off ``infer``'s keyword-only arguments.
        concurrency: Acts of several episodes in one call.
        on_full: What an act meets that finds every place taken.
        queue_timeout_s: How long it waits then, in seconds.
        timeouts: How long things may take.
        lifecycle: Its methods by what they are for; those not named are looked for under their bare names.
        constructor: How it is made.
        action_contract: The older robot-arm contract, of the one robot it drives.
        observation_contract: What that robot sends.
        embodiments: The same for several robots, by name.
        own_observations: Older: ``infer`` is handed ``{"observations": [...]}``, the latest or all since the last act.
        own_actions: Older: the answer is one action, or a list of them.
        streaming: Older for ``episodes="own"``; read, never written.
    """

    name: str = ""
    observations: Observations | None = None
    actions: Actions | None = None
    tensors: Tensors | None = None
    episodes: EpisodeMode | None = None
    params: Annotated[dict[_Name, InferParam], Field(max_length=MAX_PARAMS)] | None = None
    concurrency: Concurrency | None = None
    on_full: OnFull = "queue"
    queue_timeout_s: Annotated[Number, Field(ge=5, le=3600)] = 120.0
    timeouts: Timeouts = Field(default_factory=Timeouts)
    lifecycle: dict[int, str] = Field(default_factory=dict)
    constructor: Constructor | None = None
    action_contract: ActionContract | None = None
    observation_contract: ObservationContract | None = None
    embodiments: Annotated[dict[_Name, Embodiment], Field(max_length=64)] = Field(default_factory=dict)
    own_observations: Literal["latest", "since_last_act"] | None = None
    own_actions: Form | None = None
    streaming: Bool = Field(default=False, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _older(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("streaming") is not True:
            return data
        if data.get("episodes") == "shared":
            raise ValueError('streaming=True means episodes="own"; leave it out beside episodes="shared"')
        return {**data, "episodes": "own", "streaming": False}

    @field_validator("lifecycle", mode="before")
    @classmethod
    def _hooks(cls, methods: Any) -> Any:
        if not isinstance(methods, dict):
            return methods
        # As JSON has them, the keys are text.
        read = {int(key) if isinstance(key, str) and key.isdecimal() else key: name for key, name in methods.items()}
        return {hook.value: name for hook, name in policy_hooks(read).items()}

    @model_validator(mode="after")
    def _agree(self) -> Written:
        self._check_contracts()
        if self.concurrency is not None and self.episodes == "own":
            raise ValueError('concurrency puts several episodes into one call; their state is in episodes="shared"')
        if self.constructor is not None and Hook.LOAD in self.lifecycle:
            raise ValueError("a policy that make, args or kwargs make comes out whole; leave out load")
        if "queue_timeout_s" in self.model_fields_set and self.on_full == "reject":
            raise ValueError('on_full="reject" never waits; leave out queue_timeout_s')
        return self

    def _check_contracts(self) -> None:
        given = {name for name in (*_NEW, *_OWN, *_ARM) if getattr(self, name)}
        new, own, arm = (sorted(given & set(names)) for names in (_NEW, _OWN, _ARM))
        if arm and (new or own):
            raise ValueError(
                f"{arm[0]} is the older robot-arm contract, never beside {(new + own)[0]}; keep one of them"
            )
        # Tensors say how values are handed over, not which: they go with either form.
        if own and [name for name in new if name != "tensors"]:
            raise ValueError(
                f"{own[0]} is an older form, never beside {new[0]}; write observations= and actions= alone"
            )
        if self.observation_contract is not None and self.action_contract is None:
            raise ValueError("observation_contract needs action_contract beside it")
        if self.embodiments and self.action_contract is not None:
            raise ValueError("embodiments hold the contracts of several robots; leave out action_contract beside them")

    def read(self) -> Observations | None:
        """What is read, older forms in today's words; None: the act's inputs, bare."""
        if self.own_observations is None:
            return self.observations
        return Observations() if self.own_observations == "latest" else Observations(every=1)

    @property
    def robots(self) -> dict[str, Embodiment]:
        """The robots of the older contract, by name; empty where there is none."""
        if self.action_contract is None:
            return dict(self.embodiments)
        one = Embodiment(action=self.action_contract, observation=self.observation_contract)
        return {self.action_contract.robot: one}
