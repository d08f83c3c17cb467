from __future__ import annotations

import seqrt.errors as errors
from seqrt.errors import CertificateRefused, RemoteError, Unavailable


def test_a_failure_said_again_is_of_its_kind_and_says_what_it_is_told_to() -> None:
    first = Unavailable("nobody there", code="unavailable", retry_after_s=2.0, host="gpu:80", phase="act", hint="look")
    again = first.again(detail="nobody there; 3 tries", details={"tries": 3})
    assert type(again) is Unavailable
    assert (again.detail, again.details) == ("nobody there; 3 tries", {"tries": 3})
    assert (again.code, again.retry_after_s, again.host, again.phase, again.hint) == (
        "unavailable", 2.0, "gpu:80", "act", "look",
    )  # fmt: skip
    assert str(again) == "nobody there; 3 tries [act at gpu:80] (look)"
    assert first.detail == "nobody there"
    assert first.details == {}


def test_a_kind_with_a_constructor_of_its_own_keeps_what_it_adds() -> None:
    refused = CertificateRefused("another one", host="gpu:443", hint="pin it", expected="a" * 64, found="b" * 64)
    again = refused.again(hint="read it off its console")
    assert (type(again), again.expected, again.found) == (CertificateRefused, "a" * 64, "b" * 64)
    assert (again.code, again.retryable, again.hint) == ("forbidden", False, "read it off its console")


def test_every_kind_can_be_said_again() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RemoteError)]
    assert len(kinds) > 5
    for kind in kinds:
        made = kind.__new__(kind)
        RemoteError.__init__(made, "no", code="internal")
        assert type(made.again()) is kind
