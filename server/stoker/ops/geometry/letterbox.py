"""Fit the whole image into a fixed size, keeping its ratio; the rest is filled. No randomness.

The tighter side gets the output's length, the other one is rounded to the nearest pixel (halves up,
in integers). The image is centered; an odd pixel of fill is below or right.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.fit import fit_scratch
from stoker.ops.bases.resizing import NEAREST, Interpolation, filter_of, resize_floats
from stoker.ops.bases.wide_resize import plain_resize, resize_wide
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import SidePair, Sides, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import require_ratio
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.nearest import nearest
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.resample import padded, resample


@kernel
def fit_inside(height: int, width: int, size_y: int, size_x: int) -> tuple[int, int]:
    """Return the largest size of the same ratio inside of (size_y, size_x)."""
    if height * size_x >= width * size_y:
        return size_y, max((2 * width * size_y + height) // (2 * height), 1)
    return max((2 * height * size_x + width) // (2 * width), 1), size_x


@kernel
def _room(src: Any, dst: Any, scratch: Any) -> Any:
    """Return scratch for `(H, W, C)` resized to fit into `dst`, and the remaining scratch."""
    channels = src.shape[2]
    size_y, size_x = fit_inside(src.shape[0], src.shape[1], dst.shape[0], dst.shape[1])
    used = size_y * size_x * channels * dst.itemsize
    part = scratch[:used].view(dst.dtype).reshape((size_y, size_x, channels))
    return part, scratch[padded(used) :]


@kernel
def _frame(part: Any, dst: Any, fill: Any) -> None:
    """Write a part into the center of `dst`."""
    top, left = -((dst.shape[0] - part.shape[0]) // 2), -((dst.shape[1] - part.shape[1]) // 2)
    cut(part, dst, top, left, fill)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    part, rest = _room(src, dst, scratch)
    box = (0, 0, src.shape[0], src.shape[1])
    if params["interpolation"] == NEAREST:
        nearest(src, box, part, rest)
    else:
        resample(src, box, part, filter_of(params["interpolation"]), rest)
    _frame(part, dst, params["fill"])


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    part, rest = _room(src, dst, scratch)
    box = (0, 0, src.shape[0], src.shape[1])
    resize_floats(src, part, box, int(params["interpolation"]), rest)
    _frame(part, dst, params["fill"])


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    part, rest = _room(src, dst, scratch)
    box = (0, 0, src.shape[0], src.shape[1])
    resize_wide(src, part, box, int(params["interpolation"]), rest)
    _frame(part, dst, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    part, rest = _room(whole, out, scratch)
    nearest(whole, (0, 0, src.shape[0], src.shape[1]), part, rest)
    _frame(part, out, params["mask_fill"])


def _plain_fit(src: np.ndarray, dst: np.ndarray, interpolation: int, fill: np.ndarray) -> None:
    size = fit_inside(*src.shape[:2], *dst.shape[:2])
    part = np.empty((*size, *src.shape[2:]), src.dtype)
    plain_resize(src, part, interpolation)
    top, left = ((b - a) // 2 for a, b in zip(size, dst.shape[:2], strict=True))
    plain_cut(part, dst, -top, -left, fill)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain_fit(src, dst, int(params["interpolation"]), np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain_fit(src, dst, NEAREST, np.asarray(params["mask_fill"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    height, width, tall, wide = sizes
    size_y, size_x = fit_inside(height, width, tall, wide)
    top, left = (tall - size_y) // 2, (wide - size_x) // 2
    return scaled(size_x / width, size_y / height, left, top)


@register
class Letterbox(Fills, Op):
    """Fit the whole image into a fixed size."""

    size: Annotated[Sides, SidePair(1), "output side, or (height, width), in pixels"]
    fill: Fill = 0
    mask_fill: MaskFill = 0
    interpolation: Interpolation = "bilinear"

    image_dtypes = LEVELS_FLOATS
    examples = (
        {"size": (30, 44), "fill": 114, "mask_fill": 255},
        {"size": 37, "interpolation": "bicubic"},
        {"size": (20, 9), "interpolation": "nearest", "fill": (1, 2, 3, 4)},
    )
    picture = {"size": 160, "fill": 114}
    varied = {"size": ((20, 24), (30, 24))}
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    floats = {"image": Kernel(_run_floats, _plain_image)}
    wide = {"image": Kernel(_run_wide, _plain_image)}
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine = True
    rescale = staticmethod(require_ratio)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the output size."""
        self.require_pixels(states)
        height, width = size = both_sides(self.size)
        after = tuple(state.resized(height, width, size) for state in states)
        need = [
            padded(b.bound_bytes) + fit_scratch(a, size, self.interpolation)
            for a, b in zip(states, after, strict=True)
        ]
        return after, max(need, default=0)


letterbox = function(Letterbox)
