"""One copy of a policy: its methods, called as they are declared. Everything here runs off the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqrt.observation.cameras import cameras_of, decode_cameras
from seqrt.policies.declaration import Declaration, infer_of
from seqrt.policies.episode import Episode
from seqrt.policies.lifecycle import Hook
from seqrt.policies.tensors import Conversion, arrays


@dataclass
class Ask:
    """What one act wants of the policy's code.

    Attributes:
        given: The positional argument of ``infer``; its pictures encoded until `Code.decode` was called.
        keywords: Reserved names and parameters, by name.
        episode: Its episode.
        fresh: ``reset`` is still to be called for it.
        unobserved: Observations ``observe`` is to be handed first, oldest first; likewise.
    """

    given: Any
    keywords: dict[str, Any]
    episode: Episode
    fresh: bool = False
    unobserved: list[Any] = field(default_factory=list)


class Code:
    """A policy object and what is called on it.

    Args:
        policy: The object.
        declared: What it declares.

    Attributes:
        used: An episode was begun on it: it must be reset before the next, or be made anew.
    """

    def __init__(self, policy: object, declared: Declaration) -> None:
        self._policy = policy
        self._declared = declared
        self._infer = infer_of(policy, declared)
        self._conversion: Conversion | None = None
        self._sees = bool(cameras_of(declared.observations))
        self.used = False

    def prepare(self, hook: Hook) -> None:
        """Call ``load``, ``plan``, ``warmup`` or ``shutdown``, where there is one."""
        self._call(hook)

    def sample(self) -> list[Any]:
        """The act inputs of one episode, in order, from the policy's own ``sample``.

        Raises:
            TypeError: It returned none, or one without a list around it.
        """
        inputs = self._call(Hook.SAMPLE)
        inputs = (
            inputs if isinstance(inputs, Mapping | str | bytes) or not isinstance(inputs, Iterable) else list(inputs)
        )
        if not inputs or not isinstance(inputs, list):
            what = "nothing" if not isinstance(inputs, Mapping) else "one observation"
            raise TypeError(f"sample() returned {what}; return a list of one episode's act inputs, at least one")
        return inputs

    def ready_tensors(self) -> None:
        """Load torch, for a policy that declares tensors.

        Raises:
            DeclarationError: It is not installed.
        """
        tensors = self._declared.written.tensors
        if tensors is not None and self._conversion is None:
            self._conversion = Conversion(self._policy, tensors)

    def decode(self, ask: Ask) -> None:
        """Turn the pictures of an act into arrays, each once: before anything else of it, and once an act.

        Raises:
            ObservationError: A picture is broken. Nothing of the act was changed.
        """
        if not self._sees:
            return
        declared = self._declared.observations
        decoded: dict[tuple[str, int], Any] = {}  # what reads the same step shares its pictures
        entries = [decode_cameras(entry, declared, decoded) for entry in ask.given["observations"]]
        ask.unobserved = [decode_cameras(entry, declared, decoded) for entry in ask.unobserved]
        ask.given = {**ask.given, "observations": entries}

    def begin(self, ask: Ask) -> None:
        """What comes before ``infer``: ``reset`` on an episode's first act, then the observations it has not seen."""
        if ask.fresh:
            self.used = True
            self._call(Hook.RESET, episode=ask.episode)
            ask.fresh = False
        while ask.unobserved:
            self._call(Hook.OBSERVE, self._handed(ask.unobserved[0]), episode=ask.episode)
            del ask.unobserved[0]

    def infer(self, ask: Ask) -> Any:
        """One act's outputs."""
        keywords = dict(ask.keywords)
        if "episode" in self._declared.takes:
            keywords["episode"] = ask.episode
        return arrays(self._infer(self._handed(ask.given), **keywords))

    def infer_together(self, asks: Sequence[Ask], size: int) -> list[Any]:
        """Several acts' outputs from one call: the argument, and each reserved name, a list of one an act.

        Args:
            asks: At least one, of different episodes, with equal parameters.
            size: Entries of the call; the last act's are repeated up to it.

        Raises:
            TypeError: What it returned is no list of one answer an act.
        """
        filled = [*asks, *[asks[-1]] * (size - len(asks))]
        keywords: dict[str, Any] = {
            name: asks[0].keywords[name] if name in self._declared.params else [ask.keywords[name] for ask in filled]
            for name in asks[0].keywords
        }
        if "episode" in self._declared.takes:
            keywords["episode"] = [ask.episode for ask in filled]
        answers = self._infer([self._handed(ask.given) for ask in filled], **keywords)
        if not isinstance(answers, list | tuple) or len(answers) != len(filled):
            what = f"a {type(answers).__name__}" + (f" of {len(answers)}" if isinstance(answers, list | tuple) else "")
            raise TypeError(f"infer was handed a list of {len(filled)} and returned {what}; return a list of as many")
        return [arrays(answer) for answer in answers[: len(asks)]]

    def end(self, episode: Episode) -> None:
        """The episode is over: ``on_episode``, where there is one."""
        self._call(Hook.ON_EPISODE, episode=episode)

    def _handed(self, value: Any) -> Any:
        return self._conversion.handed(value) if self._conversion is not None else value

    def _call(self, hook: Hook, *given: Any, episode: Episode | None = None) -> Any:
        bound = self._declared.hooks.get(hook)
        if bound is None:
            return None
        method = getattr(self._policy, bound.method)
        if bound.episode == "one":
            return method(*given, episode)
        return method(*given, episode=episode) if bound.episode else method(*given)
