from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqrt.errors import ERRORS, AuthError, InternalError, RemoteError, Unavailable, remote_error
from seqrt.wire import body_of, decode, encode, encode_json, error_from
from seqrt.wire.errorbody import WARMING_RETRY_S
from seqrt.wire.limits import DETAIL_CHARACTERS, ERROR_BYTES
from seqrt.wire.messages import ErrorBody


def read(status: int, body: bytes, retry_after: str | None = None) -> RemoteError:
    return error_from(status, body, host="gpu:8080", phase="act", request_id="r-00000000", retry_after=retry_after)


@pytest.mark.parametrize("code", ERRORS)
@pytest.mark.parametrize("form", [encode, encode_json])
def test_every_error_arrives_as_it_was_raised(code: str, form: Any) -> None:
    sent = remote_error(
        code, "what happened", request_id="r-12345678", hint="do this", details={"reason": "x"}, retry_after_s=2.5
    )
    arrived = read(sent.status, form(body_of(sent)))
    assert type(arrived) is ERRORS[code].exception
    for attribute in ("detail", "code", "status", "retryable", "retry_after_s", "request_id", "hint", "details"):
        assert getattr(arrived, attribute) == getattr(sent, attribute)
    assert (arrived.host, arrived.phase) == ("gpu:8080", "act")


@pytest.mark.parametrize("code", ERRORS)
def test_retryable_is_the_tables_whatever_a_body_says(code: str) -> None:
    assert body_of(remote_error(code, "d")).retryable is ERRORS[code].retryable
    lie = ErrorBody(detail="d", code=code, retryable=not ERRORS[code].retryable)
    assert read(500, encode_json(lie)).retryable is ERRORS[code].retryable


def test_warming_always_says_how_long_to_wait() -> None:
    assert body_of(remote_error("warming", "d")).retry_after_s == WARMING_RETRY_S
    assert body_of(remote_error("warming", "d", retry_after_s=0.5)).retry_after_s == 0.5
    body = b'{"detail":"d","code":"warming","retryable":true}'
    assert read(503, body).retry_after_s == WARMING_RETRY_S
    assert read(503, body, "7").retry_after_s == 7.0


def test_the_gateways_own_warming_body_is_read() -> None:
    body = encode_json(
        {
            "detail": {
                "status": "warming_up",
                "model": "m",
                "message": "loading m",
                "retry_after_s": 9,
                "warming_job_id": "j",
            }
        }
    )
    error = read(503, body)
    assert isinstance(error, Unavailable)
    assert (error.warming, error.detail, error.retry_after_s) == (True, "loading m", 9.0)


BARE = {
    400: "invalid_request",
    401: "unauthenticated",
    402: "insufficient_credit",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "gone",
    413: "payload_too_large",
    418: "invalid_request",
    424: "dependency_missing",
    429: "busy",
    500: "internal",
    502: "upstream_error",
    503: "unavailable",
    504: "timeout",
    301: "internal",
    599: "internal",
    0: "internal",
}
NO_BODY_OF_OURS = {
    "empty": b"",
    "HTML": b"<html>\r\n<h1>502 Bad Gateway</h1></html>",
    "half": b'{"detail":"d","code":"bu',
    "garbage": b"\x8f\xff\x00\xc1",
    "a list": b"[]",
    "an unknown field": b'{"detail":"d","code":"busy","retryable":true,"colour":"red"}',
    "an unknown code": b'{"detail":"d","code":"tired","retryable":true}',
    "a field of another type": b'{"detail":["d"],"code":"busy","retryable":true}',
    "deep": b"[" * 10_000,
    "huge": b'{"detail":"' + b"d" * ERROR_BYTES + b'","code":"busy","retryable":true}',
    "another server's": b'{"detail":"Not Found"}',
    "detail in a map": b'{"detail":{"status":3}}',
}


@pytest.mark.parametrize("case", NO_BODY_OF_OURS)
@pytest.mark.parametrize("status", BARE)
def test_an_answer_without_a_body_of_ours_is_the_error_of_its_status(status: int, case: str) -> None:
    error = read(status, NO_BODY_OF_OURS[case])
    assert error.code == BARE[status]
    assert type(error) is ERRORS[BARE[status]].exception
    assert error.status == status
    assert error.request_id == "r-00000000"
    assert 0 < len(error.detail) <= DETAIL_CHARACTERS
    assert "\n" not in error.detail
    assert error.detail.isprintable()


def test_the_detail_of_another_servers_body_is_kept() -> None:
    assert read(404, NO_BODY_OF_OURS["another server's"]).detail == "Not Found"
    assert "502 Bad Gateway" in read(502, NO_BODY_OF_OURS["HTML"]).detail


def test_a_long_detail_is_cut() -> None:
    sent = body_of(remote_error("busy", "x" * 10_000, hint="y" * 10_000))
    assert len(sent.detail) == DETAIL_CHARACTERS
    arrived = read(429, encode_json(ErrorBody(detail="z" * 10_000, code="busy", retryable=True)))
    assert len(arrived.detail) == DETAIL_CHARACTERS
    assert arrived.detail.endswith("…")


def test_details_that_cannot_travel_are_left_out() -> None:
    error = remote_error(
        "policy_error", "d", details={"set": {1}, "nan": float("nan"), "row": np.array([1, 2]), "n": 3}
    )
    assert decode(encode(body_of(error)), ErrorBody).details.keys() == {"row", "n"}
    assert read(500, encode_json(body_of(error))).details == {"row": [1, 2], "n": 3}


def test_a_code_nobody_knows_leaves_as_internal() -> None:
    assert body_of(RemoteError("d", code="tired")).code == "internal"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_a_wait_that_is_none_is_ignored(seconds: float) -> None:
    assert (
        read(429, encode(ErrorBody(detail="d", code="busy", retryable=True, retry_after_s=seconds))).retry_after_s
        is None
    )


def test_a_header_says_how_long_to_wait_where_the_body_does_not() -> None:
    assert read(503, b"", "3").retry_after_s == 3.0
    assert read(503, b"", "Wed, 21 Oct 2015 07:28:00 GMT").retry_after_s is None


def test_a_request_id_that_is_none_is_not_believed() -> None:
    body = ErrorBody(detail="d", code="unauthenticated", retryable=False, request_id="evil\nline")
    error = read(401, encode_json(body))
    assert isinstance(error, AuthError)
    assert error.request_id == "r-00000000"


@given(st.integers(-1, 700), st.binary(max_size=100) | st.text(max_size=50).map(str.encode))
@example(500, b"\x81\xc4\x06detail\xa1x")
@example(500, b"\x81\xa6detail\x81\xa6status\xaawarming_up")
def test_any_answer_gives_a_typed_error(status: int, body: bytes) -> None:
    error = read(status, body)
    assert isinstance(error, RemoteError)
    assert error.code in ERRORS
    assert isinstance(read(status, b""), RemoteError)
    assert InternalError.exit_code == 1
