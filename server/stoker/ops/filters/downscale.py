"""Shrink an image and enlarge it again, with probability p, as Albumentations' Downscale.

Draws: 0 applied if uniform < p; 1 the scale, uniform in its range. Each side of the small image is
floor(side * scale + 0.5), at least 1. Both resizes are those of `stoker.ops.resize`; the image
between them has the dtype of the source.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import fit_scratch
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.bases.resizing import INTERPOLATIONS, resize_floats, resize_levels
from stoker.ops.bases.wide_resize import plain_resize, resize_wide
from stoker.ops.contract.kernel_forms import Kernel, no_draw
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Interval, Probability, Range, Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.resample import padded
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import floor

rule: Any = no_draw
"""The resize of a dtype, in the template `_run`."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["scale"] = uniform_range(key, 1, params["scale_low"], params["scale_high"])


@kernel
def shrunk(side: int, scale: float) -> int:
    """Return a side of the small image."""
    return max(floor(side * scale + 0.5), 1)


@kernel
def small_image(src: Any, scale: float, scratch: Any) -> Any:
    """Return room for the small image, and the rest of the scratch."""
    height, width, channels = src.shape
    tall, wide = shrunk(height, scale), shrunk(width, scale)
    used = tall * wide * channels * src.itemsize
    small = scratch[:used].view(src.dtype).reshape((tall, wide, channels))
    return small, scratch[padded(used) :]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    small, rest = small_image(src, record["scale"], scratch)
    box = (0, 0, src.shape[0], src.shape[1])
    rule(src, small, box, int(params["down"]), rest)
    rule(small, dst, (0, 0, small.shape[0], small.shape[1]), int(params["up"]), rest)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        height, width, channels = src.shape
        tall, wide = (shrunk(side, float(record["scale"])) for side in (height, width))
        small = np.empty((tall, wide, channels), src.dtype)
        plain_resize(src, small, int(params["down"]))
        plain_resize(small, dst, int(params["up"]))


@register
class Downscale(PixelOp):
    """Shrink an image and enlarge it again."""

    scale_range: Annotated[Range, Interval(0.0, 1.0), "small image's sides over the image's"] = (
        0.25,
        0.25,
    )
    down: Annotated[str, Word(INTERPOLATIONS), "interpolation of the shrinking"] = "nearest"
    up: Annotated[str, Word(INTERPOLATIONS), "interpolation of the enlarging"] = "nearest"
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    examples = ({"p": 0.9}, {"scale_range": (0.1, 0.9), "down": "area", "up": "lanczos", "p": 0.8})
    picture = {"down": "area"}
    record = np.dtype([("scale", "f8"), APPLY])
    kernels = {"image": Kernel(adapted(_run, resize_levels), _plain)}
    floats = {"image": Kernel(adapted(_run, resize_floats), _plain)}
    wide = {"image": Kernel(adapted(_run, resize_wide), _plain)}
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of the small image and of the larger need of the two resizes."""
        size = (state.bound[0], state.bound[1])
        needs = (fit_scratch(state, size, how) for how in (self.down, self.up))
        return int(padded(state.bound_bytes)) + max(needs)


downscale = function(Downscale)
