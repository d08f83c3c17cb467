"""The flat face of the package: what a type checker is told is what a program gets."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import seqrt


def told_to_type_checkers() -> dict[str, str]:
    tree = ast.parse(Path(seqrt.__file__).read_text(encoding="utf-8"))
    told: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seqrt."):
            told |= {alias.name: node.module for alias in node.names}
    return told


def test_every_public_name_has_one_home_and_type_checkers_are_told_the_same() -> None:
    assert told_to_type_checkers() == seqrt._HOMES
    assert seqrt.__all__ == sorted({*seqrt._HOMES, "robots"})


@pytest.mark.parametrize("name", seqrt.__all__)
def test_a_public_name_is_there_and_is_the_one_of_its_module(name: str) -> None:
    value = getattr(seqrt, name)
    assert value is getattr(seqrt, name)
    assert name in dir(seqrt)


def test_a_name_that_is_not_there_is_an_attribute_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'seqrt' has no attribute 'conect'"):
        _ = seqrt.conect
