"""Which library writes and reads the pictures of a camera: times, sizes, and whether the pixels are Pillow's.

What was decided from it (see `seqrt.observation.codecs`): JPEG is read by simplejpeg where it is installed, because
its pixels are Pillow's, bit for bit, in 55 to 60 % of the time. It is written by Pillow: simplejpeg's encoder always
takes libjpeg-turbo's fast transform, whose pixels are not Pillow's and lose more (the error column). OpenCV and
imagecodecs write Pillow's very bytes in 65 to 85 % of its time, 0.1 ms a picture, for installations of tens of
megabytes. PNG is written at Pillow's level 1: higher ones take six times as long for a sixth of the bytes.

A round times every library once, so that whatever else the machine does falls on all alike; medians are shown. The
scene is smooth with edges and sensor noise of 1.5 steps. Libraries not installed are left out. Run:
``python bench/jpeg.py``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, features

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqrt.observation import decode_picture, encode_picture, fit_image

Picture = npt.NDArray[np.uint8]
Codec = tuple[Callable[[Picture], bytes], Callable[[bytes], Picture]]

QUALITY = 95
SIZES = ((224, 224), (640, 480))


def scene(width: int, height: int) -> Picture:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:height, 0:width]
    waves = (np.sin(x / 47 + y / 89), np.cos(x / 61 - y / 73), np.sin((x + y) / 83))
    picture = np.stack([128 + 80 * wave for wave in waves], axis=2)
    for _ in range(25):
        left, top = rng.integers(0, width - 20), rng.integers(0, height - 20)
        picture[top : top + rng.integers(8, height // 4), left : left + rng.integers(8, width // 4)] = rng.integers(
            0, 256, 3
        )
    return np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)


def pillow(form: str, **options: Any) -> Codec:
    def write(picture: Picture) -> bytes:
        out = io.BytesIO()
        Image.fromarray(picture).save(out, form, **options)
        return out.getvalue()

    return write, lambda data: np.asarray(Image.open(io.BytesIO(data), formats=[form]).convert("RGB"))


def jpeg_codecs() -> Iterator[tuple[str, Codec]]:
    yield f"Pillow {version('pillow')}", pillow("JPEG", quality=QUALITY)
    try:
        import simplejpeg
    except ImportError:
        pass
    else:
        yield (
            f"simplejpeg {version('simplejpeg')}",
            (
                lambda picture: simplejpeg.encode_jpeg(
                    picture, quality=QUALITY, colorspace="RGB", colorsubsampling="420", fastdct=False
                ),
                lambda data: simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False),
            ),
        )
    try:
        import cv2
    except ImportError:
        pass
    else:
        quality = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
        yield (
            f"OpenCV {cv2.__version__}",
            (
                lambda picture: cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), quality)[1].tobytes(),
                lambda data: cv2.cvtColor(
                    cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB
                ),
            ),
        )
    try:
        import imagecodecs
    except ImportError:
        pass
    else:
        yield (
            f"imagecodecs {version('imagecodecs')}",
            (
                lambda picture: imagecodecs.jpeg8_encode(picture, level=QUALITY, colorspace="RGB", subsampling="420"),
                imagecodecs.jpeg8_decode,
            ),
        )
    yield "seqrt", (lambda picture: encode_picture(picture, "jpeg", QUALITY), decode_picture)


def png_codecs() -> Iterator[tuple[str, Codec]]:
    for level in (1, 3, 6, 9):
        yield f"Pillow, level {level}", pillow("PNG", compress_level=level)
    yield "seqrt", (lambda picture: encode_picture(picture, "png"), decode_picture)


def version(package: str) -> str:
    return importlib.metadata.version(package)


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, all of them once a round, in an order of chance."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            begun = time.perf_counter()
            calls[name]()
            taken[name].append(time.perf_counter() - begun)
    return {name: statistics.median(times) * 1e3 for name, times in taken.items()}


def error(picture: Picture, decoded: Picture) -> float:
    return float(np.sqrt(np.mean((picture.astype(float) - decoded) ** 2)))


def table(codecs: dict[str, Codec], picture: Picture, rounds: int) -> Iterator[str]:
    reference, (write, read) = next(iter(codecs.items()))
    data = write(picture)
    pixels = read(data)
    writing = timed({name: lambda codec=codec: codec[0](picture) for name, codec in codecs.items()}, rounds)
    reading = timed({name: lambda codec=codec: codec[1](data) for name, codec in codecs.items()}, rounds)
    yield "| library | write ms | × | read ms | × | bytes | same bytes | same pixels read | error, steps rms |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, codec in codecs.items():
        own = codec[0](picture)
        yield (
            f"| {name} | {writing[name]:.3f} | {writing[name] / writing[reference]:.2f} | {reading[name]:.3f} | "
            f"{reading[name] / reading[reference]:.2f} | {len(own)} | {'yes' if own == data else 'no'} | "
            f"{'yes' if np.array_equal(codec[1](data), pixels) else 'no'} | {error(picture, read(own)):.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    turbo = features.version_feature("libjpeg_turbo")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, Pillow's libjpeg-turbo {turbo}, {rounds} rounds"
    )
    for width, height in SIZES:
        print(f"\n## JPEG, quality {QUALITY}, 4:2:0, {width}×{height}\n")
        print("\n".join(table(dict(jpeg_codecs()), scene(width, height), rounds)))
    for width, height in SIZES:
        print(f"\n## PNG, {width}×{height}\n")
        print("\n".join(table(dict(png_codecs()), scene(width, height), max(5, rounds // 10))))
    print("\n## 640×480 made to fit 224×224 (pad)\n\n| filter | ms |\n|---|---|")
    source = scene(640, 480)
    fits = {
        name: lambda name=name: fit_image(source, width=224, height=224, resize="pad", filter=name)
        for name in ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
    }
    for name, took_ms in timed(fits, rounds).items():
        print(f"| {name} | {took_ms:.3f} |")


if __name__ == "__main__":
    main()
