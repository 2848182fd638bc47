"""Sizes that keep the ratio of sides, and resizes whose output size differs from row to row.

Rounding is torchvision's: the side that is not given is floor(given * other / this), exact in
integers, and at least one pixel.
"""

from typing import Any, Final

from stoker.jit import kernel
from stoker.ops.bases.resizing import (
    INTERPOLATIONS,
    NEAREST,
    filter_of,
    plain_image,
    plain_mask,
    resize_mask,
    run_floats,
    wide_bytes,
)
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.nearest import nearest, nearest_bytes
from stoker.ops.kernels.resample import padded, resample, work_bytes
from stoker.ops.kernels.resample_floats import float_work_bytes
from stoker.ops.kernels.taps import radius_of, tap_bound


@kernel
def scaled(side: int, given: int, other: int) -> int:
    """Return the length of a side if `other` becomes `given`; at least 1."""
    return max(given * side // other, 1)


@kernel
def fit_long(height: int, width: int, size: int) -> tuple[int, int]:
    """Return the size whose longer side is `size`."""
    if height >= width:
        return size, scaled(width, size, height)
    return scaled(height, size, width), size


@kernel
def fit_short(height: int, width: int, size: int, max_size: int) -> tuple[int, int]:
    """Return the size whose shorter side is `size`; the longer at most `max_size`.

    If the longer side would exceed it, it becomes `max_size`, and the other one is scaled once
    more, from its rounded size, as in torchvision.
    """
    short, long = min(height, width), max(height, width)
    new_short, new_long = size, scaled(long, size, short)
    if new_long > max_size:
        new_short, new_long = max(max_size * new_short // new_long, 1), max_size
    return (new_long, new_short) if height > width else (new_short, new_long)


@kernel
def run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    """Resize an image to the size of `dst`, by the interpolation of the parameters."""
    box = (0, 0, src.shape[0], src.shape[1])
    if params["interpolation"] == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        resample(src, box, dst, filter_of(params["interpolation"]), scratch)


@kernel
def run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    """Resize a mask to the size of `dst`."""
    resize_mask(src, dst, (0, 0, src.shape[0], src.shape[1]), scratch)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_image(src, dst, (0, 0, *src.shape[:2]), int(params["interpolation"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_mask(src, dst, (0, 0, *src.shape[:2]))


FIT_KERNELS: Final = {
    "image": Kernel(run_image, _plain_image),
    "mask": Kernel(run_mask, _plain_mask),
}
FIT_FLOATS: Final = {"image": Kernel(run_floats, _plain_image)}


def table_most(size_in: int, size_out: int, filter_id: int, itemsize: int) -> int:
    """Return a number of bytes that no tap table exceeds, for sizes up to these.

    `itemsize` is the number of bytes of a weight, and of everything else per output pixel.

    `size_out * tap_bound` is not greatest at the greatest output, because the taps become fewer;
    it is at most 2 * radius * (size_in + size_out) + 4 * size_out.
    """
    taps = 2 * radius_of(filter_id) * (size_in + size_out) + 4 * size_out
    return padded(itemsize * size_out) + padded(itemsize * taps)


def fit_scratch(state: State, size: tuple[int, int], interpolation: str) -> int:
    """Return scratch bytes for every source up to the state's bound and output up to `size`.

    It never decreases when a bound grows.
    """
    need = nearest_bytes(size[1])
    if state.kind != "image" or interpolation == "nearest":
        return need
    number = int(filter_of(INTERPOLATIONS.index(interpolation)))
    height, width, channels = state.bound
    taps = max(tap_bound(height, 1, number), tap_bound(width, 1, number))
    if state.dtype == "uint8":
        itemsize, work = 4, work_bytes(height, width, channels, *size, taps)
    else:
        itemsize, work = 8, float_work_bytes(height, width, channels, *size, taps)
        work += wide_bytes(state, size)
    tables = table_most(width, size[1], number, itemsize)
    return max(need, tables + table_most(height, size[0], number, itemsize) + work)


def short_state(state: State, sizes: tuple[int, int], max_size: int | None) -> State:
    """Return the state after `fit_short` to a size in `sizes`, (low, high)."""
    height, width = state.shape[:2]
    if sizes[0] == sizes[1] and height is not None and width is not None:
        tall, wide = fit_short(height, width, sizes[1], max_size or MAX_SIDE)
        return state.resized(tall, wide, (tall, wide))
    return state.resized(None, None, short_most(state, sizes[1], max_size))


def short_most(state: State, size: int, max_size: int | None) -> tuple[int, int]:
    """Return the maximum sides after `fit_short` for any source up to the state's bound.

    Raises:
        StateError: `max_size` is None, and the sizes of the sources are not known or leave the
            longer side of the result without a limit below the greatest side.
    """
    if max_size is not None:
        return min(state.bound[0] * size, max_size), min(state.bound[1] * size, max_size)
    shortest = min(state.bound[:2]) if state.is_fixed else state.shortest
    if not shortest:
        raise StateError(
            f"resize_short: expected max_size, because the longer side of {state} has no known"
            " limit here; sizes are known only directly after a packed field. Give for example"
            f" max_size={min(4 * size, MAX_SIDE)}"
        )
    sides = scaled(state.bound[0], size, shortest), scaled(state.bound[1], size, shortest)
    if max(sides) > MAX_SIDE:
        raise StateError(
            f"resize_short: {state} has sides from {shortest} pixels, so with size={size} the"
            f" longer side could get {max(sides)} of at most {MAX_SIDE}: give max_size"
        )
    return max(sides[0], size), max(sides[1], size)


def check_max(op: str, size: int, max_size: object) -> int:
    """Return a maximum for the longer side.

    Raises:
        ParameterError: it is not an integer from `size` to the greatest side.
    """
    checked: int = Whole(size, MAX_SIDE).check(op, "max_size", max_size)
    return checked
