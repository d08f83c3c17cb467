"""The log of a run says each kind of trouble at once, and then rarely, with a count."""

import logging

import pytest

from seqrt.runtime.saying import Saying
from seqrt.timeline import events as ev
from seqrt.watching.seldom import EVERY_S


def refused(at_s: float) -> ev.ChunkRefused:
    return ev.ChunkRefused(at_s=at_s, request_id="r-1", error="row 3, column 1 (y) is nan: not finite")


def failed(at_s: float, *, retrying: bool = False) -> ev.ActFailed:
    return ev.ActFailed(at_s=at_s, request_id="r-1", code="policy", error="KeyError: 'x'\n  File", retrying=retrying)


def moving() -> Saying:
    """The voice of a run that has a plan."""
    saying = Saying()
    saying.hear(ev.Spliced(at_s=0.05, request_id="r-0", observed=0, row=0, rows=20, dropped=0, position=0))
    return saying


def test_trouble_that_goes_on_is_said_at_once_and_then_rarely_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    saying = moving()
    for n in range(21):
        saying.hear(refused(0.1007 + n * EVERY_S / 10))
    said = "| a chunk is refused, the plan plays on: row 3, column 1 (y) is nan: not finite"
    assert [record.message for record in caplog.records] == [
        f"seq ev=chunk.refused rid=r-1 {said}",
        f"seq ev=chunk.refused rid=r-1 more=9 {said}",
        f"seq ev=chunk.refused rid=r-1 more=9 {said}",
    ]


def test_one_kind_of_trouble_does_not_silence_another(caplog: pytest.LogCaptureFixture) -> None:
    saying = moving()
    saying.hear(refused(0.1))
    saying.hear(failed(0.2))
    saying.hear(ev.CallbackRaised(at_s=0.3, callback="act", error="OSError('servo 3')"))
    saying.hear(ev.LinkLost(at_s=0.4, host="gpu:8080", error="connection refused"))
    assert len(caplog.records) == 4
    said = "an act failed (policy), the plan plays on: KeyError: 'x'"
    assert caplog.records[1].message == f"seq ev=act.failed rid=r-1 | {said}"


def test_what_costs_nothing_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    saying = moving()
    saying.hear(failed(0.1, retrying=True))
    saying.hear(ev.LinkBack(at_s=0.2, down_s=0.1))
    assert not caplog.records


def test_before_the_first_chunk_no_plan_is_said_to_play_on(caplog: pytest.LogCaptureFixture) -> None:
    saying = Saying()
    saying.hear(ev.LinkLost(at_s=0.1, host="gpu:8080", error="connection refused"))
    saying.hear(failed(0.2))
    assert [record.message for record in caplog.records] == [
        "seq ev=link.lost rid=- | the link to gpu:8080 is down, nothing has moved yet: connection refused",
        "seq ev=act.failed rid=r-1 | an act failed (policy), nothing has moved yet: KeyError: 'x'",
    ]


def test_before_the_first_chunk_it_is_said_that_the_arm_stands_for_a_worker_that_is_busy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saying = Saying()
    saying.hear(ev.ActFailed(at_s=0.1, request_id="r-1", code="conflict", error="frames missing", retrying=True))
    saying.hear(ev.ActFailed(at_s=0.2, request_id="r-1", code="busy", error="not now", retrying=True))
    assert [record.message for record in caplog.records] == [
        "seq ev=act.failed rid=r-1 | an act is tried again (busy), nothing has moved yet: not now",
    ]


def test_a_failure_told_from_afar_cannot_write_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    Saying().hear(ev.LinkLost(at_s=0.1, host="gpu", error="\x1b[2J\nseq ev=run.ended rid=-"))
    (said,) = [record.message for record in caplog.records]
    assert said.isprintable()


def test_at_debug_each_event_is_a_line_but_ticks_and_observations(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    saying = Saying()
    saying.hear(ev.Asked(at_s=0.5, request_id="r-1", step=3, d=None, s=None, rows_left=7))
    saying.hear(ev.Ticked(at_s=0.6, step=4, late_s=0.0, kind="played", rows_left=6))
    saying.hear(ev.Observed(at_s=0.6, step=4, took_s=0.0))
    assert [record.message for record in caplog.records] == [
        "seq ev=act.asked rid=r-1 at_s=0.5 step=3 rows_left=7 prefix=0 bytes=0"
    ]
