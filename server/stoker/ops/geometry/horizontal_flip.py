"""Mirror left and right with probability p, image and mask alike.

Draw 0 decides: flipped if uniform < p. The record's `flip` is 0 or 1.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.flips import FlipOp
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.registry import register
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.reorder import is_one, mirror_image, mirror_in_place, move_rows
from stoker.ops.values.swap_keypoints import Pairs, swap_last


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    width = src.shape[1]
    if is_one(src, dst):  # where the op before it has written, most often into the slot
        if record["flip"]:
            mirror_in_place(dst)
    elif record["flip"]:
        mirror_image(src, dst, width - 1, width)
    else:
        move_rows(src, dst, 0, width)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[:, ::-1] if record["flip"] else src


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if record["flip"]:
        return scaled(-1.0, 1.0, sizes[1], 0.0)
    return scaled(1.0, 1.0, 0.0, 0.0)


@register
class HorizontalFlip(FlipOp):
    """Mirror left and right, with probability p."""

    varied = {}
    kernels = {
        "image": Kernel(_run, _plain, in_place=True),
        "mask": Kernel(_run, _plain, in_place=True),
    }
    forward = staticmethod(_forward)
    affine = True


@calls(HorizontalFlip)
def horizontal_flip(call: FunctionCall, swap: Pairs | str | None = None) -> Any:
    """Mirror; with `swap`, left and right keypoints change places.

    `swap` has pairs as for `swap_keypoints`. The last value is then keypoints.
    """
    return swap_last(call(HorizontalFlip), swap)
