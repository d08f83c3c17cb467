from __future__ import annotations

import base64
import contextlib
import io
import struct
import sys
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqrt.errors import PictureSizeError, WireError
from seqrt.observation import Camera, decode_picture, encode_picture
from seqrt.observation.heads import plain_png, read_head, read_head_of_text

CAMERA = {codec: Camera(width=64, height=48, codec=codec) for codec in ("png", "jpeg")}  # type: ignore[arg-type]
NOISE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
GOOD = {codec: encode_picture(NOISE, codec) for codec in ("png", "jpeg")}  # type: ignore[arg-type]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes, bits: int = 8, colour: int = 2) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunks)


def peak_bytes(data: bytes, camera: Camera | None) -> int:
    tracemalloc.start()
    try:
        with pytest.raises((WireError, PictureSizeError)):
            decode_picture(data, camera)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(params=["simplejpeg", "pillow"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pillow":
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
    else:
        pytest.importorskip("simplejpeg")
    return str(request.param)


@pytest.mark.parametrize("codec", ["png", "jpeg"])
def test_a_picture_cut_off_anywhere_is_refused(codec: str) -> None:
    data = GOOD[codec]
    for length in {0, 1, 2, 3, 8, 20, 32, 33, 40, len(data) // 4, len(data) // 2, len(data) - 20, len(data) - 1}:
        with pytest.raises(WireError) as refused:
            decode_picture(data[:length], CAMERA[codec])
        assert refused.value.reason == "picture"


def test_a_picture_whose_middle_is_missing_is_refused(reader: str) -> None:
    # Pillow takes such a JPEG for whole and greys the rest; simplejpeg does not.
    for codec, end in (("png", 12), ("jpeg", 2))[: 2 if reader == "simplejpeg" else 1]:
        data = GOOD[codec]
        with pytest.raises(WireError):
            decode_picture(data[: len(data) // 2] + data[-end:], CAMERA[codec])


@given(st.sampled_from(["png", "jpeg"]), st.integers(0, 10**9), st.integers(1, 255))
def test_any_changed_byte_gives_a_picture_of_the_declared_size_or_our_error(codec: str, at: int, by: int) -> None:
    data = bytearray(GOOD[codec])
    data[at % len(data)] ^= by
    with contextlib.suppress(WireError, PictureSizeError):
        assert decode_picture(bytes(data), CAMERA[codec]).shape == (48, 64, 3)


@given(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"\xff\xd8\xff\xc0"]), st.binary(max_size=200))
def test_no_bytes_give_anything_but_a_picture_or_our_error(start: bytes, rest: bytes) -> None:
    with pytest.raises(WireError):
        decode_picture(start + rest)


@pytest.mark.parametrize("format_", ["GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO"])
def test_other_formats_are_refused_before_any_decoder_sees_them(format_: str) -> None:
    out = io.BytesIO()
    Image.fromarray(NOISE).save(out, format_)
    with pytest.raises(WireError, match="neither PNG nor JPEG"):
        decode_picture(out.getvalue())


@pytest.mark.parametrize("camera", [CAMERA["png"], None])
def test_a_png_that_unpacks_to_gigabytes_costs_nothing(camera: Camera | None) -> None:
    bomb = png(60_000, 60_000, chunk(b"IDAT", zlib.compress(bytes(2**22), 9)), chunk(b"IEND", b""))
    assert peak_bytes(bomb, camera) < 2**20


def test_a_png_whose_pixels_go_on_for_ever_is_read_up_to_its_size() -> None:
    rows = zlib.compress(bytes(2**24), 9)
    data = png(64, 48, chunk(b"IDAT", rows), chunk(b"IEND", b""))
    tracemalloc.start()
    try:
        with contextlib.suppress(WireError):
            decode_picture(data, CAMERA["png"])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2**21


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_text_and_profiles_that_unpack_to_megabytes_are_not_unpacked(kind: bytes) -> None:
    packed = zlib.compress(bytes(2**25), 9)
    body = {b"zTXt": b"a\0\0", b"iTXt": b"a\0\1\0\0\0", b"iCCP": b"a\0\0"}[kind] + packed
    good = GOOD["png"]
    data = good[:33] + chunk(kind, body) * 8 + good[33:]
    tracemalloc.start()
    try:
        np.testing.assert_array_equal(decode_picture(data, CAMERA["png"]), NOISE)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()
    assert plain_png(data) == good


def test_a_jpeg_that_claims_to_be_huge_costs_nothing() -> None:
    data = bytearray(GOOD["jpeg"])
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", 65500, 65500)
    for camera in (CAMERA["jpeg"], None):
        assert peak_bytes(bytes(data), camera) < 2**20


def test_a_jpeg_with_a_scan_after_the_other_is_refused() -> None:
    out = io.BytesIO()
    Image.fromarray(NOISE).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    with pytest.raises(WireError, match="scans"):
        decode_picture(data[:-2] + scan * 1000 + data[-2:])


def test_a_jpeg_with_two_headers_is_refused() -> None:
    data = GOOD["jpeg"]
    at = data.index(b"\xff\xc0")
    header = data[at : at + 19]
    with pytest.raises(WireError, match="two headers"):
        read_head(data[:at] + header + data[at:])


def test_a_long_run_of_fill_bytes_or_empty_segments_is_not_walked() -> None:
    with pytest.raises(WireError):
        read_head(b"\xff\xd8" + b"\xff" * 10_000_000)
    with pytest.raises(WireError, match="1024 segments"):
        read_head(b"\xff\xd8" + b"\xff\xe1\x00\x02" * 100_000)
    with pytest.raises(WireError, match="65536 chunks"):
        decode_picture(png(64, 48, chunk(b"IDAT", b"") * 100_000))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (png(0, 48), "0×48"),
        (png(64, 48, bits=3), "no such thing"),
        (png(64, 48, colour=5), "no such thing"),
        (png(64, 48, bits=16), "colours have 8"),
        (b"\xff\xd8\xff\xc3\x00\x11\x08\x00\x30\x00\x40" + bytes(10), "rare kind"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x0c\x00\x30\x00\x40\x01\x01\x11\x00\xff\xda\x00\x02", "12 bits"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x30\x00\x40\x04\x01\x11\x00\xff\xda\x00\x02", "4 channels"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x00\x00\x40\x01\x01\x11\x00\xff\xda\x00\x02", "64×0"),
        (b"\xff\xd8\xff\xda\x00\x02", "without its header"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x30\x00\x40\x01\x01\x11\x00\xff\xda\x00\x02", "cut off"),
    ],
)
def test_kinds_that_are_not_read_are_refused_by_name(data: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        decode_picture(data)


def test_colours_are_no_depth_and_depth_is_no_colours() -> None:
    depth = Camera(width=64, height=48, depth=True, codec="png")
    with pytest.raises(WireError, match="one channel of 16"):
        decode_picture(GOOD["png"], depth)
    distances = encode_picture(np.zeros((48, 64), np.uint16), "png")
    with pytest.raises(WireError, match="colours have 8"):
        decode_picture(distances, CAMERA["png"])


def test_a_setting_of_pillow_somebody_else_made_lets_nothing_cut_off_through(monkeypatch: Any) -> None:
    from PIL import ImageFile

    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for codec in ("png", "jpeg"):
        with pytest.raises(WireError):
            decode_picture(GOOD[codec][:-30], CAMERA[codec])


def test_the_header_of_base64_is_read_wherever_it_stands() -> None:
    jpeg = encode_picture(np.zeros((5, 6, 3), np.uint8), "jpeg")
    profile = b"\xff\xe2\xff\xff" + bytes(0xFFFD)
    for data in (jpeg, jpeg + bytes(200_000), jpeg[:2] + 3 * profile + jpeg[2:]):
        head = read_head_of_text(base64.b64encode(data).decode())
        assert (head.width, head.height) == (6, 5)
    with pytest.raises(WireError, match="no base64"):
        read_head_of_text("a" * 100_001)
