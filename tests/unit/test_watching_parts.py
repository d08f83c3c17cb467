"""The pure parts of watching: buckets, what is said seldom, passages, log lines for programs."""

from __future__ import annotations

import io
import json
import logging

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.errors import WireError, remote_error
from seqrt.watching.buckets import SECONDS, Buckets
from seqrt.watching.logline import line
from seqrt.watching.logs import JsonLines, log_to
from seqrt.watching.passage import Watch
from seqrt.watching.seldom import Seldom

samples = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(samples))
def test_each_sample_is_under_every_bound_it_does_not_exceed(values: list[float]) -> None:
    buckets = Buckets(SECONDS)
    for value in values:
        buckets.add(value)
    counts = dict(buckets.cumulative())
    assert counts == {**{str(b): sum(v <= b for v in values) for b in SECONDS}, "+Inf": len(values)}
    assert buckets.count == len(values)
    assert buckets.total == pytest.approx(sum(values))


def test_a_kind_is_said_at_once_and_then_every_ten_seconds_with_how_often_it_was_not() -> None:
    seldom = Seldom(every_s=10.0)
    assert [seldom.due("a", now) for now in (0.0, 1.0, 9.9, 10.0, 30.0)] == [0, None, None, 2, 0]
    assert seldom.due("b", 30.0) == 0


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_act_is_in_one_phase_at_a_time_and_each_has_what_it_took() -> None:
    clock = Clock()
    watch = Watch(lambda: clock)
    with watch.act("r-0123abcd") as passage:
        passage.enter("read")
        clock.now = 0.25
        passage.enter("queue")
        assert watch.counts.acts["queue"] == 1
        assert watch.counts.acts["read"] == 0
        clock.now = 1.0
        with watch.call([passage]):
            assert watch.counts.acts["infer"] == 1
            clock.now = 3.0
        clock.now = 3.5
    assert passage.took_s == {"read": 0.25, "queue": 0.75, "infer": 2.0, "answer": 0.5}
    assert passage.told() == {"read_s": 0.25, "queue_s": 0.75, "infer_s": 2.0, "answer_s": 0.5}
    assert not any(watch.counts.acts.values())
    assert watch.counts.act_s.total == 3.5
    assert watch.counts.call_s.total == 2.0


def test_acts_of_one_call_each_have_the_whole_of_it_and_the_call_is_counted_once() -> None:
    clock = Clock()
    watch = Watch(lambda: clock)
    with watch.act("r-00000001") as one, watch.act("r-00000002") as other, watch.call([one, other]):
        clock.now = 2.0
    assert watch.counts.phase_s["infer"].total == 4.0
    assert (watch.counts.call_s.total, watch.counts.call_acts.total, watch.counts.call_acts.count) == (2.0, 2.0, 1)


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (remote_error("busy", "full"), "busy"),
        (WireError("no map", reason="field"), "invalid_request"),
        (RuntimeError("ours"), "internal"),
        (KeyboardInterrupt(), "left"),
    ],
)
def test_an_act_that_raises_ends_with_the_code_it_is_answered(raised: BaseException, code: str) -> None:
    watch, seen = Watch(lambda: float), []

    def serve() -> None:
        with watch.act("r-0123abcd") as passage:
            seen.append(passage)
            passage.enter("frames")
            raise raised

    with pytest.raises(type(raised)):
        serve()
    assert seen[0].code == code
    assert not any(watch.counts.acts.values())


def logged(*args: object, thrown: bool = False) -> dict[str, object]:
    """A record as `JsonLines` writes it."""
    log, stream = logging.Logger("seqrt.test"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    try:
        raise ValueError("no")
    except ValueError:
        log.warning(*args, exc_info=thrown)  # type: ignore[arg-type]
    (text,) = stream.getvalue().splitlines()
    told: dict[str, object] = json.loads(text)
    assert told.pop("at")
    assert (told.pop("level"), told.pop("logger")) == ("WARNING", "seqrt.test")
    return told


def test_a_line_is_taken_apart_for_a_log_that_programs_read() -> None:
    said = line("act.failed", "r-0123abcd", took_s=0.25, error="two\nlines", none=None).saying("it failed")
    told = {"ev": "act.failed", "rid": "r-0123abcd", "took_s": 0.25, "error": "two\nlines", "say": "it failed"}
    assert logged("%s", said) == told


def test_what_is_no_line_is_a_message_and_an_exception_a_traceback_within_its_line() -> None:
    told = logged("port %d", 80, thrown=True)
    assert told["message"] == "port 80"
    assert str(told["traceback"]).endswith("ValueError: no")


def test_a_sentence_stands_behind_a_bar_on_the_same_line() -> None:
    assert line("link.lost", None).saying("down\nand \x1b[31mred") == r"seq ev=link.lost rid=- | down and \x1b[31mred"


def test_no_log_of_the_command_line_carries_a_key_whatever_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    libraries = [logging.getLogger(name) for name in ("hpack", "h2", "httpcore", "hypercorn")]
    before = [library.level for library in libraries]
    caplog.set_level(logging.DEBUG)
    try:
        log_to(io.StringIO(), level=logging.DEBUG, json=False)
        sent = hpack.Encoder().encode([("authorization", "Bearer the-key")], huffman=False)
        assert hpack.Decoder().decode(sent)
        assert b"the-key" in sent
        assert "the-key" not in caplog.text
    finally:
        for library, level in zip(libraries, before, strict=True):
            library.setLevel(level)
