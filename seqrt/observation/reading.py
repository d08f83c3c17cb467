"""From frames to what ``infer`` is handed: the window's entries, with skipped steps and missing ones filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seqrt.observation.declaration import Observations
from seqrt.observation.frames import Frames
from seqrt.observation.window import Entry, fed_keys, resolve


@dataclass(frozen=True, slots=True)
class Window:
    """What one act reads.

    Attributes:
        steps: The number of the observation each entry was read from, ascending.
        observations: The entries, oldest first; each holds only the keys asked for there.
    """

    steps: list[int]
    observations: list[Any]


def read(frames: Frames, observations: Observations | None, step: int, previous: int = -1) -> Window:
    """The window of the act at ``step``, as far as ``frames`` holds it.

    A skipped step reads the newest observation held before it; where there is none it is padded like a step before
    0: "repeat_first" reads the first observation held, "drop" leaves the entry out. Fed, a skipped step is left out.
    A key an observation lacks is left out of its entry.

    Returns:
        The window; without entries when nothing is held that it could read.
    """
    pad = observations.pad if observations is not None else "repeat_first"
    fed = fed_keys(observations)
    found = []
    for entry in resolve(observations, step, previous, among=frames):
        number = _source(frames, entry, pad, fed)
        if number is not None:
            found.append((number, _picked(frames.get(number), entry)))
    # Keys of one step may have been substituted from different numbers: in order again.
    found.sort(key=lambda pair: pair[0])
    return Window(steps=[number for number, _ in found], observations=[inputs for _, inputs in found])


def _source(frames: Frames, entry: Entry, pad: str, fed: Collection[str]) -> int | None:
    if entry.step in frames and not frames.is_skipped(entry.step, entry.keys):
        return entry.step
    if entry.keys is not None and entry.keys <= set(fed):
        return None
    before = frames.newest_at_or_before(entry.step, entry.keys)
    if before is None and pad == "repeat_first":
        return frames.oldest_with(entry.keys)
    return before


def _picked(inputs: Any, entry: Entry) -> Any:
    if entry.keys is None or not isinstance(inputs, Mapping):
        return inputs
    return {key: value for key, value in inputs.items() if key in entry.keys}
