"""The live view in the terminal: how far the task is, and what the runtime is doing for it.

It draws `Progress` values, which the demo makes from its episode at each tick; rich refreshes in a thread of its own,
so that nothing is drawn on the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seqrt.demo.episode import Episode
from seqrt.demo.shapes import SOLVED_COVERAGE

STRIP = 40
"""Ticks shown, newest last."""

REFRESHES_A_SECOND = 8
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Progress:
    """What the view shows of one moment.

    Attributes:
        title: What runs.
        stage: What is going on, in a word or two.
        actions: Actions played, and the most there may be.
        coverage: Share of the goal covered.
        rows_left: Rows left in the plan.
        latency_s: The newest answer's latency, None before it.
        infer_s: The policy's share of it.
        underruns: How often the plan ran dry.
        starved: Ticks without a row.
        committed: Rows the newest request promised to play meanwhile, which went along.
        requests: Acts so far.
        strip: The last ticks, oldest first: rows left after each, None for a starved one.
    """

    title: str
    stage: str = "starting the worker"
    actions: tuple[int, int] = (0, 1)
    coverage: float = 0.0
    rows_left: int = 0
    latency_s: float | None = None
    infer_s: float | None = None
    underruns: int = 0
    starved: int = 0
    committed: int = 0
    requests: int = 0
    strip: tuple[int | None, ...] = ()


def progress_of(episode: Episode, *, title: str, stage: str, most_actions: int) -> Progress:
    """The moment an episode is in."""
    newest = next(reversed(episode.requests.values()), None)
    answered = episode.newest_answered
    last = episode.ticks[-1] if episode.ticks else None
    shown = [tick for tick in episode.ticks[-STRIP:] if tick.kind != "waiting"]
    return Progress(
        title=title,
        stage=stage,
        actions=(episode.actions, most_actions),
        coverage=last.coverage if last else 0.0,
        rows_left=last.rows_left if last else 0,
        latency_s=answered.latency_s if answered else None,
        infer_s=answered.infer_s if answered else None,
        underruns=episode.underruns,
        starved=episode.starved,
        committed=newest.committed if newest else 0,
        requests=len(episode.requests),
        strip=tuple(None if tick.kind == "starved" else tick.rows_left for tick in shown),
    )


class View:
    """Shows the newest `Progress` it was given."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    @contextmanager
    def shown(self, console: Console) -> Iterator[None]:
        """Show it until the block is left. Where the console is no terminal, nothing is drawn."""
        if not console.is_terminal:
            yield
            return
        with Live(
            get_renderable=lambda: drawn(self.progress),
            console=console,
            refresh_per_second=REFRESHES_A_SECOND,
            transient=True,
        ):
            yield


def drawn(progress: Progress) -> RenderableType:
    """One moment as rich draws it."""
    played, most = progress.actions
    bars = Table.grid(padding=(0, 1))
    bars.add_column(style="dim", justify="right")
    bars.add_column(width=STRIP)
    bars.add_column(no_wrap=True)
    bars.add_row("goal", _bar(progress.coverage, SOLVED_COVERAGE), f"{progress.coverage:6.1%} covered")
    bars.add_row("actions", _bar(played, most), f"{played:6d} of {most}")
    bars.add_row("buffer", _strip(progress.strip), f"{progress.rows_left:6d} rows left")
    figures = Table.grid(padding=(0, 3))
    figures.add_row(
        _figure("latency", _milliseconds(progress.latency_s)),
        _figure("of it planning", _milliseconds(progress.infer_s)),
        _figure("requests", str(progress.requests)),
    )
    figures.add_row(
        _figure("rows committed", str(progress.committed)),
        _figure("underruns", f"{progress.underruns} ({progress.starved} ticks)", alarm=progress.underruns > 0),
    )
    return Panel(Group(bars, Text(), figures), title=progress.title, subtitle=progress.stage, border_style="cyan")


def _bar(done: float, total: float) -> ProgressBar:
    return ProgressBar(total=total, completed=min(done, total), width=STRIP)


def _strip(rows_left: tuple[int | None, ...]) -> Text:
    """One column a tick, as high as the buffer was deep; starved ticks red."""
    deepest = max([rows for rows in rows_left if rows is not None] + [len(BLOCKS) - 1])
    strip = Text()
    for rows in rows_left:
        if rows is None:
            strip.append("█", style="red")
        else:
            strip.append(BLOCKS[max(1, round(rows / deepest * (len(BLOCKS) - 1)))], style="green")
    return strip


def _figure(name: str, value: str, *, alarm: bool = False) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold red" if alarm else "bold"))


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"
