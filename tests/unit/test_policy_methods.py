"""Which methods of a class are a policy's: by their bare names, by names given, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from seqrt.errors import DeclarationError
from seqrt.policies import declaration_of, policy
from seqrt.policies.hooks import Bound
from seqrt.policies.lifecycle import Hook


class Whole:
    def load(self) -> None: ...
    def warmup(self) -> None: ...
    def infer(self, obs: Any, *, episode: Any) -> Any: ...
    def observe(self, obs: Any, *, episode: Any) -> None: ...
    def reset(self, episode: Any) -> None: ...
    def on_episode(self, finished: Any) -> None: ...
    def sample(self) -> Any: ...
    def shutdown(self) -> None: ...
    def plan(self) -> None: ...


def test_bare_names_are_found_and_plan_is_not_taken_unasked() -> None:
    made = policy(episodes="shared")(Whole)
    hooks = declaration_of(made()).hooks
    assert {hook.name for hook in hooks} == {
        "LOAD",
        "WARMUP",
        "OBSERVE",
        "RESET",
        "ON_EPISODE",
        "SAMPLE",
        "SHUTDOWN",
    }
    assert hooks[Hook.RESET] == Bound("reset", "episode")
    assert hooks[Hook.ON_EPISODE] == Bound("on_episode", "one")
    assert hooks[Hook.LOAD] == Bound("load", "")


class Renamed:
    def get_action(self, obs: Any) -> Any: ...
    def begin(self) -> None: ...
    def build(self) -> None: ...
    def reset(self, env: Any, ids: Any) -> None: ...


def test_other_names_may_be_given_and_are_told_by_their_numbers() -> None:
    @policy(infer="get_action", reset="begin", plan="build")
    class Made(Renamed): ...

    declaration = declaration_of(Made())
    assert declaration.lifecycle == {16: "get_action", 32768: "begin", 4: "build"}
    assert declaration.stateful

    @policy(lifecycle={16: "get_action", 32768: "begin"})
    class ByNumber(Renamed): ...

    assert declaration_of(ByNumber()).lifecycle == {16: "get_action", 32768: "begin"}


def test_a_method_that_is_something_else_is_refused_until_it_is_said_so() -> None:
    with pytest.raises(DeclarationError, match=r"reset cannot be called as RESET.*reset=None"):
        policy(infer="get_action")(Renamed)
    made = policy(infer="get_action", reset=None)(Renamed)
    assert not declaration_of(made()).stateful


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeclarationError, match="no method 'start'"):
        policy(infer="get_action", reset="start")(Renamed)


@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("load", lambda self, path: None),
        ("warmup", lambda self, episode: None),
        ("observe", lambda self: None),
        ("observe", lambda self, obs, step, episode: None),
        ("sample", lambda self, count: []),
        ("on_episode", lambda self, episode, why: None),
    ],
)
def test_a_method_that_cannot_be_called_as_it_would_be_is_refused_by_name(method: str, function: Any) -> None:
    made = type("Made", (), {"infer": lambda self, obs: 0, method: function})
    with pytest.raises(DeclarationError, match=method):
        declaration_of(made())


@pytest.mark.parametrize(
    ("method", "function", "episode"),
    [
        ("reset", lambda self: None, ""),
        ("reset", lambda self, seed=None: None, ""),
        ("reset", lambda self, *args: None, ""),
        ("reset", lambda self, episode=None: None, "episode"),
        ("on_episode", lambda self, what: None, "one"),
        ("load", lambda self, path="x": None, ""),
    ],
)
def test_methods_are_handed_the_episode_where_they_ask_for_it(method: str, function: Any, episode: str) -> None:
    made = type("Made", (), {"infer": lambda self, obs: 0, method: function})
    hook = Hook[method.upper()]
    assert declaration_of(made()).hooks[hook].episode == episode


def test_observe_needs_a_way_to_begin_anew() -> None:
    class Watches:
        def infer(self, obs: Any) -> Any: ...
        def observe(self, obs: Any) -> None: ...

    with pytest.raises(DeclarationError, match="def reset"):
        declaration_of(Watches())


def test_own_copies_need_a_reset_or_a_way_to_be_made() -> None:
    class Takes:
        def __init__(self, path: str = "x") -> None: ...

        def infer(self, obs: Any) -> Any: ...

    with pytest.raises(DeclarationError, match="def reset"):
        policy(episodes="own")(Takes)
    assert declaration_of(policy(episodes="own", args=())(Takes)()).stateful


def test_a_constructed_policy_is_not_loaded_once_more() -> None:
    class Made:
        def load(self) -> None: ...
        def infer(self, obs: Any) -> Any: ...

    with pytest.raises(DeclarationError, match="leave out load"):
        policy(make="of", load="load")
    assert Hook.LOAD not in declaration_of(policy(kwargs={})(Made)()).hooks


def test_positional_leftovers_are_no_declaration() -> None:
    with pytest.raises(DeclarationError, match="Timeouts has no field 'request_s'"):
        policy(timeouts={"request_s": 5})  # type: ignore[arg-type]
