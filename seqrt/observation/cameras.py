"""The pictures of one observation: encoded on the robot, taken in and decoded on the worker, all others untouched.

The robot calls `encode_cameras` before it posts (blocking: through its offload). The worker calls `hold_cameras` when a
post arrives (headers alone are read, so it may run on the loop) and `decode_cameras` just before the policy's code
runs, where that runs.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from seqrt.errors import ObservationError, WireError
from seqrt.observation.camera import Camera
from seqrt.observation.codecs import check_head, decode_picture, encode_picture
from seqrt.observation.declaration import Observations
from seqrt.observation.fitting import fitted, pillow
from seqrt.observation.heads import read_head
from seqrt.observation.pictures import array_of, check_sizes, laid_out, millimetres_of, pixels_of, size_of_picture


def cameras_of(observations: Observations | None) -> dict[str, Camera]:
    """The declared cameras by key; none for a policy that declares none."""
    streams = (observations.streams if observations is not None else None) or {}
    return {key: stream.camera for key, stream in streams.items() if stream.camera is not None}


def require_codecs(observations: Observations | None, *, fitting: bool) -> None:
    """Make sure that the declared pictures can be coded here, before anything moves.

    Args:
        observations: The declaration.
        fitting: Whether pictures are made to fit here too: on the robot they are, on the worker never.

    Raises:
        ExtraMissing: They need a package that is not installed.
    """
    for key, camera in cameras_of(observations).items():
        if camera.codec != "raw":
            pillow(f"the camera {key!r} (codec={camera.codec!r})")
        elif fitting and camera.fits:
            pillow(f"the camera {key!r} (resize={camera.resize!r})")


def check_picture(view: str, value: Any, camera: Camera) -> Any:
    """A picture as the robot read it, held against its camera by shape alone; cheap enough for the event loop.

    Returns:
        The picture as an array; one that is encoded already (a camera that gives JPEG) as it is.

    Raises:
        ObservationError: It is no picture, or not encoded as declared.
        PictureSizeError: Another size, and nothing declared that makes it fit.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = bytes(value)
        check_sizes({view: _encoded_size(view, encoded, camera)}, {view: camera})
        return encoded
    array = array_of(value, view)
    size = size_of_picture(array, depth=camera.depth, view=view)
    if not camera.fits:
        check_sizes({view: size}, {view: camera})
    return array


def encode_cameras(observation: Mapping[str, Any], observations: Observations | None) -> dict[str, Any]:
    """An observation as it travels: its declared pictures fitted and encoded, everything else as it is.

    What travels is the same whether or not it was encoded before, so that a frame sent again may be handed in as it
    was sent. Blocking: a fraction of a millisecond to some milliseconds a picture.

    Args:
        observation: What `seqrt.observation.check.check` let pass; a key it lacks is left out.
        observations: The declaration.

    Returns:
        A new dict. Pictures are uint8 ``[h, w, 3]`` (raw), uint16 millimetres ``[h, w]`` (raw depth), or bytes.

    Raises:
        ObservationError: A picture is not what it should be: its shape, type or size, NaN, floats outside 0 to 1.
        ExtraMissing: It takes a package that is not installed.
    """
    sent = dict(observation)
    for view, camera in cameras_of(observations).items():
        if view in sent:
            sent[view] = _encoded(view, sent[view], camera)
    return sent


def hold_cameras(inputs: Mapping[str, Any], observations: Observations | None) -> dict[str, Any]:
    """A posted observation as it is held: its pictures' headers read and held against the declaration.

    Pictures are kept as they came, encoded; base64 text (JSON has no bytes) is turned into bytes.

    Raises:
        ObservationError: Something is no picture, or not encoded as declared.
        PictureSizeError: Pictures of another size, all of them named: a worker never resizes.
    """
    held, cameras = dict(inputs), cameras_of(observations)
    sizes: dict[str, tuple[int, int]] = {}
    for view, camera in cameras.items():
        if view in held:
            held[view], sizes[view] = _held(view, held[view], camera)
    check_sizes(sizes, cameras)
    return held


def decoding_bytes(inputs: Any, observations: Observations | None) -> int:
    """What the pictures of an observation that is held take in addition once they are decoded."""
    if not isinstance(inputs, Mapping):
        return 0
    return sum(
        camera.decoded_bytes
        for view, camera in cameras_of(observations).items()
        if view in inputs and not _is_handed_as_held(inputs[view], camera)
    )


def decode_cameras(
    inputs: Mapping[str, Any], observations: Observations | None, decoded: dict[tuple[str, int], Any] | None = None
) -> dict[str, Any]:
    """An observation as the policy is handed it: pictures in their declared layout, everything else as it is.

    Blocking, a millisecond or so a picture.

    Args:
        inputs: What `hold_cameras` returned, or some of its keys.
        observations: The declaration.
        decoded: Pictures decoded before, by view and the identity of what is held: the entries of a window share them.

    Returns:
        A new dict; pictures are read-only arrays of `Camera.shape` and `Camera.dtype`.

    Raises:
        ObservationError: A picture is broken, cut off, or holds what no picture may.
    """
    handed, known = dict(inputs), decoded if decoded is not None else {}
    for view, camera in cameras_of(observations).items():
        if view in handed:
            value = handed[view]
            key = (view, id(value))  # of one view: another may have the same picture decoded otherwise
            if key not in known:
                known[key] = _decoded(view, value, camera)
            handed[view] = known[key]
    return handed


def _encoded(view: str, value: Any, camera: Camera) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return check_picture(view, value, camera)
    uniform = millimetres_of(value, view) if camera.depth else pixels_of(value, view)
    picture = fitted(uniform, camera, view)
    return picture if camera.codec == "raw" else encode_picture(picture, camera.codec, camera.quality)


def _is_handed_as_held(value: Any, camera: Camera) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == camera.dtype and value.shape == camera.shape


def _held(view: str, value: Any, camera: Camera) -> tuple[Any, tuple[int, int]]:
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as wrong:
            raise _refused(view, "text that is no base64 of a picture") from wrong
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = bytes(value)
        return encoded, _encoded_size(view, encoded, camera)
    array = array_of(value, view)
    if isinstance(value, list):  # of JSON: an array now, not a list of a hundred thousand numbers
        array = millimetres_of(array, view) if camera.depth else pixels_of(array, view)
    return array, size_of_picture(array, depth=camera.depth, view=view)


def _encoded_size(view: str, encoded: bytes, camera: Camera) -> tuple[int, int]:
    try:
        head = read_head(encoded)
        check_head(head, camera)
    except WireError as wrong:
        raise _refused(view, wrong.what) from wrong
    return head.width, head.height


def _decoded(view: str, value: Any, camera: Camera) -> Any:
    if not isinstance(value, bytes):
        return laid_out(millimetres_of(value, view) if camera.depth else pixels_of(value, view), camera)
    try:
        return decode_picture(value, camera)
    except WireError as wrong:
        raise _refused(view, wrong.what) from wrong


def _refused(view: str, what: str) -> ObservationError:
    return ObservationError(f"{view!r} holds {what}", key=view, expected="a picture as declared", found=what)
