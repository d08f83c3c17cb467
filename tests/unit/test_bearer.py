"""The header that brings a key: as a client writes it, and as a server reads whatever comes."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from seqrt.wire.headers import bearer
from seqrt.worker.call import bearer_of


def test_a_key_that_is_sent_is_read_and_none_is_none() -> None:
    assert bearer_of(Headers(bearer("sesame"))) == b"sesame"
    for nothing in (None, ""):
        assert bearer(nothing) == {}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([], b""),
        ([b"bearer  sesame "], b"sesame"),
        ([b"Basic c2VzYW1l"], b""),
        ([b"Bearer"], b""),
        ([b"sesame"], b""),
        ([b"Bearer one", b"Bearer two"], b""),
        ([b"Bearer s\xe9same"], b"s\xe9same"),
    ],
)
def test_one_header_of_the_bearer_scheme_brings_a_key_and_nothing_else_does(values: list[bytes], key: bytes) -> None:
    assert bearer_of(Headers(raw=[(b"authorization", value) for value in values])) == key
