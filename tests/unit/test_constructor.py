"""How a policy object is made: factories, arguments, files beside the class, weights from the deployer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from seqrt.errors import DeclarationError
from seqrt.policies import load
from seqrt.policies.constructor import Constructor, construct

MODULE = """
import seqrt

class Base:
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    @classmethod
    def from_pretrained(cls, path, **kwargs):
        return cls(path, made=True, **kwargs)

    @classmethod
    def nothing(cls): ...

    def infer(self, obs): ...

@seqrt.policy(make="from_pretrained", args=["{weights.model}"], kwargs={"config": {"$config": "conf/base.json"}})
class Policy(Base): ...

class Needs(Base):
    def __init__(self, path, *, width): ...
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "scripted_constructor.py").write_text(MODULE)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "base.json").write_text('{"model": {"width": 8, "path": "{weights.model}/w"}, "lr": 1}')
    (tmp_path / "conf" / "base.yml").write_text("model: {width: 8}\n")
    (tmp_path / "conf" / "broken.json").write_text("{")
    yield load("scripted_constructor:Base")
    sys.modules.pop("scripted_constructor", None)


def test_load_makes_what_the_class_declares(made: Any) -> None:
    policy: Any = load("scripted_constructor:Policy", weights={"model": "/w/model"})
    assert policy.args == ("/w/model",)
    assert policy.kwargs == {
        "made": True,
        "config": {"model": {"width": 8, "path": "/w/model/w"}, "lr": 1},
    }


def make(cls: type, weights: Any = None, **constructor: Any) -> Any:
    return construct(cls, Constructor(**constructor), weights)


def test_weights_are_filled_in_wherever_text_stands_and_other_braces_are_left_alone(made: Any) -> None:
    policy = make(type(made), "/w", args=("{weights}/a", ["{weights}", 3], {"b": "{weight}{}"}))
    assert policy.args == ("/w/a", ["/w", 3], {"b": "{weight}{}"})


@pytest.mark.parametrize(
    ("weights", "asked", "told"),
    [
        (None, "{weights}", "no weights are given"),
        ("/w", "{weights.model}", "the weights given are one path"),
        ({"model": "/w"}, "{weights}", "the parts model"),
        ({"model": "/w"}, "{weights.vision}", "the parts model"),
    ],
)
def test_a_placeholder_nothing_is_given_for_is_named(made: Any, weights: Any, asked: str, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        make(type(made), weights, args=(asked,))


def test_places_of_a_file_are_set(made: Any) -> None:
    changes = {"model.width": 16, "head.depth": 2, "lr": {"$keep": 1}}
    config = make(type(made), {"model": "m"}, args=({"$config": "conf/base.json", "$set": changes},)).args[0]
    assert config == {"model": {"width": 16, "path": "m/w"}, "lr": {"$keep": 1}, "head": {"depth": 2}}
    with pytest.raises(DeclarationError, match="no mapping"):
        make(type(made), args=({"$config": "conf/base.json", "$set": {"lr.x": 1}},))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"$config": "/etc/base.json"}, "relative"),
        ({"$config": "../base.json"}, "relative"),
        ({"$config": "a/../../base.json"}, "relative"),
        ({"$config": "C:\\base.json"}, "relative"),
        ({"$config": "base.py"}, "no .json or .yml"),
        ({"$config": 3}, "no .json or .yml"),
        ({"$config": "a.json", "width": 3}, "nothing beside it"),
        ({"$set": {"a": 1}}, "no path"),
        ({"$config": "a.json", "$set": [1]}, "dotted"),
        ([{"deep": {"$config": "/a.json"}}], "relative"),
    ],
)
def test_a_file_is_relative_json_or_yaml_with_nothing_beside_it(value: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Constructor(args=(value,))


@pytest.mark.parametrize(("path", "told"), [("conf/none.json", "cannot be read"), ("conf/broken.json", "no JSON")])
def test_a_file_that_is_not_there_or_is_broken_is_named(made: Any, path: str, told: str) -> None:
    with pytest.raises(DeclarationError, match=f"{path}.*{told}"):
        make(type(made), args=({"$config": path},))


def test_yaml_is_read_with_its_extra(made: Any) -> None:
    pytest.importorskip("yaml")
    assert make(type(made), args=({"$config": "conf/base.yml"},)).args == ({"model": {"width": 8}},)


def test_yaml_needs_its_extra(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DeclarationError, match=r"seqrt\[yaml\]"):
        make(type(made), args=({"$config": "conf/base.yml"},))


@pytest.mark.parametrize(
    ("constructor", "told"),
    [
        ({"make": "from_file"}, "no factory 'from_file'"),
        ({"make": "nothing"}, "returned nothing"),
        ({"make": "from_pretrained"}, "missing"),
    ],
)
def test_a_factory_that_is_not_there_or_makes_nothing_is_named(
    made: Any, constructor: dict[str, Any], told: str
) -> None:
    with pytest.raises(DeclarationError, match=told):
        make(type(made), **constructor)
    with pytest.raises(ValidationError, match="no method's name"):
        Constructor(make="from.pretrained")


def test_a_class_that_needs_arguments_says_where_to_give_them(made: Any) -> None:
    with pytest.raises(DeclarationError, match=r"missing.*args=.*instance"):
        load("scripted_constructor:Needs")
