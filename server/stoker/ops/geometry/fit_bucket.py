"""Resize and crop to the size of the sample's bucket: no padding, little loss.

The crop is the largest part of the image with the bucket's ratio: as high or as wide as the
image, its other side floor(x + 0.5), at least 1. It is centered (an odd pixel goes to the right
and below), or placed by draws 0 (top) and 1 (left), each uniform. The crop is resized as in
`stoker.ops.resize`; an image that has the bucket's size is copied.

The size follows from the row's place in the stream: without a `size` it is `ctx.bucket_height` and
`ctx.bucket_width` of the pipeline.
"""

import dataclasses
from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.resized import ResizedBox
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op import Value
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import OwnRule, SidePair, Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import ParameterError
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


def _size(op: str, value: object) -> tuple[int, int] | None:
    return None if value is None else SidePair(1).check(op, "size", value)


def known_size(op: str, size: tuple[int, int] | None) -> tuple[int, int]:
    """Return a size of the parameters.

    Raises:
        ParameterError: it is None.
    """
    if size is None:
        raise ParameterError(
            f"{op}: without a size it takes that of the sample's bucket, which is known only in a "
            "pipeline; give size=(height, width)"
        )
    return size


SIZE: Final = OwnRule(
    _size,
    f"(height, width), from 1 to {MAX_SIDE}, or None",
    (("height", "i4"), ("width", "i4")),
    lambda size: known_size("fit_bucket", size),
)


@register
class FitBucket(ResizedBox):
    """Resize and crop to the size of the sample's bucket."""

    size: Annotated[tuple[int, int] | None, SIZE, "size; None: that of the sample's bucket"] = None
    crop: Annotated[str, Word(CROPS), "where the excess is cut off; random: anywhere"] = "center"
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": (24, 40)},
        {"size": (40, 9), "crop": "random", "interpolation": "bicubic"},
        {"size": (33, 31), "crop": "random", "interpolation": "nearest"},
    )
    picture = {"size": (160, 120)}
    varied = {"size": ((32, 24), (32, 48)), "crop": ("center", "random")}
    draw = staticmethod(_draw)

    def result_size(self) -> tuple[int, int]:
        """Return the bucket's size."""
        return known_size(self.name, self.size)

    def __call__(self, *values: Value, stream: str | None = None, relative: bool = False) -> Any:
        """Apply the op to values of a pipeline; see `Op.__call__`."""
        op = self
        if self.size is None and values and isinstance(values[0], Value):
            read = values[0].tracer.input
            size: Any = (read(HEIGHT), read(WIDTH))
            op = dataclasses.replace(self, size=size)
        return super(FitBucket, op).__call__(*values, stream=stream, relative=relative)


fit_bucket = function(FitBucket)
