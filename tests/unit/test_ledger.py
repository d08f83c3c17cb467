from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqrt.observation import Observations, Stream
from seqrt.runtime.foresight import NOTHING, NextAsk, keys_foreseen
from seqrt.runtime.ledger import BEHIND, Ledger

GROOT = Observations(streams={"frame": Stream(at=[-15, 0]), "state": Stream()})
FED = Observations(every=1)


def seen(step: int, size: int = 4) -> dict[str, Any]:
    return {"frame": np.full(size, step % 256, np.uint8), "state": step}


def sent(ledger: Ledger) -> tuple[dict[int, set[str]], list[int]]:
    load = ledger.outbox.take(64, 4096)
    ledger.outbox.landed(load)
    return {number: set(keys) for number, keys in load.keys.items()}, sorted(load.skipped)


def served(ledger: Ledger, step: int) -> None:
    ledger.keep(step, seen(step))
    ledger.open(step, begun=ledger.served >= 0)
    sent(ledger)
    ledger.close(step)
    ledger.serve(step)


def test_of_a_step_only_the_keys_are_sent_that_an_act_reads() -> None:
    ledger = Ledger(GROOT)
    served(ledger, 0)
    for step in range(1, 31):
        ledger.keep(step, seen(step))
        if step == 15:
            ledger.feed(step, keys_foreseen(GROOT, step, NextAsk(30, 30)))
    assert sent(ledger) == ({15: {"frame"}}, [])
    ledger.open(30, begun=True)
    assert sent(ledger) == ({30: {"frame", "state"}}, [])


def test_what_was_not_foreseen_of_a_step_goes_with_the_act_that_reads_it() -> None:
    ledger = Ledger(GROOT)
    served(ledger, 0)
    for step in range(1, 18):
        ledger.keep(step, seen(step))
    ledger.feed(17, frozenset({"frame"}))
    assert sent(ledger)[0] == {17: {"frame"}}
    ledger.open(17, begun=True)
    assert sent(ledger)[0] == {2: {"frame"}, 17: {"state"}}


def test_a_ledger_keeps_one_window_and_the_frame_before_a_missed_first_one() -> None:
    ledger = Ledger(GROOT)
    for step in (*range(85), *range(86, 101)):
        ledger.keep(step, seen(step))
    assert len(ledger.kept) == 16
    ledger.open(100, begun=True)
    assert sent(ledger) == ({84: {"frame"}, 100: {"frame", "state"}}, [85])


@pytest.mark.parametrize(
    ("every", "step", "ask", "read"),
    [
        (1, 5, NextAsk(), True),
        (2, 5, NextAsk(), False),
        (2, 5, NextAsk(9, 4), True),
        (2, 6, NextAsk(9, 4), False),
        (2, 11, NextAsk(9, 4), False),  # the act is late: at the next tick, as far as can be told
    ],
)
def test_a_fed_step_is_foreseen_where_it_lies_on_the_next_acts_grid(
    every: int, step: int, ask: NextAsk, read: bool
) -> None:
    assert keys_foreseen(Observations(every=every), step, ask) == (None if read else NOTHING)
    streams = Observations(streams={"x": Stream(every=every)})
    assert keys_foreseen(streams, step, ask) == (frozenset({"x"}) if read else NOTHING)
    assert keys_foreseen(None, step, ask) == NOTHING


def test_fed_frames_stay_until_an_act_has_read_them_and_room_is_left_for_its_own() -> None:
    ledger = Ledger(FED, most=10)
    served(ledger, 0)
    for step in range(1, 31):
        ledger.keep(step, seen(step))
        ledger.feed(step, None)
    assert len(ledger.kept) <= 10
    assert ledger.refused == 21
    ledger.keep(31, seen(31))
    ledger.open(31, begun=True)
    numbers, skipped = sent(ledger)
    assert list(numbers) == [*range(1, 10), 31]
    assert set(skipped) == set(range(10, 31))
    ledger.close(31)
    ledger.serve(31)
    assert (len(ledger.kept), ledger.kept.bytes) == (0, 0)


@pytest.mark.parametrize("every", [1, 2])
def test_bytes_kept_are_bounded_though_no_act_is_ever_served(every: int) -> None:
    observations = Observations(every=every)
    ledger = Ledger(observations, most_bytes=10_000)
    ledger.keep(0, seen(0, 1000))
    ledger.open(0, begun=False)
    for step in range(1, 500):
        ledger.keep(step, seen(step, 1000))
        ledger.feed(step, keys_foreseen(observations, step, NextAsk(step + 2, 2)))
        assert ledger.kept.bytes <= 10_000 + 1200


def test_waiting_sends_every_frame_and_dropping_the_oldest_all_but_the_newest_few() -> None:
    for when, numbers in (("wait", range(1, 31)), ("drop_oldest", range(31 - BEHIND, 31))):
        observations = Observations(every=1, when_behind=when)  # type: ignore[arg-type]
        ledger = Ledger(observations)
        served(ledger, 0)
        for step in range(1, 31):
            ledger.keep(step, seen(step))
            ledger.feed(step, None)
        ledger.keep(31, seen(31))
        ledger.open(31, begun=True)
        sent_numbers, skipped = sent(ledger)
        assert list(sent_numbers) == [*numbers, 31]
        assert sorted([*sent_numbers, *skipped]) == list(range(1, 32))
        assert ledger.dropped == (30 - BEHIND if when == "drop_oldest" else 0)


def test_a_queued_frame_that_no_window_reads_any_more_is_dropped_where_declared() -> None:
    for when, numbers in (("wait", [5, 20]), ("drop_oldest", [20])):
        observations = Observations(streams={"frame": Stream(at=[-5, 0])}, when_behind=when)  # type: ignore[arg-type]
        ledger = Ledger(observations)
        served(ledger, 0)
        for step in range(1, 21):
            ledger.keep(step, {"frame": step})
            if step == 5:
                ledger.feed(step, frozenset({"frame"}))
        ledger.open(20, begun=True)
        sent_numbers, skipped = sent(ledger)
        assert [n for n in sent_numbers if n != 15] == numbers
        assert skipped == ([5] if when == "drop_oldest" else [])


def test_what_only_an_act_that_was_given_up_reads_is_not_sent() -> None:
    ledger = Ledger(GROOT)
    for step in range(100):
        ledger.keep(step, seen(step))
        if step % 20 == 19:
            ledger.open(step, begun=False)
            ledger.close(step)
    assert ledger.outbox.waiting <= 1  # number 0, which begins the episode
    assert len(ledger.kept) <= 17


def test_frames_fed_while_the_worker_warms_up_are_let_go() -> None:
    ledger = Ledger(FED)
    for turn in range(20):
        ledger.keep(turn * 10, seen(turn * 10))
        ledger.open(turn * 10, begun=False)
        ledger.rest()
        for step in range(turn * 10 + 1, turn * 10 + 10):
            ledger.keep(step, seen(step))
            ledger.feed(step, None)
        ledger.close(turn * 10)
        assert len(ledger.kept) <= 3
    ledger.keep(200, seen(200))
    ledger.open(200, begun=False)
    assert ledger.previous == 199
    numbers, skipped = sent(ledger)
    assert list(numbers) == [200]
    assert 0 in skipped


def test_what_a_worker_reads_in_the_place_of_a_missed_step_is_named_in_the_post_that_says_so() -> None:
    ledger = Ledger(GROOT)
    served(ledger, 0)
    for step in range(1, 31):
        if step != 15:
            ledger.keep(step, seen(step))
        if step == 14:
            ledger.feed(step, frozenset({"frame"}))
            sent(ledger)
    ledger.open(30, begun=True)
    load = ledger.outbox.take(64, 4096)
    assert ({number: set(keys) for number, keys in load.keys.items()}, load.told, load.told_beside) == (
        {14: set(), 30: {"frame", "state"}}, [], [15],
    )  # fmt: skip
    ledger.outbox.landed(load)
    ledger.queue_again(14)  # that worker was restarted
    assert sent(ledger) == ({14: {"frame"}, 30: {"frame", "state"}}, [15])


def test_a_missed_step_that_is_fed_and_looked_for_later_is_told_with_the_one_before_it() -> None:
    ledger = Ledger(Observations(streams={"frame": Stream(at=[-5, 0]), "state": Stream(every=2)}))
    served(ledger, 0)
    for step in (*range(1, 8), 9, 10):
        ledger.keep(step, seen(step))
    ledger.open(10, begun=True)
    load = ledger.outbox.take(64, 4096)
    assert (load.keys[7], load.told, load.told_beside) == (frozenset(), [], [8])


def test_before_the_first_answer_all_that_is_read_goes_again_when_the_link_is_lost() -> None:
    ledger = Ledger(GROOT)
    for step in (0, 1, 3):
        ledger.keep(step, seen(step))
        ledger.open(step, begun=False)
        sent(ledger)
        if step < 3:
            ledger.close(step)
    ledger.queue_again(0)
    assert sent(ledger) == ({0: {"frame", "state"}, 3: {"frame", "state"}}, [])


def test_a_number_kept_of_an_act_given_up_is_told_as_never_to_come_to_a_worker_that_lacks_it() -> None:
    ledger = Ledger(None)
    ledger.keep(0, seen(0))
    ledger.open(0, begun=False)
    load = ledger.outbox.take(64, 4096)
    ledger.close(0)
    ledger.keep(1, seen(1))
    ledger.open(1, begun=False)
    ledger.outbox.landed(load)
    ledger.queue_again(0)
    assert sent(ledger) == ({1: {"frame", "state"}}, [0])
