"""A window of the image cut out, and filled where it leaves the image, from one rule: its place.

The rule of an op is a kernel `place(params, record, before, after) -> (top, left)`: the first row
and column of the window in the image; both are negative where it begins before the image. `before`
and `after` are (height, width) of the image and of the window, in pixels. The kernels of image and
mask, their plain forms and the map of points follow from it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel, RunKernel, no_draw
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

Place = Callable[..., Any]
rule: Any = no_draw
"""The place of the op, in the templates."""


@kernel
def _image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    sizes = (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1])
    top, left = rule(params, record, sizes[0], sizes[1])
    cut(src, dst, top, left, params["fill"])


@kernel
def _mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    sizes = (src.shape[0], src.shape[1]), (dst.shape[0], dst.shape[1])
    top, left = rule(params, record, sizes[0], sizes[1])
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    top, left = rule(params, record, (sizes[0], sizes[1]), (sizes[2], sizes[3]))
    return scaled(1.0, 1.0, -left, -top)


def window_kernels(place: Place) -> dict[str, Kernel]:
    """Return the kernels of image and mask of an op that cuts a window out at a place."""
    return {
        "image": Kernel(adapted(_image, place), _plain(place, "fill")),
        "mask": Kernel(adapted(_mask, place), _plain(place, "mask_fill")),
    }


def window_map(place: Place) -> Any:
    """Return `Op.forward` of an op that cuts a window out at a place."""
    return staticmethod(adapted(_forward, place))


def _plain(place: Place, fill: str) -> RunKernel:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        top, left = place(params, record, src.shape[:2], dst.shape[:2])
        plain_cut(src, dst, int(top), int(left), np.asarray(params[fill]))

    return plain
