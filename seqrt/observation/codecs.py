"""Pixels to PNG and JPEG and back. Blocking: called through an offload, never on the event loop.

Pillow encodes and reads PNG. JPEG is read by simplejpeg where it is installed, which gives Pillow's very pixels in two
thirds of the time; it is not written by simplejpeg, whose fast transform loses more (bench/jpeg.py has the figures).
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from seqrt.errors import WireError
from seqrt.observation.camera import JPEG_QUALITY, Camera, Codec
from seqrt.observation.fitting import pillow
from seqrt.observation.heads import Head, broken, plain_jpeg, plain_png, read_head
from seqrt.observation.pictures import check_sizes, laid_out

UNDECLARED_PIXELS: Final = 4_000_000
"""The largest picture that is decoded where no camera declares its size."""

_PNG_LEVEL: Final = 1
"""Camera noise does not compress: higher levels take ten times as long for a few per cent."""


def encode_picture(picture: npt.NDArray[Any], codec: Codec, quality: int | None = None) -> bytes:
    """One picture as PNG or JPEG.

    Args:
        picture: uint8 ``[h, w, 3]`` RGB; PNG also takes uint16 ``[h, w]``, the millimetres of a depth picture.
        codec: "png" or "jpeg".
        quality: Of a JPEG, 1 to 100; 95 unless given. Colours are halved both ways (4:2:0), as Pillow does.

    Raises:
        ExtraMissing: Pillow is not installed.
    """
    image, out = pillow(f"a camera of codec {codec!r}"), BytesIO()
    if codec == "png":
        image.fromarray(np.ascontiguousarray(picture)).save(out, "PNG", compress_level=_PNG_LEVEL)
    elif codec == "jpeg":
        image.fromarray(np.ascontiguousarray(picture)).save(out, "JPEG", quality=quality or JPEG_QUALITY)
    else:
        raise ValueError("raw pictures travel as they are: nothing is encoded")
    return out.getvalue()


def decode_picture(data: bytes, camera: Camera | None = None, *, depth: bool = False) -> npt.NDArray[Any]:
    """The pixels of a PNG or JPEG, refused by its header where they are not what is expected.

    Args:
        data: The encoded picture.
        camera: Its declaration; without one, at most 4 megapixels are decoded.
        depth: Read it as distances; a camera says so itself.

    Returns:
        As the camera lays it out (`Camera.shape`, `Camera.dtype`); without one uint8 ``[h, w, 3]`` RGB, or float32
        metres ``[h, w]``. Read-only.

    Raises:
        WireError: No picture, a broken or cut off one, one of another kind or (without a camera) too large; reason
            ``picture``.
        PictureSizeError: Of another size than the camera declares.
        ExtraMissing: Pillow is not installed.
    """
    head = read_head(data)
    if camera is None:
        if head.width * head.height > UNDECLARED_PIXELS:
            raise broken(f"a picture of {head.width}×{head.height} pixels; undeclared ones are read up to 4 megapixels")
        camera = Camera(width=head.width, height=head.height, depth=depth, codec=head.format if not depth else "png")
    check_head(head, camera)
    check_sizes({"": (head.width, head.height)}, {"": camera})
    return laid_out(_pixels(data, head, camera), camera)


def check_head(head: Head, camera: Camera) -> None:
    """Hold a picture's header against its camera: everything but the size.

    Raises:
        WireError: Another format, or colours where distances are declared; reason ``picture``.
    """
    if head.format != camera.codec:
        raise broken(f"a {head.format.upper()}, the policy declares codec={camera.codec!r}")
    if camera.depth and not head.is_depth:
        raise broken(f"{head.channels} channels of {head.bits} bits; a depth picture is a PNG of one channel of 16")
    if not camera.depth and head.bits > 8:
        raise broken(f"channels of {head.bits} bits; colours have 8")


def _pixels(data: bytes, head: Head, camera: Camera) -> npt.NDArray[Any]:
    """Decode what the header was read of: no decoder sees a format, or a byte of metadata, that it need not."""
    plain = plain_jpeg(data) if head.format == "jpeg" else plain_png(data)
    try:
        pixels = _from_jpeg(plain) if head.format == "jpeg" else _from_pillow(plain, "PNG", camera.depth)
    except (WireError, ImportError):
        raise
    except Exception as error:  # whatever a decoder of somebody else's raises at bytes of somebody else's
        raise broken(f"a broken {head.format.upper()}: {str(error) or type(error).__name__}") from error
    if pixels.shape[:2] != (head.height, head.width):
        raise broken(f"a {head.format.upper()} that is not of the size its header says")
    return pixels


def _from_jpeg(data: bytes) -> npt.NDArray[np.uint8]:
    try:
        import simplejpeg
    except ImportError:
        return _from_pillow(data, "JPEG", depth=False)
    pixels: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False)
    return pixels


def _from_pillow(data: bytes, format_: str, depth: bool) -> npt.NDArray[Any]:
    with pillow(f"a picture in {format_}").open(BytesIO(data), formats=[format_]) as image:
        return np.asarray(image).astype(np.uint16) if depth else np.asarray(image.convert("RGB"))
