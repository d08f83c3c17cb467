"""Pictures made to fit a declared size, pixel for pixel as Pillow does it: on the robot, or in a user's own hands."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.errors import ExtraMissing, ObservationError
from seqrt.observation.camera import Camera, Filter, Resize
from seqrt.observation.pictures import check_sizes, named, pixels_of


def fit_image(
    picture: Any,
    camera: Camera | None = None,
    *,
    width: int | None = None,
    height: int | None = None,
    resize: Resize | None = None,
    filter: Filter | None = None,
) -> npt.NDArray[np.uint8]:
    """A colour picture at the size a policy reads.

    "pad" keeps the proportions: with ``ratio = max(w/width, h/height)`` the picture becomes ``int(w/ratio) ×
    int(h/ratio)`` and stands in the middle of a black one. "stretch" does not keep them. A picture of that size
    already is not resampled. Blocking: a millisecond or so; needs the extra ``images``.

    Args:
        picture: ``[h, w]`` or ``[h, w, 1]`` grey, ``[h, w, 3]`` RGB or ``[h, w, 4]`` RGBA (alpha is dropped); uint8, or
            floats 0 to 1. A Pillow image is taken too.
        camera: The policy's declaration; or, without one, the four arguments below.
        width: Columns wanted.
        height: Rows wanted.
        resize: "pad" unless given.
        filter: One of Pillow's filters by name; "bilinear" unless given.

    Returns:
        uint8 ``[height, width, 3]``, RGB; the given array itself where nothing had to change.

    Raises:
        TypeError: Both a camera and a size, or neither.
        ValueError: A size or name that no `Camera` may have.
        ObservationError: No such picture; a float picture outside 0 to 1; a side that would become 0.
        PictureSizeError: Another size, and the camera declares no ``resize`` and ``filter``.
        ExtraMissing: Pillow is not installed.
    """
    if camera is None:
        if width is None or height is None:
            raise TypeError("fit_image() needs a camera, or width= and height=")
        camera = Camera(width=width, height=height, resize=resize or "pad", filter=filter or "bilinear")
    elif any(given is not None for given in (width, height, resize, filter)):
        raise TypeError("fit_image() takes a camera, or width=, height=, resize=, filter=; not both")
    if camera.depth:
        raise ValueError("fit_image() fits colour pictures; a depth camera's are fitted when they are sent")
    return fitted(pixels_of(picture), camera)


def fitted(picture: npt.NDArray[Any], camera: Camera, view: str = "") -> npt.NDArray[Any]:
    """Uniform pixels or millimetres at the camera's size; as `fit_image`.

    Args:
        picture: uint8 ``[h, w, 3]``, or uint16 ``[h, w]``.
        camera: The declaration.
        view: The picture's key, for errors.
    """
    size = picture.shape[1], picture.shape[0]
    target = camera.width, camera.height
    if size == target:
        return picture
    if camera.resize is None or camera.filter is None:
        check_sizes({view: size}, {view: camera})
    inner, corner = placed(size, target, view) if camera.resize == "pad" else (target, (0, 0))
    resized = picture if inner == size else _resampled(picture, inner, camera.filter or "nearest")
    if inner == target:
        return resized
    canvas = np.zeros((camera.height, camera.width, *picture.shape[2:]), picture.dtype)
    canvas[corner[1] : corner[1] + inner[1], corner[0] : corner[0] + inner[0]] = resized
    return canvas


def placed(size: tuple[int, int], target: tuple[int, int], view: str = "") -> tuple[tuple[int, int], tuple[int, int]]:
    """Where padding puts a picture: its size on the canvas, and its upper left corner, each (across, down).

    Args:
        size: Width and height of the picture.
        target: Width and height of the canvas.
        view: The picture's key, for errors.

    Raises:
        ObservationError: It is so long or so high that its other side would become 0.
    """
    ratio = max(size[0] / target[0], size[1] / target[1])
    # The very arithmetic policies were trained with, truncations included.
    inner = int(size[0] / ratio), int(size[1] / ratio)
    for side, length in zip(("width", "height"), inner, strict=True):
        if length == 0:
            raise ObservationError(
                f"{named(view)} is {size[0]}×{size[1]} pixels; padded into {target[0]}×{target[1]} its "
                f"{side} becomes 0. Crop it, or declare resize='stretch'",
                key=view,
                expected=list(target),
                found=list(size),
            )
    return inner, (int((target[0] - inner[0]) / 2), int((target[1] - inner[1]) / 2))


def pillow(what: str) -> ModuleType:
    """``PIL.Image``, imported when it is first needed.

    Args:
        what: What needs it, for the error.

    Raises:
        ExtraMissing: It is not installed.
    """
    try:
        from PIL import Image
    except ImportError as missing:
        raise ExtraMissing(what, package="Pillow", extra="images") from missing
    return Image


def _resampled(picture: npt.NDArray[Any], size: tuple[int, int], filter_: Filter) -> npt.NDArray[Any]:
    image = pillow("resizing a picture")
    how = image.Resampling[filter_.upper()]
    if picture.dtype == np.uint8:
        return np.asarray(image.fromarray(np.ascontiguousarray(picture)).resize(size, how))
    return np.asarray(image.fromarray(picture.astype(np.int32)).resize(size, how)).astype(picture.dtype)
