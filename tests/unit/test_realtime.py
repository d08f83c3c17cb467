"""What `seqrt.realtime` does to the process, what it says when it may not, and that all is put back."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import seqrt

linux = pytest.mark.skipif(sys.platform != "linux", reason="threads have CPUs and classes on Linux")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = process()
    yield
    assert process() == before


def process() -> tuple[Any, ...]:
    thread = (os.sched_getaffinity(0), os.sched_getscheduler(0)) if sys.platform == "linux" else ()
    return (gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval(), *thread)


def in_thread(function: Callable[[], Any]) -> Any:
    """Its result, or its error; in a thread of its own, whose class and CPUs go with it."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_what_is_asked_for_is_in_force_inside_and_gone_outside() -> None:
    with seqrt.realtime(gc="off", switch_interval_s=0.0002) as granted:
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert sys.getswitchinterval() == pytest.approx(0.0002)
        assert [setting.name for setting in granted.report] == ["gc", "switch_interval_s"]
        assert granted.refused == ()


def test_frozen_leaves_the_collector_on() -> None:
    with seqrt.realtime(switch_interval_s=None):
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with seqrt.realtime(gc="frozen"):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_none_is_left_alone() -> None:
    before = process()
    with seqrt.realtime(gc=None, switch_interval_s=None) as granted:
        assert process() == before
        assert granted.report == ()


def test_one_inside_another_has_its_way_until_it_is_left() -> None:
    with seqrt.realtime(gc="off", switch_interval_s=0.001):
        with seqrt.realtime(gc="frozen", switch_interval_s=0.0002):
            assert sys.getswitchinterval() == pytest.approx(0.0002)
            assert gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(0.001)
        assert not gc.isenabled()


def test_two_that_overlap_leave_nothing_behind_in_whatever_order_they_end() -> None:
    first, second = seqrt.realtime(switch_interval_s=0.001), seqrt.realtime(gc="off", switch_interval_s=0.0002)
    before = sys.getswitchinterval()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(0.0002)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


def test_the_same_one_may_be_entered_again_inside_itself() -> None:
    steady = seqrt.realtime(gc="off", switch_interval_s=0.0002)
    with steady:
        with steady:
            pass
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(0.0002)


def test_an_error_inside_puts_all_back_and_comes_out() -> None:
    with pytest.raises(ZeroDivisionError), seqrt.realtime(gc="off"):
        _ = 1 / 0
    assert gc.isenabled()


@linux
def test_the_calling_thread_is_put_on_its_cpus_alone() -> None:
    mine = min(os.sched_getaffinity(0))

    def inside() -> tuple[set[int], set[int]]:
        with seqrt.realtime(gc=None, cpus=[mine]):
            return os.sched_getaffinity(0), os.sched_getaffinity(os.getpid())

    here, main = in_thread(inside)
    assert here == {mine}
    assert main == os.sched_getaffinity(0)


@linux
def test_a_cpu_that_is_not_there_is_refused_aloud_and_the_rest_is_granted(caplog: pytest.LogCaptureFixture) -> None:
    before = os.sched_getaffinity(0)
    with caplog.at_level(logging.WARNING), seqrt.realtime(switch_interval_s=0.0002, cpus=[8191]) as granted:
        assert [setting.name for setting in granted.refused] == ["cpus"]
        assert os.sched_getaffinity(0) == before
        assert sys.getswitchinterval() == pytest.approx(0.0002)
    assert "cpus=frozenset({8191}) is refused" in caplog.text


@linux
def test_cpus_of_which_only_some_are_there_are_refused_as_a_whole() -> None:
    before = os.sched_getaffinity(0)
    with seqrt.realtime(gc=None, cpus=[min(before), 8191]) as granted:
        assert os.sched_getaffinity(0) == before
    assert granted.refused[0].refused == f"of these only [{min(before)}] can be had"


@linux
def test_a_scheduling_class_is_the_threads_own_and_not_that_of_what_it_starts() -> None:
    def inside() -> tuple[bool, int, int, int]:
        with seqrt.realtime(gc=None, switch_interval_s=None, scheduling="rr", priority=3) as granted:
            now, started = os.sched_getscheduler(0), in_thread(lambda: os.sched_getscheduler(0))
        return bool(granted.refused), now & ~os.SCHED_RESET_ON_FORK, started, os.sched_getscheduler(0)

    refused, now, started, after = in_thread(inside)
    if refused:
        pytest.skip("this system grants no real-time class")
    assert (now, started, after) == (os.SCHED_RR, os.SCHED_OTHER, os.SCHED_OTHER)


NOBODY = """
import logging, os, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from seqrt import realtime
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
with realtime(gc=None, scheduling="fifo") as granted:
    print([s.name for s in granted.refused], os.sched_getscheduler(0), sys.getswitchinterval() < 0.001)
"""


@linux
def test_a_scheduling_class_without_the_right_to_it_is_refused_aloud() -> None:
    import resource

    unprivileged = resource.getrlimit(resource.RLIMIT_RTPRIO) == (0, 0)
    if not unprivileged:
        pytest.skip("anybody may have a real-time class here")
    told = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, check=True).stdout
    warning, report = told.splitlines()
    assert warning.startswith("realtime: scheduling=('fifo', 10) is refused ([Errno 1]")
    assert report == "['scheduling'] 0 True"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"gc": "on"}, "gc must be one of 'frozen', 'off' or None, not 'on'"),
        ({"switch_interval_s": 0}, "switch_interval_s"),
        ({"switch_interval_s": 2.0}, "switch_interval_s"),
        ({"switch_interval_s": float("nan")}, "switch_interval_s"),
        ({"scheduling": "idle"}, "scheduling must be one of 'fifo', 'rr'"),
        ({"priority": 5}, "give scheduling="),
        ({"scheduling": "fifo", "priority": 0}, "1 to 99"),
        ({"scheduling": "fifo", "priority": True}, "1 to 99"),
        ({"cpus": []}, "at least one"),
        ({"cpus": [-1]}, "from 0"),
        ({"cpus": [0.5]}, "from 0"),
    ],
)
def test_an_argument_that_means_nothing_is_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        seqrt.realtime(**wanted)
