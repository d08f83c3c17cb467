"""The episode as an animated GIF: the scene at each tick, with the plan that was ahead and the buffer below.

Drawn with Pillow from an `Episode` and the robot's moments; called when the run is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from seqrt.demo.episode import Chunk, Episode, Tick
from seqrt.demo.robot import Moment
from seqrt.demo.shapes import AGENT_RADIUS, GOAL, OUTLINE, PERIOD_S, SCREEN, Floats, Pose, place

SIDE = 320
"""Width of the scene in the picture."""

STRIP = 46
"""Height of the line below it."""

FINE = 2
"""The scene is drawn this many times larger and reduced, for smooth edges."""

TRAIL = 15
LAST_FRAME_MS = 2000
FLOOR, WALL, GOAL_GREEN, BLOCK, RIM = "#ffffff", "#cccccc", "#a8e6a1", "#8a97a8", "#66717f"
AGENT, TARGET, PATH, INK = "#4169e1", "#d1495b", "#b9c6f2", "#333333"
BUFFER, ALARM = "#3a9d6e", "#d1495b"
PLANS = ("#e09f3e", "#8e6bbf")
"""Colours of the rows ahead; they alternate from chunk to chunk."""


def write_animation(path: Path, episode: Episode, moments: Sequence[Moment]) -> None:
    """Write the episode as a GIF in real time.

    Args:
        path: The file, written anew.
        episode: A finished one with at least one tick.
        moments: The robot's, which the episode's ticks point to.
    """
    frames = list(_frames(episode, moments))
    # One palette for all frames: a palette a frame flickers, and makes the file half as large again.
    palette = _samples(frames).quantize(96, method=Image.Quantize.MAXCOVERAGE)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [round(PERIOD_S * 1000)] * (len(few) - 1) + [LAST_FRAME_MS]
    few[0].save(path, save_all=True, append_images=few[1:], duration=durations, loop=0, optimize=False)


def _samples(frames: Sequence[Image.Image]) -> Image.Image:
    """A picture with every colour in it: the first and the last frame, and a row of patches for the rare ones."""
    width, height = frames[0].size
    samples = Image.new("RGB", (2 * width, height + 20), FLOOR)
    samples.paste(frames[0], (0, 20))
    samples.paste(frames[-1], (width, 20))
    draw = ImageDraw.Draw(samples)
    for place_, colour in enumerate((GOAL_GREEN, BLOCK, AGENT, PATH, ALARM, BUFFER, *PLANS)):
        draw.rectangle((place_ * 20, 0, place_ * 20 + 19, 19), fill=colour)
    return samples


def _frames(episode: Episode, moments: Sequence[Moment]) -> Iterator[Image.Image]:
    chunks = list(episode.chunks)
    current, number, played = None, 0, 0
    for index, tick in enumerate(episode.ticks):
        while chunks and chunks[0].tick <= index:
            current, number, played = chunks.pop(0), number + 1, 0
        played += tick.kind == "played"
        if tick.kind == "waiting" and index + 1 < len(episode.ticks) and episode.ticks[index + 1].kind == "waiting":
            continue  # the world stands until the first chunk is there: one frame of it is enough
        ahead = _ahead(current, played)
        yield _frame(tick, index, moments[: tick.moment + 1], ahead, PLANS[number % len(PLANS)], episode)


def _ahead(chunk: Chunk | None, played: int) -> list[tuple[float, float]]:
    return [] if chunk is None else [(float(x), float(y)) for x, y in chunk.rows[played:]]


def _frame(
    tick: Tick,
    index: int,
    moments: Sequence[Moment],
    ahead: Sequence[tuple[float, float]],
    colour: str,
    episode: Episode,
) -> Image.Image:
    picture = Image.new("RGB", (SIDE, SIDE + STRIP), FLOOR)
    picture.paste(_scene(moments, ahead, colour).resize((SIDE, SIDE), Image.Resampling.LANCZOS), (0, 0))
    draw = ImageDraw.Draw(picture)
    if tick.kind == "starved":
        draw.rectangle((0, 0, SIDE - 1, SIDE - 1), outline=ALARM, width=4)
    draw.text((8, SIDE + 4), f"{tick.at_s:5.1f} s", fill=INK, font=ImageFont.load_default(12))
    word = {"starved": "no row due", "waiting": "waiting for the first chunk"}.get(tick.kind, f"{tick.rows_left} rows")
    draw.text((72, SIDE + 4), word, fill=ALARM if tick.kind == "starved" else INK, font=ImageFont.load_default(12))
    covered = f"{tick.coverage:.0%} covered"
    draw.text((SIDE - 8, SIDE + 4), covered, fill=INK, font=ImageFont.load_default(12), anchor="ra")
    _draw_strip(draw, episode.ticks[: index + 1])
    return picture


def _draw_strip(draw: ImageDraw.ImageDraw, ticks: Sequence[Tick]) -> None:
    """The buffer's depth at the last ticks, newest at the right; starved ones in red."""
    width, low, high = 4, SIDE + STRIP - 4, STRIP - 26
    shown = ticks[-(SIDE - 16) // width :]
    deepest = max(max(tick.rows_left for tick in ticks), 1)
    for place_, tick in enumerate(reversed(shown)):
        right = SIDE - 8 - place_ * width
        starved = tick.kind == "starved"
        height = high if starved else round(high * tick.rows_left / deepest)
        if height:
            draw.rectangle((right - width + 2, low - height, right, low), fill=ALARM if starved else BUFFER)


def _scene(moments: Sequence[Moment], ahead: Sequence[tuple[float, float]], colour: str) -> Image.Image:
    side = SIDE * FINE
    scene = Image.new("RGB", (side, side), FLOOR)
    draw = ImageDraw.Draw(scene)
    draw.rectangle(_box((5.0, 5.0), (506.0, 506.0)), outline=WALL, width=2 * FINE)
    now = moments[-1]
    draw.polygon(_outline(GOAL), fill=GOAL_GREEN)
    draw.polygon(_outline(now.block), fill=BLOCK, outline=RIM, width=2 * FINE)
    trail = [_spot(moment.agent) for moment in moments[-TRAIL:]]
    if len(trail) > 1:
        draw.line(trail, fill=PATH, width=3 * FINE, joint="curve")
    _disc(draw, now.agent, AGENT_RADIUS, AGENT)
    for point in ahead:
        _disc(draw, point, 3.5, colour)
    if now.target is not None:
        x, y = _spot(now.target)
        arm = 5 * FINE
        draw.line((x - arm, y, x + arm, y), fill=TARGET, width=2 * FINE)
        draw.line((x, y - arm, x, y + arm), fill=TARGET, width=2 * FINE)
    return scene


def _spot(point: Sequence[float] | Floats) -> tuple[float, float]:
    """A place on the task's screen, in the large drawing."""
    scale = SIDE * FINE / SCREEN
    return float(point[0]) * scale, float(point[1]) * scale


def _box(low: Sequence[float], high: Sequence[float]) -> tuple[float, float, float, float]:
    return (*_spot(low), *_spot(high))


def _outline(pose: Pose) -> list[tuple[float, float]]:
    return [_spot(corner) for corner in place(OUTLINE, pose)]


def _disc(draw: ImageDraw.ImageDraw, centre: Sequence[float], radius: float, colour: str) -> None:
    low = (centre[0] - radius, centre[1] - radius)
    draw.ellipse(_box(low, (centre[0] + radius, centre[1] + radius)), fill=colour)
