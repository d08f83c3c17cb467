"""The most robots one server carries, and what each of them costs it as they double."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from bench.fleet.processes import loaded, serving

P99_S = 0.150
LATE_S = 0.020
START, ROOF = 16, 512
STEP = 2


@dataclass(frozen=True)
class Kind:
    """One line's server and load.

    Attributes:
        name: What it is called.
        server: Of `bench.fleet.servers`.
        arguments: Of its command.
        load: The module that drives it.
    """

    name: str
    server: str
    arguments: tuple[str, ...] = ()
    load: str = "bench.fleet.robots"


KINDS = {
    "hypercorn": Kind("seqrt, hypercorn", "hypercorn"),
    "hypercorn-5ms": Kind("seqrt, hypercorn, the interpreter's own switch interval", "hypercorn", ("--switch-ms", "5")),
    "trio": Kind("seqrt, hypercorn on trio", "hypercorn", ("--loop", "trio")),
    "uvloop": Kind("seqrt, hypercorn on uvloop", "hypercorn", ("--loop", "uvloop")),
    "granian": Kind("seqrt's app, granian", "granian"),
    "granian-uvloop": Kind("seqrt's app, granian on uvloop", "granian", ("--loop", "uvloop")),
    "openpi": Kind("openpi's framing, its server's shape", "openpi", load="bench.fleet.openpi_robots"),
}
HEAD = (
    "| server | robots | acts p50 / p99 ms | posts p50 / p99 ms | nothing lost | CPU of the worker | a robot, ms a s "
    "| memory, MB | load: CPU, late p99 ms |\n|---|---|---|---|---|---|---|---|---|"
)


@dataclass
class Run:
    """So many robots for some seconds, and what was found."""

    robots: int
    found: dict[str, Any] = field(repr=False)

    @property
    def p99(self) -> float:
        """Of the acts asked, those that were never answered among them."""
        acts: list[float] = self.found["acts"]
        at = int(0.99 * self.found["asked"])
        return acts[at] if at < len(acts) else float("inf")

    @property
    def lost(self) -> str:
        """What was: "" where nothing was."""
        said = [f"{n} {code}" for code, n in self.found["codes"].items()]
        return ", ".join([*said, *([f"{self.found['missing']} frames"] if self.found["missing"] else [])])

    @property
    def carried(self) -> bool:
        """Whether all acts came in time and nothing was lost."""
        return self.p99 <= P99_S and not self.lost

    @property
    def late(self) -> float:
        """How late the load itself was at p99."""
        return float(self.found["late"]["p99"]) if self.found["late"] else 0.0

    def line(self, name: str) -> str:
        """A line of a table."""
        acts, posts, cores = self.found["acts"], self.found["posts"], self.found["worker_cores"][0]
        half = acts[len(acts) // 2] if acts else float("nan")
        cells = [
            name,
            str(self.robots),
            f"{half * 1e3:.0f} / {self.p99 * 1e3:.0f}",
            f"{posts['p50'] * 1e3:.1f} / {posts['p99'] * 1e3:.1f}" if posts else "-",
            "yes" if not self.lost else self.lost,
            f"{100 * cores:.0f} %",
            f"{cores * 1e3 / self.robots:.1f}",
            f"{self.found['rss_mb'][0]:.0f}",
            f"{100 * self.found['load_cores']:.0f} %, {self.late * 1e3:.1f}" + (" **late**" * (self.late > LATE_S)),
        ]
        return "| " + " | ".join(cells) + " |"


def measured(kind: Kind, robots: int, seconds: float) -> Run:
    """One run: a fresh server, so that nothing of the run before is left."""
    with serving(kind.server, *kind.arguments) as server:
        run = Run(robots, loaded([server], robots, seconds, module=kind.load))
    print(f"  {kind.name}: {robots} robots, p99 {run.p99 * 1e3:.0f} ms {run.lost}", file=sys.stderr, flush=True)
    return run


def most(kind: Kind, seconds: float, start: int) -> tuple[Run | None, list[Run]]:
    """Double until it is too many, then halve the gap; the last that was carried, and all that were tried."""
    tried, carried, too_many = list[Run](), None, None
    robots = start
    while robots <= ROOF and (too_many is None or carried is None or too_many - carried.robots > STEP):
        run = measured(kind, robots, seconds)
        tried.append(run)
        if run.carried:
            carried = run
        else:
            too_many = robots
            if robots <= 1:
                break
        low = carried.robots if carried is not None else 0
        robots = (low + too_many) // 2 if too_many is not None else robots * 2
        if too_many is not None and robots in (low, too_many):
            break
    return carried, tried


def table(which: list[str], seconds: float, start: int) -> None:
    """The most robots of each server."""
    print(
        f"act p99 within {P99_S * 1e3:g} ms and nothing lost; {seconds:g} s a run, each with a fresh server\n\n{HEAD}"
    )
    for name in which:
        carried, tried = most(KINDS[name], seconds, start)
        print((carried or tried[-1]).line(KINDS[name].name), flush=True)


def growth(which: list[str], seconds: float, counts: list[int]) -> None:
    """What each robot costs as they double."""
    print(f"{seconds:g} s a run, each with a fresh server\n\n{HEAD}")
    for name in which:
        for robots in counts:
            print(measured(KINDS[name], robots, seconds).line(KINDS[name].name), flush=True)
