"""A warp of image and mask, from one rule.

The rule of an op is either a kernel `warp(src, dst, params, record, how, scratch)` that writes a
whole `(H, W, C)`, where `how` is (1 for bilinear or 0 for nearest, fill); or, of an affine warp,
the steps from a pixel to its source: `steps(record, before, after)` returns what `warp_affine`
takes; `before` and `after` are (height, width) of source and result, in pixels. Images are
interpolated as the op's parameter says, masks take the nearest pixel.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel, RunKernel, no_draw
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.warp import plain_warp_affine, warp_affine

Steps = Callable[..., Any]
Warp = Callable[..., Any]
rule: Any = no_draw
"""The warp or the steps of the op, in the templates."""


@kernel
def _image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    rule(src, dst, params, record, (int(params["interpolation"]), params["fill"]), scratch)


@kernel
def _mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    rule(whole, out, params, record, (0, params["mask_fill"]), scratch)


def warp_kernels(warp: Warp, plain: Warp) -> dict[str, Kernel]:
    """Return the kernels of image and mask of an op.

    Args:
        warp: the rule.
        plain: its reference in NumPy, without scratch; it takes `(H, W)` too.
    """

    def image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        how = (int(params["interpolation"]), np.asarray(params["fill"]))
        plain(src, dst, params, record, how)

    def mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        plain(src, dst, params, record, (0, np.asarray(params["mask_fill"])))

    return {
        "image": Kernel(adapted(_image, warp), image),
        "mask": Kernel(adapted(_mask, warp), mask),
    }


@kernel
def _affine_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps = rule(record, (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1]))
    warp_affine(src, dst, steps, int(params["interpolation"]), params["fill"])


@kernel
def _affine_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps = rule(record, (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1]))
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    warp_affine(whole, out, steps, 0, params["mask_fill"])


def affine_kernels(steps: Steps) -> dict[str, Kernel]:
    """Return the kernels of image and mask of an op that warps by steps."""
    return {
        "image": Kernel(adapted(_affine_image, steps), _plain_affine(steps, "fill", True)),
        "mask": Kernel(adapted(_affine_mask, steps), _plain_affine(steps, "mask_fill", False)),
    }


def _plain_affine(steps: Steps, fill: str, interpolated: bool) -> RunKernel:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        code = int(params["interpolation"]) if interpolated else 0
        found = steps(record, src.shape[:2], dst.shape[:2])
        plain_warp_affine(src, dst, found, code, np.asarray(params[fill]))

    return plain
