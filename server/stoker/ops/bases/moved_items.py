"""Boxes and keypoints of a warp that is not projective, from two rules: where a box, a point goes.

The rules of an op are kernels `box(sides, params, record, sizes) -> sides`, with sides (left, top,
right, bottom), and `point(x, y, params, record, sizes) -> (x, y)`, in pixels; `sizes` are height
and width before and after. They are called if the record's `apply` is 1; else nothing moves. What
then leaves the image is clipped or removed as in `kernels.points`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel, no_draw
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.points import beyond, move_boxes, move_keypoints, scaled

rule: Any = no_draw
"""The rule of the op, in the templates."""


@kernel
def _boxes(src: Any, dst: Any, params: Any, record: Any, sizes: Any, visible: int) -> int:
    unmoved = scaled(1.0, 1.0, 0.0, 0.0)
    if record["apply"] == 0:
        return int(move_boxes(src, dst, unmoved, sizes, visible))
    at, to = src.view(np.float32), dst.view(np.float32)
    tall, wide = float(sizes[2]), float(sizes[3])
    kept = 0
    for n in range(src.shape[0]):
        place = np.float64(at[n, 0]), np.float64(at[n, 1])
        end = np.float64(at[n, 2]), np.float64(at[n, 3])
        left, top, right, bottom = rule((*place, *end), params, record, sizes)
        if beyond(left, right, wide) or beyond(top, bottom, tall):
            continue
        item = dst[kept : kept + 1]
        for word in range(src.shape[1]):
            item[0, word] = src[n, word]
        to[kept, 0], to[kept, 1], to[kept, 2], to[kept, 3] = left, top, right, bottom
        kept += move_boxes(item, item, unmoved, sizes, visible)
    return kept


@kernel
def _keypoints(src: Any, dst: Any, params: Any, record: Any, sizes: Any, visible: int) -> int:
    if record["apply"] == 0:
        return int(move_keypoints(src, dst, scaled(1.0, 1.0, 0.0, 0.0), sizes, visible))
    at, to = src.view(np.float32), dst.view(np.float32)
    tall, wide = float(sizes[2]), float(sizes[3])
    kept = 0
    for n in range(src.shape[0]):
        x, y = rule(np.float64(at[n, 0]), np.float64(at[n, 1]), params, record, sizes)
        outside = beyond(x, x, wide) or beyond(y, y, tall)
        if outside and visible == 0:
            continue
        for word in range(src.shape[1]):
            dst[kept, word] = src[n, word]
        to[kept, 0], to[kept, 1] = x, y
        if outside:
            to[kept, visible] = 0.0
        kept += 1
    return kept


def moving_items(box: Callable[..., Any], point: Callable[..., Any]) -> dict[str, ItemsKernel]:
    """Return the kernels of boxes and keypoints of an op that moves them by two rules."""
    return {
        "boxes": ItemsKernel(adapted(_boxes, box), visible=True),
        "keypoints": ItemsKernel(adapted(_keypoints, point), visible=True),
    }
