"""Resize and crop to the size of the sample's bucket: no padding, little loss.

The crop is the largest part of the image with the bucket's ratio: as high or as wide as the
image, its other side floor(x + 0.5), at least 1. It is centered (an odd pixel goes to the right
and below), or placed by draws 0 (top) and 1 (left), each uniform. The crop is resized as in
`stoker.ops.resize`; an image that has the bucket's size is copied.

The size follows from the row's place in the stream: without a `size` it is `ctx.bucket_height` and
`ctx.bucket_width` of the pipeline.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_resize import (
    BOX_FLOATS,
    BOX_KERNELS,
    BOX_RECORD,
    box_forward,
    box_out_size,
    box_reads,
)
from stoker.ops.bases.resizing import INTERPOLATIONS, resize_scratch
from stoker.ops.bases.wide_resize import SIGNED_BOX, WIDE_BOX
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import rescale_box
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import ParameterError, State
from stoker.rng.draws import integers

CROPS: Final = ("center", "random")
RANDOM: Final = 1
HEIGHT: Final = "stoker.bucket_height"
WIDTH: Final = "stoker.bucket_width"


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    high, wide = int(params["height"]), int(params["width"])
    h, w = height, width
    if width * high > height * wide:
        w = max((2 * height * wide + high) // (2 * high), 1)
    else:
        h = max((2 * width * high + wide) // (2 * wide), 1)
    h, w = min(h, height), min(w, width)
    top, left = (height - h) // 2, (width - w) // 2
    if params["crop"] == RANDOM:
        top = int(integers(key, 0, height - h + 1))
        left = int(integers(key, 1, width - w + 1))
    record["top"] = top
    record["left"] = left
    record["height"] = h
    record["width"] = w


@register
@dataclass(frozen=True)
class FitBucket(Op):
    """Resize and crop to the size of the sample's bucket.

    Attributes:
        size: (height, width) in pixels; None: that of the sample's bucket.
        crop: where to cut off the excess: "center" equally on both sides, "random" anywhere.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: tuple[int, int] | None = None
    crop: str = "center"
    interpolation: str = "bilinear"

    name: ClassVar[str] = "fit_bucket"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": (24, 40)},
        {"size": (40, 9), "crop": "random", "interpolation": "bicubic"},
        {"size": (33, 31), "crop": "random", "interpolation": "nearest"},
    )
    picture = {"size": (160, 120)}
    varied = {"size": ((32, 24), (32, 48)), "crop": ("center", "random")}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("height", "i4"), ("width", "i4"), ("crop", "u1"), ("interpolation", "u1")]
    )
    record: ClassVar[np.dtype[Any]] = BOX_RECORD
    kernels: ClassVar[dict[str, Kernel]] = BOX_KERNELS
    floats: ClassVar[dict[str, Kernel]] = BOX_FLOATS
    wide: ClassVar[dict[str, Kernel]] = WIDE_BOX
    signed: ClassVar[dict[str, Kernel]] = SIGNED_BOX
    draw = staticmethod(_draw)
    out_size = staticmethod(box_out_size)
    reads = staticmethod(box_reads)
    rescale = staticmethod(rescale_box)
    forward = staticmethod(box_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            size=None if self.size is None else checks.pair(self.name, "size", self.size, 1),
            crop=checks.choice(self.name, "crop", self.crop, CROPS),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        codes = CROPS.index(self.crop), INTERPOLATIONS.index(self.interpolation)
        return np.array((*self._known_size(), *codes), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the bucket's size."""
        self.require_pixels(states)
        size = self._known_size()
        need = resize_scratch(states, size, self.interpolation)
        return tuple(state.resized(*size, size) for state in states), need

    def __call__(self, *values: Value, stream: str | None = None, relative: bool = False) -> Any:
        """Apply the op to values of a pipeline; see `Op.__call__`."""
        op = self
        if self.size is None and values and isinstance(values[0], Value):
            read = values[0].tracer.input
            size: Any = (read(HEIGHT), read(WIDTH))
            op = dataclasses.replace(self, size=size)
        return super(FitBucket, op).__call__(*values, stream=stream, relative=relative)

    def _known_size(self) -> tuple[int, int]:
        if self.size is None:
            raise ParameterError(
                f"{self.name}: without a size it takes that of the sample's bucket, which is known "
                "only in a pipeline; give size=(height, width)"
            )
        return self.size


def fit_bucket(
    *values: Value,
    size: tuple[int, int] | None = None,
    crop: str = "center",
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize and crop values of a pipeline to the sample's bucket; see `FitBucket`."""
    return FitBucket(size, crop, interpolation)(*values, stream=stream, relative=relative)
