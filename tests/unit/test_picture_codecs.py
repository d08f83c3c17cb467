from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqrt.errors import ExtraMissing, PictureSizeError, WireError
from seqrt.observation import Camera, decode_picture, encode_picture
from seqrt.observation.heads import read_head


def scene(width: int = 64, height: int = 48, seed: int = 0) -> npt.NDArray[np.uint8]:
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin(x / 9 + seed), 128 + 100 * np.cos(y / 7), 128 + 80 * np.sin((x + y) / 5)]
    noise = np.random.default_rng(seed).normal(0, 4, (height, width, 3))
    return np.clip(np.stack(waves, axis=2) + noise, 0, 255).astype(np.uint8)


def saved(source: npt.NDArray[Any], format_: str, mode: str | None = None, **options: Any) -> bytes:
    image, out = Image.fromarray(source), io.BytesIO()
    (image.convert(mode) if mode else image).save(out, format_, **options)
    return out.getvalue()


def by_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.fixture(params=["simplejpeg", "pillow"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pillow":
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
    else:
        pytest.importorskip("simplejpeg")
    return str(request.param)


def test_png_gives_back_every_pixel() -> None:
    source = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode_picture(encode_picture(source, "png")), source)


@pytest.mark.parametrize("quality", [1, 50, 95, 100])
def test_a_jpeg_is_written_as_pillow_writes_it(quality: int) -> None:
    assert encode_picture(scene(), "jpeg", quality) == saved(scene(), "JPEG", quality=quality)


def test_a_jpeg_of_95_stays_close_to_what_it_was(reader: str) -> None:
    source = scene()
    decoded = decode_picture(encode_picture(source, "jpeg")).astype(int)
    assert np.abs(decoded - source).mean() < 6


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subsampling": 0},
        {"subsampling": 1},
        {"subsampling": 2},
        {"progressive": True},
        {"optimize": True, "quality": 30},
        {"mode": "L"},
        {"keep_rgb": True},
        {"restart_marker_blocks": 3},
    ],
)
@pytest.mark.parametrize("size", [(64, 48), (17, 33), (1, 1), (7, 250)])
def test_jpegs_of_every_kind_decode_to_pillows_pixels(reader: str, options: dict[str, Any], size: Any) -> None:
    data = saved(scene(*size), "JPEG", **options)
    np.testing.assert_array_equal(decode_picture(data), by_pillow(data))


@given(st.integers(1, 80), st.integers(1, 80), st.integers(1, 100), st.sampled_from([0, 1, 2]), st.integers(0, 9))
def test_any_jpeg_decodes_to_pillows_pixels(width: int, height: int, quality: int, subsampling: int, seed: int) -> None:
    data = saved(scene(width, height, seed), "JPEG", quality=quality, subsampling=subsampling)
    np.testing.assert_array_equal(decode_picture(data), by_pillow(data))


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "1"])
def test_pngs_of_every_kind_decode_to_pillows_pixels(mode: str) -> None:
    data = saved(scene(), "PNG", mode)
    np.testing.assert_array_equal(decode_picture(data), by_pillow(data))


def test_the_layouts_hold_the_same_picture() -> None:
    data = encode_picture(scene(), "png")
    floats = decode_picture(data, Camera(width=64, height=48, codec="png", layout="chw_float"))
    assert (floats.dtype, floats.shape, floats.flags.c_contiguous) == (np.float32, (3, 48, 64), True)
    np.testing.assert_array_equal(floats, scene().transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    assert float(floats.min()) >= 0
    assert float(floats.max()) <= 1


def test_decoded_pictures_are_read_only(reader: str) -> None:
    assert not decode_picture(encode_picture(scene(), "jpeg")).flags.writeable


def test_red_is_channel_0(reader: str) -> None:
    red = np.zeros((16, 16, 3), np.uint8)
    red[..., 0] = 255
    for codec in ("png", "jpeg"):
        decoded = decode_picture(encode_picture(red, codec)).reshape(-1, 3)
        assert decoded[:, 0].min() > 250
        assert decoded[:, 1:].max() < 5


def test_metadata_is_not_read(reader: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees: pixels stand as the sensor gave them
    data = saved(scene(), "JPEG", exif=exif, comment=b"x" * 500, icc_profile=b"y" * 3000)
    assert (read_head(data).width, read_head(data).height) == (64, 48)
    np.testing.assert_array_equal(decode_picture(data), by_pillow(data))


def test_a_picture_of_another_size_than_declared_names_both_and_the_call() -> None:
    with pytest.raises(PictureSizeError, match="64×48 pixels, the policy declares 64×64") as refused:
        decode_picture(encode_picture(scene(), "jpeg"), Camera(width=64, height=64, codec="jpeg"))
    assert refused.value.sizes == {"": {"declared": [64, 64], "sent": [64, 48]}}


def test_another_format_than_declared_is_refused() -> None:
    with pytest.raises(WireError, match="a PNG, the policy declares codec='jpeg'"):
        decode_picture(encode_picture(scene(), "png"), Camera(width=64, height=48, codec="jpeg"))


def test_an_undeclared_picture_may_have_4_megapixels_and_not_one_row_more() -> None:
    assert decode_picture(saved(np.zeros((2000, 2000), np.uint8), "PNG")).shape == (2000, 2000, 3)
    with pytest.raises(WireError, match=r"2000×2001 pixels.*4 megapixels"):
        decode_picture(saved(np.zeros((2001, 2000), np.uint8), "PNG"))


def test_without_pillow_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_picture(scene(), "png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ExtraMissing, match=r"seqrt\[images\]"):
        encode_picture(scene(), "jpeg")
    with pytest.raises(ExtraMissing, match=r"seqrt\[images\]"):
        decode_picture(data)
