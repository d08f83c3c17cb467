from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.watching.logline import line


def test_a_line_has_one_form() -> None:
    assert line("act.answered", "r-0123abcd", t=4, queue_s=0.25, episode=None) == (
        "seq ev=act.answered rid=r-0123abcd t=4 queue_s=0.25"
    )
    assert line("ping.answered", None) == "seq ev=ping.answered rid=-"


@pytest.mark.parametrize(
    ("value", "said"),
    [("two words\tand\nmore", "two_words_and_more"), ("x" * 300, "x" * 200), ("\x1b[31m", "\\x1b[31m"), ("", "")],
)
def test_a_value_is_one_short_printable_word(value: str, said: str) -> None:
    assert line("a.b", None, k=value) == f"seq ev=a.b rid=- k={said}"


@given(st.text(max_size=200))
def test_an_error_can_be_read_back(text: str) -> None:
    said = line("a.b", None, error=text).split("error=", 1)[1]
    assert said.isprintable()
    assert not any(c.isspace() for c in said)
    assert said.encode("latin-1", "backslashreplace").decode("unicode_escape") == text


def test_an_error_is_cut_at_4000_characters() -> None:
    assert len(line("a.b", None, error="e" * 10_000)) < 4100
