from __future__ import annotations

import base64
import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from seqrt.errors import ExtraMissing, ObservationError, PictureSizeError
from seqrt.observation import (
    Camera,
    Observations,
    Stream,
    cameras_of,
    check,
    decode_cameras,
    encode_cameras,
    fit_image,
    hold_cameras,
    require_codecs,
)
from seqrt.observation.cameras import decoding_bytes


def declared(**cameras: Camera) -> Observations:
    streams = {view: Stream(camera=camera) for view, camera in cameras.items()}
    return Observations(streams={**streams, "state": Stream(shape=[2], dtype="float32")})


def picture(width: int = 64, height: int = 48, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


FITS = Camera(width=32, height=32, resize="pad", filter="bilinear", codec="png")
EXACT = Camera(width=64, height=48, codec="jpeg")
STATE = np.zeros(2, np.float32)


def test_the_declared_cameras_are_found() -> None:
    assert cameras_of(None) == cameras_of(Observations()) == {}
    assert cameras_of(declared(a=FITS, b=EXACT)) == {"a": FITS, "b": EXACT}


def test_pictures_are_fitted_and_encoded_and_everything_else_is_left_as_it_is() -> None:
    observations = declared(a=FITS, b=EXACT)
    given = check({"a": picture(), "b": picture(), "state": STATE, "more": 1}, observations)
    sent = encode_cameras(given, observations)
    assert list(sent) == ["a", "b", "state"]
    assert sent["state"] is STATE
    assert sent["b"].startswith(b"\xff\xd8")
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(sent["a"]))), fit_image(picture(), FITS))


def test_what_was_encoded_is_sent_again_as_it_is() -> None:
    depth = Camera(width=64, height=48, depth=True)
    observations = declared(a=FITS, b=EXACT, c=Camera(width=64, height=48), d=depth)
    given = {"a": picture(), "b": picture(), "c": picture(), "d": np.full((48, 64), 0.5), "state": STATE}
    sent = encode_cameras(given, observations)
    again = encode_cameras(sent, observations)
    for key, value in sent.items():
        assert again[key] is value


def test_a_camera_that_gives_jpeg_by_itself_is_sent_as_it_is_when_it_is_what_is_declared() -> None:
    observations = declared(b=EXACT)
    out = io.BytesIO()
    Image.fromarray(picture()).save(out, "JPEG", quality=70)
    for data in (out.getvalue(), bytearray(out.getvalue()), memoryview(out.getvalue())):
        checked = check({"b": data, "state": STATE}, observations)
        assert encode_cameras(checked, observations)["b"] == out.getvalue()
    with pytest.raises(ObservationError, match="'b' holds a JPEG, the policy declares codec='png'"):
        check({"b": out.getvalue(), "state": STATE}, declared(b=Camera(width=64, height=48, codec="png")))
    with pytest.raises(PictureSizeError, match="64×48 pixels, the policy declares 32×32"):
        check({"b": out.getvalue(), "state": STATE}, declared(b=Camera(width=32, height=32, codec="jpeg")))


@pytest.mark.parametrize("codec", ["raw", "png"])
@pytest.mark.parametrize("layout", ["hwc_uint8", "chw_float"])
def test_a_picture_reaches_the_policy_as_it_was_fitted(codec: Any, layout: Any) -> None:
    camera = Camera(width=32, height=24, resize="stretch", filter="box", codec=codec, layout=layout)
    observations = declared(a=camera)
    held = hold_cameras(encode_cameras({"a": picture(), "state": STATE}, observations), observations)
    handed = decode_cameras(held, observations)["a"]
    fitted = fit_image(picture(), camera)
    expected = fitted if layout == "hwc_uint8" else fitted.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    assert (handed.shape, handed.dtype, handed.flags.writeable) == (camera.shape, np.dtype(camera.dtype), False)
    np.testing.assert_array_equal(handed, expected)


def test_on_the_robot_a_picture_of_another_size_is_refused_with_both_sizes_and_the_call_before_it_is_encoded() -> None:
    with pytest.raises(PictureSizeError) as refused:
        check({"b": picture(640, 480), "state": STATE}, declared(b=EXACT))
    assert str(refused.value) == (
        "'b' is 640×480 pixels, the policy declares 64×48: fit it with seqrt.fit_image(picture, width=64, height=48, "
        "resize='pad', filter='bilinear')"
    )
    assert refused.value.sizes == {"b": {"declared": [64, 48], "sent": [640, 480]}}


def test_the_call_that_is_named_mends_it() -> None:
    observations = declared(b=EXACT)
    fitted = fit_image(picture(640, 480), width=64, height=48, resize="pad", filter="bilinear")
    hold_cameras(encode_cameras(check({"b": fitted, "state": STATE}, observations), observations), observations)


def test_on_the_worker_all_wrong_sizes_are_named_at_once_fitting_declared_or_not() -> None:
    observations = declared(a=FITS, b=EXACT)
    with pytest.raises(PictureSizeError) as refused:
        hold_cameras({"a": picture(), "b": picture(32, 32), "state": STATE}, observations)
    assert refused.value.sizes == {
        "a": {"declared": [32, 32], "sent": [64, 48]},
        "b": {"declared": [64, 48], "sent": [32, 32]},
    }


def test_depth_of_another_size_is_told_what_to_do_too() -> None:
    observations = declared(d=Camera(width=8, height=6, depth=True, codec="png"))
    with pytest.raises(PictureSizeError, match="filter='nearest'"):
        check({"d": np.zeros((12, 16), np.float32), "state": STATE}, observations)


@pytest.mark.parametrize("value", ["left", None, [[1], [1, 2]], np.zeros((3, 48, 64), np.uint8), np.zeros(4), {"a": 1}])
def test_what_is_no_picture_is_refused_by_its_key_on_both_sides(value: Any) -> None:
    with pytest.raises(ObservationError, match="'b'"):
        check({"b": value, "state": STATE}, declared(b=EXACT))
    with pytest.raises(ObservationError, match="'b'"):
        hold_cameras({"b": value, "state": STATE}, declared(b=EXACT))


def test_a_frame_of_nan_is_refused_when_it_is_encoded() -> None:
    bad = np.full((48, 64, 3), np.nan, np.float32)
    observations = declared(b=EXACT)
    checked = check({"b": bad, "state": STATE}, observations)  # by shape alone: it runs on the event loop
    with pytest.raises(ObservationError, match="'b': a float picture runs from 0 to 1"):
        encode_cameras(checked, observations)


def test_json_has_pictures_as_base64_text_and_arrays_as_lists() -> None:
    observations = declared(a=FITS, c=Camera(width=4, height=3))
    sent = encode_cameras({"a": picture(), "c": picture(4, 3), "state": STATE}, observations)
    as_json = {"a": base64.b64encode(sent["a"]).decode(), "c": sent["c"].tolist()}
    held = hold_cameras(as_json, observations)
    assert held["a"] == sent["a"]
    assert held["c"].dtype == np.uint8
    np.testing.assert_array_equal(decode_cameras(held, observations)["c"], sent["c"])
    with pytest.raises(ObservationError, match="'a' holds text that is no base64"):
        hold_cameras({"a": "not base64!"}, observations)


def test_exact_pixels_may_always_come_instead_of_encoded_ones() -> None:
    held = hold_cameras({"b": picture()}, declared(b=EXACT))
    np.testing.assert_array_equal(decode_cameras(held, declared(b=EXACT))["b"], picture())


def test_a_key_that_is_not_there_is_left_out() -> None:
    observations = declared(a=FITS, b=EXACT)
    sent = encode_cameras({"b": picture()}, observations)
    assert set(sent) == set(hold_cameras(sent, observations)) == set(decode_cameras(sent, observations)) == {"b"}


def test_pictures_are_charged_as_what_they_decode_to() -> None:
    observations = declared(a=FITS, b=EXACT, c=Camera(width=4, height=3, layout="chw_float"))
    assert decoding_bytes({"a": b"", "state": STATE}, observations) == 32 * 32 * 3
    assert decoding_bytes({"b": picture()}, observations) == 0  # handed over as it is held
    assert decoding_bytes({"c": picture(4, 3)}, observations) == 4 * 3 * 3 * 4
    assert decoding_bytes("no mapping", observations) == 0


def test_entries_of_one_window_share_their_decoded_pictures() -> None:
    observations = declared(b=EXACT)
    sent, decoded = encode_cameras({"b": picture()}, observations), {}
    first = decode_cameras(sent, observations, decoded)
    assert decode_cameras(dict(sent), observations, decoded)["b"] is first["b"]


def test_a_broken_picture_is_refused_by_its_key() -> None:
    observations = declared(b=EXACT)
    sent = encode_cameras({"b": picture()}, observations)
    held = hold_cameras({"b": sent["b"][:-40]}, observations)  # its header is whole
    with pytest.raises(ObservationError, match="'b' holds a JPEG cut off"):
        decode_cameras(held, observations)


def test_what_is_not_installed_is_named_before_anything_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    raw = Camera(width=4, height=4, resize="pad", filter="box")
    require_codecs(declared(c=Camera(width=4, height=4)), fitting=True)
    require_codecs(declared(c=raw), fitting=False)
    with pytest.raises(ExtraMissing, match=r"the camera 'c' \(resize='pad'\) needs Pillow: pip install 'seqrt\["):
        require_codecs(declared(c=raw), fitting=True)
    with pytest.raises(ExtraMissing, match=r"the camera 'b' \(codec='jpeg'\) needs Pillow"):
        require_codecs(declared(b=EXACT), fitting=False)


def test_one_picture_of_two_views_is_decoded_as_each_declares_it() -> None:
    observations = declared(a=EXACT, b=Camera(width=64, height=48, codec="jpeg", layout="chw_float"))
    encoded = encode_cameras({"a": picture()}, observations)["a"]
    handed = decode_cameras({"a": encoded, "b": encoded}, observations, {})
    assert (handed["a"].shape, handed["b"].shape) == ((48, 64, 3), (3, 48, 64))
