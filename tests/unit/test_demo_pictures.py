"""What the demo shows of an episode: the fold of its events, the view, the files."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if any(find_spec(name) is None for name in ("gym_pusht", "matplotlib", "rich", "PIL")):
    pytest.skip("needs the extra demo: pip install 'seqrt[demo]'", allow_module_level=True)

from PIL import Image
from rich.console import Console

from seqrt.demo.animation import SIDE, STRIP, write_animation
from seqrt.demo.episode import Episode
from seqrt.demo.pictures import write_timeline
from seqrt.demo.robot import PushTRobot
from seqrt.demo.view import drawn, progress_of
from seqrt.timeline import events as ev


def _played() -> tuple[Episode, PushTRobot]:
    """Two ticks of waiting, a chunk of six rows played, two starved ticks, a second chunk."""
    robot = PushTRobot(0)
    episode = Episode(lambda: (len(robot.moments) - 1, robot.coverage))
    rows = np.linspace(robot.moments[0].agent, (256.0, 256.0), 6)
    tick = 0

    def serve(kind: str, left: int, jump: float | None = None) -> None:
        nonlocal tick
        if kind != "waiting":
            robot.act(rows[min(tick, 5)])
        episode.add(ev.Ticked(at_s=tick / 10, step=tick, late_s=0.0, kind=kind, rows_left=left, seam_jump=jump))
        tick += 1

    for name, begun in (("first", 0.02), ("second", 0.5)):
        episode.add(ev.Asked(at_s=begun, request_id=name, step=0, d=2, s=8, rows_left=0, prefix=2))
        if name == "first":
            serve("waiting", 0)
            serve("waiting", 0)
        episode.add(ev.Answered(at_s=begun + 0.2, request_id=name, observed=0, rows=6, latency_s=0.2, infer_s=0.1))
        episode.add(ev.Spliced(at_s=begun + 0.2, request_id=name, observed=0, row=0, rows=6, dropped=0, position=0))
        episode.add_rows(rows)
        for left in range(5, -1, -1):
            serve("played", left, 4.0 if left == 5 and name == "second" else None)
        if name == "first":
            serve("starved", 0)
            serve("starved", 0)
    return episode, robot


def test_an_episode_counts_what_was_played_and_what_starved() -> None:
    episode, robot = _played()
    assert (episode.actions, episode.starved, episode.underruns) == (12, 2, 1)
    assert [tick.moment for tick in episode.ticks] == [0, 0, *range(1, 15)]
    assert episode.ticks[-1].coverage == robot.coverage
    assert [len(chunk.rows) for chunk in episode.chunks] == [6, 6]
    assert all(request.used for request in episode.requests.values())


def test_the_view_shows_buffer_latency_and_underruns() -> None:
    episode, _ = _played()
    console = Console(file=io.StringIO(), width=110, force_terminal=False)
    console.print(drawn(progress_of(episode, title="PushT", stage="running", most_actions=300)))
    text = console.file.getvalue()
    assert "12 of 300" in text
    assert "200 ms" in text
    assert "1 (2 ticks)" in text


def test_the_pictures_are_written(tmp_path: Path) -> None:
    episode, robot = _played()
    write_timeline(tmp_path / "t.png", episode, robot.moments, title="PushT")
    write_animation(tmp_path / "t.gif", episode, robot.moments)
    with Image.open(tmp_path / "t.png") as timeline:
        assert timeline.format == "PNG"
    with Image.open(tmp_path / "t.gif") as animation:
        assert animation.size == (SIDE, SIDE + STRIP)
        # Of the two ticks of waiting one is drawn; the others each.
        assert animation.n_frames == len(episode.ticks) - 1
