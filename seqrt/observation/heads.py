"""The first bytes of PNG and JPEG: size and kind of a picture before anything of it is decoded.

Decoders are handed nothing else than what was read here: a picture is refused by its header, not by the memory it
took. (PNG: W3C Portable Network Graphics, 3rd edition, §5 and §11; JPEG: ITU-T T.81, annex B.)
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from seqrt.errors import WireError

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_BITS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_KEPT_CHUNKS: Final = (b"IHDR", b"PLTE", b"IDAT", b"IEND")

_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
_FRAMES: Final = (0xC0, 0xC1, 0xC2)
_OTHER_FRAMES: Final = (0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_PROGRESSIVE: Final = 0xC2
_METADATA: Final = (*range(0xE1, 0xEE), 0xEF, 0xFE)
"""APP1 to APP15 and comments; not APP14, in which Adobe says what the channels are."""
_MOST_SCANS: Final = 64
"""Encoders write ten or so; each one costs a pass over the whole picture."""
_HEADERS: Final = 4 * 16384
"""Characters of base64 in which a header mostly lies: 48 KiB of picture."""
_MOST_SEGMENTS, _MOST_FILL, _MOST_CHUNKS = 1024, 16, 65536
"""Each is a turn of a loop in Python."""


@dataclass(frozen=True, slots=True)
class Head:
    """What the header of an encoded picture says.

    Attributes:
        format: "png" or "jpeg".
        width: Columns, ≥ 1.
        height: Rows, ≥ 1.
        channels: 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha.
        bits: Bits a channel.
    """

    format: Literal["png", "jpeg"]
    width: int
    height: int
    channels: int
    bits: int

    @property
    def is_depth(self) -> bool:
        """Whether distances can be read from it: one channel of 16 bits."""
        return self.format == "png" and self.channels == 1 and self.bits == 16


def read_head(data: bytes) -> Head:
    """What the header of a PNG or JPEG says; the rest of it need not be there.

    Raises:
        WireError: It is neither, or of a kind that is not read here; reason ``picture``.
    """
    if data.startswith(_PNG):
        return _png_head(data)
    if data[:2] == b"\xff\xd8":
        return _jpeg_head(data)
    raise broken(f"neither PNG nor JPEG: it begins with {data[:8].hex(' ') or 'nothing'}")


def read_head_of_text(text: str) -> Head:
    """As `read_head`, of base64; of a long text only what the header takes is decoded, nearly always.

    Raises:
        WireError: It is no base64 of a picture that is read here; reason ``picture``.
    """
    if len(text) > _HEADERS:
        try:
            return read_head(base64.b64decode(text[:_HEADERS]))
        except (WireError, ValueError):
            pass  # a profile of a hundred kilobytes may stand before the header
    try:
        data = base64.b64decode(text)
    except ValueError as wrong:
        raise broken("text that is no base64 of a picture") from wrong
    return read_head(data)


def plain_png(data: bytes) -> bytes:
    """A PNG without what is not pixels: text, profiles, further frames, each of which may unpack to megabytes.

    Raises:
        WireError: It is cut off, or its chunks are not where they should be.
    """
    kept, at = [_PNG], len(_PNG)
    for _ in range(_MOST_CHUNKS):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(data):
            raise broken(f"a PNG cut off after {len(data)} bytes")
        if kind in _KEPT_CHUNKS:
            kept.append(data[at:end])
        if kind == b"IEND":
            return b"".join(kept)
        at = end
    raise broken(f"a PNG of more than {_MOST_CHUNKS} chunks")


def plain_jpeg(data: bytes) -> bytes:
    """A JPEG without what is not pixels: EXIF, profiles, comments, further pictures; itself where there is none.

    Raises:
        WireError: It is cut off, or has more scans than any encoder writes.
    """
    kept, scans, channels, in_one = [data[:2]], len(data), 0, False
    for marker, start, end in _segments(data):
        if marker == _SOS:
            scans, in_one = start, in_one and data[start + 4 : start + 5] == bytes((channels,))
        elif marker in _FRAMES:
            channels, in_one = data[start + 9], marker != _PROGRESSIVE
        if marker != _SOS and marker not in _METADATA:
            kept.append(data[start:end])
    if data.rfind(b"\xff\xd9") < scans:
        raise broken(f"a JPEG cut off after {len(data)} bytes")
    # Counting looks at every byte: only where decoders go on after the first scan.
    if not in_one and data.count(b"\xff\xda", scans) > _MOST_SCANS:
        raise broken(f"a JPEG of more than {_MOST_SCANS} scans")
    metadata = scans - sum(map(len, kept))
    return data if metadata == 0 else b"".join((*kept, data[scans:]))


def _png_head(data: bytes) -> Head:
    if len(data) < 33 or data[8:16] != b"\x00\x00\x00\rIHDR":
        raise broken("a PNG without its header")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    bits, kind = data[24], data[25]
    if bits not in _PNG_BITS.get(kind, ()):
        raise broken(f"a PNG of colour type {kind} with {bits} bits: there is no such thing")
    return _sized(Head("png", width, height, _PNG_CHANNELS[kind], bits))


def _jpeg_head(data: bytes) -> Head:
    head: Head | None = None
    for marker, start, end in _segments(data):
        if marker in _OTHER_FRAMES:
            raise broken(f"a JPEG of a rare kind (SOF{marker - 0xC0}); write a baseline or progressive one")
        if marker in _FRAMES:
            if head is not None or end - start < 11:
                raise broken("a JPEG with two headers" if head is not None else "a JPEG whose header is cut off")
            height, width = (int.from_bytes(data[start + at : start + at + 2], "big") for at in (5, 7))
            head = _sized(Head("jpeg", width, height, data[start + 9], data[start + 4]))
    if head is None:
        raise broken("a JPEG without its header")
    if head.bits != 8 or head.channels not in (1, 3):
        raise broken(f"a JPEG of {head.channels} channels of {head.bits} bits; grey or colours of 8 bits are read")
    return head


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, start and end of each segment, up to the first scan's header."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if data[at + 1 : at + 2] == b"\xff":
            at += _fill_bytes(data[at : at + _MOST_FILL])
        if len(data) < at + 4 or data[at] != 0xFF:
            raise broken(f"a JPEG cut off or broken at byte {at}")
        marker, end = data[at + 1], at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in (_SOI, _EOI) or end < at + 4 or end > len(data):
            raise broken(f"a JPEG cut off or broken at byte {at}")
        yield marker, at, end
        if marker == _SOS:
            return
        at = end
    raise broken(f"a JPEG of more than {_MOST_SEGMENTS} segments")


def _fill_bytes(start: bytes) -> int:
    """How many 0xFF stand before a marker's own: an encoder may write some."""
    return max(0, len(start) - len(start.lstrip(b"\xff")) - 1)


def _sized(head: Head) -> Head:
    if head.width < 1 or head.height < 1:
        raise broken(f"a picture of {head.width}×{head.height} pixels")
    return head


def broken(what: str) -> WireError:
    """The error for bytes that are no picture to be read here."""
    return WireError(what, reason="picture")
