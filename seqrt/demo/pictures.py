"""The episode's timeline as one picture: what was played, what was in the buffer, when chunks were asked for.

Drawn by matplotlib without its global state, from an `Episode` alone; called when the run is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from seqrt.demo.episode import Episode, Request, Tick
from seqrt.demo.robot import Moment
from seqrt.demo.shapes import PERIOD_S, SOLVED_COVERAGE

PLAYED, STARVED, WAITING = "#3a9d6e", "#d1495b", "#d9d9d9"
NETWORK, PLANNING, DROPPED = "#8fb8de", "#2f6690", "#c9c9c9"
COVERED = "#e09f3e"
COLOURS = {"played": PLAYED, "starved": STARVED}
INK = "#333333"


def write_timeline(path: Path, episode: Episode, moments: Sequence[Moment], *, title: str) -> None:
    """Write the timeline as a PNG.

    Args:
        path: The file, written anew.
        episode: A finished one with at least one tick.
        moments: The robot's, which the episode's ticks point to.
        title: What it shows and how it ended.
    """
    figure = Figure(figsize=(11, 5.6), dpi=130, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    heights = [2.4, 0.45, 1.6, 0.7 + 0.3 * (1 + max(_lanes(list(episode.requests.values())), default=0))]
    coverage, ticks, buffer, acts = figure.subplots(4, 1, sharex=True, height_ratios=heights)
    _draw_coverage(coverage, episode.ticks)
    _draw_ticks(ticks, episode.ticks)
    _draw_buffer(buffer, episode.ticks)
    _draw_steps(buffer.twinx(), episode.ticks, moments)
    _draw_acts(acts, list(episode.requests.values()))
    for axes in (coverage, ticks, buffer, acts):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=INK)
        for tick in episode.ticks:
            if tick.seam_jump is not None:
                axes.axvline(tick.at_s, color=INK, linewidth=0.5, alpha=0.25)
    acts.set_xlim(0.0, episode.ticks[-1].at_s + PERIOD_S)
    acts.set_xlabel("seconds since the run began; a thin line where a new chunk took over", fontsize=8, color=INK)
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    canvas.print_png(path)


def _draw_coverage(axes: Axes, ticks: Sequence[Tick]) -> None:
    times = [tick.at_s for tick in ticks]
    axes.axhline(SOLVED_COVERAGE, color=INK, linewidth=0.8, linestyle=":")
    axes.plot(times, [tick.coverage for tick in ticks], color=COVERED, linewidth=2.0)
    axes.set_ylim(0.0, 1.03)
    axes.set_yticks([0.0, 0.5, SOLVED_COVERAGE])
    _named(axes, "goal covered")


def _draw_ticks(axes: Axes, ticks: Sequence[Tick]) -> None:
    spans = [(tick.at_s, PERIOD_S * 0.88) for tick in ticks]
    axes.broken_barh(spans, (0.0, 1.0), facecolors=[COLOURS.get(tick.kind, WAITING) for tick in ticks])
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([])
    _named(axes, "ticks")
    names = {"played": PLAYED, "starved": STARVED, "waiting for the first chunk": WAITING}
    _legend(axes, [Patch(color=colour, label=name) for name, colour in names.items()])


def _draw_buffer(axes: Axes, ticks: Sequence[Tick]) -> None:
    times = np.array([tick.at_s for tick in ticks])
    rows = np.array([tick.rows_left for tick in ticks])
    axes.fill_between(times, rows, step="post", color=PLAYED, alpha=0.25, linewidth=0.0)
    axes.step(times, rows, where="post", color=PLAYED, linewidth=1.2)
    axes.set_ylim(0.0, max(1.0, float(rows.max()) * 1.1))
    _named(axes, "rows in\nthe buffer")


def _draw_steps(axes: Axes, ticks: Sequence[Tick], moments: Sequence[Moment]) -> None:
    """From row to row, how far the target moves: at seams and elsewhere."""
    seams: list[tuple[float, float]] = []
    others: list[tuple[float, float]] = []
    for tick in ticks:
        now, before = moments[tick.moment].target, moments[tick.moment - 1].target if tick.moment else None
        if now is None or before is None or tick.kind != "played":
            continue
        step = max(abs(now[0] - before[0]), abs(now[1] - before[1]))
        (others if tick.seam_jump is None else seams).append((tick.at_s, step))
    legend = []
    for steps, colour, name in ((others, "#b5b5b5", "row to row, px (right)"), (seams, INK, "the same at a seam")):
        dots = Line2D([at_s for at_s, _ in steps], [step for _, step in steps], linestyle="none", marker="o")
        dots.set(markersize=3.0, color=colour, label=name)
        legend.append(axes.add_line(dots))
    axes.set_ylim(0.0, max([10.0, *(1.2 * step for _, step in [*seams, *others])]))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    _legend(axes, legend)


def _draw_acts(axes: Axes, requests: Sequence[Request]) -> None:
    lanes = _lanes(requests)
    for request, lane in zip(requests, lanes, strict=True):
        if request.answered_s is None or request.latency_s is None:
            continue
        began = request.answered_s - request.latency_s
        axes.barh(-lane, request.latency_s, left=began, height=0.62, color=NETWORK if request.used else DROPPED)
        infer_s = request.infer_s or 0.0
        # Where in the round trip the planning lay is not known here; half the rest goes before it.
        start = began + (request.latency_s - infer_s) / 2
        axes.barh(-lane, infer_s, left=start, height=0.62, color=PLANNING if request.used else "#9a9a9a")
        label = f"{request.latency_s * 1000:.0f} ms"
        axes.text(request.answered_s + 0.03, -lane, label, fontsize=6, va="center", color=INK)
    axes.set_ylim(-max(lanes, default=0) - 0.7, 0.7)
    axes.set_yticks([])
    _named(axes, "acts")
    patches = [Patch(color=NETWORK, label="network and waiting"), Patch(color=PLANNING, label="planning")]
    if any(request.answered_s is not None and not request.used for request in requests):
        patches.append(Patch(color=DROPPED, label="answer not used"))
    _legend(axes, patches)


def _lanes(requests: Sequence[Request]) -> list[int]:
    """For each act the first lane that is free while it is out, so that bars never lie on one another."""
    free_at: list[float] = []
    lanes = []
    for request in requests:
        ends = (request.answered_s if request.answered_s is not None else request.asked_s) + 0.35
        lane = next((i for i, free in enumerate(free_at) if free <= request.asked_s), len(free_at))
        free_at[lane:] = [ends, *free_at[lane + 1 :]]
        lanes.append(lane)
    return lanes


def _named(axes: Axes, name: str) -> None:
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8, color=INK)


def _legend(axes: Axes, handles: Sequence[Patch | Line2D]) -> None:
    axes.legend(
        handles=list(handles), loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=3, fontsize=7, frameon=False
    )
