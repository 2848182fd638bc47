"""An affine warp of image and mask from one rule: the steps from a pixel to its source.

The rule of an op is a kernel `steps(record, before, after)` that returns what `warp_affine` takes;
`before` and `after` are (height, width) of source and result, in pixels. Images are interpolated as
the op's parameter says, masks take the nearest pixel.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.forms import Kernel, RunKernel, no_draw
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.warp import plain_warp_affine, warp_affine

Steps = Callable[..., Any]
rule: Any = no_draw
"""The steps of the op, in the templates."""


@kernel
def _image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps = rule(record, (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1]))
    warp_affine(src, dst, steps, int(params["interpolation"]), params["fill"])


@kernel
def _mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps = rule(record, (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1]))
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    warp_affine(whole, out, steps, 0, params["mask_fill"])


def warp_kernels(steps: Steps) -> dict[str, Kernel]:
    """Return the kernels of image and mask of an op that warps by steps."""
    return {
        "image": Kernel(adapted(_image, steps), _plain(steps, "fill", True)),
        "mask": Kernel(adapted(_mask, steps), _plain(steps, "mask_fill", False)),
    }


def _plain(steps: Steps, fill: str, interpolated: bool) -> RunKernel:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        code = int(params["interpolation"]) if interpolated else 0
        found = steps(record, src.shape[:2], dst.shape[:2])
        plain_warp_affine(src, dst, found, code, np.asarray(params[fill]))

    return plain
