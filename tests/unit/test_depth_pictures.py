from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from PIL import Image

from seqrt.errors import ObservationError
from seqrt.observation import Camera, Observations, Stream, decode_cameras, decode_picture, encode_cameras
from seqrt.observation.pictures import millimetres_of


def observations(**fields: Any) -> Observations:
    return Observations(streams={"d": Stream(camera=Camera(depth=True, **fields))})


def there_and_back(picture: Any, **fields: Any) -> np.ndarray:
    declared = observations(width=picture.shape[1], height=picture.shape[0], **fields)
    handed: np.ndarray = decode_cameras(encode_cameras({"d": picture}, declared), declared)["d"]
    return handed


@pytest.mark.parametrize(
    ("metres", "millimetres"),
    [
        (1.234, 1234),
        (0.0625, 62),  # 62.5: half to even
        (0.0635, 64),
        (0.1875, 188),  # 187.5
        (0.0004, 0),
        (65.535, 65535),
        (65.5351, 65535),
        (1e30, 65535),
        (0.0, 0),
        (-0.0, 0),
        (-1.0, 0),
        (float("nan"), 0),
        (float("inf"), 0),
        (-float("inf"), 0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_metres_become_whole_millimetres_and_no_reading_becomes_0(metres: float, millimetres: int, dtype: Any) -> None:
    assert millimetres_of(np.full((2, 3), metres, dtype)).tolist() == [[millimetres] * 3] * 2


def test_every_millimetre_survives_png_and_raw_to_the_last_bit() -> None:
    millimetres = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    for codec in ("png", "raw"):
        metres = there_and_back(millimetres, codec=codec)
        assert metres.dtype == np.float32
        np.testing.assert_array_equal(metres, (millimetres / 1000).astype(np.float32))
        np.testing.assert_array_equal(millimetres_of(metres), millimetres)


@given(of_numpy.arrays(np.float32, (4, 5), elements=st.floats(width=32)))
def test_the_policy_reads_the_same_distances_whatever_the_codec_and_never_more_than_half_a_millimetre_off(
    metres: np.ndarray,
) -> None:
    handed = there_and_back(metres, codec="png")
    np.testing.assert_array_equal(handed, there_and_back(metres, codec="raw"))
    with np.errstate(invalid="ignore"):
        read = np.where(np.isfinite(metres) & (metres > 0), metres.astype(np.float64), 0).clip(0, 65.535)
    assert np.abs(handed - read).max() <= 0.0005 + 4e-6  # float32 holds 65 m to 4 µm


def test_millimetres_of_either_byte_order_are_read() -> None:
    millimetres = np.array([[1, 2], [3, 40_000]], np.uint16)
    np.testing.assert_array_equal(there_and_back(millimetres.astype(">u2"), codec="png"),
                                  there_and_back(millimetres, codec="png"))  # fmt: skip


def test_depth_travels_as_a_16_bit_grey_png() -> None:
    sent = encode_cameras({"d": np.full((3, 4), 1.5, np.float32)}, observations(width=4, height=3, codec="png"))["d"]
    assert isinstance(sent, bytes)
    assert (sent[24], sent[25]) == (16, 0)
    np.testing.assert_array_equal(decode_picture(sent, depth=True), np.full((3, 4), 1.5, np.float32))


def test_the_layout_decides_the_axes() -> None:
    picture = np.full((3, 4), 2.0, np.float32)
    assert there_and_back(picture, codec="png").shape == (3, 4)
    assert there_and_back(picture, codec="png", layout="chw_float").shape == (1, 3, 4)
    assert there_and_back(picture[:, :, None], codec="png").shape == (3, 4)


@pytest.mark.parametrize("resize", ["pad", "stretch"])
def test_depth_is_fitted_with_its_nearest_readings_and_padded_with_none(resize: Any) -> None:
    millimetres = np.random.default_rng(0).integers(1, 65536, (48, 64), dtype=np.uint16)
    declared = observations(width=24, height=24, resize=resize, filter="nearest", codec="png")
    handed = decode_cameras(encode_cameras({"d": millimetres}, declared), declared)["d"]
    inner = (24, 18) if resize == "pad" else (24, 24)
    expected = np.zeros((24, 24), np.float32)
    nearest = np.asarray(Image.fromarray(millimetres.astype(np.int32)).resize(inner, Image.Resampling.NEAREST))
    top = (24 - inner[1]) // 2
    expected[top : top + inner[1]] = (nearest / 1000).astype(np.float32)
    np.testing.assert_array_equal(handed, expected)


@pytest.mark.parametrize("wrong", [np.zeros((3, 4), np.uint8), np.zeros((3, 4), np.int64), np.zeros((3, 4, 3))])
def test_what_is_no_depth_picture_is_refused(wrong: Any) -> None:
    with pytest.raises(ObservationError, match=r"'d'.*depth"):
        encode_cameras({"d": wrong}, observations(width=4, height=3, codec="png"))
