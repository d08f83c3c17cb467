from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from seqrt.action.declaration import Actions
from seqrt.errors import DeclarationError
from seqrt.observation import Observations, Stream
from seqrt.policies import Timeouts, declaration_of, policy


def test_offsets_are_sorted_and_lists_may_be_written() -> None:
    assert Stream(at=[0, -15, -3]).at == (-15, -3, 0)
    assert Stream().at == (0,)


@pytest.mark.parametrize("at", [[], [1], [0, 0], [True], (False, -1), [float("nan")], ["0"], 0, list(range(-256, 1))])
def test_offsets_that_are_no_unique_integers_up_to_0_are_refused(at: Any) -> None:
    with pytest.raises(ValidationError):
        Stream(at=at)


@pytest.mark.parametrize("shape", [[0], [-1, 3], [2.0], [True], "8"])
def test_axes_that_are_no_positive_integers_are_refused(shape: Any) -> None:
    with pytest.raises(ValidationError):
        Stream(shape=shape)


def test_numpy_integers_and_types_are_taken() -> None:
    stream = Stream(at=np.array([-2, 0]), shape=[np.int64(8)], dtype=np.float32)
    assert (stream.at, stream.shape, stream.dtype) == ((-2, 0), (8,), "float32")


@pytest.mark.parametrize("dtype", ["object", "datetime64[s]", "U8", "i4,f8", "no_such_type"])
def test_types_that_are_not_numeric_are_refused(dtype: str) -> None:
    with pytest.raises(ValidationError, match="dtype"):
        Stream(dtype=dtype)


@pytest.mark.parametrize("key", ["", " state", "state ", "k" * 129])
def test_keys_are_1_to_128_characters_without_blanks_around(key: str) -> None:
    with pytest.raises(ValidationError, match="is no key"):
        Observations(streams={key: Stream()})


@pytest.mark.parametrize("streams", [{}, {f"k{i}": Stream() for i in range(65)}])
def test_there_are_1_to_64_streams(streams: dict[str, Stream]) -> None:
    with pytest.raises(ValidationError):
        Observations(streams=streams)


@pytest.mark.parametrize("field", ["stride", "window"])
def test_a_field_that_is_not_known_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Stream(**{field: 1})


def test_names_fit_the_last_axis_and_are_unique() -> None:
    assert Stream(shape=[2, 3], names=["x", "y", "z"]).names == ("x", "y", "z")
    with pytest.raises(ValidationError, match="last axis"):
        Stream(shape=[3, 2], names=["x", "y", "z"])
    with pytest.raises(ValidationError, match="name of its own"):
        Stream(names=["x", "x"])


def test_a_declaration_survives_the_wire() -> None:
    observations = Observations(
        streams={"a": Stream(at=[-3, 0], shape=[2], dtype="float32"), "b": Stream()}, pad="drop"
    )
    assert Observations(**observations.model_dump(mode="json", exclude_defaults=True)) == observations


OBSERVATIONS = Observations(streams={"state": Stream()})


@policy(observations=OBSERVATIONS, actions=Actions(hz=15), timeouts=Timeouts(request=5), name="grasp")
class Declared:
    def infer(self, obs: Any, *, prefix: Any = None, delay: int | None = None, temperature: float = 1.0) -> Any: ...


def test_a_decorated_class_declares_what_it_was_given_and_what_infer_asks_for() -> None:
    declaration = declaration_of(Declared())
    assert declaration.observations is OBSERVATIONS
    assert declaration.actions == Actions(hz=15)
    assert declaration.timeouts.request == 5
    assert declaration.name == "grasp"
    assert declaration.takes == {"prefix", "delay"}
    assert not declaration.stateful


def test_the_decorator_returns_the_class_itself() -> None:
    class Plain:
        def infer(self, obs: Any) -> Any: ...

    assert policy()(Plain) is Plain


def test_an_undecorated_object_with_infer_declares_nothing() -> None:
    class Plain:
        def infer(self, obs: Any) -> Any: ...

    declaration = declaration_of(Plain())
    assert (declaration.observations, declaration.actions, declaration.name) == (None, None, "Plain")


def test_a_function_is_a_policy() -> None:
    def act(obs: Any, *, seed: int | None = None) -> Any: ...

    declaration = declaration_of(act)
    assert (declaration.infer, declaration.name, declaration.takes) == ("", "act", {"seed"})
    assert declaration_of(policy(observations=OBSERVATIONS)(act)).observations is OBSERVATIONS
    assert declaration_of(lambda obs: obs).takes == frozenset()


def test_a_subclass_keeps_the_declaration_and_is_read_anew() -> None:
    class Sampled(Declared):
        def infer(self, obs: Any, *, seed: int | None = None) -> Any: ...  # type: ignore[override]

        def reset(self) -> None: ...

    declaration = declaration_of(Sampled())
    assert declaration.observations is OBSERVATIONS
    assert declaration.takes == {"seed"}
    assert declaration.stateful


def test_another_method_may_infer() -> None:
    @policy(infer="predict")
    class Predicts:
        def predict(self, obs: Any) -> Any: ...

    assert declaration_of(Predicts()).infer == "predict"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (object(), "no method 'infer'"),
        (3, "no method 'infer'"),
        (Declared, "is a class"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_to_write(wrong: object, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        declaration_of(wrong)


def test_an_infer_that_cannot_be_called_with_an_observation_is_refused_where_it_is_declared() -> None:
    with pytest.raises(DeclarationError, match="one argument"):

        @policy()
        class NoArgument:
            def infer(self) -> Any: ...

    with pytest.raises(DeclarationError, match="one argument"):

        @policy()
        class Two:
            def infer(self, images: Any, state: Any) -> Any: ...

    with pytest.raises(DeclarationError, match="'goal', which nothing hands over"):

        @policy()
        class Asks:
            def infer(self, obs: Any, *, goal: Any) -> Any: ...

    with pytest.raises(DeclarationError, match="async"):

        @policy()
        class Async:
            async def infer(self, obs: Any) -> Any: ...

    with pytest.raises(DeclarationError, match=r"@seqrt\.policy\(\)"):

        @policy  # type: ignore[arg-type]
        class Bare:
            def infer(self, obs: Any) -> Any: ...


@pytest.mark.parametrize("field", [{"request": 0.5}, {"startup": 10}, {"episode_idle": 1}, {"request": float("nan")}])
def test_timeouts_outside_their_range_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Timeouts(**field)
