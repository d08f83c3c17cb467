"""What the robots see: JPEG pictures of 224×224, encoded beforehand."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

SIDE = 224
VIEWS = ("front", "wrist")
QUALITY = 95
DIFFERENT = 16


def pictures(seed: int = 0) -> list[bytes]:
    """`DIFFERENT` pictures: smooth, with edges and a sensor's noise of 1.5 steps; some 20 KB each."""
    return [_encoded(_scene(np.random.default_rng(seed + n))) for n in range(DIFFERENT)]


def decoded(picture: bytes) -> Any:
    """Its pixels, read as the worker reads them."""
    import simplejpeg

    return simplejpeg.decode_jpeg(picture, "RGB", fastdct=False, fastupsample=False)


def _scene(rng: np.random.Generator) -> np.ndarray:
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    phase = rng.uniform(0, 6.3)
    waves = (np.sin(x / 47 + y / 89 + phase), np.cos(x / 61 - y / 73 + phase), np.sin((x + y) / 83 + phase))
    picture = np.stack([128 + 80 * wave for wave in waves], axis=2)
    for _ in range(25):
        left, top, wide, high = *rng.integers(0, SIDE - 20, 2), *rng.integers(8, SIDE // 4, 2)
        picture[top : top + high, left : left + wide] = rng.integers(0, 256, 3)
    return np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)


def _encoded(picture: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "jpeg", quality=QUALITY)
    return out.getvalue()
