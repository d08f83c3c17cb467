"""When a worker's process gives memory back, and that it does."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from seqrt.worker.memory import Rest, give_back

PIECE = 32 * 2**10


def test_a_worker_that_served_nobody_has_not_come_to_rest() -> None:
    rest = Rest()
    assert [rest.has_come(0, 0) for _ in range(3)] == [False, False, False]


def test_it_comes_to_rest_once_when_its_last_episode_is_over() -> None:
    rest = Rest()
    assert [rest.has_come(episodes, 7) for episodes in (2, 1, 0, 0, 1, 0)] == [False, False, True, False, False, True]


def test_an_episode_between_two_looks_is_seen_by_its_acts() -> None:
    rest = Rest()
    assert [rest.has_come(0, acts) for acts in (0, 3, 3, 3)] == [False, False, True, False]


def test_acts_without_an_episode_keep_it_from_resting() -> None:
    rest = Rest()
    assert not any(rest.has_come(0, acts) for acts in range(5))


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is resident")
def test_what_was_freed_below_something_in_use_is_given_back() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    pieces = [bytes([1]) * PIECE for _ in range(2000)]  # 64 MB, each too small for a mapping of its own
    pinned = pieces[::200]
    del pieces
    kept = resident_bytes()
    assert give_back()
    assert resident_bytes() < kept - 1000 * PIECE
    assert len(pinned) == 10
