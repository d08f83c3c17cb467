from __future__ import annotations

import math

import pytest

from seqrt.wire.headers import (
    FORMATS,
    FORMATS_VALUE,
    media_type,
    parse_seconds,
    reads,
    request_id,
    retry_after,
    valid_request_id,
)


def test_a_request_id_is_r_and_lower_case_hex() -> None:
    assert request_id(b"\x00\xab\xcd\xef") == "r-00abcdef"
    assert valid_request_id(request_id(bytes(range(8))))
    assert valid_request_id(request_id(bytes(range(16))))
    for bits in (b"", b"abc", bytes(17)):
        with pytest.raises(ValueError, match="4 to 16"):
            request_id(bits)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "r-",
        "r-0000000",
        "r-0000000A",
        "R-00000000",
        "00000000",
        "r-" + "0" * 33,
        "r-00000000\n",
        "r-0000000٣",
    ],
)
def test_what_is_no_request_id_is_not_taken_for_one(text: str | None) -> None:
    assert not valid_request_id(text)


@pytest.mark.parametrize(
    ("seconds", "value"),
    [(0, "1"), (-3, "1"), (0.2, "1"), (1, "1"), (1.01, "2"), (59.5, "60"), (math.inf, "86400"), (math.nan, "1")],
)
def test_retry_after_is_whole_seconds_rounded_up(seconds: float, value: str) -> None:
    assert retry_after(seconds) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        (" 2.5 ", 2.5),
        ("0", 0.0),
        ("999999999", 86_400.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٣", None),
        ("9" * 400, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_seconds_are_read_only_where_they_are_plain(text: str | None, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


def test_a_media_type_is_read_without_case_and_parameters() -> None:
    assert media_type(" Application/JSON ; charset=utf-8") == "application/json"
    assert media_type(None) == ""


def test_formats_are_named_whole() -> None:
    assert all(reads(FORMATS_VALUE, name) for name in FORMATS)
    assert reads("X-Seq-Frames/1,x-seq-call/1", "x-seq-frames/1")
    assert not reads("x-seq-frames/10", "x-seq-frames/1")
    assert not reads(None, "x-seq-frames/1")
