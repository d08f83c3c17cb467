"""The cost of an act on loopback, ours and the peers', one after another in turn in one run.

Every client and every server is a process of its own and answers at once with the same chunk [50, 14] float32. What is
timed is one call of the client's own: an observation of so many bytes encoded, sent, answered and decoded. The clients
take turns in blocks, so that a busy machine is busy for all of them; CPU is each process's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SIZES = (300, 24_000, 301_000)
WARM_CALLS = 20


@dataclass(frozen=True)
class Peer:
    """One line of the table: its client, its server, and which interpreter runs them.

    Attributes:
        name: What it is called.
        server: The command of its server.
        caller: The command of its client, without the port.
        needs: "" for ours; else the option that names its interpreter.
        modules: What has to be there for it.
        caller_needs: Where the client's interpreter is another one than the server's.
    """

    name: str
    server: tuple[str, ...]
    caller: tuple[str, ...]
    needs: str = ""
    modules: tuple[str, ...] = ()
    caller_needs: str | None = None


def _server(kind: str) -> tuple[str, ...]:
    return (str(HERE / "cost_servers.py"), kind)


def _caller(kind: str) -> tuple[str, ...]:
    return (str(HERE / "cost_callers.py"), kind)


_LEROBOT = str(HERE / "cost_lerobot.py")
PEERS = (
    Peer("seqrt: the act carries it", _server("seqrt"), _caller("seqrt_act")),
    Peer("seqrt: the handle, posted and asked", _server("seqrt"), _caller("seqrt_ahead")),
    Peer("openpi-client 0.1.2, its framing served", _server("openpi"), _caller("openpi"), "peers", ("openpi_client",)),
    Peer("lerobot 0.4.4, client and server", (_LEROBOT, "serve"), (_LEROBOT, "ask"), "lerobot", ("lerobot", "grpc")),
    Peer("GR00T's framing (pyzmq, msgpack)", _server("groot"), _caller("groot"), "peers", ("zmq", "msgpack")),
    Peer(
        "sequence-ai 0.1.0, JSON served",
        _server("json"),
        _caller("sequence_ai"),
        "",
        ("sequence_ai",),
        caller_needs="peers",
    ),
)


@dataclass
class Cost:
    """What one size cost one peer."""

    took_s: list[float] = field(default_factory=list)
    client_s: float = 0.0
    server_s: float = 0.0

    def at(self, quantile: float) -> float:
        """A quantile of the calls, in seconds."""
        return sorted(self.took_s)[int(quantile * len(self.took_s))]


class Running:
    """One peer's two processes."""

    def __init__(self, peer: Peer, pythons: dict[str, str]) -> None:
        self.peer = peer
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        piped["start_new_session"] = True  # Ctrl-C is this process's to answer
        self._server = subprocess.Popen([pythons[peer.needs], *peer.server], **piped)
        port = self._line(self._server).strip()
        python = pythons[peer.caller_needs if peer.caller_needs is not None else peer.needs]
        self._caller = subprocess.Popen([python, *peer.caller, port], **piped)

    def call(self, size: int, calls: int, into: Cost) -> None:
        """Have ``calls`` calls made and add what they cost."""
        before = self._server_cpu_s()
        answer = json.loads(self._asked(self._caller, f"{size} {calls}"))
        into.server_s += self._server_cpu_s() - before
        into.client_s += answer["cpu_s"]
        into.took_s += answer["took_s"]

    def kill(self) -> None:
        """End both where they are."""
        for process in (self._caller, self._server):
            process.kill()

    def close(self) -> None:
        """Let both end: their input does."""
        for process in (self._caller, self._server):
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _server_cpu_s(self) -> float:
        return float(self._asked(self._server, "cpu"))

    def _asked(self, process: subprocess.Popen[str], order: str) -> str:
        assert process.stdin is not None
        process.stdin.write(order + "\n")
        process.stdin.flush()
        return self._line(process)

    def _line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.peer.name}: a process of its ended with {process.wait()}")
        return line


def missing(peer: Peer, pythons: dict[str, str]) -> str | None:
    """Why a peer cannot run here; None: it can."""
    for which in {peer.needs, peer.caller_needs} - {None, ""}:
        python = pythons.get(str(which))
        if python is None:
            return f"no --{which} PYTHON"
        looked = "import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))"
        done = subprocess.run([python, "-c", looked, *peer.modules], capture_output=True, text=True, check=True)
        if done.stdout.strip():
            return f"{python} has no {done.stdout.strip()}"
    return None


def measure(running: list[Running], rounds: int, calls: int) -> dict[tuple[int, str], Cost]:
    """All sizes and peers, in turn, ``rounds`` times ``calls`` calls each."""
    found = {(size, each.peer.name): Cost() for size in SIZES for each in running}
    for size in SIZES:
        for each in running:
            each.call(size, WARM_CALLS, Cost())
        for _ in range(rounds):
            for each in running:
                each.call(size, calls, found[size, each.peer.name])
    return found


def table(found: dict[tuple[int, str], Cost]) -> str:
    """Markdown rows, times in ms, each p50 also as a multiple of ours."""
    lines = [
        "| body | client | p50 ms | p99 ms | p50 / ours | client CPU ms | server CPU ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        ours = found[size, PEERS[0].name].at(0.5) if (size, PEERS[0].name) in found else float("nan")
        for (of, name), cost in found.items():
            if of == size:
                each = 1e3 / len(cost.took_s)
                lines.append(
                    f"| {size / 1000:g} KB | {name} | {cost.at(0.5) * 1e3:.2f} | {cost.at(0.99) * 1e3:.2f} "
                    f"| {cost.at(0.5) / ours:.2f} | {cost.client_s * each:.2f} | {cost.server_s * each:.2f} |"
                )
    return "\n".join(lines)


def run(*, only: list[str] | None, peers: str | None, lerobot: str | None, rounds: int, calls: int) -> None:
    """Measure and print."""
    pythons = {
        name: python for name, python in (("", sys.executable), ("peers", peers), ("lerobot", lerobot)) if python
    }
    wanted = [peer for peer in PEERS if only is None or any(peer.name.startswith(name) for name in only)]
    reasons = {peer.name: missing(peer, pythons) for peer in wanted}
    running: list[Running] = []
    try:
        for peer in wanted:
            if reasons[peer.name] is None:
                running.append(Running(peer, pythons))
        found = measure(running, rounds, calls)
    except BaseException:
        for each in running:
            each.kill()
        raise
    finally:
        for each in running:
            each.close()
    print(f"{rounds * calls} calls a line, in blocks of {calls} in turn; loopback; a process each\n\n{table(found)}")
    for name, reason in reasons.items():
        if reason is not None:
            print(f"\nskipped: {name}: {reason}")
