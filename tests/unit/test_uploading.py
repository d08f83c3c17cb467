"""When a run says that its observations need more than the link carries."""

from __future__ import annotations

import pytest

from seqrt.runtime.retrying import reconnect_wait_s
from seqrt.runtime.saying import Saying
from seqrt.runtime.uploading import WINDOW_S, Uploading
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import UploadBound, fold

FRAME, RATE = 54_000, 625e3  # 11.6 a second


def looked(
    uploading: Uploading, hz: float, seconds: float, *, rate: float | None = RATE, waits: bool = True
) -> list[UploadBound]:
    """What is found at the end of each frame's post, where ``hz`` a second are handed in."""
    times = [n * FRAME / RATE for n in range(int(seconds * RATE / FRAME))]
    found = [uploading.look(at, waits=waits, offered=int(at * hz), rate=rate, frame_bytes=FRAME) for at in times]
    return [bound for bound in found if bound is not None]


def test_a_stream_that_always_waits_and_needs_more_than_there_is_is_found_once() -> None:
    found = looked(Uploading(1.6), 15.0, 20.0)
    assert len(found) == 1
    assert found[0].needed_bytes_per_s == pytest.approx(15 * FRAME, rel=0.1)
    assert (found[0].bytes_per_s, found[0].frame_bytes) == (RATE, FRAME)


@pytest.mark.parametrize(
    ("hz", "seconds", "rate", "waits"),
    [(15.0, 0.9 * WINDOW_S, RATE, True), (15.0, 20.0, None, True), (15.0, 20.0, RATE, False), (10.0, 20.0, RATE, True)],
    ids=["a blip", "no limit has shown", "nothing waits", "a backlog that is worked off"],
)
def test_what_is_no_sign_of_it(hz: float, seconds: float, rate: float | None, waits: bool) -> None:
    assert looked(Uploading(1.6), hz, seconds, rate=rate, waits=waits) == []


def test_one_observation_that_takes_longer_than_a_chunk_covers_says_it_alone() -> None:
    uploading = Uploading(1.0)
    assert uploading.posted(1_840_000, 14.7, None) == UploadBound(1_840_000, pytest.approx(1_840_000 / 14.7), 1_840_000)
    assert uploading.posted(1_840_000, 14.7, None) is None


@pytest.mark.parametrize(("size", "took_s"), [(54_000, 5.0), (1_840_000, 0.5)], ids=["a stall", "in time"])
def test_a_post_that_says_nothing_of_the_link(size: int, took_s: float) -> None:
    assert Uploading(1.0).posted(size, took_s, None) is None


def test_it_is_said_with_bytes_rate_and_what_would_fit(caplog: pytest.LogCaptureFixture) -> None:
    event = ev.UploadBound(at_s=3.1, needed_bytes_per_s=825e3, bytes_per_s=625e3, frame_bytes=54_000)
    Saying().hear(event)
    said = caplog.records[0].message
    for words in ("6.6 Mbit/s", "carries 5;", "54 kB each 12 a second", "41 kB", 'when_behind="drop_oldest"'):
        assert words in said
    outcome = fold([ev.RunStarted(at_s=0.0, run="r", hz=15.0, first_step=0), event])
    assert outcome.upload_bound == UploadBound(825e3, 625e3, 54_000)
    assert "upload-bound (6.6 of 5 Mbit/s)" in str(outcome)


def test_the_outcome_says_what_frames_took_and_how_many_went() -> None:
    outcome = fold(
        [
            *(ev.Observed(at_s=n / 10, step=n, took_s=0.001) for n in range(10)),
            ev.Posted(at_s=0.5, frames=2, bytes=3000, skipped=0, took_s=0.02),
            ev.Posted(at_s=0.6, frames=0, bytes=90, skipped=3, took_s=0.02),
            ev.FramesDropped(at_s=0.9, frames=3),
        ]
    )
    assert (outcome.frames_taken, outcome.frames_sent, outcome.frames_dropped) == (10, 2, 3)
    assert outcome.frame_bytes == 1500
    assert fold([]).frame_bytes is None


def test_a_lost_link_is_tried_often_for_two_seconds_and_then_ever_less_up_to_four_times_a_second() -> None:
    waits = [reconnect_wait_s(down_s) for down_s in (0.0, 1.0, 2.0, 3.0, 4.0, 60.0)]
    assert waits == [0.02, 0.02, 0.02, 0.125, 0.25, 0.25]
