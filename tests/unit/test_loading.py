from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seqrt.errors import DeclarationError
from seqrt.policies import load

MODULE = """
class Policy:
    def infer(self, obs): return obs

class Needs:
    def __init__(self, path): ...
    def infer(self, obs): ...

def function(obs): return obs

instance = Policy()

class Space:
    inner = instance
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "scripted_loading.py").write_text(MODULE)
    (tmp_path / "broken_loading.py").write_text("import no_such_module_of_mine\n")
    yield "scripted_loading"
    for name in ("scripted_loading", "broken_loading"):
        sys.modules.pop(name, None)


def test_a_class_is_made_and_instances_and_functions_are_taken_as_they_are(module: str) -> None:
    assert type(load(f"{module}:Policy")).__name__ == "Policy"
    imported = sys.modules[module]
    assert load(f"{module}:instance") is imported.instance
    assert load(f"{module}:function") is imported.function
    assert load(f"{module}:Space.inner") is imported.instance


@pytest.mark.parametrize("target", ["", "module", ":Policy", "module:", "a.b.c"])
def test_a_target_that_is_not_module_and_policy_is_refused_with_the_form(target: str) -> None:
    with pytest.raises(DeclarationError, match="module:Policy"):
        load(target)


def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for(module: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=f"no module 'no_such_policy'.*{tmp_path.name}"):
        load("no_such_policy:Policy")
    with pytest.raises(DeclarationError, match=r"Leave out the \.py"):
        load(f"{module}.py:Policy")


def test_a_module_missing_inside_the_users_own_module_is_the_users_own_error(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_mine"):
        load("broken_loading:Policy")


def test_an_attribute_that_is_not_there_is_named(module: str) -> None:
    with pytest.raises(DeclarationError, match="has no 'Polcy'"):
        load(f"{module}:Polcy")


def test_a_class_that_needs_arguments_is_refused_with_the_way_out(module: str) -> None:
    with pytest.raises(DeclarationError, match="instance"):
        load(f"{module}:Needs")
