"""Twice as many robots as one worker carries: those let in are served as before, the others told to come again."""

from __future__ import annotations

import threading
import time

from bench.fleet.most import KINDS, Run
from bench.fleet.processes import Running, loaded, serving

LOOK_S = 1.0
HEAD = (
    "| robots | let in | acts/s served | act p50 / p99 ms | turned away: asks/s, p50 / p99 / max ms | lost "
    "| CPU | memory at the begin / most / end, MB |\n|---|---|---|---|---|---|---|---|"
)


def table(peak: int, seconds: float) -> None:
    """The peak alone, and twice the peak against a worker that takes so many episodes."""
    print(f"a worker that takes {peak} episodes at once; {seconds:g} s a line\n\n{HEAD}")
    for robots in (peak, 2 * peak):
        with serving(KINDS["hypercorn"].server, "--episodes", str(peak)) as server:
            held, done = list[float](), threading.Event()
            looking = threading.Thread(target=_look, args=(server, held, done))
            looking.start()
            run = Run(robots, loaded([server], robots, seconds))
            done.set()
            looking.join()
        print(_line(run, held), flush=True)


def _look(server: Running, held: list[float], done: threading.Event) -> None:
    """Memory, once all are connected."""
    time.sleep(4.0)
    while not done.wait(LOOK_S):
        held.append(server.rss_mb())


def _line(run: Run, held: list[float]) -> str:
    found = run.found
    acts, away, seconds = found["acts"], found["turned_away"], found["seconds"]
    asks = sum(n for code, n in found["codes"].items() if code.startswith("turned away"))
    others = {code: n for code, n in found["codes"].items() if not code.startswith("turned away")}
    cells = [
        str(run.robots),
        str(found["let_in"]),
        f"{len(acts) / seconds:.1f}",
        f"{acts[len(acts) // 2] * 1e3:.0f} / {acts[int(0.99 * len(acts))] * 1e3:.0f}",
        f"{asks / seconds:.0f}, " + " / ".join(f"{away[q] * 1e3:.0f}" for q in ("p50", "p99", "max")) if away else "-",
        ", ".join(f"{n} {code}" for code, n in others.items()) or "nothing",
        f"{100 * found['worker_cores'][0]:.0f} %",
        f"{held[0]:.0f} / {max(held):.0f} / {held[-1]:.0f}" if held else "-",
    ]
    return "| " + " | ".join(cells) + " |"
