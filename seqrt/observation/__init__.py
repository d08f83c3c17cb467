"""What a policy reads, and when: declarations, windows, frames by number. Pure: no time, no threads, no network."""

from __future__ import annotations

from seqrt.observation.camera import Camera
from seqrt.observation.cameras import cameras_of, decode_cameras, encode_cameras, hold_cameras, require_codecs
from seqrt.observation.check import check
from seqrt.observation.codecs import decode_picture, encode_picture
from seqrt.observation.declaration import Observations, Stream
from seqrt.observation.fitting import fit_image
from seqrt.observation.frames import Frames
from seqrt.observation.grid import in_steps
from seqrt.observation.reading import Window, read
from seqrt.observation.window import (
    Entry,
    fed_keys,
    fed_steps,
    is_fed,
    is_windowed,
    keep_from,
    keys_read,
    lookback,
    needed_steps,
    resolve,
)

__all__ = [
    "Camera",
    "Entry",
    "Frames",
    "Observations",
    "Stream",
    "Window",
    "cameras_of",
    "check",
    "decode_cameras",
    "decode_picture",
    "encode_cameras",
    "encode_picture",
    "fed_keys",
    "fed_steps",
    "fit_image",
    "hold_cameras",
    "in_steps",
    "is_fed",
    "is_windowed",
    "keep_from",
    "keys_read",
    "lookback",
    "needed_steps",
    "read",
    "require_codecs",
    "resolve",
]
