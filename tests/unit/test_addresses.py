"""Several workers' URLs, and which key goes to which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

import seqrt
from seqrt.errors import DeclarationError
from seqrt.link.address import key_for, one_each, parse, parse_all
from seqrt.link.redeclared import must_be_alike
from seqrt.wire.messages import PolicyInfo

A, B = "http://a:8080", "https://b.example.org"


def test_one_url_is_a_list_of_one() -> None:
    assert parse_all(A) == [A]
    assert parse_all((A, B)) == [A, B]


@pytest.mark.parametrize(
    ("urls", "what"),
    [
        ([], "1 to 8"),
        ([f"http://a:{port}" for port in range(1, 10)], "1 to 8"),
        ([A, B, "http://A:8080/"], "twice"),
        (["http://a", "http://a:80"], "twice"),
        ([A, "b:8080"], "look like"),
        ([A, "http://user:word@b"], "password"),
    ],
)
def test_what_is_no_list_of_different_workers_is_refused(urls: list[str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_all(urls)


def test_what_is_no_url_at_all_is_refused() -> None:
    with pytest.raises(TypeError, match="list of URLs"):
        parse_all([A, None])  # type: ignore[list-item]


def test_two_policies_mounted_at_one_server_are_two_workers() -> None:
    assert len(parse_all(["http://a:8080/left", "http://a:8080/right"])) == 2


def test_a_key_is_for_all_or_one_is_given_each() -> None:
    assert one_each("api_key", None, [A, B]) == [None, None]
    assert one_each("api_key", "key", [A, B]) == ["key", "key"]
    assert one_each("api_key", ["of a", None], [A, B]) == ["of a", None]
    with pytest.raises(ValueError, match="1 for 2 workers"):
        one_each("api_key", ["of a"], [A, B])


def test_a_key_found_for_one_host_never_goes_to_another(tmp_path: Path) -> None:
    (tmp_path / "seqrt").mkdir()
    (tmp_path / "seqrt" / "credentials").write_text("a:8080 of-a\n")
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "SEQUENCES_API_KEY": "theirs",
        "SEQUENCES_BASE_URL": "https://c.example.org",
    }
    found = [key_for(parse(url), None, environment) for url in (A, B, "https://c.example.org")]
    assert found == ["of-a", None, "theirs"]


def info(**changes: Any) -> PolicyInfo:
    return PolicyInfo(**{"protocol": 1, "model": "pi", "actions": {"hz": 20}, **changes})


def test_what_is_measured_or_granted_makes_no_difference() -> None:
    must_be_alike(info(), info(infer_s=0.1, acts_in_flight=8, acts_at_once=4, acts_per_s=3.0), ("a", "b"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actions", {"hz": 30}),
        ("observations", {"every": 1}),
        ("stateful", True),
        ("takes", ["prefix"]),
        ("params", {"speed": {}}),
        ("own_actions", "one"),
        ("episodes", "own"),
        ("embodiments", {"arm": {}}),
        ("model", "pa"),
        ("protocol", 2),
    ],
)
def test_what_is_declared_otherwise_is_refused_with_both_sides(field: str, value: object) -> None:
    with pytest.raises(DeclarationError) as refused:
        must_be_alike(info(), info(**{field: value}), ("a:1", "b:2"))
    assert refused.value.field == field
    for said in ("a:1", "b:2", field, repr(value)):
        assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"base_url": [A, A]}, "twice"),
        ({"base_url": [A, B], "api_key": ["one"]}, "1 for 2 workers"),
        ({"base_url": [B, "https://c"], "fingerprint": ["00" * 32]}, "1 for 2 workers"),
        ({"base_url": [A, B], "on_lost": "retry"}, "'stop' or 'restart'"),
        ({"base_url": ["http://a", "https://b"], "api_key": ["of-a", "of-b"]}, "unencrypted to a"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(given: dict[str, Any], what: str) -> None:
    async def connect() -> None:
        async with seqrt.connect(**given):
            raise AssertionError("connected")

    with pytest.raises(ValueError, match=what):
        anyio.run(connect)
