"""Swap rows and columns with probability p, image and mask alike.

Draw 0 decides: transposed if uniform < p. The record's `swap` is 0 or 1. Height and width are
swapped, so the size differs from row to row, unless the image is square or p is 0 or 1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.flips import swapped
from stoker.ops.bases.pixelwise import ByChance
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
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
@dataclass(frozen=True)
class Transpose(ByChance):
    """Swap rows and columns; parameters as `ByChance`."""

    name: ClassVar[str] = "transpose"
    image_dtypes = ANY_DTYPE
    varied = {}
    record: ClassVar[np.dtype[Any]] = np.dtype([("swap", "u1")])
    mirrors: ClassVar[str] = "swap"
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    floats: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run_floats, _plain)}
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine: ClassVar[bool] = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states whose sides may be swapped."""
        self.require_pixels(states)
        return tuple(swapped(state, self.p < 1.0, self.p > 0.0) for state in states), 0


def transpose(
    *values: Value,
    p: float = 0.5,
    swap: Pairs | str | None = None,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Swap rows and columns of values of a pipeline with probability p; see `Transpose`.

    With `swap`, pairs as for `swap_keypoints`, the last value is keypoints, whose left and right
    change places where it mirrors.
    """
    return swap_last(Transpose(p)(*values, stream=stream, relative=relative), swap)
