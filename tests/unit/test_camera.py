from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from seqrt.observation import Camera, Observations, Stream


def test_a_camera_needs_its_size_alone() -> None:
    camera = Camera(width=224, height=160)
    assert (camera.codec, camera.quality, camera.layout, camera.depth) == ("raw", None, "hwc_uint8", False)
    assert (camera.shape, camera.dtype, camera.decoded_bytes) == ((160, 224, 3), "uint8", 160 * 224 * 3)
    assert not camera.fits


def test_jpeg_has_a_quality_of_95_unless_it_is_declared() -> None:
    assert Camera(width=8, height=8, codec="jpeg").quality == 95
    assert Camera(width=8, height=8, codec="jpeg", quality=60).quality == 60
    assert Camera.model_validate({"width": 8, "height": 8, "codec": "jpeg"}).quality == 95


@pytest.mark.parametrize("side", [0, 8193, -1, True, 224.0, "224", float("nan"), None])
def test_a_side_that_is_no_whole_number_from_1_to_8192_is_refused(side: Any) -> None:
    with pytest.raises(ValidationError, match="width"):
        Camera(width=side, height=10)


def test_numpy_integers_are_sides() -> None:
    assert Camera(width=np.int64(8192), height=np.uint8(1)).shape == (1, 8192, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"resize": "pad"}, r"resize and filter.*add e\.g\. filter='bilinear'"),
        ({"filter": "box"}, r"resize and filter.*add e\.g\. resize='pad'"),
        ({"quality": 90}, "quality: raw has none.*codec='jpeg'"),
        ({"quality": 90, "codec": "png"}, "quality: png has none"),
        ({"quality": 0, "codec": "jpeg"}, "greater than or equal to 1"),
        ({"quality": 101, "codec": "jpeg"}, "less than or equal to 100"),
        ({"quality": True, "codec": "jpeg"}, "not an integer"),
        ({"depth": True, "codec": "jpeg"}, "declare codec='png'"),
        ({"depth": True, "resize": "pad", "filter": "bilinear"}, "declare filter='nearest'"),
        ({"depth": 1}, "valid boolean"),
        ({"resize": "crop", "filter": "box"}, "'pad' or 'stretch'"),
        ({"resize": "pad", "filter": "area"}, "'nearest', 'box', 'bilinear', 'hamming', 'bicubic' or 'lanczos'"),
        ({"codec": "webp"}, "'raw', 'png' or 'jpeg'"),
        ({"layout": "bgr"}, "'hwc_uint8' or 'chw_float'"),
        ({"fps": 30}, "Extra inputs are not permitted"),
    ],
)
def test_what_a_camera_may_not_declare_is_refused_with_what_to_write_instead(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Camera(width=224, height=224, **fields)


@pytest.mark.parametrize(
    ("fields", "shape", "dtype", "size"),
    [
        ({}, (4, 6, 3), "uint8", 72),
        ({"layout": "chw_float"}, (3, 4, 6), "float32", 288),
        ({"depth": True}, (4, 6), "float32", 96),
        ({"depth": True, "layout": "chw_float"}, (1, 4, 6), "float32", 96),
    ],
)
def test_a_camera_says_what_array_the_policy_is_handed(
    fields: dict[str, Any], shape: tuple[int, ...], dtype: str, size: int
) -> None:
    camera = Camera(width=6, height=4, **fields)
    assert (camera.shape, camera.dtype, camera.decoded_bytes) == (shape, dtype, size)


def test_a_stream_takes_a_camera_and_a_shape_and_type_that_agree_with_it() -> None:
    camera = Camera(width=6, height=4, layout="chw_float")
    stream = Stream(at=[-15, 0], camera=camera, shape=[3, 4, 6], dtype="float32")
    assert stream.camera == camera


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"shape": [3, 4, 6]}, r"shape: \[3, 4, 6\].*handed over as \[4, 6, 3\]; leave shape out"),
        ({"dtype": "float32"}, "dtype: float32.*handed over as uint8; leave dtype out"),
        ({"names": ["r", "g", "b"]}, "leave names out"),
        ({"camera": {"width": 6, "height": 4, "size": 3}}, "Extra inputs"),
    ],
)
def test_a_stream_that_disagrees_with_its_camera_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Stream(**{"camera": Camera(width=6, height=4), **fields})


@pytest.mark.parametrize(
    "camera",
    [
        Camera(width=224, height=224),
        Camera(width=224, height=224, resize="pad", filter="bilinear", codec="jpeg", quality=80),
        Camera(width=224, height=224, codec="jpeg"),
        Camera(width=640, height=480, depth=True, codec="png", layout="chw_float"),
    ],
)
def test_a_declaration_travels_and_comes_back_the_same(camera: Camera) -> None:
    observations = Observations(streams={"wrist": Stream(camera=camera)})
    plain = observations.model_dump(mode="json", exclude_defaults=True)
    assert Observations.model_validate(plain) == observations
