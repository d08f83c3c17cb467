"""The numbers both ends keep to, and what an observation is charged with against them.

Nothing here decides anything: codecs, the worker's sessions and the robot's sender read these constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from seqrt.errors import WireError

FRAMES_A_POST: Final = 64
"""Most observations one `ObserveRequest` carries."""

INLINE_BYTES: Final = 256 * 1024
"""Bodies up to this size are coded on the loop: well under a millisecond, less than a thread's hand-over costs."""

FRAMES_AN_EPISODE: Final = 1024
"""Most observations held for one episode."""

EPISODE_BYTES: Final = 64 * 2**20
"""Most bytes held for one episode, an act's own inputs included."""

WORKER_BYTES: Final = 2**30
"""Most bytes a worker holds for all its episodes."""

RETRY_S: Final = 1.0
"""When whoever was refused should come again, where nothing better is known."""

STREAM_WAIT_S: Final = 10.0
"""How long an act waits for the observations it needs while nothing moves."""

ANSWERS_KEPT: Final = 64
"""Answers of one episode that are kept to be given again under the same request id."""

ANSWERS_KEPT_S: Final = 60.0
"""How long such an answer is kept."""

ENDED_KEPT: Final = 100_000
"""Ids of ended episodes that are remembered, so that late requests revive none of them."""

ENDED_KEPT_S: Final = 600.0
"""How long such an id is remembered."""

BODY_BYTES: Final = EPISODE_BYTES + 2**20
"""The largest body read: whatever an episode may hold at once, and room for names and numbers around it."""

ERROR_BYTES: Final = 2**18
"""The largest error body that is parsed; of a larger one only the status counts."""

DEPTH: Final = 64
"""Most containers inside one another; an array counts as one value."""

AXES: Final = 64
"""Most axes of an array."""

PLAIN_BYTES: Final = 2**19
"""Most bytes of a msgpack body that are neither arrays nor long texts: numbers, names, lists.

One byte there can become 80 in memory (an empty dict), so this, not the body's length, bounds what a body costs.
Numbers in bulk belong into arrays.
"""

JSON_VALUES: Final = 2**19
"""Most values (numbers, texts, lists …) in a JSON body, for the same reason."""

SEGMENTS: Final = 256
"""Most pictures outside the JSON of one frames body."""

DETAIL_CHARACTERS: Final = 2000
"""Where an error's one sentence is cut."""

_VALUE_BYTES: Final = 64
"""What one value costs besides its content: roughly a Python object and its place in a container."""
_NUMBERS: Final = frozenset({float, int, bool, type(None)})


def size_of(inputs: Any) -> int:
    """The bytes an observation is charged with while it is held.

    Arrays count their elements, texts and bytes their length, and each value 64 bytes for itself, so that a great
    many tiny values are not free.

    Args:
        inputs: A tree of dict, list, tuple, text, bytes, numbers and numpy arrays, of any depth.

    Returns:
        Bytes, > 0.

    Raises:
        WireError: More than `DEPTH` containers inside one another, or one inside itself.
    """
    return _size_of(inputs, 0)


def _size_of(value: Any, depth: int) -> int:
    kind = type(value)
    if kind in _NUMBERS:  # nearly all there are, where there are many: looked at before any class is asked for its own
        return _VALUE_BYTES
    if kind is str:
        return _VALUE_BYTES + len(value)
    if isinstance(value, (np.ndarray, memoryview)):
        return _VALUE_BYTES + value.nbytes
    if isinstance(value, (str, bytes, bytearray)):
        return _VALUE_BYTES + len(value)
    if kind is not dict and not isinstance(value, (list, tuple, Mapping)):
        return _VALUE_BYTES
    if depth >= DEPTH:
        raise WireError(f"more than {DEPTH} containers inside one another", reason="depth")
    if kind is dict or isinstance(value, Mapping):
        return _VALUE_BYTES + sum([_size_of(key, DEPTH) + _size_of(held, depth + 1) for key, held in value.items()])
    return _VALUE_BYTES + sum([_size_of(held, depth + 1) for held in value])
