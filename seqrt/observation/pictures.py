"""Pictures as robots read them and as policies are handed them; colours and distances made uniform in between.

In: whatever a driver calls a picture. Out: uint8 RGB ``[h, w, 3]`` or uint16 millimetres ``[h, w]``, which is what
`seqrt.observation.fitting` resizes and `seqrt.observation.codecs` encodes; and back, in the declared layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from seqrt.errors import ObservationError, PictureSizeError
from seqrt.observation.camera import Camera

_NO_COLOURS: Final = ("1", "P", "PA", "CMYK", "YCbCr", "HSV", "LAB", "RGBa", "La")


class Sized(Protocol):
    """What is declared of a picture's size, and of how others are made to fit."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def height(self) -> int:
        """Rows."""

    @property
    def depth(self) -> bool:
        """Distances, not colours."""

    @property
    def resize(self) -> str | None:
        """How it is fitted."""

    @property
    def filter(self) -> str | None:
        """How it is resampled."""


MOST_METRES: Final = 65.535
"""The farthest distance that a 16-bit picture of millimetres holds."""


def pixels_of(picture: Any, view: str = "") -> npt.NDArray[np.uint8]:
    """A colour picture as RGB.

    Args:
        picture: ``[h, w]`` or ``[h, w, 1]`` grey, ``[h, w, 3]`` RGB or ``[h, w, 4]`` RGBA, whose alpha is dropped.
            uint8; whole numbers 0 to 255 (what lists become); or floats 0 to 1, which are rounded to 255 steps, half
            to even.
        view: Its key, for errors.

    Returns:
        uint8 ``[h, w, 3]``; the given array itself where it is that already.

    Raises:
        ObservationError: Another shape or type, floats outside 0 to 1 or NaN, whole numbers outside 0 to 255.
    """
    array = array_of(picture, view)
    size_of_picture(array, depth=False, view=view)
    if array.ndim == 2:
        array = array[:, :, None]
    colours = _eight_bit(array[:, :, :3] if array.shape[2] == 4 else array, view)
    return np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours


def millimetres_of(picture: Any, view: str = "") -> npt.NDArray[np.uint16]:
    """A depth picture in whole millimetres, rounded half to even; 0 where there is no reading.

    Args:
        picture: ``[h, w]`` or ``[h, w, 1]``; floats are metres, uint16 is millimetres already.
        view: Its key, for errors.

    Returns:
        uint16 ``[h, w]``: NaN, infinities and distances of 0 or less as 0, those past 65.535 m as 65535.

    Raises:
        ObservationError: Another shape or type.
    """
    array = array_of(picture, view)
    size_of_picture(array, depth=True, view=view)
    if array.ndim == 3:
        array = array[:, :, 0]
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return array.astype(np.uint16, copy=False)  # of either byte order
    if array.dtype.kind != "f":
        raise _no_picture(view, f"depth is float metres or uint16 millimetres, this is {array.dtype.name}", array)
    metres = np.where(np.isfinite(array) & (array > 0), array, 0).astype(np.float64)
    millimetres: npt.NDArray[np.uint16] = np.rint(np.minimum(metres, MOST_METRES) * 1000).astype(np.uint16)
    return millimetres


def laid_out(picture: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], camera: Camera) -> npt.NDArray[Any]:
    """What the policy is handed: pixels or millimetres in the camera's layout.

    Args:
        picture: uint8 ``[h, w, 3]``, or uint16 millimetres ``[h, w]`` of a depth camera.
        camera: The declaration.

    Returns:
        An array of `Camera.shape` and `Camera.dtype`, read-only: one picture may stand in several entries of a window.
    """
    out: npt.NDArray[Any] = picture
    if camera.depth:
        out = np.divide(picture, 1000, dtype=np.float32).reshape(camera.shape)
    elif camera.layout == "chw_float":
        out = np.divide(np.ascontiguousarray(picture.transpose(2, 0, 1)), 255, dtype=np.float32)
    out = out.view()
    out.flags.writeable = False
    return out


def array_of(picture: Any, view: str = "") -> npt.NDArray[Any]:
    """Anything numpy reads as an array, a Pillow image of plain colours too.

    Raises:
        ObservationError: It reads no numbers there, or numbers that are no colours.
    """
    mode = getattr(picture, "mode", None)
    if mode in _NO_COLOURS:
        raise ObservationError(
            f"{named(view)} is a Pillow image of mode {mode!r}, whose numbers are not RGB; give image.convert('RGB')",
            key=view,
            expected="RGB",
            found=mode,
        )
    try:
        array = np.asarray(picture)
    except ValueError as ragged:
        raise ObservationError(f"{named(view)}: lists of unequal length are no picture", key=view) from ragged
    if array.dtype.kind not in "biuf":
        raise ObservationError(
            f"{named(view)} is a picture, this observation holds {type(picture).__name__}",
            key=view,
            expected="a picture",
            found=type(picture).__name__,
        )
    return array


def size_of_picture(array: npt.NDArray[Any], *, depth: bool, view: str = "") -> tuple[int, int]:
    """Width and height of a picture, by its shape alone.

    Raises:
        ObservationError: The shape is no picture's; a picture with its channels first is told how to turn it.
    """
    shape = array.shape
    channels = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else 0
    if channels not in ((1,) if depth else (1, 3, 4)) or 0 in shape:
        wanted = "[h, w]" if depth else "[h, w, 3]"
        first = len(shape) == 3 and shape[0] in (1, 3, 4)
        hint = ": its channels stand first; give picture.transpose(1, 2, 0)" if first else ""
        raise _no_picture(view, f"a {'depth' if depth else 'colour'} picture is {wanted}, this is {list(shape)}{hint}",
                          array)  # fmt: skip
    return shape[1], shape[0]


def check_sizes(found: Mapping[str, tuple[int, int]], cameras: Mapping[str, Sized]) -> None:
    """Hold the sizes of pictures against their cameras.

    Args:
        found: Width and height by view.
        cameras: The declarations, for these views at least.

    Raises:
        PictureSizeError: Some differ; it names each, both its sizes, and the call that makes it fit.
    """
    wrong = {view: size for view, size in found.items() if size != (cameras[view].width, cameras[view].height)}
    if wrong:
        raise PictureSizeError(
            "; ".join(_size_told(view, size, cameras[view]) for view, size in wrong.items()),
            sizes={
                view: {"declared": [cameras[view].width, cameras[view].height], "sent": list(size)}
                for view, size in wrong.items()
            },
        )


def _size_told(view: str, size: tuple[int, int], camera: Sized) -> str:
    declared = f"{camera.width}×{camera.height}"
    if camera.depth:
        fix = "let the policy declare resize= and filter='nearest', or read the sensor at that size"
    else:
        resize, filter_ = camera.resize or "pad", camera.filter or "bilinear"
        fix = (
            f"fit it with seqrt.fit_image(picture, width={camera.width}, height={camera.height}, "
            f"resize={resize!r}, filter={filter_!r})"
        )
    return f"{named(view)} is {size[0]}×{size[1]} pixels, the policy declares {declared}: {fix}"


def _eight_bit(array: npt.NDArray[Any], view: str) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):  # NaN too
            raise _no_picture(view, f"a float picture runs from 0 to 1, this one from {low:g} to {high:g}; "
                              "divide by 255, or give uint8", array)  # fmt: skip
        wide = array if array.dtype.itemsize >= 4 else array.astype(np.float32)
        steps: npt.NDArray[np.uint8] = np.rint(wide * 255).astype(np.uint8)
        return steps
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4:
        least, most = int(array.min()), int(array.max())
        if least >= 0 and most <= 255:
            return array.astype(np.uint8)
        raise _no_picture(view, f"colours run from 0 to 255, these from {least} to {most}", array)
    # A dark 16-bit picture would pass for an 8-bit one until somebody turns on the light.
    raise _no_picture(view, f"colours are uint8, or floats from 0 to 1; this is {array.dtype.name}", array)


def _no_picture(view: str, what: str, array: npt.NDArray[Any]) -> ObservationError:
    found = f"{array.dtype.name} {list(array.shape)}"
    return ObservationError(f"{named(view)}: {what}", key=view, expected="a picture", found=found)


def named(view: str) -> str:
    """A view as errors name it."""
    return repr(view) if view else "the picture"
