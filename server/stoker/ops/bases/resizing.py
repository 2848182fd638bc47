"""The parts that ops that resize share: interpolation names, masks, images of floats, scratch."""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.rules import SIGNED, WIDE
from stoker.ops.contract.states import State
from stoker.ops.kernels.nearest import nearest, nearest_bytes, plain_nearest
from stoker.ops.kernels.resample import (
    padded,
    plain_pass,
    plain_resample,
    resample,
    scratch_bytes,
)
from stoker.ops.kernels.resample_floats import (
    float_scratch_bytes,
    plain_float_pass,
    resample_floats,
)

INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic", "lanczos", "area")
Interpolation = Annotated[str, Word(INTERPOLATIONS), "filter of images; masks are always nearest"]
"""The parameter `interpolation` of ops that resize."""
NEAREST: Final = 0


@kernel
def filter_of(interpolation: int) -> Any:
    """Return the number of the filter (`stoker.ops.kernels.taps`) of an interpolation."""
    return np.int64(interpolation) - 1


@kernel
def resize_mask(src: Any, dst: Any, box: Any, scratch: Any) -> None:
    """Resize a box of a mask."""
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    nearest(whole, box, dst.reshape((dst.shape[0], dst.shape[1], 1)), scratch)


@kernel
def resize_levels(src: Any, dst: Any, box: Any, interpolation: int, scratch: Any) -> None:
    """Resize a box of an image of levels."""
    if interpolation == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        resample(src, box, dst, filter_of(interpolation), scratch)


@kernel
def resize_floats(src: Any, dst: Any, box: Any, interpolation: int, scratch: Any) -> None:
    """Resize a box of an image of floats."""
    if interpolation == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        size = (dst.shape[0], dst.shape[1])
        part = (0, 0, dst.shape[0], dst.shape[1])
        number = filter_of(interpolation)
        resample_floats(src, box, size, part, dst.reshape(dst.size), number, scratch)


@kernel
def run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    """Resize an image of floats to the size of `dst`, by the interpolation of the parameters."""
    box = (0, 0, src.shape[0], src.shape[1])
    resize_floats(src, dst, box, int(params["interpolation"]), scratch)


def plain_image(src: np.ndarray, dst: np.ndarray, box: Any, interpolation: int) -> None:
    """Resize a box of an image with NumPy."""
    top, left, height, width = box
    part = src[top : top + height, left : left + width]
    if interpolation == NEAREST:
        dst[...] = plain_nearest(part, dst.shape[:2])
    else:
        run = plain_float_pass if src.dtype == np.float32 else plain_pass
        dst[...] = plain_resample(part, dst.shape[:2], filter_of(interpolation), run)


def plain_mask(src: np.ndarray, dst: np.ndarray, box: Any) -> None:
    """Resize a box of a mask with NumPy."""
    plain_image(src, dst, box, NEAREST)


def resize_scratch(states: tuple[State, ...], size: tuple[int, int], interpolation: str) -> int:
    """Return the scratch bytes that a resize of the largest of these values needs."""
    need = nearest_bytes(size[1])
    if interpolation == "nearest":
        return need
    number = int(filter_of(INTERPOLATIONS.index(interpolation)))
    for state in states:
        if state.kind == "image":
            count = scratch_bytes if state.dtype == "uint8" else float_scratch_bytes
            more = wide_bytes(state, size)
            need = max(need, more + int(count(*state.bound, *size, number)))  # type: ignore[call-arg]
    return need


def wide_bytes(state: State, size: tuple[int, int]) -> int:
    """Return the bytes of an image of 16 bits as floats before and after a resize; else 0."""
    if state.dtype not in (WIDE, SIGNED):
        return 0
    height, width, channels = state.bound
    after = size[0] * size[1] * channels
    return int(padded(4 * height * width * channels)) + int(padded(4 * after))
