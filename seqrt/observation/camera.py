"""What a policy declares about one camera: the picture it is handed, and how that picture travels."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from seqrt.observation.whole import integer

Resize = Literal["pad", "stretch"]
Filter = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Codec = Literal["raw", "png", "jpeg"]
Layout = Literal["hwc_uint8", "chw_float"]

JPEG_QUALITY: Final = 95
"""Quality of a JPEG camera that declares none."""

_Side = Annotated[int, BeforeValidator(integer), Field(ge=1, le=8192)]
_Quality = Annotated[int, BeforeValidator(integer), Field(ge=1, le=100)]


class Camera(BaseModel):
    """One camera's picture, as the policy is handed it.

    The robot fits a picture to this size where ``resize`` and ``filter`` say how, and encodes it; the worker decodes
    it before the policy's code runs and never resizes.

    A depth camera is handed as float32 metres ``[h, w]`` (``[1, h, w]`` with ``layout="chw_float"``), whole
    millimetres up to 65.535 m, 0 where there is no reading, whatever the codec.

    Attributes:
        width: Columns of the picture, 1 to 8192 pixels.
        height: Rows of the picture, 1 to 8192 pixels.
        depth: The picture is distances, not colours.
        resize: How a picture of another size is made to fit: "pad" keeps its proportions, on black; "stretch" does
            not. Declared together with ``filter``. None: other sizes are refused.
        filter: Pillow's resampling filter. Depth takes "nearest" alone: any other mixes near and far into surfaces
            that are not there.
        codec: How it travels: "raw" as an array, "png" lossless, "jpeg" smallest.
        quality: JPEG quality, 1 to 100; 95 unless declared. With "jpeg" alone.
        layout: What the policy is handed: "hwc_uint8" is ``[h, w, 3]`` uint8 RGB, "chw_float" ``[3, h, w]`` float32
            from 0 to 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: _Side
    height: _Side
    depth: bool = Field(default=False, strict=True)
    resize: Resize | None = None
    filter: Filter | None = None
    codec: Codec = "raw"
    quality: _Quality | None = None
    layout: Layout = "hwc_uint8"

    @model_validator(mode="before")
    @classmethod
    def _with_quality(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("codec") == "jpeg" and data.get("quality") is None:
            return {**data, "quality": JPEG_QUALITY}
        return data

    @model_validator(mode="after")
    def _agree(self) -> Camera:
        if (self.resize is None) != (self.filter is None):
            missing = "filter='bilinear'" if self.filter is None else "resize='pad'"
            raise ValueError(f"resize and filter are declared together: add e.g. {missing}, or leave both out")
        if self.quality is not None and self.codec != "jpeg":
            raise ValueError(f"quality: {self.codec} has none; leave it out, or declare codec='jpeg'")
        if self.depth and self.codec == "jpeg":
            raise ValueError("codec: JPEG holds no distances; declare codec='png' for a depth camera")
        if self.depth and self.filter not in (None, "nearest"):
            raise ValueError(
                f"filter: {self.filter!r} mixes near and far readings into surfaces that are not there; declare "
                "filter='nearest' for a depth camera"
            )
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array the policy is handed."""
        plane = (self.height, self.width)
        if self.layout == "chw_float":
            return (1 if self.depth else 3, *plane)
        return plane if self.depth else (*plane, 3)

    @property
    def dtype(self) -> str:
        """That array's type, by its numpy name."""
        return "float32" if self.depth or self.layout == "chw_float" else "uint8"

    @property
    def decoded_bytes(self) -> int:
        """Bytes of that array."""
        return self.width * self.height * (1 if self.depth else 3) * (1 if self.dtype == "uint8" else 4)

    @property
    def fits(self) -> bool:
        """Whether the robot makes pictures of other sizes fit."""
        return self.resize is not None
