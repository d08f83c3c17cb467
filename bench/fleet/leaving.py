"""Two workers and their robots: one worker is drained, or killed, while they run.

The robots are whole runs of our own client, split over processes; the workers have a secret, and a gateway before them
places the robots (``--direct``: the robots are given both workers' addresses instead).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from bench.fleet.processes import LOAD_CORE, Running, killed, serving, started

SECRET = "of-the-workers"
LATER_S = 4.0
STALL_S = 1.0
HEAD = (
    "| what happens | robots there / elsewhere | their runs end | after, s | posts failed there / elsewhere "
    "| held there / elsewhere | longest between rows, s, there / elsewhere | begun again |\n"
    "|---|---|---|---|---|---|---|---|"
)


def table(robots: int, seconds: float, *, direct: bool, processes: int) -> None:
    """Drained, killed with a stateless policy, and killed with one that has state, both wishes."""
    print(
        f"{robots} robots, {seconds:g} s a run, two workers {'by address' if direct else 'behind a gateway'}\n\n{HEAD}"
    )
    for what, happens, stateful, on_lost in (
        ("drained", "drain", False, "stop"),
        ("killed, no state", "kill", False, "stop"),
        ('killed, state, on_lost="stop"', "kill", True, "stop"),
        ('killed, state, on_lost="restart"', "kill", True, "restart"),
    ):
        print(_line(what, *_happened(happens, stateful, on_lost, robots, seconds, direct, processes)), flush=True)


def _happened(
    happens: str, stateful: bool, on_lost: str, robots: int, seconds: float, direct: bool, processes: int
) -> tuple[float, str, list[dict[str, Any]]]:
    """When it happened, to which worker, and what the robots saw."""
    with ExitStack() as stack:
        kind = "remembering" if stateful else "light"
        workers = [stack.enter_context(serving("hypercorn", "--policy", kind, "--secret", SECRET)) for _ in range(2)]
        urls = [f"http://{worker.url}" for worker in workers]
        arguments = ["--url", *urls, "--key", SECRET]
        if not direct:
            front = stack.enter_context(serving("gateway", "--secret", SECRET, "--workers", *urls))
            arguments = ["--url", f"http://{front.url}", "--model", "light"]
        arguments += [
            "--robots",
            str(robots // processes),
            "--seconds",
            str(seconds),
            "--on-lost",
            on_lost,
            "--stall",
            str(STALL_S),
        ]
        seats = [_seats(arguments) for _ in range(processes)]
        for each in seats:
            stack.enter_context(killed(each))
        for each in seats:
            _line_of(each)
        time.sleep(LATER_S)
        at = time.monotonic()
        _happen(happens, workers[0])
        found = [seat for each in seats for seat in _line_of(each)["seats"]]
        for each in seats:
            each.wait()
    return at, workers[0].url, found


def _happen(what: str, worker: Running) -> None:
    if what == "drain":
        worker.asked("drain")
    else:
        worker.kill()


def _seats(arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.fleet.seats", "--core", str(LOAD_CORE), *arguments]
    return started(command)


def _line_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"the robots ended with {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def _line(what: str, at: float, host: str, seats: list[dict[str, Any]]) -> str:
    there = [seat for seat in seats if seat["host"] == host]
    elsewhere = [seat for seat in seats if seat["host"] != host]
    ends = Counter(seat["ended"][0] for seat in there)
    others = Counter(seat["ended"][0] for seat in elsewhere)
    cells = [
        what,
        f"{len(there)} / {len(elsewhere)}",
        f"{_said(ends)} / {_said(others)}",
        _after(at, there),
        _both(there, elsewhere, lambda seat: sum(name == "PostFailed" for name, _ in seat["told"])),
        _both(there, elsewhere, lambda seat: any(held > at for held in _mid_run(seat))),
        f"{_gap(at, there):.2f} / {_gap(at, elsewhere):.2f}",
        str(sum(name == "EpisodeRestarted" for seat in seats for name, _ in seat["told"])),
    ]
    return "| " + " | ".join(cells) + " |"


def _mid_run(seat: dict[str, Any]) -> list[float]:
    """Holds that are not the one at a run's end."""
    holds: list[float] = seat["holds"]
    return holds if seat["ended"][0] != "completed" else holds[:-1]


def _said(ends: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in ends.items()) or "-"


def _both(there: list[dict[str, Any]], elsewhere: list[dict[str, Any]], count: Any) -> str:
    return f"{sum(map(count, there))} / {sum(map(count, elsewhere))}"


def _after(at: float, seats: list[dict[str, Any]]) -> str:
    """How long after it happened the runs were over, or the first row of a new episode or worker was played."""
    took = []
    for seat in seats:
        anew = [when for name, when in seat["told"] if name in ("EpisodeRestarted", "WorkerChanged") and when > at]
        if seat["ended"][0] not in ("completed",):
            took.append(seat["ended"][1] - at)
        elif anew:
            took.append(next((row for row in seat["played"] if row > max(anew)), float("inf")) - at)
    return f"{min(took):.2f} to {max(took):.2f}" if took else "-"


def _gap(at: float, seats: list[dict[str, Any]]) -> float:
    """The longest time between two rows, from a second before it happened on."""
    rows = [[row for row in seat["played"] if row > at - 1.0] for seat in seats]
    return max((b - a for each in rows for a, b in pairwise(each)), default=float("nan"))
