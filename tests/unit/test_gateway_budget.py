"""How many acts a key may make: the bucket of a minute, and the budget that a restart does not forget."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrt.errors import KeysUnusable
from seqrt.gateway.budget import Bucket, filled, spend
from seqrt.gateway.keys import Key, hash_of
from seqrt.gateway.spending import Spending, kept, read_spent

KEY = Key(name="a", sha256=hash_of(b"a"), acts=3)


def made(times: list[float], per_minute: int) -> list[float]:
    """When acts were let through, of those asked for at these times."""
    bucket: Bucket | None = None
    through: list[float] = []
    for now in times:
        bucket, wait_s = spend(filled(bucket, per_minute, now), per_minute)
        if wait_s == 0:
            through.append(now)
    return through


@given(st.lists(st.floats(0, 300), max_size=200), st.integers(1, 60))
def test_no_stretch_of_time_sees_more_acts_than_a_minutes_worth_and_what_flows_in(
    asked: list[float], per_minute: int
) -> None:
    through = made(sorted(asked), per_minute)
    for first, begins in enumerate(through):
        for last in range(first, len(through)):
            allowed = per_minute + (through[last] - begins) * per_minute / 60 + 1e-6
            assert last - first + 1 <= allowed


@given(st.integers(1, 600), st.floats(0, 1e6))
def test_who_waits_as_long_as_is_said_is_let_in_and_who_asks_meanwhile_loses_nothing(
    per_minute: int, at: float
) -> None:
    bucket = Bucket(0.0, at)
    _, wait_s = spend(bucket, per_minute)
    assert wait_s == pytest.approx(60 / per_minute)
    for part in (0.25, 0.5, 0.75):
        bucket, left_s = spend(filled(bucket, per_minute, at + part * wait_s), per_minute)
        assert left_s == pytest.approx((1 - part) * wait_s, rel=1e-3, abs=1e-6)
    _, left_s = spend(filled(bucket, per_minute, at + wait_s * 1.001 + 1e-6), per_minute)
    assert left_s == 0


def test_a_new_key_may_make_its_minutes_acts_at_once_and_then_one_each_part_of_a_minute() -> None:
    assert made([0.0] * 5, 3) == [0.0] * 3
    assert made([0.0] * 3 + [19.9, 20.1, 39.9, 40.2], 3) == [0.0] * 3 + [20.1, 40.2]
    assert len(made([0.0] * 3 + [1000.0] * 9, 3)) == 6


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket, _ = spend(filled(None, 1, 100.0), 1)
    assert spend(filled(bucket, 1, 50.0), 1)[1] > 0
    assert spend(filled(bucket, 1, 159.0), 1)[1] > 0


def test_acts_that_are_set_aside_count_until_they_are_given_back_or_answered() -> None:
    spending = Spending({KEY.sha256: 1})
    assert [spending.reserve(KEY) for _ in range(3)] == [True, True, False]
    spending.give_back(KEY)
    assert spending.reserve(KEY)
    spending.count(KEY)
    spending.count(KEY)
    assert spending.spent(KEY) == 3
    assert not spending.reserve(KEY)


def test_what_is_spent_is_there_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "keys.spent"
    for before in (0, 1):
        with kept(path) as spending:
            assert spending.spent(KEY) == before
            assert spending.reserve(KEY)
            spending.count(KEY)
    assert read_spent(path) == {KEY.sha256: 2}


def test_an_act_under_way_when_the_gateway_ends_is_not_paid(tmp_path: Path) -> None:
    with kept(tmp_path / "keys.spent") as spending:
        assert spending.reserve(KEY)
    assert read_spent(tmp_path / "keys.spent") == {}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": -1}', b'{"a": true}', b"\xff"])
def test_a_file_of_counts_that_is_none_stops_the_start(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "keys.spent").write_bytes(content)
    with pytest.raises(KeysUnusable, match="every key begins anew"), kept(tmp_path / "keys.spent"):
        pass


def test_two_gateways_do_not_count_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.spent"
    with kept(path), pytest.raises(KeysUnusable, match="in use"), kept(path):
        pass


def test_counts_that_cannot_be_written_are_logged_and_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with kept(folder / "keys.spent") as spending:
        assert spending.reserve(KEY)
        spending.count(KEY)
        (folder / "keys.spent.lock").unlink()
        folder.rmdir()
    assert "acts.unsaved" in caplog.text
