"""What a program's owner may do to the whole process for the sake of the tick. A run does none of it by itself.

Entered around runs, in the thread of the event loop: ``with seqrt.realtime(scheduling="fifo") as granted``. What the
system refuses is said and done without. Several may be inside at once, in one task or many: of each thing the last one
to come has its way, and when the last is gone it is as it was found.
"""

from __future__ import annotations

import gc as collector
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal

from seqrt.action.argument import above_zero

logger = logging.getLogger(__name__)

_CLASSES: Final = {"fifo": "SCHED_FIFO", "rr": "SCHED_RR"}
_PRIORITY: Final = 10
"""Low among the real-time ones: above every ordinary process, below the kernel's own threads (50)."""


@dataclass(frozen=True)
class Setting:
    """One thing that was asked for.

    Attributes:
        name: The argument of `realtime`.
        asked: What was asked for.
        refused: What the system said against it; None when it is in force.
    """

    name: str
    asked: object
    refused: str | None = None


def realtime(
    *,
    gc: Literal["frozen", "off"] | None = "frozen",
    switch_interval_s: float | None = 0.0001,
    scheduling: Literal["fifo", "rr"] | None = None,
    priority: int | None = None,
    cpus: Iterable[int] | None = None,
) -> Realtime:
    """Process-wide settings for a steady tick, in force inside ``with``. Each may be None: left alone.

    Entering may take some 100 ms (a full collection): enter before the runs, not between their ticks.

    Args:
        gc: "frozen" collects once and leaves what is there then out of later collections, which makes them short;
            "off" collects nothing more until the end either: for minutes, not for days.
        switch_interval_s: How long a thread that computes may keep the interpreter from the others. Python's own
            5 ms is how late a tick may be beside one.
        scheduling: "fifo" or "rr" puts the calling thread before all ordinary ones of the machine (Linux; needs
            CAP_SYS_NICE or a limit of rtprio). Threads and processes it starts are ordinary ones. A loop that never
            waits then has its CPU to itself.
        priority: Of that class, 1 to 99; 10 when None.
        cpus: CPUs the calling thread, and what it starts from then on, may run on (Linux).

    Returns:
        A context manager, which may be entered again; see `Realtime`.

    Raises:
        ValueError: An argument that means nothing.
    """
    wanted: dict[str, Any] = {}
    if gc is not None:
        wanted["gc"] = _one_of("gc", gc, ("frozen", "off"))
    if switch_interval_s is not None:
        above_zero("switch_interval_s", switch_interval_s)
        if switch_interval_s > 1:
            raise ValueError(f"switch_interval_s is in seconds, above 0 and at most 1, not {switch_interval_s!r}")
        wanted["switch_interval_s"] = float(switch_interval_s)
    if scheduling is not None:
        wanted["scheduling"] = (_one_of("scheduling", scheduling, tuple(_CLASSES)), _checked_priority(priority))
    elif priority is not None:
        raise ValueError("priority= is that of a scheduling class: give scheduling='fifo' or 'rr' with it")
    if cpus is not None:
        wanted["cpus"] = _checked_cpus(cpus)
    return Realtime(wanted)


class Realtime:
    """Made by `realtime`. Enter it in the thread that runs the event loop; it may be left from another.

    Attributes:
        report: What was asked for and what the system said, as of the last time it was entered.
    """

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._wanted = wanted
        self._inside: list[ExitStack] = []
        self.report: tuple[Setting, ...] = ()

    def __repr__(self) -> str:
        """What was asked for, and what of it was refused."""
        asked = ", ".join(f"{name}={value!r}" for name, value in self._wanted.items())
        refused = "".join(f"; {setting.name} refused: {setting.refused}" for setting in self.refused)
        return f"Realtime({asked}{refused})"

    @property
    def refused(self) -> tuple[Setting, ...]:
        """Those the system refused."""
        return tuple(setting for setting in self.report if setting.refused is not None)

    def __enter__(self) -> Realtime:
        """Put in force what can be."""
        inside, report = ExitStack(), []
        for name, value in self._wanted.items():
            try:
                inside.callback(_SHARED.claim(name, value))
            except (OSError, AttributeError) as error:  # AttributeError: a system without such calls
                logger.warning("realtime: %s=%r is refused (%s); going on without", name, value, error)
                report.append(Setting(name, value, str(error)))
            else:
                report.append(Setting(name, value))
        self._inside.append(inside)
        self.report = tuple(report)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back what nobody else wants."""
        self._inside.pop().close()


def _one_of(name: str, value: str, names: tuple[str, ...]) -> str:
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, names))} or None, not {value!r}")
    return value


def _checked_priority(priority: int | None) -> int:
    if priority is None:
        return _PRIORITY
    if isinstance(priority, bool) or not isinstance(priority, int) or not 1 <= priority <= 99:
        raise ValueError(f"priority must be a whole number from 1 to 99, not {priority!r}")
    return priority


def _checked_cpus(cpus: Iterable[int]) -> frozenset[int]:
    if not isinstance(cpus, Iterable):
        raise TypeError(f"cpus= takes the numbers of CPUs, e.g. [0], not {cpus!r}")
    numbers = frozenset(cpus)
    if not numbers or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in numbers):
        raise ValueError(f"cpus must be numbers of CPUs from 0, at least one, not {sorted(numbers, key=repr)}")
    return numbers


# What is shared by all that are inside


@dataclass(eq=False)
class _Claim:
    value: Any


@dataclass(frozen=True)
class _Knob:
    """One thing of the process or of a thread: ``write`` is handed what to set and what was found at first."""

    read: Callable[[], Any]
    write: Callable[[Any, Any], None]


class _Shared:
    """Who wants what of each thing, and how it was found. The one place that writes to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, int], Any] = {}
        self._claims: dict[tuple[str, int], list[_Claim]] = {}

    def claim(self, name: str, value: Any) -> Callable[[], None]:
        """Set ``name`` for this thread or the process; what ends that."""
        thread = threading.get_native_id() if name in ("scheduling", "cpus") else 0
        key, knob = (name, thread), _knob(name, thread)
        with self._lock:
            found = self._found[key] if key in self._found else knob.read()
            knob.write(value, found)
            claim = _Claim(value)
            self._claims.setdefault(key, []).append(claim)
            self._found[key] = found
        return lambda: self._release(key, knob, claim)

    def _release(self, key: tuple[str, int], knob: _Knob, claim: _Claim) -> None:
        with self._lock:
            claims, found = self._claims[key], self._found[key]
            claims.remove(claim)
            if not claims:
                del self._claims[key], self._found[key]
            try:
                knob.write(claims[-1].value if claims else found, found)
            except OSError as error:  # e.g. the thread is gone
                logger.warning("realtime: %s could not be put back to %r: %s", key[0], found, error)


def _knob(name: str, thread: int) -> _Knob:
    if name == "gc":
        return _Knob(lambda: (collector.isenabled(), collector.get_freeze_count() > 0), _write_gc)
    if name == "switch_interval_s":
        return _Knob(sys.getswitchinterval, lambda value, found: sys.setswitchinterval(value))
    if name == "scheduling":
        return _Knob(partial(_read_scheduling, thread), partial(_write_scheduling, thread))
    return _Knob(partial(_read_cpus, thread), partial(_write_cpus, thread))


def _write_gc(value: str | tuple[bool, bool], found: tuple[bool, bool]) -> None:
    was_enabled, was_frozen = found
    if isinstance(value, str):
        collector.collect()  # what is frozen is not looked at again: no garbage among it
        collector.freeze()
    elif not was_frozen:
        collector.unfreeze()
    if was_enabled and value != "off":
        collector.enable()
    else:
        collector.disable()
    if not isinstance(value, str) and was_enabled:
        collector.collect()


if sys.platform == "linux":

    def _read_scheduling(thread: int) -> tuple[int, int]:
        return os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority

    def _write_scheduling(thread: int, value: tuple[str | int, int], found: tuple[int, int]) -> None:
        kind, priority = value
        if isinstance(kind, str):
            # Threads it starts decode pictures and the like: they are to be ordinary ones.
            kind = int(getattr(os, _CLASSES[kind])) | os.SCHED_RESET_ON_FORK
        try:
            os.sched_setscheduler(thread, kind, os.sched_param(priority))
        except PermissionError:
            if kind & os.SCHED_RESET_ON_FORK:
                raise
            # Once set, that flag is not taken back without CAP_SYS_NICE (sched(7)); the class is.
            os.sched_setscheduler(thread, kind | os.SCHED_RESET_ON_FORK, os.sched_param(priority))

    def _read_cpus(thread: int) -> frozenset[int]:
        return frozenset(os.sched_getaffinity(thread))

    def _write_cpus(thread: int, value: frozenset[int], found: frozenset[int]) -> None:
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, value)
        granted = os.sched_getaffinity(thread)
        if granted != value:
            os.sched_setaffinity(thread, before)
            raise OSError(f"of these only {sorted(granted)} can be had")

else:

    def _read_scheduling(thread: int) -> tuple[int, int]:
        raise OSError("this system has no scheduling classes to choose from here")

    def _write_scheduling(thread: int, value: tuple[str | int, int], found: tuple[int, int]) -> None:
        raise OSError("this system has no scheduling classes to choose from here")

    def _read_cpus(thread: int) -> frozenset[int]:
        raise OSError("this system does not tie a thread to CPUs")

    def _write_cpus(thread: int, value: frozenset[int], found: frozenset[int]) -> None:
        raise OSError("this system does not tie a thread to CPUs")


_SHARED: Final = _Shared()
