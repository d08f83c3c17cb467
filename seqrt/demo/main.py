"""`seqrt demo`: the PushT task from pixels, its policy in a process of its own, shown while it runs and written down.

Both ends are here: the worker is started beside, the robot driven in this process, HTTP/2 between them, through a relay
that adds a round trip where one is asked for. Called by the command line.
"""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console

import seqrt
from seqrt.demo.animation import write_animation
from seqrt.demo.episode import Episode
from seqrt.demo.pictures import write_timeline
from seqrt.demo.process import beside, worker_process
from seqrt.demo.robot import PushTRobot
from seqrt.demo.shapes import SOLVED_COVERAGE
from seqrt.demo.view import Progress, View, progress_of
from seqrt.robots import threaded
from seqrt.testing.relay import Relay
from seqrt.timeline.events import Event
from seqrt.timeline.histogram import Quantiles
from seqrt.timeline.outcome import RunOutcome
from seqrt.timeline.recorder import Recorder, append

POLICY = "seqrt.demo.policy:PushTPolicy"
FRESH_S = 1.0
"""Wish for the age of an observation at execution, without added latency: a new plan about every eight actions."""


@dataclass(frozen=True)
class Options:
    """What the demo is asked for.

    Attributes:
        seed: Where the T begins.
        actions: The most actions played.
        latency_ms: Added to each round trip, half of it each way.
        prefetch: Ask for the next chunk while one plays.
        prefix: Send the committed rows along.
        directory: Where the pictures and the recording go.
        live: Show the view while it runs.
    """

    seed: int = 0
    actions: int = 300
    latency_ms: float = 0.0
    prefetch: bool = True
    prefix: bool = True
    directory: Path = field(default_factory=Path)
    live: bool = True

    @property
    def title(self) -> str:
        """What runs, in words."""
        told = [f"PushT, seed {self.seed}"]
        told += [f"{self.latency_ms:.0f} ms added to each round trip"] if self.latency_ms else []
        told += [] if self.prefetch else ["no prefetch"]
        told += [] if self.prefix else ["no prefix"]
        return ", ".join(told)


@dataclass(frozen=True)
class Played:
    """One finished episode.

    Attributes:
        outcome: The run's.
        coverage: Share of the goal covered at the end.
        episode: What happened.
        robot: The robot, with its moments.
        recording: The run's events, as a timeline's file holds them.
    """

    outcome: RunOutcome
    coverage: float
    episode: Episode
    robot: PushTRobot
    recording: bytes

    @property
    def solved(self) -> bool:
        """Whether the T lies on its goal."""
        return self.coverage > SOLVED_COVERAGE


def run_demo(arguments: Namespace) -> int:
    """What the command line calls: its arguments in, the exit code out."""
    options = Options(
        seed=arguments.seed,
        actions=arguments.actions,
        latency_ms=arguments.latency_ms,
        prefetch=not arguments.no_prefetch,
        prefix=not arguments.no_prefix,
        directory=Path(arguments.out),
        live=not arguments.quiet,
    )
    try:  # before anything is played: nothing of it would be lost for a folder
        options.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        print(f"seqrt: cannot write to {options.directory} ({why}); name another folder with --out", file=sys.stderr)
        return 1
    return anyio.run(demo, options)


async def demo(options: Options, console: Console | None = None) -> int:
    """Play one episode, print how it went, write its pictures.

    Returns:
        0, or 1 when the run stopped early.
    """
    console = console or Console()
    view = View(Progress(options.title, actions=(0, options.actions)))
    with view.shown(console) if options.live else nullcontext():
        played = await play(options, view)
    # Drawing takes a second or two and nothing else runs.
    files = await anyio.to_thread.run_sync(_write, options, played)
    _tell(console, options, played, files)
    return int(played.outcome.stopped_early)


async def play(options: Options, view: View | None = None) -> Played:
    """Play one episode against a worker started for it.

    Args:
        options: What is asked for.
        view: Shown the progress at each tick.
    """
    robot = PushTRobot(options.seed)
    episode, recorder = Episode(lambda: (len(robot.moments) - 1, robot.coverage)), Recorder()

    def watch(event: Event) -> None:
        episode.add(event)
        recorder.add(event)
        if view is not None:
            view.progress = progress_of(episode, title=options.title, stage="running", most_actions=options.actions)

    latency_s = options.latency_ms / 1000
    async with (
        worker_process(POLICY) as worker,
        _delayed(worker.port, latency_s) as port,
        seqrt.connect(base_url=f"http://127.0.0.1:{port}") as policy,
        beside(partial(_interrupt, policy)),
        # The world is stepped in a thread of its own, as a blocking driver is: it takes a share of the period that a
        # slow or busy machine does not have.
        threaded(robot) as arm,
    ):
        outcome = await policy.run(
            arm,
            max_actions=options.actions,
            until=lambda _: robot.success,
            validate=lambda row: bool((row >= 0.0).all() and (row <= 512.0).all()),
            on_chunk=lambda chunk: episode.add_rows(chunk.rows),
            play=seqrt.Play(
                prefetch=options.prefetch,
                continuity="auto" if options.prefix else None,
                seed=options.seed,
                fresh_s=FRESH_S + latency_s,
            ),
            limits=seqrt.Limits(startup_timeout_s=60.0),
            record=watch,
        )
    return Played(outcome, robot.coverage, episode, robot, recorder.take())


@asynccontextmanager
async def _delayed(port: int, latency_s: float) -> AsyncIterator[int]:
    """The port to connect to: the worker's own, or a relay's that delays both ways."""
    if not latency_s:
        yield port
        return
    async with Relay(port, up_s=latency_s / 2, down_s=latency_s / 2) as relay:
        yield relay.port


async def _interrupt(policy: seqrt.Policy) -> None:
    """Ctrl-C ends the run, which holds and tells the worker; a second one changes nothing."""
    with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
        async for _ in interrupts:
            policy.interrupt()


def _write(options: Options, played: Played) -> list[Path]:
    """The recording and, where something was played, the pictures."""
    name = f"pusht-{options.seed}" + (f"-{options.latency_ms:.0f}ms" if options.latency_ms else "")
    name += ("" if options.prefetch else "-no-prefetch") + ("" if options.prefix else "-no-prefix")
    options.directory.mkdir(parents=True, exist_ok=True)
    timeline, animation, recording = (options.directory / f"{name}.{kind}" for kind in ("png", "gif", "seqrt"))
    append(recording, played.recording, fresh=True)
    if not played.episode.ticks:
        return [recording]
    outcome = played.outcome
    title = f"{options.title}: {played.coverage:.1%} covered after {outcome.actions} actions"
    write_timeline(timeline, played.episode, played.robot.moments, title=f"{title}, {outcome.underruns} underruns")
    write_animation(animation, played.episode, played.robot.moments)
    return [timeline, animation, recording]


def _tell(console: Console, options: Options, played: Played, files: list[Path]) -> None:
    outcome = played.outcome
    ended = "on its goal" if played.solved else "not on its goal"
    console.print(f"{options.title}: the T is {ended}, {played.coverage:.1%} covered.", highlight=False, soft_wrap=True)
    console.print(str(outcome), highlight=False, soft_wrap=True)
    figures = {
        "latency": outcome.act_latency_s,
        "observation age": outcome.observation_age_s,
        "tick lateness": outcome.tick_lateness_s,
    }
    told = [f"{name} {_milliseconds(value)}" for name, value in figures.items() if value is not None]
    console.print("p50 / p95: " + ", ".join(told), highlight=False, soft_wrap=True)
    for path in files:
        console.print(f"written: {path}", highlight=False, soft_wrap=True)


def _milliseconds(quantiles: Quantiles) -> str:
    return f"{quantiles.p50 * 1000:.0f} / {quantiles.p95 * 1000:.0f} ms"
