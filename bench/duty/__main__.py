"""The four chunk lengths of the refill table, ours and the peers' own loops in one run.

An answer takes 0.79 s, of which 0.128 s are inference, served one at a time; the rest is a relay's, 0.33 s each way.
Each loop drives the same arm for the same time, with rows by the clock and with rows from the arm's state; figures
leave out the first seconds.

    pip install -e '.[serve,bench]'
    python -m bench.duty                                  # all of it, about four minutes
    python -m bench.duty --only seqrt sequence-ai --by state
    python -m bench.duty --peers /path/to/python          # an interpreter that has the peers already
    python -m bench.duty --lerobot /path/to/python        # and LeRobot's loop, in one that has lerobot[async]==0.4.4

The peers run in an environment of their own (openpi-client holds numpy below 2), made in .venv-peers where there is
none: pip install sequence-ai==0.1.0 openpi-client typing_extensions. LeRobot brings torch, so nothing installs it here:
without --lerobot its lines are left out. Its imports keep two cores busy for seconds: --at-once 2 there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from bench.alone import alone
from bench.duty.arm import measures

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGES = ("sequence-ai==0.1.0", "openpi-client>=0.1.2", "typing_extensions")

CHUNKS = ((32, 15.0), (15, 15.0), (32, 50.0), (25, 50.0))
"""Rows and rate: they cover 2.13, 1.00, 0.64 and 0.50 s."""


@dataclass(frozen=True)
class Loop:
    """One line of the table.

    Attributes:
        name: What it is called.
        server: Which of `bench.duty.servers`.
        command: How its process is started, without the port and the chunk.
        python: Whose interpreter it needs: ours, the peers' or LeRobot's.
        only: The chunks it is for; None: all.
        note: What to say of it below the table.
    """

    name: str
    server: str
    command: tuple[str, ...]
    python: str = "ours"
    only: tuple[tuple[int, float], ...] | None = None
    note: str = ""


_OURS = ("-m", "bench.duty.ours")
_LEROBOT = (str(HERE / "peers_lerobot.py"), "drive")
_AVERAGED = (
    "plays 0.3 of the row it had and 0.7 of the new one unless told otherwise. Such a row is as late as that average "
    "of the two, and a seam is where another chunk joins in or leaves off; `latest_only` plays rows as they came."
)
LOOPS = (
    Loop("seqrt", "seqrt", _OURS),
    Loop("seqrt, one request at a time", "seqrt", (*_OURS, "--in-flight", "1")),
    Loop("seqrt, Stretch()", "seqrt", (*_OURS, "--late", "stretch"), only=CHUNKS[2:]),
    Loop("seqrt, Lag(1.0)", "seqrt", (*_OURS, "--late", "lag"), only=CHUNKS[2:]),
    Loop("sequence-ai 0.1.0", "json", (str(HERE / "peers.py"), "sequence-ai"), python="peers"),
    Loop(
        "sequence-ai 0.1.0, prefetch off",
        "json",
        (str(HERE / "peers.py"), "sequence-ai", "--no-prefetch"),
        python="peers",
    ),
    Loop("openpi-client 0.1.2", "openpi", (str(HERE / "peers.py"), "openpi"), python="peers"),
    Loop("lerobot 0.4.4", "lerobot", _LEROBOT, python="lerobot", note=_AVERAGED),
    Loop("lerobot 0.4.4, latest_only", "lerobot", (*_LEROBOT, "--aggregate", "latest_only"), python="lerobot"),
)


@dataclass(frozen=True)
class Cell:
    """One run."""

    loop: Loop
    rows: int
    hz: float
    by: str

    @property
    def covers_s(self) -> float:
        """What a chunk covers."""
        return self.rows / self.hz


def peers_python(given: str | None) -> str:
    """An interpreter that has the peers; made where there is none."""
    if given is not None:
        return given
    python = ROOT / ".venv-peers" / "bin" / "python"
    if not python.exists():
        say(f"making {python.parent.parent.name}: {', '.join(PACKAGES)}")
        venv.create(ROOT / ".venv-peers", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return str(python)


async def run_cell(cell: Cell, seconds: float, pythons: dict[str, str]) -> dict[str, float]:
    """Start a server and a loop against it, and read the arm's log."""
    chunk = ["--rows", str(cell.rows), "--hz", str(cell.hz)]
    interpreter = pythons[cell.loop.python]
    serve = [sys.executable, "-m", "bench.duty.servers", cell.loop.server, *chunk, "--by", cell.by]
    serve += ["--python", interpreter] if cell.loop.python == "lerobot" else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    async with alone(serve, cwd=ROOT, env=environment) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        port = (await server.stdout.receive()).decode().strip()
        drive = [interpreter, *cell.loop.command, "--port", port, "--seconds", str(seconds)]
        done = await anyio.run_process(
            [*drive, *(chunk if cell.loop.python != "ours" else ())],
            cwd=ROOT, env=environment, stderr=None, start_new_session=True,
        )  # fmt: skip
        await server.stdin.aclose()
        server.terminate()
    arm: dict[str, Any] = json.loads(done.stdout)
    log = [(float(when), float(x), float(t), float(i)) for when, x, t, i in arm["log"]]
    return measures(log, cell.hz, acts=arm["acts"], inference_s=arm["inference_s"])


async def run_all(
    cells: list[Cell], options: argparse.Namespace, pythons: dict[str, str]
) -> dict[Cell, dict[str, float]]:
    """All cells, some at a time: they sleep most of the time."""
    found: dict[Cell, dict[str, float]] = {}
    room = anyio.CapacityLimiter(options.at_once)

    async def one(cell: Cell) -> None:
        async with room:
            found[cell] = await run_cell(cell, options.seconds, pythons)
            say(f"{len(found)}/{len(cells)}  {cell.covers_s:.2f} s by {cell.by}: {cell.loop.name}")

    async with anyio.create_task_group() as tasks:
        for cell in cells:
            tasks.start_soon(one, cell)
    return {cell: found[cell] for cell in cells}


def table(found: dict[Cell, dict[str, float]]) -> str:
    """The table, as markdown."""
    lines = [
        "| covers | rows by | loop | moving | late p50 | late p95 | reversals at seams | seam p50 | seam max "
        "| speed | acts/s | inference |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell, m in found.items():
        lines.append(
            f"| {cell.covers_s:.2f} s | {cell.by} | {cell.loop.name} | {100 * m['moving']:.1f} % "
            f"| {1000 * m['late_p50_s']:.0f} ms | {1000 * m['late_p95_s']:.0f} ms | {100 * m['reversals']:.0f} % "
            f"| {1000 * m['seam_p50_s']:.0f} ms | {1000 * m['seam_max_s']:.0f} ms | {m['speed']:.2f} "
            f"| {m['acts_per_s']:.2f} | {100 * m['inference_share']:.0f} % |"
        )
    notes = {f"\n{cell.loop.name}: {cell.loop.note}" for cell in found if cell.loop.note}
    return "\n".join([*lines, *sorted(notes)])


def say(line: str) -> None:
    """Progress, beside the table."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.duty", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=18.0, help="each run (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=4, help="runs side by side (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="loops whose names begin so")
    parser.add_argument("--by", nargs="+", choices=("clock", "state"), default=["clock", "state"])
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the peers")
    parser.add_argument("--lerobot", metavar="PYTHON", help="an interpreter that has lerobot")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    loops = [x for x in LOOPS if options.only is None or any(x.name.startswith(name) for name in options.only)]
    if options.lerobot is None and any(loop.python == "lerobot" for loop in loops):
        say("left out, for want of --lerobot PYTHON: lerobot 0.4.4")
        loops = [loop for loop in loops if loop.python != "lerobot"]
    cells = [
        Cell(loop, rows, hz, by)
        for (rows, hz), by, loop in itertools.product(CHUNKS, options.by, loops)
        if loop.only is None or (rows, hz) in loop.only
    ]
    pythons = {"ours": sys.executable, "lerobot": options.lerobot}
    if any(loop.python == "peers" for loop in loops):
        pythons["peers"] = peers_python(options.peers)
    try:
        found = anyio.run(run_all, cells, options, pythons)
    except KeyboardInterrupt:
        say("stopped")
        return 130
    sys.stdout.write(table(found) + "\n")
    if options.json is not None:
        plain = [{**asdict(cell), "loop": cell.loop.name, **m} for cell, m in found.items()]
        options.json.write_text(json.dumps(plain, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
