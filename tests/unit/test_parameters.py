"""Parameters: read off ``infer``, given explicitly, cast as an act sets them, refused with what is allowed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seqrt.errors import DeclarationError, InvalidRequest
from seqrt.policies import declaration_of, policy
from seqrt.policies.parameters import InferParam, chosen


def test_they_are_read_off_infers_keyword_only_arguments_save_the_reserved_names() -> None:
    class Sampler:
        def infer(
            self,
            obs: Any,
            *,
            steps: int = 10,
            scale: float = 1,
            draw: bool = False,
            mode: Literal["fast", "exact"] = "fast",
            plain=0.5,
            generator: Any = None,
            seed: int | None = None,
            prefix: Any = None,
        ) -> Any: ...

    declaration = declaration_of(Sampler())
    assert declaration.params == {
        "steps": InferParam(type="int", default=10),
        "scale": InferParam(type="float", default=1.0),
        "draw": InferParam(type="bool", default=False),
        "mode": InferParam(type="str", default="fast", choices=["fast", "exact"]),  # type: ignore[arg-type]
        "plain": InferParam(type="float", default=0.5),
    }
    assert declaration.takes == {"seed", "prefix"}


def test_a_default_that_is_not_of_the_annotated_type_is_refused() -> None:
    class Wrong:
        def infer(self, obs: Any, *, steps: int = 0.5) -> Any: ...  # type: ignore[assignment]

    with pytest.raises(DeclarationError, match=r"steps: int = 0\.5"):
        declaration_of(Wrong())


def test_thirty_two_are_the_most() -> None:
    def function(count: int) -> Any:
        names = ", ".join(f"p{number}=1" for number in range(count))
        scope: dict[str, Any] = {}
        exec(f"def infer(obs, *, {names}): ...", scope)
        return scope["infer"]

    assert len(declaration_of(function(32)).params) == 32
    with pytest.raises(DeclarationError, match="32 is the most"):
        declaration_of(function(33))
    with pytest.raises(DeclarationError, match="32"):
        policy(params={f"p{number}": InferParam(type="int", default=1) for number in range(33)})


def test_given_ones_replace_those_read_and_have_to_be_taken() -> None:
    steps = InferParam(type="int", default=10, min=1, max=50)

    @policy(params={"steps": steps})
    class Given:
        def infer(self, obs: Any, *, steps: int, debug: bool = False) -> Any: ...

    assert declaration_of(Given()).params == {"steps": steps}

    @policy(params={"anything": steps})
    class Open:
        def infer(self, obs: Any, **options: Any) -> Any: ...

    assert declaration_of(Open()).params == {"anything": steps}
    with pytest.raises(DeclarationError, match=r"takes no 'step'.*def infer\(self, obs, \*, step\)"):

        @policy(params={"step": steps})
        class Misspelt:
            def infer(self, obs: Any, *, steps: int = 1) -> Any: ...

    with pytest.raises(DeclarationError, match="reserved name"):

        @policy(params={"seed": steps})
        class Reserved:
            def infer(self, obs: Any, *, seed: int) -> Any: ...


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"type": "int", "default": 0, "min": 1}, "at least 1"),
        ({"type": "int", "default": "ten"}, "is not an int"),
        ({"type": "float", "default": float("nan")}, "is not a float"),
        ({"type": "float", "default": 1, "max": float("inf")}, "finite"),
        ({"type": "float", "default": 1, "min": True}, "write a number"),
        ({"type": "float", "default": 1, "min": 2, "max": 0}, "other way round"),
        ({"type": "str", "default": "a", "min": 1}, "takes choices"),
        ({"type": "str", "default": "a", "choices": ["b"]}, "one of 'b'"),
        ({"type": "str", "default": "a", "choices": []}, "at least 1"),
        ({"type": "int", "default": 1, "choices": list(range(65))}, "at most 64"),
        ({"type": "str", "default": "a", "choices": ["a", "a"]}, "give each once"),
        ({"type": "list", "default": 1}, "int"),
        ({"type": "int"}, "default"),
        ({"type": "int", "default": 1, "step": 1}, "no field 'step'"),
    ],
)
def test_a_parameter_that_contradicts_itself_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        InferParam(**fields)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("int", 3, 3),
        ("int", 3.0, 3),
        ("int", "3", 3),
        ("int", np.int64(3), 3),
        ("float", 3, 3.0),
        ("float", "0.5", 0.5),
        ("float", np.float32(0.5), 0.5),
        ("bool", True, True),
        ("bool", 0, False),
        ("bool", "True", True),
        ("bool", "false", False),
        ("bool", np.True_, True),
        ("str", "x", "x"),
        ("str", 5, "5"),
    ],
)
def test_values_are_cast_where_that_changes_nothing(kind: Any, given: Any, value: Any) -> None:
    defaults = {"int": 0, "float": 0.0, "bool": False, "str": ""}
    found = chosen({"p": InferParam(type=kind, default=defaults[kind])}, {"p": given})["p"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("int", 3.5),
        ("int", True),
        ("int", "3.5"),
        ("int", None),
        ("int", float("inf")),
        ("float", True),
        ("float", "nan"),
        ("float", float("-inf")),
        ("float", 10**400),
        ("float", [1.0]),
        ("float", np.zeros(1)),
        ("bool", 2),
        ("bool", "yes, please"),
        ("str", True),
        ("str", ["a"]),
        ("str", b"a"),
    ],
)
def test_values_that_would_change_are_refused_with_what_is_allowed(kind: Any, given: Any) -> None:
    defaults = {"int": 0, "float": 0.0, "bool": False, "str": ""}
    with pytest.raises(InvalidRequest, match=f"it is {kind}") as refused:
        chosen({"p": InferParam(type=kind, default=defaults[kind])}, {"p": given})
    assert refused.value.details["param"] == "p"


def test_bounds_are_inclusive_and_choices_are_all_there_is() -> None:
    params = {
        "steps": InferParam(type="int", default=1, min=1, max=5),
        "mode": InferParam(type="str", default="a", choices=["a", "b"]),  # type: ignore[arg-type]
    }
    assert chosen(params, {"steps": 5, "mode": "b"}) == {"steps": 5, "mode": "b"}
    assert chosen(params, None) == {"steps": 1, "mode": "a"}
    with pytest.raises(InvalidRequest, match="int from 1 to 5"):
        chosen(params, {"steps": 0})
    with pytest.raises(InvalidRequest, match="one of 'a', 'b'"):
        chosen(params, {"mode": "c"})


def test_a_name_that_is_not_declared_is_told_what_is() -> None:
    with pytest.raises(InvalidRequest, match=r"declares steps \(int\); did you mean 'steps'"):
        chosen({"steps": InferParam(type="int", default=1)}, {"stesp": 1})
    with pytest.raises(InvalidRequest, match="declares no parameters"):
        chosen({}, {"steps": 1})


@given(st.integers() | st.floats() | st.text() | st.booleans() | st.none() | st.binary() | st.lists(st.integers()))
def test_whatever_is_set_is_either_of_the_type_or_refused(given: Any) -> None:
    for kind, of in (("int", int), ("float", float), ("bool", bool), ("str", str)):
        param = InferParam(type=kind, default=of())  # type: ignore[arg-type]
        try:
            value = chosen({"p": param}, {"p": given})["p"]
        except InvalidRequest:
            continue
        assert type(value) is of
