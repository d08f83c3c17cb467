"""What breaks while a run goes on, with a buffer that covers it: what the arm, the worker and the link saw of it.

Over sockets: a worker in a process of its own, a relay of 20 ms each way and 20 Mbit/s up in front of it, and a run at
20 Hz that is fed every frame of 20 KB. Chunks cover 8 s and are asked for every half a second, so that the plan is
never shorter than what a fault takes. In virtual time: ten minutes of stalls of 500 ms at random moments.

Frames lost are observations that the policy was never handed though a later one of the episode was; acts run twice are
calls of ``infer`` by the same process for the same newest observation.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc

import seqrt
from seqrt.observation import Observations, Stream
from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.outages import stalls_at_random
from seqrt.testing.policies import Scripted
from seqrt.testing.relay import Relay
from seqrt.timeline import events as ev

ROOT = Path(__file__).parent.parent.parent
HZ: Final = 20.0
ROWS: Final = 160
FRAME: Final = 20_000
ONE_WAY_S: Final = 0.020
BYTES_PER_S: Final = 20e6 / 8
WARM_S: Final = 4.0
AFTER_S: Final = 12.0
VIRTUAL_S: Final = 600.0
INFER_VIRTUAL_S: Final = 0.0603
"""Off the grid of ticks, as the delays in virtual time are."""


class Robot:
    """Sees a new frame at each step and counts holds."""

    def __init__(self) -> None:
        self.holds = 0

    def observe(self) -> dict[str, bytes]:
        return {"frame": os.urandom(FRAME)}

    def act(self, row: Any) -> None:
        return None

    def hold(self) -> None:
        self.holds += 1


class Worker:
    """A worker's process, and what its policy says it was handed.

    Attributes:
        served: For each call, the numbers of the observations.
        port: Where it listens.
    """

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        self.served: list[list[int]] = []
        self.port = 0
        self.listens = anyio.Event()

    async def listen(self) -> None:
        """Take down what it says until it ends."""
        assert self.process.stdout is not None
        left = ""
        async for data in self.process.stdout:
            *lines, left = (left + data.decode()).split("\n")
            for word, *numbers in (line.split() for line in lines):
                if word == "port":
                    self.port = int(numbers[0])
                    self.listens.set()
                else:
                    self.served.append([int(number) for number in numbers])

    async def go(self) -> None:
        """Let it listen, where it stood by."""
        assert self.process.stdin is not None
        await self.process.stdin.send(b"\n")
        await self.listens.wait()


async def started(tasks: anyio.abc.TaskGroup, *more: str) -> Worker:
    """Start a worker."""
    command = [sys.executable, "-m", "bench.link.faults_server", "--rows", str(ROWS), "--hz", str(HZ), *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await anyio.open_process(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stderr=None, start_new_session=True
    )  # Ctrl-C is this process's to answer: a worker ends with its input
    worker = Worker(process)
    tasks.start_soon(worker.listen)
    return worker


@dataclass
class Scene:
    """What a fault is done to."""

    relay: Relay
    worker: Worker
    spare: Worker | None = None


async def killed(scene: Scene) -> None:
    """SIGKILL, and another process on the same port 2 s later."""
    assert scene.spare is not None
    os.kill(scene.worker.process.pid, signal.SIGKILL)
    await anyio.sleep(2.0)
    await scene.spare.go()


async def frozen(scene: Scene) -> None:
    """SIGSTOP for 5 s."""
    os.kill(scene.worker.process.pid, signal.SIGSTOP)
    await anyio.sleep(5.0)
    os.kill(scene.worker.process.pid, signal.SIGCONT)


async def half_open(scene: Scene) -> None:
    """The connection there is carries nothing any more, and nobody is told; new ones are well."""
    scene.relay.half_open()
    await anyio.sleep(0.3)  # something of the stream is lost by now, so that the connection stays as it is
    scene.relay.mend()


async def reset(scene: Scene) -> None:
    """RST in the middle of a body: 8 KB after now, of a stream of frames of 20 KB."""
    scene.relay.reset_after(8_000)


FAULTS: Final[dict[str, Callable[[Scene], Awaitable[None]]]] = {
    "server killed, back after 2 s": killed,
    "server frozen for 5 s": frozen,
    "half-open connection": half_open,
    "reset in the middle of a body": reset,
}


@dataclass(frozen=True)
class Seen:
    """One line of the table."""

    what: str
    underruns: int
    holds: int
    lost: int
    twice: int
    again: int
    connections: int | None
    noticed_s: float | None
    longest_s: float

    def line(self) -> str:
        """As a row of Markdown."""
        noticed = "-" if self.noticed_s is None else f"{self.noticed_s:.2f} s"
        return (
            f"| {self.what} | {self.underruns} | {self.holds} | {self.lost} | {self.twice} | {self.again} "
            f"| {'-' if self.connections is None else self.connections} | {noticed} | {self.longest_s:.2f} s |"
        )


HEAD = (
    "| what | underruns | hold calls in the run | frames lost | acts run twice | run again by the next process "
    "| connections made after the first | noticed after | longest without an answer |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def frames_lost(observed: Iterable[int], served: list[list[int]]) -> int:
    """How many of the observed steps the policy was never handed, up to the newest one it was."""
    handed = {step for steps in served for step in steps}
    newest = max(handed, default=-1)
    return sum(step <= newest and step not in handed for step in observed)


def run_twice(served: list[list[int]]) -> int:
    """How many calls were for an observation that had been acted on."""
    return sum(count - 1 for count in Counter(steps[-1] for steps in served).values())


def longest(events: list[ev.Event]) -> float:
    """The longest time between two answers."""
    at = [event.at_s for event in events if isinstance(event, ev.Answered)]
    return max((after - before for before, after in pairwise(at)), default=0.0)


async def over_sockets(what: str, fault: Callable[[Scene], Awaitable[None]]) -> Seen:
    """One fault in a run."""
    robot, events, done_s = Robot(), list[ev.Event](), [0.0]
    async with anyio.create_task_group() as tasks:
        worker = await started(tasks)
        await worker.listens.wait()
        spare = await started(tasks, "--port", str(worker.port), "--stand-by") if fault is killed else None
        async with Relay(worker.port, up_s=ONE_WAY_S, down_s=ONE_WAY_S, up_bytes_per_s=BYTES_PER_S) as relay:
            scene = Scene(relay, worker, spare)
            async with seqrt.connect(base_url=f"http://127.0.0.1:{relay.port}") as policy:
                began_s = anyio.current_time()

                async def break_it() -> None:
                    await anyio.sleep(WARM_S)
                    done_s[0] = anyio.current_time() - began_s
                    await fault(scene)

                tasks.start_soon(break_it)
                outcome = await policy.run(
                    robot,
                    validate=lambda row: True,
                    max_seconds=WARM_S + AFTER_S,
                    play=seqrt.Play(fresh_s=0.5),
                    record=events.append,
                )
            connections = relay.statistics().connections
        workers = [worker] if spare is None else [worker, spare]
        for each in workers:
            with suppress(ProcessLookupError):
                each.process.terminate()
            await each.process.wait()
    told = (ev.LinkLost, ev.ActFailed, ev.PostFailed)
    after = [event.at_s for event in events if isinstance(event, told) and event.at_s >= done_s[0]]
    served = [steps for each in workers for steps in each.served]
    twice = sum(run_twice(each.served) for each in workers)
    observed = [event.step for event in events if isinstance(event, ev.Observed)]
    return Seen(
        what=what,
        underruns=outcome.underruns,
        holds=robot.holds - 1 if outcome.reason != "completed" else robot.holds,
        lost=frames_lost(observed, served),
        twice=twice,
        again=run_twice(served) - twice,
        connections=connections - 1,
        noticed_s=min(after) - done_s[0] if after else None,
        longest_s=longest(events),
    )


async def stalls() -> Seen:
    """Ten minutes with stalls of 500 ms, about one in five seconds."""
    windowed = Observations(streams={"state": Stream(every=1)})
    policy = Scripted(rows=ROWS, hz=HZ, infer_s=INFER_VIRTUAL_S, observations=windowed)
    events, robot = list[ev.Event](), Robot()
    gaps = stalls_at_random(every_s=5.0, for_s=0.5, until_s=VIRTUAL_S)
    async with connected(policy, up_s=0.0203, down_s=0.0203, stalls=gaps) as there:
        outcome = await there.policy.run(
            observe=lambda: {"state": [0.0, 1.0]},
            act=robot.act,
            hold=robot.hold,
            validate=lambda row: True,
            max_seconds=VIRTUAL_S,
            play=seqrt.Play(fresh_s=0.5),
            record=events.append,
        )
    served = [list(call.steps) for call in policy.calls]
    observed = [event.step for event in events if isinstance(event, ev.Observed)]
    return Seen(
        what=f"{len(gaps)} stalls of 0.5 s in ten minutes (virtual time)",
        underruns=outcome.underruns,
        holds=robot.holds,
        lost=frames_lost(observed, served),
        twice=run_twice(served),
        again=0,
        connections=None,
        noticed_s=None,
        longest_s=longest(events),
    )


def table(only: list[str] | None) -> None:
    """Measure and print, line by line."""
    logging.disable(logging.WARNING)
    print(f"{ROWS} rows at {HZ:g} Hz, a fault after {WARM_S:g} s of {WARM_S + AFTER_S:g}\n\n{HEAD}", flush=True)
    for what, fault in FAULTS.items():
        if only is None or any(word in what for word in only):
            print(anyio.run(over_sockets, what, fault).line(), flush=True)
    if only is None or "stalls" in only:
        print(virtual.run(stalls).line(), flush=True)
