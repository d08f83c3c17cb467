from __future__ import annotations

import sys
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqrt.errors import ExtraMissing, ObservationError, PictureSizeError
from seqrt.observation import Camera, fit_image
from seqrt.observation.camera import Filter, Resize
from seqrt.observation.fitting import placed

FILTERS: tuple[Filter, ...] = get_args(Filter)
RESIZES: tuple[Resize, ...] = get_args(Resize)


def picture(width: int, height: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def padded_by_pillow(source: npt.NDArray[np.uint8], width: int, height: int, filter_: str) -> npt.NDArray[np.uint8]:
    """What policies were trained with, written down with Pillow alone."""
    image = Image.fromarray(source)
    ratio = max(image.width / width, image.height / height)
    inner = int(image.width / ratio), int(image.height / ratio)
    canvas = Image.new("RGB", (width, height), 0)
    canvas.paste(
        image.resize(inner, Image.Resampling[filter_.upper()]),
        (int((width - inner[0]) / 2), int((height - inner[1]) / 2)),
    )
    return np.asarray(canvas)


def by_pillow(source: npt.NDArray[np.uint8], width: int, height: int, resize: str, filter_: str) -> Any:
    if source.shape[:2] == (height, width):
        return source
    if resize == "pad":
        return padded_by_pillow(source, width, height, filter_)
    return np.asarray(Image.fromarray(source).resize((width, height), Image.Resampling[filter_.upper()]))


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("size", [(640, 480), (224, 300), (96, 96), (100, 37), (1, 1)])
def test_a_fitted_picture_is_pillows_pixel_for_pixel(resize: Resize, filter_: Filter, size: tuple[int, int]) -> None:
    source = picture(*size)
    fitted = fit_image(source, width=224, height=224, resize=resize, filter=filter_)
    assert fitted.dtype == np.uint8
    np.testing.assert_array_equal(fitted, by_pillow(source, 224, 224, resize, filter_))


sides = st.integers(1, 70)


@given(sides, sides, sides, sides, st.sampled_from(RESIZES), st.sampled_from(FILTERS), st.integers(0, 9))
def test_any_size_fits_any_other_as_pillow_does_or_is_refused_by_the_side_that_vanishes(
    w: int, h: int, width: int, height: int, resize: Resize, filter_: Filter, seed: int
) -> None:
    source = picture(w, h, seed)
    ratio = max(w / width, h / height)
    if (w, h) != (width, height) and resize == "pad" and 0 in (int(w / ratio), int(h / ratio)):
        side = "width" if int(w / ratio) == 0 else "height"
        with pytest.raises(ObservationError, match=f"its {side} becomes 0"):
            fit_image(source, width=width, height=height, resize=resize, filter=filter_)
        return
    fitted = fit_image(source, width=width, height=height, resize=resize, filter=filter_)
    np.testing.assert_array_equal(fitted, by_pillow(source, width, height, resize, filter_))


@pytest.mark.parametrize(
    ("size", "target", "inner", "corner"),
    [
        ((640, 480), (224, 224), (224, 168), (0, 28)),
        ((480, 640), (224, 224), (168, 224), (28, 0)),
        ((320, 180), (224, 224), (224, 126), (0, 49)),
        ((101, 100), (50, 50), (50, 49), (0, 0)),
        ((10, 5), (3, 3), (3, 1), (0, 1)),
        ((224, 224), (224, 224), (224, 224), (0, 0)),
    ],
)
def test_padding_puts_a_picture_where_the_contract_says(size: Any, target: Any, inner: Any, corner: Any) -> None:
    assert placed(size, target) == (inner, corner)


def test_padding_is_black() -> None:
    fitted = fit_image(np.full((10, 20, 3), 255, np.uint8), width=20, height=20)
    assert fitted[:5].max() == 0
    assert fitted[15:].max() == 0
    assert fitted[5:15].min() == 255


def test_the_same_size_is_not_resampled_and_not_copied() -> None:
    source = picture(224, 224)
    assert fit_image(source, width=224, height=224, filter="lanczos") is source


def test_a_side_that_becomes_0_is_named_with_what_to_do() -> None:
    with pytest.raises(ObservationError, match=r"1000×2 pixels.*its height becomes 0.*resize='stretch'"):
        fit_image(picture(1000, 2), width=100, height=100)


def test_grey_pictures_become_rgb() -> None:
    grey = picture(30, 20)[:, :, 0]
    for source in (grey, grey[:, :, None]):
        fitted = fit_image(source, width=30, height=20)
        np.testing.assert_array_equal(fitted, np.stack([grey] * 3, axis=2))


def test_rgba_loses_its_alpha_as_in_pillow() -> None:
    source = np.random.default_rng(0).integers(0, 256, (40, 50, 4), dtype=np.uint8)
    expected = by_pillow(np.asarray(Image.fromarray(source).convert("RGB")), 24, 24, "stretch", "bicubic")
    fitted = fit_image(source, width=24, height=24, resize="stretch", filter="bicubic")
    np.testing.assert_array_equal(fitted, expected)


def test_red_stays_red() -> None:
    source = np.zeros((60, 80, 3), np.uint8)
    source[..., 0] = 255
    fitted = fit_image(source, width=40, height=30)
    assert (fitted[..., 0] == 255).all()
    assert not fitted[..., 1:].any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_floats_from_0_to_1_come_out_as_the_steps_they_were_made_of(dtype: Any) -> None:
    steps = np.arange(256, dtype=np.uint8).reshape(16, 16)
    fitted = fit_image((steps / 255).astype(dtype), width=16, height=16)
    np.testing.assert_array_equal(fitted[..., 0], steps)


@pytest.mark.parametrize("bad", [1.0001, -0.001, 255.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_outside_0_to_1_are_refused_and_never_wrapped(bad: float, dtype: Any) -> None:
    source = np.full((20, 30, 3), 0.5, dtype)
    source[7, 3, 1] = bad
    with pytest.raises(ObservationError, match="runs from 0 to 1"):
        fit_image(source, width=20, height=20)


def test_whole_numbers_from_0_to_255_are_colours_and_others_are_refused() -> None:
    source = picture(20, 20)
    np.testing.assert_array_equal(fit_image(source.tolist(), width=20, height=20), source)
    np.testing.assert_array_equal(fit_image(source.astype(np.int32), width=20, height=20), source)
    for bad in (-1, 256):
        wrong = source.astype(np.int64)
        wrong[0, 0, 0] = bad
        with pytest.raises(ObservationError, match="colours run from 0 to 255"):
            fit_image(wrong, width=20, height=20)


@pytest.mark.parametrize("dtype", [np.uint16, np.int8, np.bool_, np.int16])
def test_types_that_are_only_sometimes_colours_are_refused_whatever_they_hold(dtype: Any) -> None:
    with pytest.raises(ObservationError, match=np.dtype(dtype).name):
        fit_image(np.zeros((20, 30, 3), dtype), width=20, height=20)


@pytest.mark.parametrize("shape", [(), (3,), (0, 7, 3), (7, 0), (20, 30, 2), (20, 30, 5), (1, 20, 30, 3), (2, 20, 30)])
def test_shapes_of_no_picture_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ObservationError, match=r"a colour picture is \[h, w, 3\]"):
        fit_image(np.zeros(shape, np.uint8), width=20, height=20)


def test_channels_that_stand_first_are_told_how_to_turn() -> None:
    with pytest.raises(ObservationError, match=r"picture\.transpose\(1, 2, 0\)"):
        fit_image(np.zeros((3, 20, 30), np.uint8), width=20, height=20)


@pytest.mark.parametrize("source", ["picture", None, [[1, 2], [3]], {"a": 1}, 1j])
def test_what_is_no_picture_at_all_is_refused(source: Any) -> None:
    with pytest.raises(ObservationError, match="picture"):
        fit_image(source, width=20, height=20)


def test_a_pillow_image_is_taken_unless_its_numbers_are_no_colours() -> None:
    image = Image.fromarray(picture(20, 20))
    np.testing.assert_array_equal(fit_image(image, width=20, height=20), picture(20, 20))
    with pytest.raises(ObservationError, match=r"mode 'P'.*convert\('RGB'\)"):
        fit_image(image.convert("P"), width=20, height=20)


def test_views_that_are_not_contiguous_fit_like_any_other() -> None:
    source = picture(60, 50)[::-1, ::2]
    expected = by_pillow(np.ascontiguousarray(source), 24, 24, "stretch", "box")
    fitted = fit_image(source, width=24, height=24, resize="stretch", filter="box")
    np.testing.assert_array_equal(fitted, expected)


def test_a_camera_may_stand_for_the_four_arguments() -> None:
    camera = Camera(width=24, height=24, resize="stretch", filter="hamming", codec="jpeg", layout="chw_float")
    source = picture(60, 50)
    np.testing.assert_array_equal(fit_image(source, camera), by_pillow(source, 24, 24, "stretch", "hamming"))


def test_a_camera_that_does_not_resize_refuses_other_sizes_with_both_and_the_call() -> None:
    with pytest.raises(PictureSizeError, match=r"60×50 pixels, the policy declares 24×20: fit it with ") as refused:
        fit_image(picture(60, 50), Camera(width=24, height=20))
    assert "seqrt.fit_image(picture, width=24, height=20, resize='pad', filter='bilinear')" in str(refused.value)


def test_calls_that_say_too_much_or_too_little_are_refused() -> None:
    source = picture(20, 20)
    with pytest.raises(TypeError, match="needs a camera"):
        fit_image(source, width=20)
    with pytest.raises(TypeError, match="not both"):
        fit_image(source, Camera(width=20, height=20), resize="pad")
    with pytest.raises(ValueError, match="8192"):
        fit_image(source, width=9000, height=20)
    with pytest.raises(ValueError, match="colour"):
        fit_image(source, Camera(width=20, height=20, depth=True))


def test_without_pillow_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'seqrt\[images\]'") as missing:
        fit_image(picture(30, 20), width=20, height=20)
    assert (missing.value.package, missing.value.extra) == ("Pillow", "images")
    assert fit_image(picture(20, 20), width=20, height=20).shape == (20, 20, 3)
