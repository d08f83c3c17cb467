"""Two workers behind a gateway, and one of them drains or is killed while robots run: what the robots notice.

    python bench/leaving.py drain --robots 8
    python bench/leaving.py kill --robots 8 --on-lost restart

The workers are processes of their own, the gateway and the robots share this one. A robot is `seqrt.connect` and
`Policy.run` on a fake arm: 15 Hz, a state of 8 numbers and two pictures of 24 KB, an act about every second. Each
robot makes one run after the other; the worker leaves three seconds after all of them move. Told is, for the robots
that were at that worker and for the others, how their runs ended, how long the arms were without a row, what had to be
sent again, and from the kill to the first row of a new episode, or to hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

import seqrt
from seqrt.gateway.server import gateway
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

ROOT: Final = "of-the-workers"
AFTER_S: Final = 3.0
POLICY: Final = """
import time
import numpy as np
import seqrt

@seqrt.policy(actions=seqrt.Actions(key="actions", hz=15, open_loop_horizon=16, space="absolute"), episodes="shared",
              concurrency=seqrt.Concurrency(max_concurrent=16))
class Paced:
    def infer(self, observations, *, episode):
        time.sleep(0.02)
        for each in episode:
            each.state["acts"] = each.state.get("acts", 0) + 1
        return [{"actions": np.zeros((32, 8)) + o["state"][0] + np.arange(1.0, 33.0)[:, None]} for o in observations]
"""


@dataclass
class Robot:
    """One robot's runs."""

    policy: seqrt.Policy
    events: list[ev.Event] = field(default_factory=list)
    outcomes: list[seqrt.RunOutcome] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    at: str = ""
    settled_s: float | None = None


class Arm(FakeArm):
    """With two pictures, as two cameras would give them encoded."""

    def __init__(self) -> None:
        super().__init__(8)
        self._taken = 0
        self._pictures = [os.urandom(24_000) for _ in range(2)]

    def observe(self) -> dict[str, Any]:
        """One observation."""
        self._taken += 1
        number = self._taken.to_bytes(4, "little")  # no two are the same
        return {**super().observe(), "left": number + self._pictures[0], "right": number + self._pictures[1]}


@contextmanager
def worker(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker in a process of its own, and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "seqrt.cli", "serve", "paced:Paced", "--port", "0", "--secret-env", "ROOT_KEY"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "ROOT_KEY": ROOT},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        if found is None:
            raise RuntimeError("the worker did not say where it is")
        yield process, found[0]
    finally:
        process.kill()
        process.wait()


async def drive(robot: Robot, rows: int, over: anyio.Event) -> None:
    """One run after the other until it is over."""
    while not over.is_set():
        try:
            robot.outcomes.append(
                await robot.policy.run(
                    Arm(),
                    max_actions=rows,
                    validate=lambda row: True,
                    record=robot.events.append,
                    limits=seqrt.Limits(max_stall_s=2.0),
                )
            )
        except seqrt.SeqrtError as error:
            robot.errors.append(type(error).__name__)
            robot.settled_s = robot.settled_s or anyio.current_time()
            if robot.policy.last_outcome is not None:
                robot.outcomes.append(robot.policy.last_outcome)


def told(robots: list[Robot], left_at: float) -> dict[str, Any]:
    """What a group of robots noticed."""
    events = [event for robot in robots for event in robot.events]
    settled = [robot.settled_s - left_at for robot in robots if robot.settled_s is not None]
    return {
        "robots": len(robots),
        "runs": sum(len(robot.outcomes) for robot in robots),
        "errors": [error for robot in robots for error in robot.errors],
        "acts_failed": sum(isinstance(event, ev.ActFailed) for event in events),
        "posts_failed": sum(isinstance(event, ev.PostFailed) for event in events),
        "acts_failed_for_good": sum(isinstance(event, ev.ActFailed) and not event.retrying for event in events),
        "worker_changes": sum(isinstance(event, ev.WorkerChanged) for event in events),
        "episodes_restarted": sum(isinstance(event, ev.EpisodeRestarted) for event in events),
        "underrun_s": round(sum(outcome.underrun_s for outcome in robots_outcomes(robots)), 3),
        "frames_dropped": sum(outcome.frames_dropped for outcome in robots_outcomes(robots)),
        "slowest_to_settle_s": round(max(settled), 2) if settled else None,
    }


def robots_outcomes(robots: list[Robot]) -> list[seqrt.RunOutcome]:
    """All their runs'."""
    return [outcome for robot in robots for outcome in robot.outcomes]


async def measure(how: str, count: int, on_lost: Any, rows: int) -> dict[str, Any]:
    """Run it once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "paced.py").write_text(POLICY)
        (leaving, first), (_, second) = (stack.enter_context(worker(folder)) for _ in range(2))
        async with gateway({"paced": [first, second]}, secret=ROOT) as front, anyio.create_task_group() as tasks:
            robots, over, closed = list[Robot](), anyio.Event(), anyio.Event()

            async def one(task_status: anyio.abc.TaskStatus[Any]) -> None:
                async with seqrt.connect(model="paced", base_url=front.url, on_lost=on_lost) as policy:
                    robots.append(robot := Robot(policy))
                    task_status.started()
                    await drive(robot, rows, over)
                    await closed.wait()

            for _ in range(count):
                await tasks.start(one)
            await anyio.sleep(AFTER_S)
            for robot in robots:
                robot.at = robot.policy.statistics().host
            left_at = anyio.current_time()
            leaving.send_signal(signal.SIGTERM if how == "drain" else signal.SIGKILL)
            tasks.start_soon(watch, robots, left_at)
            await anyio.sleep(1.5 * rows / 15)
            over.set()
            closed.set()
            gone = first.removeprefix("http://")
            struck = [robot for robot in robots if robot.at == gone]
            others = [robot for robot in robots if robot.at != gone]
        exit_code = leaving.poll()
        return {
            "how": how, "on_lost": on_lost, "at_that_worker": told(struck, left_at), "others": told(others, left_at),
            "worker_ended": exit_code is not None,
        }  # fmt: skip


async def watch(robots: list[Robot], left_at: float) -> None:
    """Note when a robot that began anew plays a row of that; a look every 20 ms, for ten seconds."""
    for _ in range(500):
        await anyio.sleep(0.02)
        for robot in robots:
            kinds = [type(event) for event in robot.events]
            if robot.settled_s is None and ev.EpisodeRestarted in kinds:
                behind = robot.events[kinds.index(ev.EpisodeRestarted) :]
                if any(isinstance(event, ev.Answered) for event in behind):
                    robot.settled_s = anyio.current_time()


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["drain", "kill"])
    parser.add_argument("--robots", type=int, default=8)
    parser.add_argument("--on-lost", choices=["stop", "restart"], default="stop")
    parser.add_argument("--rows", type=int, default=150, help="rows a run")
    given = parser.parse_args()
    result = anyio.run(measure, given.how, given.robots, given.on_lost, given.rows)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
