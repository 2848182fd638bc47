"""Swap rows and columns with probability p, image and mask alike.

Draw 0 decides: transposed if uniform < p. The record's `swap` is 0 or 1. Height and width are
swapped, so the size differs from row to row, unless the image is square or p is 0 or 1.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.flips import swapped
from stoker.ops.bases.pixelwise import ByChance
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.reorder import move_rows, turn_image
from stoker.ops.kernels.turn_floats import reorder_floats
from stoker.ops.values.swap_keypoints import Pairs, swap_last
from stoker.rng.draws import bernoulli


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["swap"] = 1 if bernoulli(key, 0, params["p"]) else 0


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    if record["swap"]:
        turn_image(src, dst, (width, height), (0, 1, width))
    else:
        move_rows(src, dst, 0, width)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    if record["swap"]:
        reorder_floats(src, dst, (width, height), (0, 1, width))
    else:
        move_rows(src, dst, 0, width)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src.swapaxes(0, 1) if record["swap"] else src


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return (width, height) if record["swap"] else (height, width)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if record["swap"]:
        return 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0
    return scaled(1.0, 1.0, 0.0, 0.0)


@register
class Transpose(ByChance):
    """Swap rows and columns."""

    image_dtypes = ANY_DTYPE
    varied = {}
    record = np.dtype([("swap", "u1")])
    mirrors = "swap"
    kernels = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    floats = {"image": Kernel(_run_floats, _plain)}
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states whose sides may be swapped."""
        self.require_pixels(states)
        return tuple(swapped(state, self.p < 1.0, self.p > 0.0) for state in states), 0


@calls(Transpose)
def transpose(call: FunctionCall, swap: Pairs | str | None = None) -> Any:
    """Swap rows and columns; with `swap`, left and right keypoints change places.

    `swap` has pairs as for `swap_keypoints`. The last value is then keypoints.
    """
    return swap_last(call(Transpose), swap)
