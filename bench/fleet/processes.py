"""The processes of a table: a server on its core, the load on another, and what the system says of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORKER_CORE, LOAD_CORE = 0, 1
_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_S = 20.0


@dataclass(frozen=True)
class Running:
    """A server.

    Attributes:
        pid: Its process.
        port: Where it listens, on loopback.
        process: To talk to.
    """

    pid: int
    port: int
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """As the load takes it."""
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """What it has spent so far, all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mb(self) -> float:
        """What it holds of memory now."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return float(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def sockets(self) -> int:
        """How many it has open."""
        found = 0
        for each in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found += os.readlink(each).startswith("socket:")
            except OSError:
                continue
        return found

    def asked(self, order: str) -> dict[str, Any]:
        """What it answers to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def kill(self) -> None:
        """As a power cut does."""
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def serving(what: str, *arguments: str, core: int = WORKER_CORE, python: str = sys.executable) -> Iterator[Running]:
    """Run a server of `bench.fleet.servers`; it ends with its input."""
    command = [python, "-m", "bench.fleet.servers", what, "--core", str(core), *arguments]
    process = started(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise SystemExit(f"{what}: ended with {process.wait()}")
        yield Running(process.pid, int(port), process)
    finally:
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def loaded(servers: list[Running], robots: int, seconds: float, *arguments: str, **options: Any) -> dict[str, Any]:
    """Have so many robots drive the servers; what they found, and what the servers spent meanwhile.

    Returns:
        What `bench.fleet.robots` tells, ``worker_cores`` and ``rss_mb`` (each a list, one a server).
    """
    module = options.get("module", "bench.fleet.robots")
    command = [options.get("python", sys.executable), "-m", module, "--core", str(LOAD_CORE)]
    command += ["--robots", str(robots), "--seconds", str(seconds), *arguments]
    command += ["--url", *[each.url for each in servers]]
    spent: list[list[float]] = []
    held: list[float] = []
    last: dict[str, Any] = {}
    with started(command) as load, killed(load):
        assert load.stdout is not None
        for line in load.stdout:
            last = json.loads(line)
            if "counts" in last:
                spent.append([each.cpu_s() for each in servers])
                held = [each.rss_mb() for each in servers]
    if load.returncode or len(spent) != 2:
        raise SystemExit(f"the load ended with {load.returncode}")
    last["worker_cores"] = [(after - before) / last["seconds"] for before, after in zip(*spent, strict=True)]
    last["rss_mb"] = held
    return last


def started(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A process of this folder; an interrupt at the terminal is not for it but for whoever started it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True, **options
    )


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill it when something goes wrong here, an interrupt too."""
    try:
        yield
    except BaseException:
        process.kill()
        raise
