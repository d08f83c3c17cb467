"""A run's events in a file: length-prefixed msgpack, one event after another, readable up to where a crash cut it.

The recorder encodes as events come; the run takes what has gathered twice a second and writes it off the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from seqrt.errors import WireError
from seqrt.timeline.events import Event

MAGIC: Final = b"seqrt-timeline/1\n"
_PREFIX: Final = 4


class Recorder:
    """Encodes events into blocks of bytes; `take` hands over what has gathered."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._gathered = bytearray(MAGIC)

    def add(self, event: Event) -> None:
        """Encode one event."""
        body = self._encoder.encode(event)
        self._gathered += len(body).to_bytes(_PREFIX, "little") + body

    def take(self) -> bytes:
        """The bytes gathered since the last call."""
        taken = bytes(self._gathered)
        self._gathered.clear()
        return taken


def append(path: Path, block: bytes, *, fresh: bool = False) -> None:
    """Write a block to the end of ``path`` (``fresh``: begin the file anew). Blocking: call it off the loop."""
    with path.open("wb" if fresh else "ab") as file:
        file.write(block)


def read(path: str | Path) -> Iterator[Event]:
    """The events of a recording, oldest first; a tail that a crash cut off is left out.

    Raises:
        WireError: The file is no timeline, or an event in it is none of ours.
    """
    body = Path(path).read_bytes()
    if not body.startswith(MAGIC):
        raise WireError(f"{path} is not a seqrt timeline (or one of a newer version)", reason="magic")
    decoder = msgspec.msgpack.Decoder(Event)
    at = len(MAGIC)
    while at + _PREFIX <= len(body):
        size = int.from_bytes(body[at : at + _PREFIX], "little")
        if at + _PREFIX + size > len(body):
            return
        try:
            yield decoder.decode(body[at + _PREFIX : at + _PREFIX + size])
        except msgspec.MsgspecError as error:
            raise WireError(str(error), where=f"byte {at}", reason="event") from error
        at += _PREFIX + size
