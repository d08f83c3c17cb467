"""An hour of a worker's life, compressed: robots come, run, leave or break off, and what is left of them.

In an hour 16 robots with episodes of a minute begin 960. Here an episode lasts a second, so that the hour's comings
and goings take minutes; a third of them go without a goodbye, a third in the middle of a post. After each quarter the
worker is left alone until episodes nobody ended are idle for too long (10 s here) and it has come to rest, and asked
what it holds. Before the first a few robots come, so that what is loaded at a first use is loaded.
"""

from __future__ import annotations

import json
import sys
import time

from bench.fleet.policies import IDLE_S
from bench.fleet.processes import LOAD_CORE, Running, killed, serving, started
from seqrt.worker.memory import EVERY_S

REST_S = 2 * EVERY_S + 2.0
EPISODES, QUARTERS, ROBOTS, EPISODE_S, FIRST = 960, 4, 16, 1.0, 64
HEAD = (
    "| episodes so far | acts, posts answered | memory once they left / at rest, MB | in use, MB | objects, thousands "
    "| tasks | sockets | episodes held | bytes of frames |\n|---|---|---|---|---|---|---|---|---|"
)


def table(episodes: int) -> None:
    """Quarter by quarter."""
    print(f"{episodes} episodes of {EPISODE_S:g} s, {ROBOTS} at a time\n\n{HEAD}")
    with serving("hypercorn", "--policy", "soon-idle") as server:
        print(_line("started", "-", server.rss_mb(), server), flush=True)
        for name, more in (
            (f"0, after {FIRST} to warm it up", FIRST),
            *((f"{quarter * episodes // QUARTERS}", episodes // QUARTERS) for quarter in range(1, QUARTERS + 1)),
        ):
            found, left_mb = _visits(server, more), server.rss_mb()
            time.sleep(IDLE_S + REST_S)
            print(_line(name, found, left_mb, server), flush=True)


def _visits(server: Running, episodes: int) -> str:
    command = [sys.executable, "-m", "bench.fleet.comings", "--url", server.url, "--robots", str(ROBOTS)]
    command += ["--episodes", str(episodes), "--seconds", str(EPISODE_S), "--core", str(LOAD_CORE)]
    with started(command) as load, killed(load):
        found = json.loads(load.communicate()[0])
    refused = "".join(f", {n} {code}" for code, n in found["codes"].items())
    return f"{found['acts']}, {found['posts']}{refused}"


def _line(episodes: str, found: str, left_mb: float, server: Running) -> str:
    held = server.asked("statistics")
    cells = [
        episodes,
        found,
        f"{left_mb:.0f} / {server.rss_mb():.0f}",
        f"{held['live_mb']:.1f}",
        f"{held['blocks'] / 1e3:.0f}",
        str(held["tasks"]),
        str(server.sockets()),
        str(held["episodes"]),
        str(held["frame_bytes"]),
    ]
    return "| " + " | ".join(cells) + " |"
